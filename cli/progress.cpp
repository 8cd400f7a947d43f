#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "interrupt.h"

namespace aotc::cli {

using Clock = std::chrono::steady_clock;

Progress::Progress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0), start_(Clock::now()), phase_start_(start_) {}
Progress::~Progress() { finish_line(); }

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

void Progress::finish_line() {
  if (phase_.empty() || quiet_) return;
  const double s = std::chrono::duration<double>(Clock::now() - phase_start_).count();
  fmt::print(stderr, "{}{:<28} {:6.2f} s{}\n", terminal_ ? "\r" : "", phase_, s, terminal_ ? "\x1b[K" : "");
  phase_.clear();
}

void Progress::phase(const std::string& name) {
  finish_line();
  phase_ = name;
  phase_start_ = Clock::now();
  if (terminal_ && !quiet_) fmt::print(stderr, "\r{:<28} ...\x1b[K", name);
}

void Progress::update(size_t done, size_t total, const std::string& what) {
  if (quiet_ || !terminal_) return;
  fmt::print(stderr, "\r{:<28} {}/{} {} ({:.1f} s)\x1b[K", phase_, done, total, what, seconds());
}

pipeline::Events Progress::events() {
  pipeline::Events e;
  e.phase = [this](const std::string& name) { phase(name); };
  e.progress = [this](size_t done, size_t total, const std::string& what) { update(done, total, what); };
  e.info = [this](const std::string& line) {
    if (!quiet_) fmt::print(stderr, "{}{}\n", terminal_ ? "\r\x1b[K" : "", line);
  };
  e.warning = [this](const std::string& line) {
    if (!quiet_) fmt::print(stderr, "{}aotc: warning: {}\n", terminal_ ? "\r\x1b[K" : "", line);
  };
  e.ir = [](const std::string& stage, const std::string& text) { fmt::print(stderr, "// ---- after {}\n{}\n", stage, text); };
  return e;
}

void watched(bool quiet, const std::function<void(const pipeline::Events&)>& f) {
  Interrupt interrupt;
  Progress progress(quiet);
  pipeline::Events events = progress.events();
  events.work_dir = [&](const std::string& folder) { interrupt.remove_at_end(folder); };
  try {
    f(events);
  } catch (...) {
    interrupt.wait_if_signalled();  // what failed is its doing
    throw;
  }
  interrupt.wait_if_signalled();
}

}  // namespace aotc::cli
