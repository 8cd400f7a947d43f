#include "import/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/diagnostic.h"
#include "base/file.h"

namespace aotc::import {

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  auto fail = [&](const char* what) {
    return Diagnostic(ExitCode::io, Loc{.file = path}, fmt::format("{}: {}", what, std::strerror(errno)));
  };
  require_file(path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw fail("cannot open");
  struct stat st {};
  if (::fstat(fd, &st) != 0) {
    const Diagnostic d = fail("cannot stat");
    ::close(fd);
    throw d;
  }
  const auto size = static_cast<size_t>(st.st_size);
  if (size == 0) {
    ::close(fd);
    return std::shared_ptr<const MappedFile>(new MappedFile({}));
  }
  void* p = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (p == MAP_FAILED) throw fail("cannot map");
  return std::shared_ptr<const MappedFile>(new MappedFile({static_cast<const std::byte*>(p), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace aotc::import
