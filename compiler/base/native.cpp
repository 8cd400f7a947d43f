// The instruction sets of this machine.
#include <cpuid.h>

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

}  // namespace

std::vector<Isa> native_isas() {
  const Cpuid one(1, 0), seven(7, 0), seven1(7, 1);
  const bool osxsave = bit(one.ecx, 27);
  if (!osxsave) return {};
  const uint64_t state = xcr0();
  const bool ymm = (state & 0x6) == 0x6, zmm = (state & 0xe6) == 0xe6, tile = (state & 0x60000) == 0x60000;
  std::vector<Isa> r;
  if (!(ymm && bit(one.ecx, 12) /*fma*/ && bit(one.ecx, 29) /*f16c*/ && bit(seven.ebx, 5) /*avx2*/)) return r;
  r.push_back(Isa::avx2);
  const bool f = bit(seven.ebx, 16), dq = bit(seven.ebx, 17), bw = bit(seven.ebx, 30), vl = bit(seven.ebx, 31);
  if (!(zmm && f && dq && bw && vl)) return r;
  r.push_back(Isa::avx512);
  if (!bit(seven1.eax, 5)) return r;
  r.push_back(Isa::avx512_bf16);
  if (tile && bit(seven.edx, 22) /*amx-bf16*/ && bit(seven.edx, 24) /*amx-tile*/ && bit(seven.edx, 25) /*amx-int8*/) r.push_back(Isa::amx);
  return r;
}

}  // namespace aotc
