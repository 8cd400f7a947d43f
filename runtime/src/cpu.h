#pragma once
// What this CPU can do, and which code version of an artifact it takes. Baseline instructions only.
#include <stdint.h>

#include "aotc/detail/plan_format.h"
#include "status.h"

namespace aotc::rt {

/// The CPUID and XGETBV instructions, or a test's imitation of them.
struct CpuProbe {
  void (*cpuid)(uint32_t leaf, uint32_t subleaf, uint32_t out[4]);
  uint64_t (*xgetbv)();
  bool (*permit_tiles)();  ///< asks the operating system to let this process use tile registers; may be asked again
};
extern const CpuProbe kHardware;

uint32_t cpu_features(const CpuProbe& probe);  ///< AOTC_CPU_* bits
bool free_denormals(const CpuProbe& probe);    ///< see aotc_kargs
const char* isa_name(int32_t isa);
/// The last table all of whose needs are there; null with a failure that names what each version lacks.
const aotc_isa_table* select_isa(const aotc_isa_table* tables, uint32_t n, uint32_t features);
/// The same, with the permission that its code needs: a version that the operating system refuses to this process counts as lacking its
/// support.
const aotc_isa_table* acquire_isa(const aotc_isa_table* tables, uint32_t n, const CpuProbe& probe);

}  // namespace aotc::rt
