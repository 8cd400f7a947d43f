#include "emit/blob.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/diagnostic.h"

namespace aotc::emit {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kWrite = 4 << 20;  // twice the largest pages

/// Zeros in writes of kWrite. The page cache takes pages as large as the writes that fill it first, where the file system can, and single
/// ones where a mapping touches it first; who maps the file later meets that many fewer entries of the TLB.
bool write_zeros(int fd, uint64_t bytes) {
  const std::vector<std::byte> zeros(std::min(bytes, kWrite));
  for (uint64_t at = 0; at < bytes;) {
    const ssize_t n = pwrite(fd, zeros.data(), std::min(bytes - at, kWrite), static_cast<off_t>(at));
    if (n < 0 && errno != EINTR) return false;
    at += n > 0 ? static_cast<uint64_t>(n) : 0;
  }
  return true;
}

/// A file of a known size, mapped for writing.
class Output {
 public:
  Output(const std::string& path, uint64_t bytes) : path_(path), bytes_(bytes) {
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd_ < 0) fail();
    if (const int rc = bytes ? posix_fallocate(fd_, 0, static_cast<off_t>(bytes)) : 0; rc != 0) {
      errno = rc;
      fail();
    }
    if (!write_zeros(fd_, bytes)) fail();
    if (bytes) data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (data_ == MAP_FAILED) fail();
  }
  ~Output() {
    if (data_ && data_ != MAP_FAILED) munmap(data_, bytes_);
    if (fd_ >= 0) close(fd_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  [[noreturn]] void fail() {
    const std::string why = std::strerror(errno);
    if (fd_ >= 0) close(fd_), unlink(path_.c_str());
    throw Diagnostic(ExitCode::io, Loc{path_, "", "", ""}, fmt::format("{} bytes cannot be written: {}", bytes_, why));
  }
  std::string path_;
  uint64_t bytes_;
  int fd_ = -1;
  void* data_ = nullptr;
};

/// A string table; add() gives the offset of a name.
struct Strings {
  std::string bytes{"", 1};
  uint32_t add(const std::string& s) {
    const uint32_t at = static_cast<uint32_t>(bytes.size());
    bytes += s;
    bytes += '\0';
    return at;
  }
};

}  // namespace

void write_blob_file(const std::string& path, uint64_t bytes, const std::function<void(std::span<std::byte>)>& fill) {
  const Output out(path, bytes);
  fill({out.data(), bytes});
}

void write_blob_object(const std::string& path, const std::string& section, const std::string& symbol, uint64_t bytes,
                       const std::function<void(std::span<std::byte>)>& fill, uint64_t flags) {
  // header | page-aligned data | symbol table | strings | section names | section headers
  enum : uint16_t { kNull, kData, kSymbols, kStrings, kNames, kNote, kSections };
  Strings strings, names;
  Elf64_Sym symbols[3] = {};
  symbols[1].st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION);
  symbols[1].st_shndx = kData;
  symbols[2].st_name = strings.add(symbol);
  symbols[2].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
  symbols[2].st_other = STV_HIDDEN;
  symbols[2].st_shndx = kData;
  symbols[2].st_size = bytes;

  Elf64_Shdr headers[kSections] = {};
  uint64_t at = kPage;
  auto place = [&](int index, const char* name, uint32_t type, uint64_t flags, uint64_t size, uint64_t align) {
    at = (at + align - 1) / align * align;
    headers[index] = {};
    headers[index].sh_name = names.add(name);
    headers[index].sh_type = type;
    headers[index].sh_flags = flags;
    headers[index].sh_offset = at;
    headers[index].sh_size = size;
    headers[index].sh_addralign = align;
    at += size;
  };
  place(kData, section.c_str(), SHT_PROGBITS, SHF_ALLOC | flags, bytes, kPage);
  place(kSymbols, ".symtab", SHT_SYMTAB, 0, sizeof symbols, 8);
  headers[kSymbols].sh_link = kStrings;
  headers[kSymbols].sh_info = 2;  // the first symbol that is not local
  headers[kSymbols].sh_entsize = sizeof(Elf64_Sym);
  place(kStrings, ".strtab", SHT_STRTAB, 0, strings.bytes.size(), 1);
  place(kNote, ".note.GNU-stack", SHT_PROGBITS, 0, 0, 1);
  names.add(".shstrtab");
  place(kNames, ".shstrtab", SHT_STRTAB, 0, 0, 1);
  headers[kNames].sh_size = names.bytes.size();
  at += names.bytes.size();
  at = (at + 7) / 8 * 8;

  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_shoff = at;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = kSections;
  header.e_shstrndx = kNames;

  const Output out(path, at + sizeof headers);
  auto put = [&](uint64_t offset, const void* src, size_t size) { std::memcpy(out.data() + offset, src, size); };
  put(0, &header, sizeof header);
  fill({out.data() + headers[kData].sh_offset, bytes});
  put(headers[kSymbols].sh_offset, symbols, sizeof symbols);
  put(headers[kStrings].sh_offset, strings.bytes.data(), strings.bytes.size());
  put(headers[kNames].sh_offset, names.bytes.data(), names.bytes.size());
  put(at, headers, sizeof headers);
}

}  // namespace aotc::emit
