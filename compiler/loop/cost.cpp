#include "loop/cost.h"

#include <algorithm>

#include "graph/pointwise.h"

namespace aotc::loop {

namespace {
constexpr int kFunction = 100;  ///< a call a lane
constexpr int kDivision = 6;    ///< the most that a vector instruction takes
constexpr int64_t kOften = 16;  ///< reads of an element that is not computed again for each

/// A view of few elements that are read many times each, such as a row's statistics: they are computed once.
bool read_often(const Graph& g, const Node& n) {
  if (n.op != Op::expand) return false;
  const auto elems = [&](ValueId v) { return g.syms.hint(g.type(v).elems()); };
  return elems(n.outputs[0]) >= kOften * std::max<int64_t>(1, elems(n.inputs[0]));
}
}  // namespace

int op_cost(Op op, DType t) {
  if (op == Op::cast && t == DType::bf16) return 6;  // a rounding without an instruction of its own
  if (op == Op::cast && t == DType::f16) return 2;
  const int cost = pointwise_info(op).cost;
  if (dtype_bytes(t) < 8) return cost;
  return cost > kDivision ? kFunction : 2 * cost;  // vectors of half the lanes, no polynomials
}

IdVec<ValueId, Estimate> estimate_costs(const Graph& g, const IdVec<ValueId, NodeId>& anchors) {
  IdVec<ValueId, Estimate> est;
  est.raw().assign(g.values.size(), Estimate{1, 1});
  for (NodeId id : g.order) {
    const Node& n = g.nodes[id];
    Estimate e;
    switch (op_class(n.op)) {
      case OpClass::nullary: e = {n.op == Op::full ? 0 : 1, 0}; break;
      case OpClass::unary:
      case OpClass::binary:
      case OpClass::ternary: e.cost = pointwise_info(n.op).cost; break;
      case OpClass::view:
        if (read_often(g, n)) {
          est[n.outputs[0]] = {std::min(1, est[n.inputs[0]].cost), 1};
          continue;
        }
        break;
      case OpClass::cat: e.cost = static_cast<int>(n.inputs.size()); break;
      case OpClass::index: e = {4, 1}; break;
      default: continue;
    }
    const size_t first = op_class(n.op) == OpClass::index ? 1 : 0;
    for (size_t i = first; i < n.inputs.size(); ++i) {
      const ValueId u = n.inputs[i];
      const bool found_stored = anchors[u] != kNone<NodeId> && anchors[n.outputs[0]] != anchors[u];
      e.cost += found_stored ? 1 : est[u].cost;
      e.loads += found_stored ? 1 : est[u].loads;
    }
    e.cost = std::min(e.cost, 10000);
    e.loads = std::min(e.loads, 10000);
    est[n.outputs[0]] = e;
  }
  return est;
}

}  // namespace aotc::loop
