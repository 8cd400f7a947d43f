#include "passes/passes.h"

#include "passes/repeats.h"

namespace aotc::passes {
namespace {

using Found = std::optional<ValueId>;

Found along_whole_dims(Rewriter& r, const Node& n) {
  const ValueId a = n.inputs[0], b = n.inputs[1];
  const Exprs out = r.dims(n.outputs[0]);
  Exprs of_a = r.dims(a), of_b = r.dims(b);
  const std::vector<bool> x = repeats(r.g, a), y = repeats(r.g, b);
  bool any = false;
  for (size_t d = 0; d + 2 < out.size(); ++d) {
    if (!x[d] || !y[d]) continue;
    of_a[d] = of_b[d] = 1;
    any = true;
  }
  if (!any) return {};
  const ValueId once_a = r.b.expand(without_repeats(r, a), of_a), once_b = r.b.expand(without_repeats(r, b), of_b);
  return r.b.expand(r.b.matmul(once_a, once_b, r.dtype(n.outputs[0])), out);
}

/// Along the inner part of a batch dim, which becomes a dim of its own.
Found along_inner_parts(Rewriter& r, const Node& n) {
  const ValueId a = n.inputs[0], b = n.inputs[1];
  const Exprs out = r.dims(n.outputs[0]);
  for (int64_t d = 0; d + 2 < static_cast<int64_t>(out.size()); ++d) {
    const auto inner = inner_repeats(r.g, a, d), other = inner ? inner_repeats(r.g, b, d) : std::nullopt;
    if (!other || !r.same(*inner, *other)) continue;
    const Expr outer = r.g.syms.simplify(floordiv(out[static_cast<size_t>(d)], *inner));
    if (!r.same(outer * *inner, out[static_cast<size_t>(d)])) continue;
    const ValueId split_a = with_split(r, a, d, outer, *inner), split_b = with_split(r, b, d, outer, *inner);
    return r.b.reshape(r.b.matmul(split_a, split_b, r.dtype(n.outputs[0])), out);
  }
  return {};
}

Found once_for_all(Rewriter& r, const Node& n) {
  if (n.op != Op::matmul || r.dims(n.outputs[0]).size() < 3) return {};
  if (const Found f = along_whole_dims(r, n)) return f;
  return along_inner_parts(r, n);
}

}  // namespace

/// Products of matrices that both repeat along a batch dim (the groups of state-space layers, whose heads share them) are computed once and
/// repeated. The results are the same numbers.
void repeated_products(Graph& g, PassContext&) { Rewriter::run(g, once_for_all); }

}  // namespace aotc::passes
