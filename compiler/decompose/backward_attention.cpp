// Gradients of scaled dot product attention. The probabilities are computed again from queries and keys; five matrix products and a
// softmax.
#include <limits>

#include "decompose/attention.h"
#include "decompose/families.h"
#include "decompose/linalg.h"

namespace aotc::decompose {
namespace {

T transposed(const T& x) { return {x.b(), x.b().transpose(x, x.rank() - 2, x.rank() - 1)}; }

/// [B, H, L, X] → [B, Hkv, H / Hkv * L, X]: queries that share keys are rows of one matrix.
T by_keys(const T& x, const T& k) {
  return k.b().syms().proves_eq(x.dim(1), k.dim(1)) ? x
                                                    : x.reshape({x.dim(0), k.dim(1), floordiv(x.dim(1), k.dim(1)) * x.dim(2), x.dim(3)});
}

std::optional<T> bias_of(Rule& r) {
  for (const std::string_view name : {"attn_mask", "attn_bias"})
    if (r.has(name) && !r.none(name)) return tensor(r, name);
  return std::nullopt;
}

/// Softmax over the last dim; a row that attends nowhere is zero.
T probabilities(const T& s) {
  const Ints d = {s.rank() - 1};
  const T top = s.reduce(ReduceKind::max, d, true);
  const T none = top == -std::numeric_limits<double>::infinity();
  const T e = exp(s - where(none, 0.0, top));
  return where(none, 0.0, e / e.sum(d, true));
}

void attention(Rule& r) {
  const T q0 = tensor(r, "query"), k = tensor(r, "key"), v = tensor(r, "value"), out0 = tensor(r, "out");
  const T g0 = tensor(r, r.has("grad_out") ? "grad_out" : "grad_out_");
  if (r.number_or("dropout_p", 0.0) != 0.0) r.refuse("attention with dropout is random", "export with dropout_p=0");
  const std::optional<T> bias = bias_of(r);
  const auto set = [&](size_t i, const T& x, std::vector<Expr> dims) {
    if (r.wants(i)) r.set(i, x.to(r.meta_result(i).dtype).reshape(std::move(dims)));
  };
  if (r.b.type(q0).elems().is(0) || r.b.type(k).elems().is(0)) {
    for (size_t i = 0; i < 4; ++i)
      if (r.wants(i)) r.set(i, full(r.b, r.meta_result(i).dtype, r.meta_result(i).dims, 0.0));
    return;
  }
  const DType t = q0.dtype(), sums = product_type(t);
  const AttentionScale scale = attention_scale(r, q0);
  const T q = by_keys(q0, k), g = by_keys(g0, k), out = by_keys(out0, k);
  const T scores = T(r.b, r.b.matmul(q, transposed(k), sums)) * scale;
  const std::vector<Expr> whole = {q0.dim(0), q0.dim(1), q0.dim(2), k.dim(2)};
  T s = scores.reshape(whole);
  if (bias) s = is_bool(bias->dtype()) ? where(*bias, s, -std::numeric_limits<double>::infinity()) : s + bias->to(sums);
  if (r.boolean_or("is_causal", false)) {
    const T row = iota(r.b, {q0.dim(2), 1}, 0), column = iota(r.b, {1, k.dim(2)}, 1);
    s = where(column <= row, s, -std::numeric_limits<double>::infinity());
  }
  const T p = probabilities(s).reshape(scores.dims());
  const T dp(r.b, r.b.matmul(g, transposed(v), sums));
  const T dot = (g.to(sums) * out.to(sums)).sum({g.rank() - 1}, true);
  const T ds = p * (dp - dot);  // the gradient of the scores with their bias
  set(0, T(r.b, r.b.matmul(ds.to(t), k, sums)) * scale, q0.dims());
  set(1, T(r.b, r.b.matmul(transposed(ds.to(t)), q, sums)) * scale, k.dims());
  set(2, T(r.b, r.b.matmul(transposed(p.to(t)), g, sums)), v.dims());
  if (!r.wants(3) || !bias) return;
  // Dims that the bias was repeated over are summed.
  T db = ds.reshape(whole);
  const int lead = 4 - bias->rank();
  Ints over;
  for (int i = 0; i < 4; ++i)
    if (i < lead || (bias->dim(i - lead).is(1) && !whole[static_cast<size_t>(i)].is(1))) over.push_back(i);
  set(3, db.sum(over, true), bias->dims());
}

constexpr RuleRow kRows[] = {
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default aten._scaled_dot_product_flash_attention_backward.default "
     "aten._scaled_dot_product_efficient_attention_backward.default aten._scaled_dot_product_cudnn_attention_backward.default "
     "aten._scaled_dot_product_fused_attention_overrideable_backward.default",
     attention},
};
}  // namespace

RuleTable backward_attention_rules() { return kRows; }

}  // namespace aotc::decompose
