// The instruction sets of this machine.
#include <cpuid.h>

#include "aotc/detail/cpu_features.h"
#include "base/target.h"

namespace aotc {

namespace {

struct Cpuid {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  Cpuid(unsigned leaf, unsigned sub) { __get_cpuid_count(leaf, sub, &eax, &ebx, &ecx, &edx); }
};

/// The register state that the operating system saves.
uint64_t xcr0() {
  unsigned lo = 0, hi = 0;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return static_cast<uint64_t>(hi) << 32 | lo;
}

constexpr bool bit(uint64_t v, int n) { return v >> n & 1; }

/// As the runtime finds them (runtime/src/cpu.cpp).
uint32_t native_features() {
  const Cpuid one(1, 0), seven(7, 0), seven1(7, 1), ext(0x80000001u, 0);
  if (!bit(one.ecx, 27) /*osxsave*/) return 0;
  const uint64_t state = xcr0();
  uint32_t f = 0;
  const auto set = [&f](bool there, uint32_t feature) { f |= there ? feature : 0; };
  set(bit(seven.ebx, 5) && bit(one.ecx, 28), AOTC_CPU_AVX2);
  set(bit(one.ecx, 12), AOTC_CPU_FMA);
  set(bit(one.ecx, 29), AOTC_CPU_F16C);
  set(bit(seven.ebx, 3) && bit(seven.ebx, 8) && bit(ext.ecx, 5) && bit(one.ecx, 22), AOTC_CPU_BMI);
  set((state & 0x6) == 0x6, AOTC_CPU_OS_AVX);
  set(bit(seven.ebx, 16), AOTC_CPU_AVX512F);
  set(bit(seven.ebx, 17) && bit(seven.ebx, 30) && bit(seven.ebx, 31) && bit(seven.ebx, 28), AOTC_CPU_AVX512_REST);
  set((state & 0xe6) == 0xe6, AOTC_CPU_OS_AVX512);
  set(bit(seven1.eax, 5) && bit(seven.ecx, 11), AOTC_CPU_AVX512_BF16);
  set(bit(seven.edx, 24) && bit(seven.edx, 22) && bit(seven.edx, 25), AOTC_CPU_AMX_TILES);
  set((state & 0x60000) == 0x60000, AOTC_CPU_OS_AMX);
  return f;
}

}  // namespace

std::vector<Isa> native_isas() { return isas_of(native_features()); }

}  // namespace aotc
