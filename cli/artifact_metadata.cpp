#include "artifact_metadata.h"

#include <elf.h>

#include <cstring>
#include <vector>

namespace aotc::cli {
namespace {

/// A mapped file by the addresses of its code and tables.
class Image {
 public:
  /// aotc_elf_open has checked where the segments lie.
  explicit Image(const aotc_elf& elf) : elf_(elf) {
    Elf64_Ehdr header;
    std::memcpy(&header, elf.data, sizeof header);
    segments_.resize(header.e_phnum);
    if (!segments_.empty()) std::memcpy(segments_.data(), elf.data + header.e_phoff, segments_.size() * sizeof(Elf64_Phdr));
  }

  /// What is loaded at `address`, to the end of its segment. Null: nothing of the file is.
  const unsigned char* at(uint64_t address, uint64_t* bytes) const {
    for (const Elf64_Phdr& s : segments_) {
      if (s.p_type != PT_LOAD || address < s.p_vaddr || address - s.p_vaddr >= s.p_filesz) continue;
      *bytes = s.p_filesz - (address - s.p_vaddr);
      return elf_.data + s.p_offset + (address - s.p_vaddr);
    }
    return nullptr;
  }
  /// The entry of the dynamic section with that tag.
  std::optional<uint64_t> dynamic(int64_t tag) const {
    for (const Elf64_Phdr& s : segments_) {
      if (s.p_type != PT_DYNAMIC) continue;
      for (uint64_t i = 0; i + sizeof(Elf64_Dyn) <= s.p_filesz; i += sizeof(Elf64_Dyn)) {
        Elf64_Dyn d;
        std::memcpy(&d, elf_.data + s.p_offset + i, sizeof d);
        if (d.d_tag == tag) return d.d_un.d_val;
        if (d.d_tag == DT_NULL) break;
      }
    }
    return std::nullopt;
  }
  /// The address that the pointer at `address` has, before the load moves both.
  std::optional<uint64_t> pointer(uint64_t address) const {
    const auto table = dynamic(DT_RELA), size = dynamic(DT_RELASZ);
    uint64_t bytes = 0;
    const unsigned char* entry = table && size ? at(*table, &bytes) : nullptr;
    if (!entry || *size > bytes) return std::nullopt;
    for (uint64_t i = 0; i + sizeof(Elf64_Rela) <= *size; i += sizeof(Elf64_Rela)) {
      Elf64_Rela r;
      std::memcpy(&r, entry + i, sizeof r);
      if (r.r_offset == address && ELF64_R_TYPE(r.r_info) == R_X86_64_RELATIVE) return static_cast<uint64_t>(r.r_addend);
    }
    return std::nullopt;
  }

 private:
  const aotc_elf& elf_;
  std::vector<Elf64_Phdr> segments_;
};

}  // namespace

std::optional<std::string> metadata_text(const aotc_elf& elf) {
  if (!elf.metadata_at) return std::nullopt;
  const Image image(elf);
  const auto address = image.pointer(elf.metadata_at);
  if (!address) return "{}";  // a null pointer needs no relocation
  uint64_t bytes = 0;
  const unsigned char* text = image.at(*address, &bytes);
  const void* end = text ? std::memchr(text, 0, bytes) : nullptr;
  if (!end) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(text), static_cast<const char*>(end));
}

}  // namespace aotc::cli
