#include "passes/spread_groups.h"

#include <numeric>

#include "graph/builder.h"
#include "graph/infer.h"

namespace aotc::passes {
namespace {

class Spreader {
 public:
  Spreader(Graph& g, const std::function<bool(NodeId)>& which) : g_(g), b_(g), which_(which) {}

  std::vector<GroupRows> run() {
    const std::vector<NodeId> old = std::move(g_.order);
    g_.order.clear();
    for (NodeId id : old) {
      const Node n = g_.nodes[id];  // a copy: building nodes moves them
      b_.at(n.name, n.source);
      if (n.outputs.size() == 1 && (begins(id, n) || carries(n))) continue;
      std::vector<ValueId> inputs;
      for (ValueId v : n.inputs) inputs.push_back(plain(v));
      g_.nodes[id].inputs = std::move(inputs);
      g_.order.push_back(id);
    }
    for (OutputInfo& o : g_.outputs) o.value = plain(o.value);
    for (StateInfo& s : g_.states)
      if (s.updated != kNone<ValueId>) s.updated = plain(s.updated);
    return std::move(found_);
  }

 private:
  bool same(const Expr& a, const Expr& b) const { return holds(g_, ShapeGuard::Kind::eq, a, b); }
  Exprs dims(ValueId v) const { return g_.type(v).dims; }

  /// What stands for a value of rows of groups: one a pixel of each channel, or where `column` one a channel, alike within a group.
  struct ByChannel {
    ValueId v;
    Exprs dims;  ///< of the channels with their pixels
    bool column = false;
  };

  bool begins(NodeId id, const Node& n) {
    if (n.op != Op::reshape || !which_(id)) return false;
    const ValueId x = plain(n.inputs[0]);
    const Exprs from = dims(x), to = dims(n.outputs[0]);
    if (from.size() < 4 || to.size() != 3 || !same(from[0], to[0]) || same(from[1], to[1])) return false;
    if (!holds(g_, ShapeGuard::Kind::le, 1, to[1]) || !holds(g_, ShapeGuard::Kind::divisible, from[1], to[1])) return false;
    if (!same(to[2], floordiv(from[1], to[1]) * product(Exprs(from.begin() + 2, from.end())))) return false;
    found_.push_back({id, x});
    by_channel_[n.outputs[0]] = {x, from};
    return true;
  }

  bool carries(const Node& n) {
    const ValueId out = n.outputs[0];
    if (is_pointwise(n.op)) return pointwise(n);
    if (n.op != Op::reshape && n.op != Op::reduce && n.op != Op::expand) return false;
    const auto it = by_channel_.find(n.inputs[0]);
    if (it == by_channel_.end()) return false;
    const ByChannel x = it->second;
    if (n.op == Op::reduce) return !x.column && reduced(n, x);
    const Exprs from = dims(n.inputs[0]), to = dims(out);
    if (!x.column) {
      if (n.op == Op::expand || !same_dims(g_, to, x.dims)) return false;
      instead_[out] = x.v;
      return true;
    }
    // [N, G] and [N, G, 1] are the same column; a column for every element of the rows
    if (to.size() != 3 || !same(to[0], from[0]) || !same(to[1], from[1])) return false;
    if (n.op == Op::reshape)
      by_channel_[out] = x;
    else if (from.size() == 3 && same(to[2], floordiv(product(x.dims), to[0] * to[1])))
      by_channel_[out] = {b_.expand(x.v, x.dims), x.dims};
    else
      return false;
    return true;
  }

  /// The one value that all elements of v have (an expanded number: how many are summed, where that is a size), or none.
  ValueId number_of(ValueId v) {
    for (const Node* d = g_.def(v); d && !g_.type(v).elems().is(1); d = g_.def(v)) {
      if (d->op != Op::expand && d->op != Op::reshape) return kNone<ValueId>;
      v = d->inputs[0];
    }
    return g_.type(v).elems().is(1) && !by_channel_.count(v) ? plain(v) : kNone<ValueId>;
  }

  bool pointwise(const Node& n) {
    const ByChannel* first = nullptr;
    for (ValueId v : n.inputs)
      if (const auto it = by_channel_.find(v); it != by_channel_.end()) first = &it->second;
    if (!first) return false;
    const ByChannel like = *first;
    const Exprs to = dims(like.v);
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) {
      const auto it = by_channel_.find(v);
      const Node* d = g_.def(v);
      if (it != by_channel_.end() && same_dims(g_, dims(it->second.v), to) && same_dims(g_, it->second.dims, like.dims)) {
        inputs.push_back(it->second.v);
      } else if (d && d->op == Op::full) {
        TensorType t = g_.type(v);
        t.dims = to;
        const std::map<Attr, AttrValue> attrs = d->attrs;
        inputs.push_back(b_.make1(Op::full, {}, attrs, &t));
      } else if (const ValueId one = it == by_channel_.end() ? number_of(v) : kNone<ValueId>; one != kNone<ValueId>) {
        inputs.push_back(b_.expand(b_.reshape(one, Exprs(to.size(), Expr(1))), to));
      } else {
        return false;
      }
    }
    TensorType t = g_.type(n.outputs[0]);
    t.dims = to;
    by_channel_[n.outputs[0]] = {b_.make1(n.op, std::move(inputs), n.attrs, &t), like.dims, like.column};
    return true;
  }

  /// The planes beyond the first spatial dim first, many sums for threads to share; last the sum of a group, once for each of its channels,
  /// so that the column is stored as it is read.
  bool reduced(const Node& n, const ByChannel& x) {
    const ReduceKind kind = n.reduce_kind();
    const bool parts = kind == ReduceKind::sum || kind == ReduceKind::prod || kind == ReduceKind::max || kind == ReduceKind::min;
    if (!parts || n.get<Ints>(Attr::dims) != Ints{2}) return false;
    const Exprs rows = dims(n.inputs[0]);
    const Expr each = floordiv(x.dims[1], rows[1]);
    Ints planes(x.dims.size() - 3);
    std::iota(planes.begin(), planes.end(), 3);
    const ValueId channels = b_.reduce(kind, b_.reduce(kind, x.v, planes), {2});
    const ValueId groups = b_.expand(b_.reshape(channels, {rows[0], rows[1], 1, each}), {rows[0], rows[1], each, each});
    Exprs column(x.dims.size(), Expr(1));
    column[0] = rows[0], column[1] = x.dims[1];
    by_channel_[n.outputs[0]] = {b_.reshape(b_.reduce(kind, groups, {3}), column), x.dims, true};
    return true;
  }

  /// The value with its own dims.
  ValueId plain(ValueId v) {
    if (const auto it = instead_.find(v); it != instead_.end()) return it->second;
    const auto it = by_channel_.find(v);
    if (it == by_channel_.end()) return v;
    const Exprs to = dims(v);
    const ByChannel x = it->second;
    if (!x.column) return instead_[v] = b_.reshape(x.v, to);
    const ValueId groups = b_.reshape(x.v, {to[0], to[1], floordiv(x.dims[1], to[1])});
    return instead_[v] = b_.reshape(b_.slice(groups, 2, 0, 1), to);
  }

  Graph& g_;
  Builder b_;
  const std::function<bool(NodeId)>& which_;
  std::vector<GroupRows> found_;
  std::map<ValueId, ByChannel> by_channel_;
  std::map<ValueId, ValueId> instead_;  ///< of values with their own dims
};

}  // namespace

std::vector<GroupRows> spread_groups(Graph& g, const std::function<bool(NodeId)>& which) { return Spreader(g, which).run(); }

}  // namespace aotc::passes
