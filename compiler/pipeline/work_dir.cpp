#include "pipeline/work_dir.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/diagnostic.h"

namespace aotc::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = ".aotc-";
constexpr const char* kLock = "lock";
constexpr time_t kYoung = 60;  // seconds in which a folder without a lock may still get one

/// The process in ".aotc-model-1234" or ".aotc-model-1234-2"; 0: none.
pid_t owner(const std::string& name) {
  for (size_t dash = name.find('-', std::strlen(kPrefix)); dash != std::string::npos; dash = name.find('-', dash + 1))
    if (const long pid = std::strtol(name.c_str() + dash + 1, nullptr, 10); pid > 1) return static_cast<pid_t>(pid);
  return 0;
}

bool is_stale(const fs::path& folder) {
  const int lock = open((folder / kLock).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (lock >= 0) {
    const bool free = flock(lock, LOCK_EX | LOCK_NB) == 0;  // the owner's lock ended with it
    close(lock);
    return free;
  }
  struct stat st {};
  const pid_t pid = owner(folder.filename().string());
  return errno == ENOENT && pid > 0 && kill(pid, 0) != 0 && errno == ESRCH && stat(folder.c_str(), &st) == 0 &&
         std::time(nullptr) - st.st_mtime > kYoung;
}

void sweep(const fs::path& parent) {
  std::error_code ec, ignored;
  for (fs::directory_iterator it(parent, ec), end; !ec && it != end; it.increment(ec)) {
    const fs::path path = it->path();
    if (path.filename().string().rfind(kPrefix, 0) != 0 || !fs::is_directory(it->symlink_status(ignored))) continue;
    if (is_stale(path)) fs::remove_all(path, ignored);
  }
}

}  // namespace

WorkDir::WorkDir(const fs::path& output) {
  const fs::path absolute = fs::absolute(output);
  sweep(absolute.parent_path());
  const std::string name = fmt::format("{}{}-{}", kPrefix, absolute.stem().string(), getpid());
  int error = EEXIST;
  for (int n = 1; n < 1000 && error == EEXIST; ++n) {  // the same number may be a process of another container
    path_ = absolute.parent_path() / (n == 1 ? name : fmt::format("{}-{}", name, n));
    error = mkdir(path_.c_str(), 0777) == 0 ? 0 : errno;
  }
  if (error) throw Diagnostic(ExitCode::io, Loc{path_.string(), "", "", ""}, std::string("cannot be made: ") + std::strerror(error));
  // Locked before it has its name: another build must not find it free.
  lock_ = open(file("new").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ >= 0 && flock(lock_, LOCK_EX) == 0) rename(file("new").c_str(), file(kLock).c_str());
}

WorkDir::~WorkDir() {
  std::error_code ec;
  fs::remove_all(path_, ec);
  if (lock_ >= 0) close(lock_);
}

}  // namespace aotc::pipeline
