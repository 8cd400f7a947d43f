// A fused loop as generated C++ (emit/cpu): the shape symbols are its sizes, blocks of lanes its work units.
#include "emit/cpu/loop_call.h"
#include "forms/cpu/cost.h"
#include "forms/cpu/forms.h"

namespace aotc::forms::cpu {

using loop::LoopKernel;

namespace {

int64_t weight_of(const LoopKernel& k, const loop::Inst& i) {
  switch (i.kind) {
    case loop::InstKind::constant: return 0;
    case loop::InstKind::index: return 1;
    case loop::InstKind::load: return k.syms.size() && i.index.is_const() ? 0 : 1;
    case loop::InstKind::op: break;
    default: return 1;
  }
  if (op_class(i.op) != OpClass::unary) return i.op == Op::pow || i.op == Op::atan2 || i.op == Op::remainder ? 12 : 1;
  static constexpr Op kCheap[] = {Op::cast,  Op::bitcast, Op::neg,  Op::abs,   Op::sign,  Op::ceil,        Op::floor,
                                  Op::round, Op::trunc,   Op::relu, Op::isnan, Op::isinf, Op::logical_not, Op::bitwise_not};
  return std::find(std::begin(kCheap), std::end(kCheap), i.op) != std::end(kCheap) ? 1 : 8;
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
      for (loop::InstId i : b.insts) (b.over_inner ? each : once) += weight_of(k, k.insts[i]);
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
