#include "emit/seal.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "aotc/seal.h"
#include "base/diagnostic.h"

namespace aotc::emit {
namespace {

/// A section's place in the file.
aotc_span find_section(const aotc_elf& elf, const std::string& name) {
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(elf.data);
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(elf.data + header->e_shoff);
  AOTC_CHECK(header->e_shoff && header->e_shstrndx < header->e_shnum, "an artifact without section names");
  const char* names = reinterpret_cast<const char*>(elf.data) + sections[header->e_shstrndx].sh_offset;
  for (int i = 0; i < header->e_shnum; ++i)
    if (names + sections[i].sh_name == name) return {sections[i].sh_offset, sections[i].sh_offset + sections[i].sh_size};
  AOTC_CHECK(false, "an artifact without a section {}", name);
}

void write_at(const std::string& path, uint64_t at, const void* from, size_t bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool written = fd >= 0 && pwrite(fd, from, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
  const std::string why = written ? "" : std::strerror(errno);
  if (fd >= 0) close(fd);
  if (!written) throw Diagnostic(ExitCode::io, Loc{path, "", "", ""}, "cannot be written: " + why);
}

aotc_elf open_linked(const std::string& path) {
  aotc_elf elf;
  char error[512];
  AOTC_CHECK(aotc_elf_open(path.c_str(), &elf, error, sizeof error) == AOTC_STATUS_OK, "{}", error);
  AOTC_CHECK(elf.seal_at, "an artifact without a note for its seal");
  AOTC_CHECK(elf.build_at, "an artifact without a dynamic section");
  return elf;
}

}  // namespace

void seal_artifact(const std::string& path, const SealedWeights& weights) {
  aotc_elf elf = open_linked(path);
  aotc_seal seal = {};
  seal.file_bytes = elf.bytes;
  seal.weights_bytes = weights.bytes;
  if (!weights.section.empty()) {
    const aotc_span at = find_section(elf, weights.section);
    seal.weights_offset = at.from;
    seal.weights_bytes = at.to - at.from;
  }
  if (weights.hash)
    seal.weights_hash = *weights.hash;
  else if (seal.weights_offset)
    seal.weights_hash = aotc_blob_hash(elf.data + seal.weights_offset, seal.weights_bytes);
  const uint64_t both[] = {aotc_elf_code_hash(&elf, &seal), seal.weights_hash};
  const uint64_t build = aotc_blob_hash(both, sizeof both) | 1;  // not 0
  write_at(path, elf.build_at, &build, sizeof build);
  aotc_elf_close(&elf);
  elf = open_linked(path);
  seal.code_hash = aotc_elf_code_hash(&elf, &seal);
  seal.rest_hash = aotc_elf_rest_hash(&elf);
  seal.self_hash = aotc_seal_self_hash(&seal);
  aotc_elf_close(&elf);
  write_at(path, elf.seal_at, &seal, sizeof seal);
}

}  // namespace aotc::emit
