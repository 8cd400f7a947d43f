#include "loop/lane_order.h"

#include <algorithm>
#include <cstdlib>

#include "loop/attached.h"
#include "loop/finish.h"
#include "loop/index.h"
#include "loop/quantised.h"

namespace aotc::loop {
namespace {

constexpr int64_t kLeastLanes = 3;  ///< for which one load takes the place of one a lane
constexpr int64_t kFarBytes = 2048;

/// The code in a kernel whose loads may be moved.
std::vector<LoopKernel*> code_of(Kernel& k) {
  if (auto* l = std::get_if<LoopKernel>(&k)) return {l};
  std::vector<LoopKernel*> out;
  if (auto* m = std::get_if<MatmulKernel>(&k))
    for (Segment& s : m->segments) out.push_back(&s.epilogue);
  if (auto* c = std::get_if<ConvKernel>(&k)) out.push_back(&c->epilogue);
  return out;
}

/// Params that are read by more than that code.
std::vector<ParamId> others_of(const Kernel& k) {
  if (const auto* c = std::get_if<ConvKernel>(&k)) return {c->x, c->w};
  const auto* m = std::get_if<MatmulKernel>(&k);
  if (!m) return {};
  std::vector<ParamId> out;
  if (m->runs) out.push_back(m->runs->ends);
  for (const auto* q : {&m->b_quantised, &m->twin_quantised})
    if (*q)
      for (ParamId p : params_of(**q)) out.push_back(p);
  for (const Operand* o : operands(*m)) {
    out.push_back(o->param);
    if (o->prologue)
      for (const Inst& i : o->prologue->insts) out.push_back(i.param);
  }
  return out;
}

const LoopVar* lane_of(const LoopKernel& k) {
  if (k.lanes == LaneAxis::none) return nullptr;
  const auto& vars = k.lanes == LaneAxis::inner ? k.inner : k.outer;
  return vars.empty() ? nullptr : &vars.back();
}

Exprs moved_last(Exprs e, size_t dim) {
  std::rotate(e.begin() + static_cast<long>(dim), e.begin() + static_cast<long>(dim) + 1, e.end());
  return e;
}

/// One parameter of a kernel and where its loads would be in a copy.
class Moved {
 public:
  Moved(const std::vector<LoopKernel*>& code, ParamId p, const FusionRules& rules) : code_(code), p_(p), rules_(rules) {}

  /// The dim that lanes step along, where that dim last serves all loads.
  std::optional<size_t> dim() {
    for (LoopKernel* k : code_)
      for (const Inst& i : k->insts)
        if (i.param == p_ && !count(*k, i)) return std::nullopt;
    if (!step_) return std::nullopt;
    const int64_t bytes = std::abs(step_->as_const().value_or(0)) * dtype_bytes(code_[0]->params[p_].dtype);
    if (points_ < (bytes >= kFarBytes ? rules_.reread_far : rules_.reread) * std::max<int64_t>(1, elems_)) return std::nullopt;
    const Exprs dims = code_[0]->params[p_].dims;
    for (size_t d = 0; d + 1 < dims.size(); ++d) {
      const Exprs after(dims.begin() + static_cast<long>(d) + 1, dims.end());
      if (dims[d].is(1) || !code_[0]->syms.simplify(product(after) - *step_).is(0)) continue;
      return move(d) ? std::optional(d) : std::nullopt;
    }
    return std::nullopt;
  }

  void apply(size_t d) {
    for (auto& [inst, at] : moved_) inst->index = at;
    for (LoopKernel* k : code_) k->params[p_].dims = moved_last(k->params[p_].dims, d);
  }

 private:
  bool count(const LoopKernel& k, const Inst& i) {
    const LoopVar* lane = lane_of(k);
    if (i.kind != InstKind::load || !lane) return false;
    for (SymId s : i.index.symbols())
      if (k.syms[s].kind == SymKind::value) return false;  // read where an index that was loaded says
    const auto step = i.index.linear_coefficient(lane->sym);
    if (!step || step->is(1)) return false;
    if (step->is(0)) return true;
    if (k.syms.hint(lane->extent) < kLeastLanes || (step_ && !k.syms.simplify(*step - *step_).is(0))) return false;
    step_ = *step;
    std::vector<SymId> inner;
    for (const LoopVar& v : k.inner) inner.push_back(v.sym);
    const bool per_row = k.lanes == LaneAxis::outer && !depends_on_any({i.index}, inner);
    points_ += k.syms.hint(per_row ? k.outer_points() : k.outer_points() * k.inner_points());
    elems_ = k.syms.hint(product(k.params[p_].dims));
    return true;
  }

  bool move(size_t d) {
    moved_.clear();
    for (LoopKernel* k : code_)
      for (size_t n = 0; n < k->insts.size(); ++n) {
        Inst& i = k->insts[static_cast<InstId>(n)];
        if (i.param != p_) continue;
        const Exprs dims = k->params[p_].dims;
        const Expr at = linearise(moved_last(dims, d), moved_last(delinearise(i.index, dims, k->syms), d), k->syms);
        const auto step = at.linear_coefficient(lane_of(*k)->sym);
        if (!step || (!step->is(0) && !step->is(1))) return false;
        moved_.emplace_back(&i, at);
      }
    return true;
  }

  const std::vector<LoopKernel*>& code_;
  ParamId p_;
  const FusionRules& rules_;
  std::optional<Expr> step_;
  int64_t points_ = 0, elems_ = 0;
  std::vector<std::pair<Inst*, Expr>> moved_;
};

IdVec<ParamId, Param>& params_of(Kernel& k) {
  return std::visit([](auto& kernel) -> IdVec<ParamId, Param>& { return kernel.params; }, k);
}

}  // namespace

std::vector<LaneCopy> LaneOrder::apply(Lowered& low) {
  std::vector<LaneCopy> made;
  const std::vector<LoopKernel*> code = code_of(low.kernel);
  if (code.empty() || rules_.reread == 0) return made;
  const std::vector<ParamId> others = others_of(low.kernel);
  IdVec<ParamId, Param>& params = params_of(low.kernel);
  size_t arg = 0;
  for (size_t n = 0; n < params.size(); ++n) {
    const ParamId p = static_cast<ParamId>(n);
    if (!takes_argument(params[p].role)) continue;
    const size_t at = arg++;
    if (params[p].role != ParamRole::input || std::find(others.begin(), others.end(), p) != others.end()) continue;
    const BufferId from = low.args[at];
    const BufferKind kind = m_.buffers[from].kind;
    if (kind != BufferKind::input && kind != BufferKind::constant && kind != BufferKind::temp && kind != BufferKind::output) continue;
    Moved moved(code, p, rules_);
    const auto d = moved.dim();
    if (!d) continue;
    moved.apply(*d);
    if (!std::holds_alternative<LoopKernel>(low.kernel)) params[p].dims = moved_last(params[p].dims, *d);
    const auto [it, fresh] = copies_.emplace(std::pair(from, *d), kNone<BufferId>);
    if (fresh) {
      Buffer b;
      b.name = m_.buffers[from].name + "_by_lanes";
      b.type = {m_.buffers[from].type.dtype, moved_last(m_.buffers[from].type.dims, *d)};
      it->second = m_.buffers.push(std::move(b));
      made.push_back(copy(from, *d, it->second));
    }
    low.args[at] = it->second;
  }
  return made;
}

LaneCopy LaneOrder::copy(BufferId from, size_t dim, BufferId to) const {
  LoopKernel k;
  k.syms = m_.syms;
  const Exprs dims = m_.buffers[from].type.dims;
  Exprs at;
  for (size_t i = 0; i < dims.size(); ++i) {
    SymInfo s;
    s.name = "i" + std::to_string(i);
    s.kind = SymKind::loop;
    s.extent = dims[i];
    if (dims[i].is(1)) {
      at.push_back(0);
      continue;
    }
    k.outer.push_back({k.syms.add(s), dims[i]});
    at.push_back(Expr::symbol(k.outer.back().sym));
  }
  const DType t = m_.buffers[from].type.dtype;
  Inst load, store;
  load.kind = InstKind::load, store.kind = InstKind::store;
  load.dtype = store.dtype = t;
  load.param = k.params.push({"x", ParamRole::input, t, dims});
  store.param = k.params.push({"out", ParamRole::output, t, m_.buffers[to].type.dims});
  load.index = linearise(dims, at, k.syms);
  store.index = linearise(m_.buffers[to].type.dims, moved_last(at, dim), k.syms);
  store.args = {k.insts.push(std::move(load))};
  k.insts.push(std::move(store));
  finish(k, m_.syms, Loops::free, rules_);
  return {{std::move(k), {from, to}}, m_.buffers[to].name};
}

}  // namespace aotc::loop
