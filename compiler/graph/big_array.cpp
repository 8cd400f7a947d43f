#include "graph/big_array.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <string>

namespace aotc {

namespace {

constexpr size_t kInFile = size_t{1} << 20;

/// A file without a name that has room for so many bytes, or -1.
int unnamed_file(size_t bytes) {
  std::error_code ec;
  std::string path = (std::filesystem::temp_directory_path(ec) / "aotc-XXXXXX").string();
  if (ec) return -1;
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return -1;
  unlink(path.c_str());
  // Reserved now: a full disk would be a signal later.
  if (posix_fallocate(fd, 0, static_cast<off_t>(bytes)) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

std::shared_ptr<std::byte> large_memory(size_t bytes) {
  if (const int fd = bytes >= kInFile ? unnamed_file(bytes) : -1; fd >= 0) {
    void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (p != MAP_FAILED) return {static_cast<std::byte*>(p), [bytes](std::byte* b) { munmap(b, bytes); }};
  }
  constexpr size_t kAlign = 64;
  void* const p = aligned_alloc(kAlign, (bytes + kAlign) / kAlign * kAlign);
  if (!p) throw std::bad_alloc();
  std::fill_n(static_cast<std::byte*>(p), bytes, std::byte{0});
  return {static_cast<std::byte*>(p), [](std::byte* b) { free(b); }};
}

}  // namespace aotc
