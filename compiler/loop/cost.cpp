#include "loop/cost.h"

#include <algorithm>

namespace aotc::loop {

int op_cost(Op op) {
  switch (op) {
    case Op::cast:
    case Op::bitcast:
    case Op::neg:
    case Op::abs:
    case Op::relu:
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::minimum:
    case Op::maximum:
    case Op::eq:
    case Op::ne:
    case Op::lt:
    case Op::le:
    case Op::gt:
    case Op::ge:
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
    case Op::where:
    case Op::logical_not:
    case Op::bitwise_not:
    case Op::shl:
    case Op::shr:
    case Op::isnan:
    case Op::isinf:
    case Op::sign:
    case Op::copysign: return 1;
    case Op::ceil:
    case Op::floor:
    case Op::round:
    case Op::trunc: return 2;
    case Op::div:
    case Op::sqrt:
    case Op::rsqrt:
    case Op::reciprocal: return 4;
    case Op::sigmoid:
    case Op::tanh:
    case Op::exp:
    case Op::exp2: return 12;
    default: return 20;
  }
}

IdVec<ValueId, Estimate> estimate_costs(const Graph& g) {
  IdVec<ValueId, Estimate> est;
  est.raw().assign(g.values.size(), Estimate{1, 1});
  for (NodeId id : g.order) {
    const Node& n = g.nodes[id];
    Estimate e;
    switch (op_class(n.op)) {
      case OpClass::nullary: e = {n.op == Op::full ? 0 : 1, 0}; break;
      case OpClass::unary:
      case OpClass::binary:
      case OpClass::ternary: e.cost = op_cost(n.op); break;
      case OpClass::view: break;
      case OpClass::cat: e.cost = static_cast<int>(n.inputs.size()); break;
      case OpClass::index: e = {4, 1}; break;
      default: continue;
    }
    const size_t first = op_class(n.op) == OpClass::index ? 1 : 0;
    for (size_t i = first; i < n.inputs.size(); ++i) {
      e.cost += est[n.inputs[i]].cost;
      e.loads += est[n.inputs[i]].loads;
    }
    e.cost = std::min(e.cost, 10000);
    e.loads = std::min(e.loads, 10000);
    est[n.outputs[0]] = e;
  }
  return est;
}

}  // namespace aotc::loop
