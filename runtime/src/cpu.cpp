#include "cpu.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace aotc::rt {
namespace {

struct FeatureName {
  uint32_t bit;
  const char* name;
};
#define AOTC_X(name, bit, text) {AOTC_CPU_##name, text},
constexpr FeatureName kFeatureNames[] = {AOTC_CPU_FEATURE_LIST(AOTC_X)};
#undef AOTC_X
#define AOTC_X(name, bit, text) | AOTC_CPU_##name
constexpr uint32_t kKnown = 0 AOTC_CPU_FEATURE_LIST(AOTC_X);
#undef AOTC_X
#define AOTC_X(name, value, text, features) text,
constexpr const char* kIsaNames[] = {AOTC_ISA_LIST(AOTC_X)};  // values are 0, 1, ... in order
#undef AOTC_X

void hardware_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) { __cpuid_count(leaf, subleaf, out[0], out[1], out[2], out[3]); }

uint64_t hardware_xgetbv() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

bool hardware_permit_tiles() {
  constexpr long kRequest = 0x1023 /*ARCH_REQ_XCOMP_PERM*/, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

constexpr bool has(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

}  // namespace

const CpuProbe kHardware = {hardware_cpuid, hardware_xgetbv, hardware_permit_tiles};

uint32_t cpu_features(const CpuProbe& probe) {
  enum { kA, kB, kC, kD };
  uint32_t top[4], one[4], seven[4] = {0, 0, 0, 0}, seven1[4] = {0, 0, 0, 0}, ext[4];
  probe.cpuid(0, 0, top);
  probe.cpuid(1, 0, one);
  if (top[kA] >= 7) {
    probe.cpuid(7, 0, seven);
    if (seven[kA] >= 1) probe.cpuid(7, 1, seven1);
  }
  probe.cpuid(0x80000000u, 0, ext);
  const bool has_ext = ext[kA] >= 0x80000001u;
  if (has_ext) probe.cpuid(0x80000001u, 0, ext);
  const uint64_t xcr0 = has(one[kC], 1u << 27) ? probe.xgetbv() : 0;  // OSXSAVE

  uint32_t f = 0;
  const auto set = [&f](bool there, uint32_t feature) { f |= there ? feature : 0; };
  set(has(seven[kB], 1u << 5) && has(one[kC], 1u << 28), AOTC_CPU_AVX2);
  set(has(one[kC], 1u << 12), AOTC_CPU_FMA);
  set(has(one[kC], 1u << 29), AOTC_CPU_F16C);
  set(has(seven[kB], 1u << 3 | 1u << 8) && has_ext && has(ext[kC], 1u << 5) && has(one[kC], 1u << 22), AOTC_CPU_BMI);
  set((xcr0 & 0x6) == 0x6, AOTC_CPU_OS_AVX);
  set(has(seven[kB], 1u << 16), AOTC_CPU_AVX512F);
  set(has(seven[kB], 1u << 17 | 1u << 30 | 1u << 31 | 1u << 28), AOTC_CPU_AVX512_REST);
  set((xcr0 & 0xe6) == 0xe6, AOTC_CPU_OS_AVX512);
  set(has(seven1[kA], 1u << 5) && has(seven[kC], 1u << 11), AOTC_CPU_AVX512_BF16);
  set(has(seven[kD], 1u << 24 | 1u << 22 | 1u << 25), AOTC_CPU_AMX_TILES);
  set((xcr0 & 0x60000) == 0x60000, AOTC_CPU_OS_AMX);
  return f;
}

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
    if (tables[i].needs & ~kKnown) text.add("%sa feature that this runtime does not know", separator);
  }
  fail(AOTC_INCOMPATIBLE, "this CPU cannot run the artifact: %s", n ? buffer : "it has no CPU code");
  return nullptr;
}

const aotc_isa_table* acquire_isa(const aotc_isa_table* tables, uint32_t n, const CpuProbe& probe) {
  const uint32_t features = cpu_features(probe);
  const aotc_isa_table* table = select_isa(tables, n, features);
  if (!table || !(table->needs & AOTC_CPU_OS_AMX) || probe.permit_tiles()) return table;
  return select_isa(tables, n, features & ~static_cast<uint32_t>(AOTC_CPU_OS_AMX));
}

}  // namespace aotc::rt
