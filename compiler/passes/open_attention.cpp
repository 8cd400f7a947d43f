#include "passes/passes.h"

#include <limits>

#include "base/uarch.h"
#include "graph/infer.h"
#include "graph/scalar.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

/// Softmax over the last dim, of which each row may have one more element (sinks), whose weight is left out; rows of minus infinities are
/// zeros, or NaN where `nan_rows`.
ValueId softmax(Builder& b, ValueId x, const Exprs& dims, std::optional<ValueId> sinks, bool nan_rows) {
  const int64_t last = static_cast<int64_t>(dims.size()) - 1;
  Exprs column = dims;
  column.back() = 1;
  if (sinks) sinks = b.expand(*sinks, column);
  ValueId highest = b.reduce_keep(ReduceKind::max, x, {last});
  if (sinks) highest = b.binary(Op::maximum, highest, *sinks);
  const ValueId top = b.expand(highest, dims);
  const ValueId e = b.unary(Op::exp, b.binary(Op::sub, x, top));
  ValueId sum = b.reduce_keep(ReduceKind::sum, e, {last});
  if (sinks) sum = b.binary(Op::add, sum, b.unary(Op::exp, b.binary(Op::sub, *sinks, highest)));
  const ValueId y = b.binary(Op::div, e, b.expand(sum, dims));
  if (nan_rows) return y;
  const ValueId nowhere = b.binary(Op::eq, top, b.like(top, -std::numeric_limits<double>::infinity()));
  return b.where(nowhere, b.like(y, 0), y);
}

std::optional<ValueId> opened(Rewriter& r, const PassContext& ctx, const Node& node) {
  if (node.op != Op::attention) return std::nullopt;
  const Node n = node;  // building moves nodes
  Builder& b = r.b;
  const ValueId q = n.inputs[0], k = n.inputs[1], v = n.inputs[2];
  const DType t = r.dtype(q);
  const Exprs rows = r.dims(q), columns = r.dims(k);
  if (t != DType::f32 || r.dtype(k) != t || n.get<bool>(Attr::causal) || !r.same(rows[1], columns[1])) return std::nullopt;
  const Exprs dims = {rows[0], rows[1], rows[2], columns[2]};
  const int64_t bytes = r.g.syms.hint(product(dims)) * dtype_bytes(t);
  const GpuCosts& u = uarch_of(ctx.target).gpu;
  if (bytes > u.scores_most_bytes || r.g.syms.interval(columns[2]).min < 1) return std::nullopt;
  ValueId s = b.matmul(q, b.transpose(k, -1, -2), t);
  double apart = u.scores_steps +
                 4 * static_cast<double>(bytes) / (bytes > u.scores_cached ? u.scores_memory_bytes : u.scores_cache_bytes) +
                 ctx.contraction_ns(r.g, *r.g.def(s), t);
  s = b.binary_scalar(Op::mul, s, n.get<double>(Attr::scale));
  const AttentionInputs in = attention_inputs(r.g, n);
  if (in.mask) {
    const ValueId mask = b.expand(n.inputs[in.mask], dims);
    if (is_bool(r.dtype(mask))) {
      s = b.where(mask, s, b.like(s, -std::numeric_limits<double>::infinity()));
    } else {
      const ValueId by = b.cast(mask, t), sum = b.binary(Op::add, s, by);
      s = n.get_or<bool>(Attr::mask_fills, false) ? b.where(b.binary_scalar(Op::le, by, kHiddenScore), by, sum) : sum;
    }
  }
  const std::optional<ValueId> sinks = in.sinks ? std::optional(n.inputs[in.sinks]) : std::nullopt;
  const ValueId y = b.matmul(softmax(b, s, dims, sinks, n.get<bool>(Attr::nan_rows)), v, t);
  apart += ctx.contraction_ns(r.g, *r.g.def(y), t);
  return apart < u.scores_sure * ctx.contraction_ns(r.g, n, t) ? std::optional(y) : std::nullopt;
}

}  // namespace

/// Attention of float32 becomes two products and what lies between them on GPUs, where these should take less: the products' kernels are
/// those of the tensor cores of the newest kind, attention's of that accuracy are not. Asks PassContext::contraction_ns.
void open_attention(Graph& g, PassContext& ctx) {
  if (!ctx.contraction_ns) return;
  Rewriter(g).sweep([&ctx](Rewriter& r, const Node& n) { return opened(r, ctx, n); });
}

}  // namespace aotc::passes
