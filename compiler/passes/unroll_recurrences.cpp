#include "passes/passes.h"

#include "base/uarch.h"
#include "decompose/rnn.h"
#include "passes/rewrite.h"

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

/// On GPUs, recurrent layers of a known number of steps whose weights are too many for the registers of a cluster become their steps:
/// products that the whole GPU computes, each with its cell. The state is rounded to its type at each step.
void unroll_recurrences(Graph& g, PassContext& ctx) {
  Rewriter(g).sweep_results([&](Rewriter& r, const Node& n) -> std::optional<std::vector<ValueId>> {
    if (n.op != Op::recurrence || !by_steps(g, n, ctx.target)) return std::nullopt;
    return decompose::recurrence_by_steps(r.b, n);
  });
}

}  // namespace aotc::passes
