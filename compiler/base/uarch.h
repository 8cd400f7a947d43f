#pragma once
// What a microarchitecture costs: numbers that estimates and passes read, a data file each (base/uarch/*.uarch), the rows of uarch_*.def.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"

namespace aotc {

#define AOTC_NUMBER(name, what) double name = 0;
#define AOTC_COUNT(name, what) int64_t name = 0;
struct CpuCosts {
#include "base/uarch_cpu.def"
};
struct GpuCosts {
#include "base/uarch_gpu.def"
};
struct Uarch {
  std::string name;     ///< of its file: "zen4", "sm_90"
  bool is_gpu = false;  ///< which of the two below it has
  CpuCosts cpu;
  GpuCosts gpu;
#include "base/uarch_both.def"
};
#undef AOTC_NUMBER
#undef AOTC_COUNT

inline const CpuCosts& cpu_costs(const Machine& m) { return m.uarch->cpu; }
inline const GpuCosts& gpu_costs(const Machine& m) { return m.uarch->gpu; }

/// What is assumed of machines with this instruction set.
const Uarch& uarch_of(Isa isa);
/// The newest compute capability that is known and not above this one.
const Uarch& uarch_of_sm(int sm);
/// What decisions of this target are made for: its best code version.
const Uarch& uarch_of(const Target& target);
/// Names of all that aotc carries.
std::vector<std::string_view> uarch_names();

/// A data file: `kind cpu` (or gpu), or `like NAME` of one that aotc carries, then a row `name value` for each number that differs; #
/// begins a comment. Throws Diagnostic with file and line where a row is none, a number is missing or none, or a name is unknown.
Uarch parse_uarch(std::string_view text, const std::string& file);

}  // namespace aotc
