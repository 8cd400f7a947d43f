#include "emit/splice.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>
#include <vector>

#include "aotc/detail/blob_hash.h"
#include "base/diagnostic.h"
#include "emit/blob.h"

namespace aotc::emit {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLargePage = 2 << 20;

/// The headers of a small ELF file in memory.
struct Elf {
  explicit Elf(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  bool valid() const {
    return bytes.size() >= sizeof(Elf64_Ehdr) && std::memcmp(bytes.data(), ELFMAG, SELFMAG) == 0 &&
           header()->e_phoff + header()->e_phnum * sizeof(Elf64_Phdr) <= bytes.size() &&
           header()->e_shoff + header()->e_shnum * sizeof(Elf64_Shdr) <= bytes.size() && header()->e_shstrndx < header()->e_shnum;
  }
  Elf64_Ehdr* header() const { return reinterpret_cast<Elf64_Ehdr*>(const_cast<char*>(bytes.data())); }
  std::span<Elf64_Phdr> segments() const {
    return {reinterpret_cast<Elf64_Phdr*>(const_cast<char*>(bytes.data()) + header()->e_phoff), header()->e_phnum};
  }
  std::span<Elf64_Shdr> sections() const {
    return {reinterpret_cast<Elf64_Shdr*>(const_cast<char*>(bytes.data()) + header()->e_shoff), header()->e_shnum};
  }
  std::string name(const Elf64_Shdr& s) const { return bytes.data() + sections()[header()->e_shstrndx].sh_offset + s.sh_name; }

  std::vector<char> bytes;
};

struct Place {
  Elf64_Shdr* section;
  Elf64_Phdr* segment;
};
/// The stand-in, where it is the last segment in memory and in the file and alone in it.
std::optional<Place> find_place(const Elf& elf, const std::string& name) {
  Place p{nullptr, nullptr};
  for (Elf64_Shdr& s : elf.sections())
    if (elf.name(s) == name) p.section = &s;
  if (!p.section || p.section->sh_size != kPage || p.section->sh_offset % kPage) return std::nullopt;
  for (Elf64_Phdr& s : elf.segments())
    if (s.p_type == PT_LOAD && s.p_offset == p.section->sh_offset && s.p_filesz == kPage && s.p_memsz == kPage && s.p_flags == PF_R)
      p.segment = &s;
  if (!p.segment) return std::nullopt;
  for (const Elf64_Phdr& s : elf.segments())
    if (s.p_type == PT_LOAD && &s != p.segment && (s.p_vaddr > p.segment->p_vaddr || s.p_offset + s.p_filesz > p.segment->p_offset))
      return std::nullopt;
  if (elf.header()->e_shoff < p.section->sh_offset) return std::nullopt;
  return p;
}

}  // namespace

std::string last_section_script(const std::string& section) {
  return fmt::format("SECTIONS {{ {0} : ALIGN({1}) {{ KEEP(*({0})) }} }} INSERT AFTER .bss;\n", section, kPage);
}

void write_stand_in(const std::string& path, const Blob& blob) {
  write_blob_object(path, blob.section, blob.symbol, kPage, [](std::span<std::byte>) {});
}

std::optional<uint64_t> splice(const std::string& linked, const std::string& output, const Blob& blob) {
  const Elf elf(linked);
  if (!elf.valid()) return std::nullopt;
  const auto place = find_place(elf, blob.section);
  if (!place) return std::nullopt;
  const uint64_t from = place->section->sh_offset, end = from + kPage;
  // Where places in the file and in memory are alike in large pages, the kernel may map what the page cache holds in them as such; loaders
  // that do not know alignments beyond a page (glibc before 2.35) put it anywhere.
  const bool large = blob.bytes >= kLargePage;
  const uint64_t at = from + (large ? (place->segment->p_vaddr - from) % kLargePage : 0);
  const uint64_t shift = at - from + (blob.bytes + kPage - 1) / kPage * kPage - kPage;
  uint64_t build_id = 0;  // offset of its bytes
  for (const Elf64_Shdr& s : elf.sections())
    if (elf.name(s) == ".note.gnu.build-id" && s.sh_size >= 24) build_id = s.sh_offset + 16;
  for (Elf64_Shdr& s : elf.sections())
    if (s.sh_offset >= end) s.sh_offset += shift;
  place->section->sh_offset = place->segment->p_offset = at;
  if (large) place->segment->p_align = kLargePage;
  place->section->sh_size = place->segment->p_filesz = place->segment->p_memsz = blob.bytes;
  elf.header()->e_shoff += shift;

  uint64_t hash = 0;
  write_blob_file(output, elf.bytes.size() + shift, [&](std::span<std::byte> out) {
    std::memcpy(out.data(), elf.bytes.data(), from);
    blob.fill(out.subspan(at, blob.bytes));
    std::memcpy(out.data() + end + shift, elf.bytes.data() + end, elf.bytes.size() - end);
    hash = aotc_blob_hash(out.data() + at, blob.bytes);
    if (!build_id) return;
    uint64_t id;
    std::memcpy(&id, out.data() + build_id, sizeof id);
    id = aotc_blob_mix(id, hash);
    std::memcpy(out.data() + build_id, &id, sizeof id);
  });
  return hash;
}

}  // namespace aotc::emit
