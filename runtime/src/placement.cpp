#include "placement.h"

#include <errno.h>

namespace aotc::rt {

Elsewhere::Elsewhere(pid_t tid, const Cpus& taken, int32_t here) : tid_(0) {
  if (!tid) return;
  const int saved = errno;
  if (sched_getaffinity(tid, sizeof before_, &before_) == 0) {
    cpu_set_t others = before_;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &taken.set_)) CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) == 0 && here >= 0) {
      others = before_;
      CPU_CLR(static_cast<size_t>(here), &others);
    }
    if (CPU_COUNT(&others) != 0 && !CPU_EQUAL(&others, &before_) && sched_setaffinity(tid, sizeof others, &others) == 0) tid_ = tid;
  }
  errno = saved;
}

Elsewhere::~Elsewhere() {
  if (!tid_) return;
  const int saved = errno;
  sched_setaffinity(tid_, sizeof before_, &before_);
  errno = saved;
}

}  // namespace aotc::rt
