#include "cut_file.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/diagnostic.h"

namespace aotc::cli {
namespace {

// A process has one handler of a signal, so what it calls cannot belong to an object.
std::atomic<void (*)()> g_leave{nullptr};
std::atomic<bool> g_said{false};  // several threads may meet it at once
static_assert(std::atomic<void (*)()>::is_always_lock_free);

/// A line of /proc/self/maps, "from-to mode offset device inode    path", read with what a signal handler may call.
class Maps {
 public:
  Maps() : file_(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  ~Maps() {
    if (file_ >= 0) close(file_);
  }
  bool next() {
    size_t n = 0;
    char c = 0;
    while (get(c) && c != '\n')
      if (n + 1 < sizeof line_) line_[n++] = c;
    line_[n] = 0;
    return n > 0;
  }
  bool has(uintptr_t address) const {
    const char* at = line_;
    const uintptr_t from = hex(at);
    return *at++ == '-' && from <= address && address < hex(at);
  }
  /// Null where the range is of no file.
  const char* path() const { return std::strchr(line_, '/'); }

 private:
  static uintptr_t hex(const char*& at) {
    uintptr_t v = 0;
    for (;; ++at) {
      const int digit = *at >= '0' && *at <= '9' ? *at - '0' : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10 : -1;
      if (digit < 0) return v;
      v = v * 16 + static_cast<uintptr_t>(digit);
    }
  }
  bool get(char& c) {
    if (at_ == end_) {
      const ssize_t n = file_ < 0 ? 0 : read(file_, block_, sizeof block_);
      if (n <= 0) return false;
      at_ = 0, end_ = n;
    }
    c = block_[at_++];
    return true;
  }

  int file_;
  ssize_t at_ = 0, end_ = 0;
  char block_[1024], line_[4500];
};

void say(const char* text) {
  const size_t n = std::strlen(text);
  if (write(STDERR_FILENO, text, n) != static_cast<ssize_t>(n)) return;
}

void handle(int signal, siginfo_t* info, void*) {
  Maps maps;
  bool found = false;
  while (info->si_code == BUS_ADRERR && !found && maps.next()) found = maps.has(reinterpret_cast<uintptr_t>(info->si_addr));
  if (!found || !maps.path()) {
    struct sigaction as_before {};
    as_before.sa_handler = SIG_DFL;
    sigaction(signal, &as_before, nullptr);
    return;  // to the same instruction
  }
  if (!g_said.exchange(true))
    say("aotc: error: "), say(maps.path()), say(": the file was cut off while it was read\n  note: is it still being written?\n");
  if (void (*const leave)() = g_leave.load()) leave();
  _exit(static_cast<int>(ExitCode::io));
}

}  // namespace

void watch_for_cut_files() {
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void leave_cut_file_by(void (*leave)()) { g_leave = leave; }

}  // namespace aotc::cli
