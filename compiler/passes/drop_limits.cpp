#include "passes/passes.h"

#include "passes/rewrite.h"
#include "passes/value_range.h"

namespace aotc::passes {
namespace {

std::optional<ValueId> rule(Rewriter& r, const Node& n) {
  if (n.outputs.size() != 1 || r.dtype(n.outputs[0]) != DType::f32) return std::nullopt;
  if (n.op == Op::relu) return range_of(r.g, n.inputs[0]).lo >= 0 ? std::optional(n.inputs[0]) : std::nullopt;
  if (n.op != Op::minimum && n.op != Op::maximum) return std::nullopt;
  const auto limit = splat_value(r.g, n.inputs[1]);
  if (!limit) return std::nullopt;
  const Range x = range_of(r.g, n.inputs[0]);
  return (n.op == Op::minimum ? x.hi <= *limit : x.lo >= *limit) ? std::optional(n.inputs[0]) : std::nullopt;
}

}  // namespace

/// Limits that float32 values never reach are dropped: relu of what is not negative, minimum with what is not less; as clamps behind
/// activations and roundings leave them.
void drop_limits(Graph& g, PassContext&) { Rewriter::run(g, rule); }

}  // namespace aotc::passes
