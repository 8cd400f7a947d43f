#pragma once
// What this CPU can do, and which code version of an artifact it takes. Baseline instructions only.
#include <stdint.h>

#include "aotc/detail/plan_format.h"
#include "status.h"

namespace aotc::rt {

enum CpuFeature : uint32_t {
  kAvx2 = 1u << 0,
  kFma = 1u << 1,
  kF16c = 1u << 2,
  kBmi = 1u << 3,  ///< bmi1, bmi2, lzcnt, movbe: the rest of x86-64-v3
  kOsAvx = 1u << 4,
  kAvx512f = 1u << 5,
  kAvx512Rest = 1u << 6,  ///< dq, bw, vl, cd: the rest of x86-64-v4
  kOsAvx512 = 1u << 7,
  kAvx512Vnni = 1u << 8,
  kAvx512Bf16 = 1u << 9,
  kAmxTile = 1u << 10,
  kAmxBf16 = 1u << 11,
  kAmxInt8 = 1u << 12,
  kOsAmx = 1u << 13,  ///< XCR0 has the tile state and the kernel grants it to this process
};

/// The CPUID and XGETBV instructions and the kernel's AMX grant, or a test's imitation of them.
struct CpuProbe {
  void (*cpuid)(uint32_t leaf, uint32_t subleaf, uint32_t out[4]);
  uint64_t (*xgetbv)();
  bool (*amx_supported)();
};
extern const CpuProbe kHardware;

uint32_t cpu_features(const CpuProbe& probe);
const char* isa_name(int32_t isa);
/// The last table whose features are all there; null with a failure that names what each version lacks.
const aotc_isa_table* select_isa(const aotc_isa_table* tables, uint32_t n, uint32_t features);
/// Asks the kernel for the AMX tile state (once a process is enough, again does no harm).
bool request_amx();

}  // namespace aotc::rt
