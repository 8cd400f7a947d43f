#include "passes/passes.h"

#include <algorithm>

#include "passes/repeats.h"

namespace aotc::passes {
namespace {

constexpr int kMostOps = 16;  ///< pointwise ops and views between an operand and what is read for it

/// Dims whose size is not 1: what follows counts those alone.
Ints long_dims(const Exprs& dims) {
  Ints out;
  for (size_t d = 0; d < dims.size(); ++d)
    if (!dims[d].is(1)) out.push_back(static_cast<int64_t>(d));
  return out;
}
int64_t place_in(const Ints& in, int64_t x) {
  const auto at = std::find(in.begin(), in.end(), x);
  return at == in.end() ? -1 : at - in.begin();
}

/// The dim of v along which elements are neighbours in memory where what v shows is stored as it is computed; -1 where that is unknown.
int64_t dense_dim(const Rewriter& r, ValueId v, int depth = 0) {
  const Node* n = r.g.def(v);
  const Ints dims = long_dims(r.dims(v));
  const int64_t last = dims.empty() ? -1 : dims.back();
  if (!n || depth > kMostOps || (!is_view(n->op) && n->op != Op::cast)) return last;
  const ValueId x = n->inputs[0];
  const int64_t inner = dense_dim(r, x, depth + 1);
  if (n->op == Op::permute) return place_in(n->get<Ints>(Attr::perm), inner);
  if (n->op != Op::reshape) return n->op == Op::expand || n->op == Op::slice || n->op == Op::cast ? inner : -1;
  const Ints from = long_dims(r.dims(x));
  if (!from.empty() && inner == from.back()) return last;
  const int64_t at = place_in(from, inner);
  if (at < 0 || from.size() != dims.size()) return -1;
  for (size_t i = 0; i < from.size(); ++i)
    if (!r.same(r.dims(x)[static_cast<size_t>(from[i])], r.dims(v)[static_cast<size_t>(dims[i])])) return -1;
  return dims[static_cast<size_t>(at)];
}

/// An operand, and what it is computed from by views that move dims and by pointwise ops that nothing else reads. An order says which dim
/// of a value stands at each place of the operand.
class OrderedOperand {
 public:
  OrderedOperand(Rewriter& r, ValueId operand) : r_(r), operand_(operand) {}

  bool pays() {
    const Ints dims = long_dims(r_.dims(operand_));
    Ints order;
    for (size_t i = 0; i < dims.size(); ++i) order.push_back(static_cast<int64_t>(i));
    ValueId v = operand_;
    for (int depth = 0; auto below = beneath(v, order, depth); ++depth) v = below->value, order = below->order;
    if (order.empty() || !computed_here(v, 0)) return false;
    const auto at = place_in(order, static_cast<int64_t>(order.size()) - 1);                                // of the dim that lies last
    if (dims[static_cast<size_t>(at)] + 2 >= static_cast<int64_t>(r_.dims(operand_).size())) return false;  // one of the matrices'
    count(v, {static_cast<int64_t>(order.size()) - 1, order.back()}, 0);
    return in_order_then_ > in_order_now_;
  }

  ValueId reordered() {
    Ints order;
    for (size_t i = 0; i < long_dims(r_.dims(operand_)).size(); ++i) order.push_back(static_cast<int64_t>(i));
    return r_.b.reshape(ordered(operand_, order, 0), r_.dims(operand_));
  }

 private:
  struct Beneath {
    ValueId value;
    Ints order;
  };
  /// What a permute or a reshape that adds or removes dims of size 1 reads.
  std::optional<Beneath> beneath(ValueId v, const Ints& order, int depth) const {
    const Node* n = r_.g.def(v);
    if (!n || depth > kMostOps || r_.uses(v) != 1) return {};
    const ValueId x = n->op == Op::permute || n->op == Op::reshape ? n->inputs[0] : kNone<ValueId>;
    if (x == kNone<ValueId>) return {};
    const Ints from = long_dims(r_.dims(x)), to = long_dims(r_.dims(v));
    if (n->op == Op::reshape) {
      if (from.size() != to.size()) return {};
      for (size_t i = 0; i < to.size(); ++i)
        if (!r_.same(r_.dims(x)[static_cast<size_t>(from[i])], r_.dims(v)[static_cast<size_t>(to[i])])) return {};
      return Beneath{x, order};
    }
    const Ints& perm = n->get<Ints>(Attr::perm);
    Ints moved;
    for (const int64_t o : order) moved.push_back(place_in(from, perm[static_cast<size_t>(to[static_cast<size_t>(o)])]));
    return Beneath{x, moved};
  }
  bool computed_here(ValueId v, int depth) const {
    const Node* n = r_.g.def(v);
    return n && is_pointwise(n->op) && r_.uses(v) == 1 && depth < kMostOps;
  }

  /// Adds up what is read for v and lies in memory along one of two dims of v, the last ones of now and of the operand.
  void count(ValueId v, const Ints& lasts, int depth) {
    if (computed_here(v, depth)) {
      for (const ValueId u : r_.g.def(v)->inputs) count(u, lasts, depth + 1);
      return;
    }
    if (const auto below = beneath(v, lasts, depth)) return count(below->value, below->order, depth + 1);
    const int64_t dense = dense_dim(r_, v);
    if (dense < 0) return;
    const std::vector<bool> same = repeats(r_.g, v);
    if (same[static_cast<size_t>(dense)]) return;
    int64_t elems = 1;
    for (size_t d = 0; d < same.size(); ++d)
      if (!same[d]) elems *= r_.g.syms.hint(r_.g.type(v).dims[d]);
    const int64_t at = place_in(long_dims(r_.dims(v)), dense);
    if (at == lasts[0]) in_order_now_ += elems;
    if (at == lasts[1]) in_order_then_ += elems;
  }

  /// v's long dims in the order.
  ValueId ordered(ValueId v, const Ints& order, int depth) {
    if (computed_here(v, depth)) {
      const Node n = *r_.g.def(v);
      std::vector<ValueId> inputs;
      for (const ValueId u : n.inputs) inputs.push_back(ordered(u, order, depth + 1));
      const TensorType type{r_.dtype(v), r_.dims(inputs[0])};
      return r_.b.make1(n.op, std::move(inputs), n.attrs, &type);
    }
    if (const auto below = beneath(v, order, depth)) return ordered(below->value, below->order, depth + 1);
    const Exprs dims = r_.dims(v);
    const ValueId small = without_repeats(r_, v);
    Exprs few, all;
    for (const int64_t d : long_dims(dims)) few.push_back(r_.dims(small)[static_cast<size_t>(d)]);
    for (const int64_t o : order) all.push_back(dims[static_cast<size_t>(long_dims(dims)[static_cast<size_t>(o)])]);
    return r_.b.expand(r_.b.permute(r_.b.reshape(small, few), order), all);
  }

  Rewriter& r_;
  ValueId operand_;
  int64_t in_order_now_ = 0, in_order_then_ = 0;  ///< elements
};

std::optional<ValueId> operand_in_order(Rewriter& r, ValueId v) {
  OrderedOperand operand(r, v);
  return operand.pays() ? std::optional(operand.reordered()) : std::nullopt;
}

std::optional<ValueId> in_products_order(Rewriter& r, const Node& n) {
  if (n.op != Op::matmul) return {};
  const auto a = operand_in_order(r, n.inputs[0]), b = operand_in_order(r, n.inputs[1]);
  if (!a && !b) return {};
  return r.b.matmul(a.value_or(n.inputs[0]), b.value_or(n.inputs[1]), r.dtype(n.outputs[0]));
}

}  // namespace

/// Operands of products that are computed in another order than they are multiplied in, so that batches would lie side by side in memory
/// (masks and decays of state-space layers, written with their heads last): what pointwise ops compute is computed in the product's order,
/// where more of what they read lies so. Requires canonical views.
void operands_in_order(Graph& g, PassContext&) { Rewriter(g).sweep(in_products_order); }

}  // namespace aotc::passes
