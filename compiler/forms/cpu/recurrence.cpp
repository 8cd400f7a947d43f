// aotc_recurrence: a recurrent layer over all steps, rows of the batch as work units (kernels/cpu/recurrence.h).
#include "forms/cpu/library.h"
#include "forms/cpu/recurrent_step.h"
#include "forms/cpu/scratch.h"

namespace aotc::forms::cpu {

using loop::LibraryKernel;

namespace {

class Recurrence final : public LibraryForm {
 public:
  Recurrence() : LibraryForm("recurrence") {}

 protected:
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    // A thread's rows, six at a time, read all of the weight in every step: rows of it far apart, which costs little where it stays in L2.
    const RecurrentStep r = recurrent_step(k, s.syms);
    const CpuCosts& u = cpu_costs(s.machine);
    const int64_t blocks = ceil_div(r.batch, AOTC_RECURRENCE_ROWS), turns = ceil_div(blocks, std::min<int64_t>(blocks, s.machine.cores));
    const double read = r.weight_bytes * u.ns_per_cycle /
                        (r.weight_bytes <= static_cast<double>(s.machine.l2_bytes) ? u.recurrence_l2_bytes : u.recurrence_far_bytes);
    const double multiply = r.macs / static_cast<double>(blocks) * u.ns_per_cycle / lanes_of(r.dtype, s.machine).width *
                            (r.halves ? u.recurrence_half_mac : u.recurrence_mac);
    return {{{this, {}}, Fit::yes(), r.steps * static_cast<double>(turns) * std::max(read, multiply)}};
  }
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    StepSpec f = named_step(k, recurrence_symbol(name(), k));
    const int cell = recurrence_cell(k);
    AOTC_CHECK(k.sizes.size() == 6, "{} takes steps, batch, hidden, width, rows from step to step and from one of the batch to the next",
               k.name);
    const Expr &steps = k.sizes[0], &batch = k.sizes[1], &hidden = k.sizes[2], &width = k.sizes[3];
    f.work = ceildiv(batch, AOTC_RECURRENCE_ROWS);
    f.grain = grain_of(cpu_costs(s.machine).grain_macs, steps * width * hidden * aotc_recurrence_gates(cell), s.syms);
    f.scratch_bytes = recurrence_scratch(cell, hidden, width, k.params.begin()->dtype == DType::f64 ? 8 : 4);
    return f;
  }
  std::string config(const loop::Kernel&, const LibraryKernel& k, const Choice&, Isa, const std::string& name) const override {
    const int cell = recurrence_cell(k);
    ConfigText c("aotc_recurrence_config", name);
    return c.add("cell", cell).add("reverse", flag(k, Attr::reverse, false)).add("projected", recurrence_projected(k)).str();
  }
};

}  // namespace

const Form& recurrence() { return instance<Recurrence>(); }

}  // namespace aotc::forms::cpu
