#include "loop/loop.h"

namespace aotc::loop {

Expr LoopKernel::outer_points() const {
  Expr e = 1;
  for (const LoopVar& v : outer) e *= v.extent;
  return e;
}

Expr LoopKernel::inner_points() const {
  Expr e = 1;
  for (const LoopVar& v : inner) e *= v.extent;
  return e;
}

const std::string& kernel_name(const Kernel& k) {
  return std::visit([](const auto& x) -> const std::string& { return x.name; }, k);
}
const IdVec<ParamId, Param>& kernel_params(const Kernel& k) {
  return std::visit([](const auto& x) -> const IdVec<ParamId, Param>& { return x.params; }, k);
}
const std::vector<NodeId>& kernel_nodes(const Kernel& k) {
  return std::visit([](const auto& x) -> const std::vector<NodeId>& { return x.nodes; }, k);
}

}  // namespace aotc::loop
