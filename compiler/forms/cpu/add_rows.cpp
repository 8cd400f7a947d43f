// aotc_add_rows: rows of a table summed into the rows that indices name, straight from the table; columns in blocks over the threads.
#include "forms/cpu/library.h"

namespace aotc::forms::cpu {

namespace {

class AddRows final : public LibraryForm {
 public:
  AddRows() : LibraryForm("add_rows") {}

 protected:
  Fit fits(const loop::LibraryKernel& k, const Site& s) const override {
    const DType t = k.params.begin()->dtype;
    if ((t != DType::f32 && t != DType::f64) || k.params[static_cast<loop::ParamId>(1)].dtype != t) return {false, ""};
    return LibraryForm::fits(k, s);
  }
  StepSpec step(const loop::LibraryKernel& k, const Site& s, const Choice&) const override {
    StepSpec f = named_step(k);
    const Expr &rows = k.sizes.at(0), &columns = k.sizes.at(1), &indices = k.sizes.at(3);
    const bool begins = !k.sizes.at(4).is(0);
    f.work = begins ? rows : ceildiv(columns, AOTC_ADD_ROWS_COLUMNS);
    f.grain = grain_of(cpu_costs(s.machine).grain_ops, begins ? ceildiv(indices, max(rows, 1)) * columns : indices * AOTC_ADD_ROWS_COLUMNS,
                       s.syms);
    return f;
  }
};

}  // namespace

const Form& add_rows() { return instance<AddRows>(); }

}  // namespace aotc::forms::cpu
