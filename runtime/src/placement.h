#pragma once
// On which CPUs the threads of a pool run. A scheduler that sees no idle CPU near puts a thread that is woken on the CPU of the one that
// wakes it, and moves it on when it balances load, some 4 to 40 ms later: until then two threads of a run take turns on one CPU, a time
// slice each, and a run of a millisecond takes three.
#include <sched.h>
#include <stdint.h>
#include <sys/types.h>

namespace aotc::rt {

/// A set of CPUs by number; those of CPU_SETSIZE (1024) and more are in none.
class Cpus {
 public:
  Cpus() { CPU_ZERO(&set_); }
  void add(int32_t cpu) {
    if (cpu >= 0) CPU_SET(static_cast<size_t>(cpu), &set_);
  }
  bool has(int32_t cpu) const { return cpu >= 0 && CPU_ISSET(static_cast<size_t>(cpu), &set_); }

 private:
  friend class Elsewhere;
  cpu_set_t set_;
};

/// The CPU that the calling thread runs on, or -1.
inline int32_t cpu_now() { return sched_getcpu(); }

/// While it lives, thread `tid` (0: none) of this process may not run on the CPUs `taken`; then its affinity is what it was, and the thread
/// stays where it is for as long as the scheduler has no reason to move it. Where no other CPU is allowed it may not run on `here` alone;
/// where that is not possible, or the kernel refuses, nothing happens. Leaves errno as it was.
class Elsewhere {
 public:
  Elsewhere(pid_t tid, const Cpus& taken, int32_t here);
  ~Elsewhere();
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;

 private:
  pid_t tid_;  ///< 0: nothing was changed
  cpu_set_t before_;
};

}  // namespace aotc::rt
