#pragma once
// What may end a run before it is done: a flag of the caller's, a point in time.
#include <stdint.h>

#include "aotc/aotc.h"

namespace aotc::rt {

/// Of one run; its threads share it.
struct Stop {
  const int32_t* cancel = nullptr;
  uint64_t deadline_ns = 0;             ///< CLOCK_MONOTONIC; 0: none
  aotc_status reason = AOTC_STATUS_OK;  ///< what the first thread that noticed saw; AOTC_STATUS_OK: the run goes on
};

/// CLOCK_MONOTONIC.
uint64_t now_ns();
/// Something may end the run at all.
inline bool can_stop(const Stop& stop) { return stop.cancel || stop.deadline_ns; }
/// Has the run to end? Asks the flag and the clock until the first yes. Any thread.
bool should_stop(Stop* stop);
/// A thread has noticed.
bool has_stopped(const Stop& stop);
/// The failure of a run that has stopped before, or in, the step of that label (null: after the last one). lost: states are undefined.
aotc_status stop_failure(const Stop& stop, const char* label, bool lost);

}  // namespace aotc::rt
