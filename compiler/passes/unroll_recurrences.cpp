#include "passes/unroll_recurrences.h"

#include "base/uarch.h"
#include "decompose/rnn.h"
#include "graph/builder.h"

namespace aotc::passes {
namespace {

/// More steps make graphs that compile slowly.
constexpr int64_t kMostSteps = 64;

bool by_steps(const Graph& g, const Node& n, const Target& target) {
  const TensorType &x = g.type(n.inputs[0]), &w = g.type(n.inputs[1]);
  const std::optional<int64_t> steps = x.dims[static_cast<size_t>(n.get<int64_t>(Attr::dim))].as_const(), rows = w.dims[0].as_const(),
                               columns = w.dims[1].as_const();
  if (!steps || *steps > kMostSteps || *steps < 1 || !rows || !columns) return false;
  return *rows * *columns * (x.dtype == DType::f64 ? 8 : 4) > uarch_of(target).gpu.cluster_register_bytes;
}

}  // namespace

void unroll_recurrences(Graph& g, PassContext& ctx) {
  Builder b(g);
  const std::vector<NodeId> old = g.order;
  std::vector<std::pair<ValueId, ValueId>> replaced;
  for (NodeId id : old) {
    const Node n = g.nodes[id];  // a copy: building nodes moves them
    if (n.op != Op::recurrence || !by_steps(g, n, ctx.target)) continue;
    b.at(n.name, n.source);
    const std::vector<ValueId> out = decompose::recurrence_by_steps(b, n);
    for (size_t i = 0; i < out.size(); ++i) replaced.emplace_back(n.outputs[i], out[i]);
  }
  for (const auto& [from, to] : replaced) g.replace_all_uses(from, to);
  if (!replaced.empty()) g.compact();
}

}  // namespace aotc::passes
