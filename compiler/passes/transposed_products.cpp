#include "passes/passes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "aotc/detail/library_abi.h"
#include "graph/builder.h"
#include "graph/constant_store.h"
#include "graph/infer.h"
#include "passes/rewrite.h"
#include "passes/seen_weight.h"

namespace aotc::passes {
namespace {

/// 0, 1, .. with the last two swapped.
Ints last_two_swapped(size_t rank) {
  Ints perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[rank - 2], perm[rank - 1]);
  return perm;
}

class Turner {
 public:
  Turner(Graph& g, const PassContext& ctx) : g_(g), ctx_(ctx), b_(g) {}

  void run() {
    users_ = g_.users();
    const std::vector<NodeId> order = g_.order;
    for (size_t i = 0; i < order.size(); ++i)
      if (!done_.count(order[i]) && begins(g_.nodes[order[i]]) && follows(order, i)) turn();
    g_.compact();
  }

 private:
  bool transposes(const Node& n) const {
    return n.op == Op::permute && g_.type(n.outputs[0]).rank() >= 2 &&
           n.get<Ints>(Attr::perm) == last_two_swapped(static_cast<size_t>(g_.type(n.outputs[0]).rank()));
  }

  /// A weight [k, n], which may be seen through a permute, or no value.
  std::optional<ValueId> weight_of(ValueId v) const {
    if (g_.type(v).rank() != 2) return {};
    const std::optional<SeenWeight> weight = seen_weight(g_, v);
    if (!weight || ctx_.rounded_weights.find(g_.constants[weight->constant])) return {};
    return v;
  }

  /// Whether n multiplies the rows of a transposed tensor, which lies as it is shown, by a weight. Sets images_ and what is ahead of the
  /// columns.
  bool begins(const Node& n) {
    if (n.dead || n.op != Op::matmul || !weight_of(n.inputs[1])) return false;
    if (!is_float(g_.type(n.outputs[0]).dtype)) return false;
    const Node* p = g_.def(n.inputs[0]);
    if (p && p->op == Op::reshape && g_.type(n.inputs[0]).rank() == 2) p = g_.def(p->inputs[0]);
    if (!p || !transposes(*p)) return false;
    const Exprs seen = g_.type(p->outputs[0]).dims;
    // Rows become columns: fewer than a panel's leave tiles without work.
    if (!same_dims(g_, {seen.back()}, {g_.type(n.inputs[0]).dims.back()}) || g_.syms.hint(seen[seen.size() - 2]) < AOTC_PANEL_N)
      return false;
    images_ = p->inputs[0];
    for (const Node* d = g_.def(images_); d && is_view(d->op); d = g_.def(d->inputs[0]))
      if (d->op != Op::slice && d->op != Op::reshape) return false;
    ahead_.assign(seen.begin(), seen.end() - 1);
    return true;
  }

  /// [ahead.., x] or, with the rows of all images behind each other, [rows, x].
  bool in_rows(const Exprs& dims) const {
    const Exprs rows(dims.begin(), dims.end() - 1);
    return same_dims(g_, rows, ahead_) || (rows.size() == 1 && same_dims(g_, rows, {g_.syms.simplify(product(ahead_))}));
  }

  /// An operand that is the same for all rows.
  bool constant_of_columns(ValueId v) const {
    if (!is_float(g_.type(v).dtype)) return false;
    if (splat_value(g_, v)) return true;
    const std::optional<ValueId> c = columns_of(v);
    return c.has_value();
  }
  /// The constant of which v has a copy in each row.
  std::optional<ValueId> columns_of(ValueId v) const {
    const Node* e = g_.def(v);
    if (!e || e->op != Op::expand) return {};
    const ValueId c = e->inputs[0];
    const Exprs& dims = g_.type(c).dims;
    if (dims.empty() || !same_dims(g_, {dims.back()}, {g_.type(v).dims.back()})) return {};
    if (!std::all_of(dims.begin(), dims.end() - 1, [](const Expr& d) { return d.is(1); })) return {};
    ValueId root = c;
    for (const Node* d = g_.def(root); d && d->op == Op::reshape; d = g_.def(root)) root = d->inputs[0];
    return g_.values[root].kind == ValueKind::constant ? std::optional(c) : std::nullopt;
  }

  /// Collects in nodes_ what is computed of the product at order[begin] until it is transposed back; false where any of it is used
  /// otherwise.
  bool follows(const std::vector<NodeId>& order, size_t begin) {
    nodes_ = {order[begin]}, in_.clear();
    in_.insert(g_.nodes[order[begin]].outputs[0]);
    size_t back = 0, open = users_[idx(*in_.begin())].size();
    for (size_t i = begin + 1; i < order.size() && open > 0; ++i) {
      const Node& n = g_.nodes[order[i]];
      const auto uses = static_cast<size_t>(std::count_if(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return in_.count(v) > 0; }));
      if (n.dead || uses == 0) continue;
      if (transposes(n) && same_dims(g_, Exprs(g_.type(n.inputs[0]).dims.begin(), g_.type(n.inputs[0]).dims.end() - 1), ahead_)) {
        ++back;
      } else if (turns(n)) {
        in_.insert(n.outputs[0]);
        open += users_[idx(n.outputs[0])].size();
      } else {
        return false;
      }
      nodes_.push_back(order[i]);
      open -= uses;
    }
    return back > 0 && open == 0;
  }
  bool turns(const Node& n) const {
    if (n.outputs.size() != 1 || !in_rows(g_.type(n.outputs[0]).dims)) return false;
    if (n.op == Op::reshape) return same_dims(g_, {g_.type(n.inputs[0]).dims.back()}, {g_.type(n.outputs[0]).dims.back()});
    if (n.op == Op::matmul) return in_.count(n.inputs[0]) && weight_of(n.inputs[1]);
    return is_pointwise(n.op) &&
           std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return in_.count(v) || constant_of_columns(v); });
  }

  /// [ahead.. but the rows, x, rows] of an old value [.., x].
  Exprs turned_dims(ValueId v) const {
    Exprs dims(ahead_.begin(), ahead_.end() - 1);
    dims.push_back(g_.type(v).dims.back()), dims.push_back(ahead_.back());
    return dims;
  }
  ValueId turned_constant(ValueId v) {
    const Exprs dims = turned_dims(v);
    if (const auto s = splat_value(g_, v)) return b_.full({g_.type(v).dtype, dims}, *s);
    Exprs column(dims.size(), Expr(1));
    column[dims.size() - 2] = dims[dims.size() - 2];
    return b_.expand(b_.reshape(*columns_of(v), column), dims);
  }
  ValueId turned_product(const Node& n, ValueId right) {
    ValueId left = b_.permute(n.inputs[1], {1, 0});
    Exprs dims(ahead_.begin(), ahead_.end() - 1);
    for (const Expr& d : Exprs(g_.type(left).dims)) dims.push_back(d);
    return b_.matmul(b_.expand(left, dims), right, g_.type(n.outputs[0]).dtype);
  }

  void turn() {
    std::map<ValueId, ValueId> turned;
    for (const NodeId id : nodes_) {
      const Node n = g_.nodes[id];
      done_.insert(id);
      b_.at(n.name, n.source);
      const ValueId out = n.outputs[0];
      if (id == nodes_.front()) {
        turned[out] = turned_product(n, images_);
      } else if (n.op == Op::permute) {
        g_.replace_all_uses(out, turned.at(n.inputs[0]));
      } else if (n.op == Op::reshape) {
        turned[out] = turned.at(n.inputs[0]);
      } else if (n.op == Op::matmul) {
        turned[out] = turned_product(n, turned.at(n.inputs[0]));
      } else {
        std::vector<ValueId> inputs;
        for (const ValueId v : n.inputs) inputs.push_back(in_.count(v) ? turned.at(v) : turned_constant(v));
        const TensorType type{g_.type(out).dtype, turned_dims(out)};
        turned[out] = b_.make1(n.op, std::move(inputs), n.attrs, &type);
      }
    }
  }

  Graph& g_;
  const PassContext& ctx_;
  Builder b_;
  std::vector<std::vector<NodeId>> users_;
  std::set<NodeId> done_;
  ValueId images_ = kNone<ValueId>;  ///< [ahead.. but the rows, k, rows]
  Exprs ahead_;                      ///< of the rows' tensor: all dims but the last
  std::vector<NodeId> nodes_;
  std::set<ValueId> in_;
};

}  // namespace

/// Products of weights with rows that are columns in memory, whose results are transposed back (mixers of tokens, gates along positions,
/// forecasts): (v^T w)^T is w^T v, in which nothing lies across. What is between two of them, or a product and the way back, is computed on
/// the other side, too: functions of each element with constants along the columns. CPUs; sums in the order of before.
void transposed_products(Graph& g, PassContext& ctx) { Turner(g, ctx).run(); }

}  // namespace aotc::passes
