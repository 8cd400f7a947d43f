// aotc_recurrence: a recurrent layer over all steps, rows of the batch as work units (kernels/cpu/recurrence.h).
#include "forms/cpu/library.h"
#include "forms/cpu/scratch.h"
#include "graph/infer.h"

namespace aotc::forms::cpu {

using loop::LibraryKernel;

namespace {

/// AOTC_CELL_*.
int cell_of(const LibraryKernel& k) {
  static_assert(static_cast<int>(Cell::lstm) == AOTC_CELL_LSTM && static_cast<int>(Cell::gru) == AOTC_CELL_GRU &&
                static_cast<int>(Cell::tanh) == AOTC_CELL_TANH && static_cast<int>(Cell::relu) == AOTC_CELL_RELU);
  const std::string& name = std::get<std::string>(k.attrs.at(Attr::cell));
  const std::optional<Cell> cell = parse_cell(name);
  AOTC_CHECK(cell, "unknown cell {}", name);
  return static_cast<int>(*cell);
}

class Recurrence final : public LibraryForm {
 public:
  using LibraryForm::LibraryForm;

 protected:
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    StepSpec f = named_step(k);
    const int cell = cell_of(k);
    AOTC_CHECK(k.sizes.size() == 4, "{} takes steps, batch, hidden, width", k.name);
    const Expr &steps = k.sizes[0], &batch = k.sizes[1], &hidden = k.sizes[2], &width = k.sizes[3];
    f.work = ceildiv(batch, AOTC_RECURRENCE_ROWS);
    f.grain = grain_of(kGrainMacs, steps * width * hidden * aotc_recurrence_gates(cell), s.syms);
    f.scratch_bytes = recurrence_scratch(cell, hidden, width, k.params.begin()->dtype == DType::f64 ? 8 : 4);
    return f;
  }
  std::string config(const loop::Kernel&, const LibraryKernel& k, const Choice&, Isa, const std::string& name) const override {
    const int cell = cell_of(k);
    const size_t params = k.params.size() - (cell == AOTC_CELL_LSTM ? 3 : 2);
    ConfigText c("aotc_recurrence_config", name);
    return c.add("cell", cell).add("reverse", flag(k, Attr::reverse, false)).add("projected", params == 5).str();
  }
};

}  // namespace

const Form& recurrence() {
  static const Recurrence form("recurrence");
  return form;
}

}  // namespace aotc::forms::cpu
