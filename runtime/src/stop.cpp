#include "stop.h"

#include <time.h>

#include "atomic.h"
#include "status.h"

namespace aotc::rt {

uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

bool has_stopped(const Stop& stop) { return load_relaxed(&stop.reason) != AOTC_STATUS_OK; }

bool should_stop(Stop* stop) {
  if (has_stopped(*stop)) return true;
  aotc_status reason = AOTC_STATUS_OK, seen = AOTC_STATUS_OK;
  if (stop->cancel && load_acquire(stop->cancel) != 0)
    reason = AOTC_STATUS_CANCELLED;
  else if (stop->deadline_ns && now_ns() >= stop->deadline_ns)
    reason = AOTC_STATUS_DEADLINE_EXCEEDED;
  if (reason == AOTC_STATUS_OK) return false;
  compare_exchange(&stop->reason, &seen, reason);
  return true;
}

[[gnu::cold]] aotc_status stop_failure(const Stop& stop, const char* label, bool lost) {
  return fail(stop.reason, "the run %s (at %s); the outputs are undefined; %s",
              stop.reason == AOTC_STATUS_CANCELLED ? "was cancelled" : "met its deadline", label ? label : "its end",
              lost ? "so are the states that it updates: call state_reset, or write them, before the next run"
                   : "all states are as before the run");
}

}  // namespace aotc::rt
