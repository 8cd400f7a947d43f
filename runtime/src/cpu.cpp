#include "cpu.h"

#include <cpuid.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace aotc::rt {
namespace {

constexpr int kArchGetXcompSupp = 0x1021, kArchReqXcompPerm = 0x1023, kXtileData = 18;

struct FeatureName {
  uint32_t bit;
  const char* name;
};
constexpr FeatureName kFeatureNames[] = {
    {kAvx2, "avx2"},
    {kFma, "fma"},
    {kF16c, "f16c"},
    {kBmi, "bmi1/bmi2/lzcnt/movbe"},
    {kOsAvx, "operating system support for AVX"},
    {kAvx512f, "avx512f"},
    {kAvx512Rest, "avx512dq/bw/vl/cd"},
    {kOsAvx512, "operating system support for AVX-512"},
    {kAvx512Vnni, "avx512_vnni"},
    {kAvx512Bf16, "avx512_bf16"},
    {kAmxTile, "amx_tile"},
    {kAmxBf16, "amx_bf16"},
    {kAmxInt8, "amx_int8"},
    {kOsAmx, "operating system support for AMX"},
};

struct IsaRow {
  int32_t isa;
  const char* name;
  uint32_t needs;
};
constexpr uint32_t kNeedsAvx2 = kAvx2 | kFma | kF16c | kBmi | kOsAvx;
constexpr uint32_t kNeedsAvx512 = kNeedsAvx2 | kAvx512f | kAvx512Rest | kOsAvx512;
constexpr uint32_t kNeedsBf16 = kNeedsAvx512 | kAvx512Vnni | kAvx512Bf16;
constexpr uint32_t kNeedsAmx = kNeedsBf16 | kAmxTile | kAmxBf16 | kAmxInt8 | kOsAmx;
constexpr IsaRow kIsas[] = {
    {AOTC_ISA_AVX2, "avx2", kNeedsAvx2},
    {AOTC_ISA_AVX512, "avx512", kNeedsAvx512},
    {AOTC_ISA_AVX512_BF16, "avx512_bf16", kNeedsBf16},
    {AOTC_ISA_AMX, "amx", kNeedsAmx},
};

const IsaRow* find(int32_t isa) {
  for (const IsaRow& row : kIsas)
    if (row.isa == isa) return &row;
  return nullptr;
}

void hardware_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) { __cpuid_count(leaf, subleaf, out[0], out[1], out[2], out[3]); }

uint64_t hardware_xgetbv() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

bool hardware_amx() {
  const int saved = errno;
  uint64_t supported = 0;
  const bool ok = syscall(SYS_arch_prctl, kArchGetXcompSupp, &supported) == 0 && (supported >> kXtileData & 1);
  errno = saved;
  return ok;
}

constexpr bool has(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

}  // namespace

const CpuProbe kHardware = {hardware_cpuid, hardware_xgetbv, hardware_amx};

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
  set(has(seven[kB], 1u << 5) && has(one[kC], 1u << 28), kAvx2);
  set(has(one[kC], 1u << 12), kFma);
  set(has(one[kC], 1u << 29), kF16c);
  set(has(seven[kB], 1u << 3 | 1u << 8) && has_ext && has(ext[kC], 1u << 5) && has(one[kC], 1u << 22), kBmi);
  set((xcr0 & 0x6) == 0x6, kOsAvx);
  set(has(seven[kB], 1u << 16), kAvx512f);
  set(has(seven[kB], 1u << 17 | 1u << 30 | 1u << 31 | 1u << 28), kAvx512Rest);
  set((xcr0 & 0xe6) == 0xe6, kOsAvx512);
  set(has(seven[kC], 1u << 11), kAvx512Vnni);
  set(has(seven1[kA], 1u << 5), kAvx512Bf16);
  set(has(seven[kD], 1u << 24), kAmxTile);
  set(has(seven[kD], 1u << 22), kAmxBf16);
  set(has(seven[kD], 1u << 25), kAmxInt8);
  set((xcr0 & 0x60000) == 0x60000 && probe.amx_supported(), kOsAmx);
  return f;
}

const char* isa_name(int32_t isa) {
  const IsaRow* row = find(isa);
  return row ? row->name : "unknown";
}

const aotc_isa_table* select_isa(const aotc_isa_table* tables, uint32_t n, uint32_t features) {
  for (uint32_t i = n; i-- > 0;) {
    const IsaRow* row = find(tables[i].isa);
    if (row && has(features, row->needs)) return &tables[i];
  }
  char buffer[512] = "";
  Text text{buffer, buffer + sizeof buffer};
  for (uint32_t i = 0; i < n; ++i) {
    const IsaRow* row = find(tables[i].isa);
    text.add("%s%s", i ? "; " : "", row ? row->name : "a code version that this runtime does not know");
    const char* separator = " lacks ";
    for (const FeatureName& name : kFeatureNames)
      if (row && (row->needs & name.bit & ~features)) {
        text.add("%s%s", separator, name.name);
        separator = ", ";
      }
  }
  fail(AOTC_INCOMPATIBLE, "this CPU cannot run the artifact: %s", n ? buffer : "it has no CPU code");
  return nullptr;
}

bool request_amx() {
  const int saved = errno;
  const bool ok = syscall(SYS_arch_prctl, kArchReqXcompPerm, kXtileData) == 0;
  errno = saved;
  return ok;
}

}  // namespace aotc::rt
