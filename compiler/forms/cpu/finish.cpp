#include "forms/cpu/finish.h"

#include <algorithm>
#include <cmath>

#include "aotc/detail/library_abi.h"
#include "base/initialiser.h"
#include "loop/attached.h"

namespace aotc::forms::cpu {

using loop::Inst;
using loop::InstId;
using loop::InstKind;
using loop::ParamId;
using loop::ParamRole;

std::optional<FinishPlace> finish_place(const loop::LoopKernel& e, const Expr& plane, const Expr& index) {
  const auto by_column = index.linear_coefficient(e.inner[0].sym), by_row = index.linear_coefficient(e.outer.back().sym);
  if (!by_column || !by_column->is(1) || !by_row || !by_row->as_const()) return std::nullopt;
  SymMap first = {{e.inner[0].sym, 0}, {e.outer.back().sym, 0}};
  for (size_t i = 0; i + 1 < e.outer.size(); ++i) {
    const loop::LoopVar& v = e.outer[i];
    first[v.sym] = 0;
    if (v.extent.is(1)) continue;
    const auto by_image = index.linear_coefficient(v.sym);
    if (i > 0 || !by_image || !e.syms.proves_eq(*by_image, *by_row * plane)) return std::nullopt;
  }
  const auto base = e.syms.simplify(index.substitute(first)).as_const();
  if (!base || *base < 0 || *by_row->as_const() < 0) return std::nullopt;
  return FinishPlace{*base, *by_row->as_const()};
}

namespace {

/// Follows the sum through an epilogue: every instruction must be a constant, an operand of the next step, or a step.
class Follower {
 public:
  /// plane: rows that one point of the first outer var has; the other outer vars but the last run once.
  Follower(const loop::LoopKernel& e, const Expr& plane) : e_(e), plane_(plane) {}

  std::vector<FinishStep> run() {
    if (e_.inner.size() != 1 || e_.outer.empty()) return {};
    std::vector<InstId> order;
    for (const loop::Block& b : e_.blocks) order.insert(order.end(), b.insts.begin(), b.insts.end());
    for (size_t i = 0; i < order.size(); ++i) {
      if (const size_t n = hard_swish(order, i))
        i += n - 1;
      else if (!follow(order[i]))
        return {};
    }
    const bool stores = !steps_.empty() && (steps_.back().kind == AOTC_FINISH_STORE_F32 || steps_.back().kind == AOTC_FINISH_STORE_BF16);
    if (!stores || steps_.size() > AOTC_FINISH_MAX_STEPS) return {};
    return std::move(steps_);
  }

 private:
  std::optional<FinishPlace> place(const Expr& index) const { return finish_place(e_, plane_, index); }

  const Inst& inst(InstId i) const { return e_.insts[i]; }
  bool is_constant(InstId i) const { return inst(i).kind == InstKind::constant && inst(i).dtype == DType::f32; }
  bool is_constant(InstId i, double x) const { return is_constant(i) && inst(i).imm_f == x; }
  bool is_op(InstId i, Op op) const { return inst(i).kind == InstKind::op && inst(i).op == op && inst(i).dtype == DType::f32; }
  /// The operand of a step that takes the sum and one more, or kNone.
  InstId beside_sum(const Inst& i) const {
    if (i.args.size() != 2 || (i.args[0] == sum_) == (i.args[1] == sum_)) return kNone<InstId>;
    return i.args[i.args[0] == sum_ ? 1 : 0];
  }
  void step(int kind, double limit = 0) { steps_.push_back({kind, kNone<ParamId>, limit, 0, 0}); }

  /// sum * minimum(relu(sum + 3), 6) / 6 from order[i] on: how many instructions that is.
  size_t hard_swish(const std::vector<InstId>& order, size_t i) {
    if (i + 5 > order.size()) return 0;
    const InstId* at = &order[i];
    const auto takes = [&](size_t k, Op op, InstId a, InstId b) {
      const std::vector<InstId>& args = inst(at[k]).args;
      return is_op(at[k], op) && args[0] == a && (b == kNone<InstId> || args[1] == b);
    };
    const InstId none = kNone<InstId>;
    if (!takes(0, Op::add, sum_, none) || !takes(1, Op::relu, at[0], none) || !takes(2, Op::minimum, at[1], none)) return 0;
    if (!takes(3, Op::mul, sum_, at[2]) || !takes(4, Op::div, at[3], none)) return 0;
    if (!is_constant(inst(at[0]).args[1], 3) || !is_constant(inst(at[2]).args[1], 6) || !is_constant(inst(at[4]).args[1], 6)) return 0;
    step(AOTC_FINISH_HARD_SWISH);
    sum_ = at[4];
    return 5;
  }

  bool follow(InstId id) {
    const Inst& i = inst(id);
    switch (i.kind) {
      case InstKind::constant: return true;
      case InstKind::load: return follow_load(id);
      case InstKind::store: return follow_store(i);
      case InstKind::op: return follow_op(id);
      default: return false;
    }
  }

  bool follow_load(InstId id) {
    const Inst& i = inst(id);
    if (i.mask != kNone<InstId>) return false;
    if (e_.params[i.param].role != ParamRole::acc) return true;
    if (sum_ != kNone<InstId> || i.dtype != DType::f32) return false;
    sum_ = id;
    return true;
  }

  bool follow_store(const Inst& i) {
    const DType t = e_.params[i.param].dtype;
    const auto at = place(i.index);
    if (!at || i.mask != kNone<InstId>) return false;
    if (!(t == DType::f32 && i.args[0] == sum_) && !(t == DType::bf16 && i.args[0] == rounded_ && rounded_ != kNone<InstId>)) return false;
    steps_.push_back({t == DType::f32 ? AOTC_FINISH_STORE_F32 : AOTC_FINISH_STORE_BF16, i.param, 0, at->base, at->pitch});
    return true;
  }

  bool follow_op(InstId id) {
    const Inst& i = inst(id);
    if (i.op == Op::cast) {
      if (i.dtype == DType::f32) return inst(i.args[0]).kind == InstKind::load && inst(i.args[0]).dtype == DType::bf16;
      if (i.dtype != DType::bf16 || i.args[0] != sum_) return false;
      rounded_ = id;
      return true;
    }
    if (i.dtype != DType::f32 || sum_ == kNone<InstId>) return false;
    if (i.op == Op::relu && i.args[0] == sum_) {
      step(AOTC_FINISH_AT_LEAST);
    } else {
      const InstId other = beside_sum(i);
      if (other == kNone<InstId>) return false;
      const bool limits = i.op == Op::minimum || i.op == Op::maximum;
      if (limits ? !limit(i.op, other) : !operand(i.op, other)) return false;
    }
    sum_ = id, rounded_ = kNone<InstId>;
    return true;
  }

  bool limit(Op op, InstId other) {
    // Of two zeros the operator may take either.
    if (!is_constant(other) || !std::isfinite(inst(other).imm_f) || inst(other).imm_f == 0) return false;
    step(op == Op::minimum ? AOTC_FINISH_AT_MOST : AOTC_FINISH_AT_LEAST, inst(other).imm_f);
    return true;
  }

  bool operand(Op op, InstId other) {
    const bool widened = inst(other).kind == InstKind::op && inst(other).op == Op::cast;
    const Inst& load = inst(widened ? inst(other).args[0] : other);
    if (load.kind != InstKind::load || (op != Op::add && op != Op::mul) || load.dtype != (widened ? DType::bf16 : DType::f32)) return false;
    const auto at = place(load.index);
    if (!at || e_.params[load.param].dtype != load.dtype) return false;
    const bool column = at->pitch == 0;
    if ((widened && column) || (op == Op::mul && !column)) return false;
    const int kind = op == Op::mul ? AOTC_FINISH_MUL_COLUMN : column ? AOTC_FINISH_ADD_COLUMN : AOTC_FINISH_ADD_F32;
    steps_.push_back({widened ? AOTC_FINISH_ADD_BF16 : kind, load.param, 0, at->base, at->pitch});
    return true;
  }

  const loop::LoopKernel& e_;
  const Expr plane_;
  InstId sum_ = kNone<InstId>;      ///< what has become of the sum
  InstId rounded_ = kNone<InstId>;  ///< and its bf16, where there is one
  std::vector<FinishStep> steps_;
};

}  // namespace

std::vector<FinishStep> finish_steps(const loop::ConvKernel& k, bool twice) {
  if (!k.channels_last || k.acc != DType::f32) return {};
  std::vector<FinishStep> steps = Follower(k.epilogue, product(Exprs(k.out_dims.begin() + 2, k.out_dims.end()))).run();
  const bool reads_rows = std::any_of(steps.begin(), steps.end(),
                                      [](const FinishStep& s) { return s.kind == AOTC_FINISH_ADD_F32 || s.kind == AOTC_FINISH_ADD_BF16; });
  if (twice && reads_rows) steps.clear();
  return steps;
}

std::vector<FinishStep> finish_steps(const loop::MatmulKernel& k, const loop::Segment& s) {
  if (k.acc != DType::f32 || !product(k.batch).is(1) || two_sums(k)) return {};
  return Follower(s.epilogue, 1).run();
}

std::string finish_text(const loop::Kernel& kernel, const std::vector<FinishStep>& steps) {
  std::vector<std::string> list;
  for (const FinishStep& s : steps) {
    Initialiser one;
    one.add("kind", s.kind).add("ptr", s.param == kNone<ParamId> ? -1 : loop::argument_index(kernel, s.param));
    one.add("limit", fmt::format("{:a}", static_cast<float>(s.limit))).add("base", s.base).add("pitch", s.pitch);
    list.push_back(one.str());
  }
  Initialiser all;
  all.add("n_steps", steps.size());
  if (!steps.empty()) all.list("steps", list);
  return all.str();
}

}  // namespace aotc::forms::cpu
