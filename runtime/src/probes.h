#pragma once
// USDT probes of provider `aotc`: what perf, bpftrace, SystemTap and gdb count or stop at while an artifact runs. A tracer that attaches to
// a probe adds to its semaphore; where none has, a probe costs a load and a branch.
#include <stdint.h>

#include "context.h"

namespace aotc::rt {

// Where there is nobody to tell, none of these is called.
void probe_run_start(const aotc_context& context, const ShapeEntry& entry);
void probe_run_end(const aotc_context& context, const ShapeEntry& entry, aotc_status status);
void probe_step_start(const aotc_context& context, const ShapeEntry& entry, uint32_t step);
void probe_step_end(const aotc_context& context, const ShapeEntry& entry, uint32_t step);

#define AOTC_SEMAPHORE(probe) extern "C" __attribute__((visibility("hidden"))) volatile uint16_t aotc_probe_##probe
AOTC_SEMAPHORE(run_start);
AOTC_SEMAPHORE(run_end);
AOTC_SEMAPHORE(step_start);
AOTC_SEMAPHORE(step_end);
#undef AOTC_SEMAPHORE

inline bool is_traced(const volatile uint16_t& semaphore) { return __builtin_expect(semaphore != 0, 0); }

}  // namespace aotc::rt
