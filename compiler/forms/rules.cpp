#include "forms/rules.h"

#include <algorithm>

#include "base/uarch.h"
#include "forms/list.h"

namespace aotc::forms {

namespace {

void cpu_rules(const Machine& machine, loop::FusionRules& r) { r.units = std::max<int64_t>(r.units, int64_t{8} * machine.cores); }

void cuda_rules(const Machine& machine, loop::FusionRules& r) {
  r.few_bits = [machine](DType dtype) {
    Fit last{false, ""};
    for (const Form* f : forms_of(machine.arch))
      if (last = f->takes_few_bits(dtype, machine); last) return last;
    return last;
  };
  r.row_bytes = machine.shared_bytes;
  r.matrix_lookup = 4;   // loads that jump take the place of copies that need no registers
  r.reread = 0;          // threads of a warp read what lies apart out of the cache
  r.columns = false;     // warps of another order read a cache's lines together, and a step costs more
  r.lane_steps = false;  // threads count through all points of the outer loops
  r.small_points = std::max(r.small_points,
                            machine.bytes_per_ns * gpu_costs(machine).graph_step_ns / (2 * dtype_bytes(DType::f16)));  // read and written
}

/// Beside what the forms say, one row an architecture.
struct Row {
  Arch arch;
  void (*fill)(const Machine&, loop::FusionRules&);
};
constexpr Row kRules[] = {{Arch::x86_64, cpu_rules}, {Arch::cuda, cuda_rules}};

}  // namespace

loop::FusionRules rules_of(const Machine& machine) {
  loop::FusionRules r;
  r.prologue = [machine](DType dtype, uint32_t operand) {
    Fit last{false, ""};
    for (const Form* f : forms_of(machine.arch))
      if (last = f->takes_prologue(dtype, operand, machine); last) return last;
    return last;
  };
  for (const Row& row : kRules)
    if (row.arch == machine.arch) row.fill(machine, r);
  return r;
}

}  // namespace aotc::forms
