#include "passes/passes.h"

#include <map>
#include <set>

#include "base/uarch.h"
#include "graph/pointwise.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

constexpr size_t kMostPicked = 2;  ///< values that are gathered from

class Picker {
 public:
  Picker(Rewriter& r, ValueId indices, int64_t dim, const Uarch& u) : r_(r), indices_(indices), dim_(dim), to_(r.dims(indices)), u_(u) {}

  /// Whether what is picked of v may be computed from what is picked of others.
  bool worth(ValueId v) { return seen(v) && nodes_ > 0; }

  ValueId picked(ValueId v) {
    if (const auto it = done_.find(v); it != done_.end()) return it->second;
    const Node* d = r_.g.def(v);
    if (!d || ends(*d)) return done_[v] = r_.b.gather(v, indices_, static_cast<int>(dim_));
    const Node n = *d;  // a copy: building nodes moves them
    const TensorType t{r_.dtype(v), to_};
    if (n.op == Op::full) return done_[v] = r_.b.make1(Op::full, {}, n.attrs, &t);
    if (n.op == Op::expand) return done_[v] = r_.b.expand(n.inputs[0], to_);
    std::vector<ValueId> inputs;
    for (ValueId x : n.inputs) inputs.push_back(picked(x));
    return done_[v] = r_.b.make1(n.op, std::move(inputs), n.attrs, &t);
  }

 private:
  /// An operator that what is picked does not go through: it is gathered from.
  bool ends(const Node& n) const {
    if (n.op == Op::full || is_pointwise(n.op)) return false;
    if (n.op != Op::expand) return true;
    const Exprs from = r_.dims(n.inputs[0]);
    if (from.size() != to_.size() || !from[static_cast<size_t>(dim_)].is(1)) return true;
    for (size_t d = 0; d < to_.size(); ++d)
      if (static_cast<int64_t>(d) != dim_ && !from[d].is(1) && !r_.same(from[d], to_[d])) return true;
    return false;
  }
  bool seen(ValueId v) {
    if (!visited_.insert(v).second) return true;
    const Node* n = r_.g.def(v);
    if (!n || ends(*n)) return ++picked_ <= kMostPicked;
    if (n->outputs.size() != 1) return false;
    if (!is_pointwise(n->op) || n->op == Op::full) return true;
    if (++nodes_ > u_.pick_ops) return false;
    for (ValueId x : n->inputs)
      if (!seen(x)) return false;
    return true;
  }

  Rewriter& r_;
  ValueId indices_;
  int64_t dim_;
  Exprs to_;  ///< dims of what is picked
  std::set<ValueId> visited_;
  std::map<ValueId, ValueId> done_;
  const Uarch& u_;
  int64_t nodes_ = 0;
  size_t picked_ = 0;
};

std::optional<ValueId> pick(Rewriter& r, const Node& n, const Uarch& u) {
  if (n.op != Op::gather || r.uses(n.inputs[0]) != 1) return std::nullopt;
  const ValueId x = n.inputs[0];
  if (r.g.syms.hint(product(r.dims(x))) < u.pick_fewer * r.g.syms.hint(product(r.dims(n.outputs[0])))) return std::nullopt;
  Picker p(r, n.inputs[1], n.get<int64_t>(Attr::dim), u);
  if (!p.worth(x)) return std::nullopt;
  return p.picked(x);
}

}  // namespace

/// Where a computed value is only gathered from, few of its elements, the operands are gathered from and what was picked is computed alone:
/// the logarithms of softmax at the targets of a loss. Goes through pointwise operators, dims that are expanded stay so. Requires canonical
/// views.
void pick_first(Graph& g, PassContext& ctx) {
  Rewriter(g).sweep([&u = uarch_of(ctx.target)](Rewriter& r, const Node& n) { return pick(r, n, u); });
}

}  // namespace aotc::passes
