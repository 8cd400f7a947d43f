// A fused loop as generated C++ (emit/cpu): the shape symbols are its sizes, blocks of lanes its work units.
#include "emit/cpu/loop_call.h"
#include "forms/cpu/cost.h"
#include "forms/cpu/forms.h"
#include "loop/cost.h"

namespace aotc::forms::cpu {

using loop::LoopKernel;

namespace {

int64_t cost_of(const LoopKernel& k, const loop::Inst& i) {
  switch (i.kind) {
    case loop::InstKind::constant: return 0;
    case loop::InstKind::index: return 1;
    case loop::InstKind::load: return k.syms.size() && i.index.is_const() ? 0 : 1;
    case loop::InstKind::op: break;
    default: return 1;
  }
  return loop::op_cost(i.op, i.dtype);
}

Expr points(const std::vector<loop::LoopVar>& vars) {
  Expr n = 1;
  for (const loop::LoopVar& v : vars) n *= v.extent;
  return n;
}

class FusedLoop final : public FormOf<LoopKernel> {
 public:
  std::string_view name() const override { return "loop"; }

 protected:
  StepSpec step(const LoopKernel& k, const Site& s, const Choice&) const override {
    StepSpec f;
    f.symbol = k.name;
    for (SymId sym : emit::cpu::kernel_symbols(k)) f.sizes.push_back(Expr::symbol(sym));
    f.work = emit::cpu::loop_work(k);
    int64_t once = 0, each = 0;
    for (const loop::Block& b : k.blocks)
      for (loop::InstId i : b.insts) (b.over_inner ? each : once) += cost_of(k, k.insts[i]);
    f.grain = grain_of(kGrainOps, (points(k.inner) * each + once) * emit::cpu::lane_block(k), s.syms);
    f.scratch_bytes = emit::cpu::local_layout(k).bytes;
    return f;
  }
};

}  // namespace

const Form& fused_loop() {
  static const FusedLoop form;
  return form;
}

}  // namespace aotc::forms::cpu
