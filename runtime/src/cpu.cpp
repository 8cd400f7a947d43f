#include "cpu.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "aotc/detail/cpuid.h"

namespace aotc::rt {
namespace {

struct FeatureName {
  uint32_t bit;
  const char* name;
};
#define AOTC_X(name, bit, text) {AOTC_CPU_##name, text},
constexpr FeatureName kFeatureNames[] = {AOTC_CPU_FEATURE_LIST(AOTC_X)};
#undef AOTC_X
#define AOTC_X(name, value, text, features) text,
constexpr const char* kIsaNames[] = {AOTC_ISA_LIST(AOTC_X)};  // values are 0, 1, ... in order
#undef AOTC_X

bool hardware_permit_tiles() {
  constexpr long kRequest = 0x1023 /*ARCH_REQ_XCOMP_PERM*/, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

constexpr bool has(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

}  // namespace

const CpuProbe kHardware = {aotc_hardware_cpuid, aotc_hardware_xgetbv, hardware_permit_tiles};

uint32_t cpu_features(const CpuProbe& probe) { return aotc_cpu_features(probe.cpuid, probe.xgetbv); }

/// AMD's from family 19h on (measured on a Zen 4): multiply-adds of denormal numbers, or to them, take no longer than others.
bool free_denormals(const CpuProbe& probe) {
  enum { kA, kB, kC, kD };
  uint32_t top[4], one[4];
  probe.cpuid(0, 0, top);
  probe.cpuid(1, 0, one);
  const uint32_t base = one[kA] >> 8 & 0xf, family = base == 0xf ? base + (one[kA] >> 20 & 0xff) : base;
  return top[kB] == 0x68747541 && top[kD] == 0x69746e65 && top[kC] == 0x444d4163 /* "Auth" "enti" "cAMD" */ && family >= 0x19;
}

const char* isa_name(int32_t isa) {
  return isa >= 0 && isa < static_cast<int32_t>(sizeof kIsaNames / sizeof kIsaNames[0]) ? kIsaNames[isa] : "unknown";
}

const aotc_isa_table* select_isa(const aotc_isa_table* tables, uint32_t n, uint32_t features) {
  for (uint32_t i = n; i-- > 0;)
    if (has(features, tables[i].needs)) return &tables[i];
  char buffer[512] = "";
  Text text{buffer, buffer + sizeof buffer};
  for (uint32_t i = 0; i < n; ++i) {
    text.add("%s%s", i ? "; " : "", isa_name(tables[i].isa));
    const char* separator = " lacks ";
    for (const FeatureName& name : kFeatureNames)
      if (tables[i].needs & name.bit & ~features) {
        text.add("%s%s", separator, name.name);
        separator = ", ";
      }
    if (tables[i].needs & ~AOTC_CPU_ALL) text.add("%sa feature that this runtime does not know", separator);
  }
  fail(AOTC_STATUS_INCOMPATIBLE, "this CPU cannot run the artifact: %s", n ? buffer : "it has no CPU code");
  return nullptr;
}

const aotc_isa_table* acquire_isa(const aotc_isa_table* tables, uint32_t n, const CpuProbe& probe) {
  const uint32_t features = cpu_features(probe);
  const aotc_isa_table* table = select_isa(tables, n, features);
  if (!table || !(table->needs & AOTC_CPU_OS_AMX) || probe.permit_tiles()) return table;
  return select_isa(tables, n, features & ~static_cast<uint32_t>(AOTC_CPU_OS_AMX));
}

}  // namespace aotc::rt
