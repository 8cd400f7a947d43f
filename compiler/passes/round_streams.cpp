#include "passes/passes.h"

#include <algorithm>
#include <set>

#include "base/uarch.h"
#include "graph/builder.h"

namespace aotc::passes {
namespace {

bool elementwise(Op op) { return is_pointwise(op) || is_view(op); }

class Streams {
 public:
  /// handed: what kernels hand on.
  Streams(const Graph& g, const std::vector<ValueId>& handed, const Uarch& u)
      : g_(g), users_(g.users()), handed_(handed.begin(), handed.end()), least_bytes_(u.round_least_bytes) {}

  /// Whether `v`, one of those handed on, is to be rounded.
  bool rounds(ValueId v) const {
    if (g_.type(v).dtype != DType::f32 || !g_.def(v) || g_.syms.hint(g_.type(v).bytes()) < least_bytes_) return false;
    const auto& users = users_[idx(v)];
    return std::find(users.begin(), users.end(), kNone<NodeId>) == users.end() && of_convolution(v) && !summed(v);
  }

 private:
  /// What lies between the value and the results of other kernels that it is computed from is a convolution of bf16 and its epilogue.
  bool of_convolution(ValueId start) const {
    std::set<ValueId> seen{start};
    for (std::vector<ValueId> from{start}; !from.empty();) {
      const Node* n = g_.def(from.back());
      from.pop_back();
      if (n && (n->op == Op::conv || n->op == Op::conv_transpose) && g_.type(n->inputs[0]).dtype == DType::bf16) return true;
      if (!n || !elementwise(n->op)) continue;
      for (ValueId x : n->inputs)
        if (!handed_.count(x) && seen.insert(x).second) from.push_back(x);
    }
    return false;
  }

  /// A kernel that reads the value reduces it, or what it computes of it element by element; not to an extreme, which is one of them.
  bool summed(ValueId start) const {
    std::set<ValueId> seen{start};
    for (std::vector<ValueId> from{start}; !from.empty();) {
      const ValueId v = from.back();
      from.pop_back();
      for (NodeId id : users_[idx(v)]) {
        if (id == kNone<NodeId>) continue;
        const Node& n = g_.nodes[id];
        const bool reduces = op_class(n.op) == OpClass::reduce || op_class(n.op) == OpClass::scan;
        if (reduces && !(n.op == Op::reduce && (n.reduce_kind() == ReduceKind::max || n.reduce_kind() == ReduceKind::min))) return true;
        if (elementwise(n.op) && !handed_.count(n.outputs[0]) && seen.insert(n.outputs[0]).second) from.push_back(n.outputs[0]);
      }
    }
    return false;
  }

  const Graph& g_;
  std::vector<std::vector<NodeId>> users_;
  std::set<ValueId> handed_;
  int64_t least_bytes_;
};

/// Every reader of v but the rounding itself reads the rounded number.
void round(Graph& g, Builder& b, ValueId v, const std::vector<NodeId>& users) {
  const auto rounds = [&](const Node& n) { return n.op == Op::cast && g.type(n.outputs[0]).dtype == DType::bf16; };
  b.at(g.def(v)->name, g.def(v)->source);
  const ValueId narrow = b.cast(v, DType::bf16), wide = b.cast(narrow, DType::f32);
  for (NodeId id : users) {
    if (rounds(g.nodes[id])) {
      g.replace_all_uses(g.nodes[id].outputs[0], narrow);
      continue;
    }
    for (ValueId& x : g.nodes[id].inputs)
      if (x == v) x = wide;
  }
}

}  // namespace

/// What epilogues of convolutions of bf16 compute in float32 for other kernels to read (PassContext::handed_on; residual
/// streams above all) is stored as bf16: whoever reads it reads the rounded number, and arithmetic stays float32. Not what a kernel sums,
/// what stays in the nearest cache, nor what the graph gives. Changes numerics; follows `precision` and does nothing without its choice.
void round_streams(Graph& g, PassContext& ctx) {
  if (ctx.rounded_streams) ctx.rounded_streams->clear();
  if (!ctx.precision || !ctx.handed_on) return;
  const std::vector<ValueId> handed = ctx.handed_on(g);
  const Streams streams(g, handed, uarch_of(ctx.target));
  std::vector<ValueId> rounded;
  std::copy_if(handed.begin(), handed.end(), std::back_inserter(rounded), [&](ValueId v) { return streams.rounds(v); });
  const std::vector<std::vector<NodeId>> users = g.users();
  Builder b(g);
  for (ValueId v : rounded) {
    if (ctx.rounded_streams) ctx.rounded_streams->push_back({g.def(v)->name, g.syms.hint(g.type(v).elems()) * 2});
    round(g, b, v, users[idx(v)]);
  }
  if (!rounded.empty()) g.compact();
}

}  // namespace aotc::passes
