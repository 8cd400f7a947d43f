#include "interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/diagnostic.h"
#include "base/process.h"
#include "cut_file.h"

namespace aotc::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr double kPatience = 2;  // seconds that children have to end by themselves

// What a handler may touch. A process has one set of handlers, so these cannot belong to an object.
std::atomic<int> g_pipe{-1}, g_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void handle(int signal) {
  if (g_signal.exchange(signal) != 0) _exit(128 + signal);
  const int saved = errno;
  const unsigned char byte = static_cast<unsigned char>(signal);
  if (write(g_pipe.load(), &byte, 1) != 1) _exit(128 + signal);
  errno = saved;
}

/// Of a thread that met a file that was cut off, as others may at once: the listener ends the process.
void leave() {
  int none = 0;
  const unsigned char byte = SIGBUS;
  if (g_signal.compare_exchange_strong(none, SIGBUS) && write(g_pipe.load(), &byte, 1) != 1) _exit(static_cast<int>(ExitCode::io));
  for (;;) pause();
}

}  // namespace

Interrupt::Interrupt() {
  AOTC_CHECK(g_pipe.load() < 0 && pipe2(pipe_, O_CLOEXEC) == 0, "no pipe for signals");
  g_pipe = pipe_[1];
  listener_ = std::thread([this] { listen(); });
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction action {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
  leave_cut_file_by(leave);
}

Interrupt::~Interrupt() {
  leave_cut_file_by(nullptr);
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  const unsigned char done = 0;
  if (write(pipe_[1], &done, 1) == 1) listener_.join();
  g_pipe = -1;
  close(pipe_[0]);
  close(pipe_[1]);
}

void Interrupt::remove_at_end(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  folders_.push_back(folder);
}

void Interrupt::wait_if_signalled() const {
  while (g_signal.load() != 0) pause();
}

void Interrupt::listen() {
  unsigned char byte = 0;
  ssize_t n;
  while ((n = read(pipe_[0], &byte, 1)) < 0 && errno == EINTR) {}
  if (n == 1 && byte != 0) end(byte);
}

void Interrupt::end(int signal) {
  if (signal != SIGBUS) std::fprintf(stderr, "\naotc: ended by %s\n", strsignal(signal));
  end_children(kPatience);
  const std::lock_guard lock(mutex_);
  std::error_code ec;
  for (const std::string& folder : folders_)
    for (int attempt = 0; attempt < 20 && std::filesystem::exists(folder, ec); ++attempt) {
      std::filesystem::remove_all(folder, ec);  // the other threads may still write there
      if (ec) usleep(10'000);
    }
  _exit(signal == SIGBUS ? static_cast<int>(ExitCode::io) : 128 + signal);
}

}  // namespace aotc::cli
