// Scaled dot product attention.
#include <cmath>
#include <limits>

#include "decompose/attention.h"
#include "decompose/families.h"
#include "decompose/linalg.h"

namespace aotc::decompose {

AttentionScale attention_scale(Rule& r, const T& query) {
  if (!r.none("scale")) return {r.number("scale"), std::nullopt};
  const Expr size = query.dim(-1);
  if (size.is(0)) return {1.0, std::nullopt};  // sums of nothing: zero, not NaN by an infinite scale
  if (const auto n = size.as_const()) return {1.0 / std::sqrt(static_cast<double>(*n)), std::nullopt};
  return {1.0, 1.0 / sqrt(scalar_of(r.b, size, compute_type(query.dtype())))};
}

T operator*(const T& scores, const AttentionScale& scale) {
  return scale.computed ? scores * scale.computed->to(scores.dtype()) : scores * scale.number;
}

namespace {

std::vector<Expr> lead_of(const T& x) { return {x.dims().begin(), x.dims().end() - 2}; }

/// [lead.., L, E] → [B, H, L, E]: the last leading dim is the heads, all before it the batch.
T to_heads(const T& x, const std::vector<Expr>& lead) {
  Expr batch = 1;
  for (size_t i = 0; i + 1 < lead.size(); ++i) batch *= lead[i];
  std::vector<Expr> dims = lead;
  dims.insert(dims.end(), {x.dim(-2), x.dim(-1)});
  return x.expand(dims).reshape({batch, lead.empty() ? Expr(1) : lead.back(), x.dim(-2), x.dim(-1)});
}

/// A mask broadcastable to [lead.., L, S] → [B|1, H|1, L|1, S].
T to_mask(const T& m0, const std::vector<Expr>& lead, const Expr& s, DType t) {
  T m = is_bool(m0.dtype()) ? m0 : m0.to(t);
  while (m.rank() < 2) m = m.unsqueeze(0);
  while (m.rank() < 4) m = m.unsqueeze(0);
  if (m.rank() > 4) {
    // Several batch dims: all of them unless none differs from 1.
    bool unit = true;
    for (int i = 0; i < m.rank() - 3; ++i) unit = unit && m.dim(i).is(1);
    std::vector<Expr> dims = m.dims();
    Expr batch = 1;
    for (int i = 0; i < m.rank() - 3; ++i) {
      if (!unit) dims[static_cast<size_t>(i)] = lead[lead.size() - 1 - static_cast<size_t>(m.rank() - 3) + static_cast<size_t>(i)];
      batch *= dims[static_cast<size_t>(i)];
    }
    m = m.expand(dims).reshape({batch, m.dim(-3), m.dim(-2), m.dim(-1)});
  } else if (lead.size() > 2 && !m.dim(0).is(1)) {
    std::vector<Expr> dims(lead.begin(), lead.end() - 1);
    const Expr batch = product(dims);
    dims.insert(dims.end(), {m.dim(1), m.dim(2), m.dim(3)});
    m = m.expand(dims).reshape({batch, m.dim(1), m.dim(2), m.dim(3)});
  }
  std::vector<Expr> dims = m.dims();
  dims.back() = s;
  return m.expand(dims);
}

void attend(Rule& r, std::string_view mask_name, bool gqa) {
  T q = tensor(r, "query"), k = tensor(r, "key"), v = tensor(r, "value");
  if (r.number_or("dropout_p", 0.0) != 0.0) r.refuse("attention with dropout is random", "call model.eval() before exporting");
  if (!is_float(q.dtype())) r.refuse(fmt::format("attention of {} is not supported", dtype_name(q.dtype())));
  const AttentionScale scale = attention_scale(r, q);
  // A factor that is known when it runs goes to the queries, in a type that keeps it.
  if (scale.computed) q = q.up() * scale;
  const DType t = q.dtype();
  // Heads: the last leading dim (none for a plain matrix). Keys may have fewer, by a whole factor.
  std::vector<Expr> lq = lead_of(q), lk = lead_of(k), lv = lead_of(v);
  const std::optional<T> mask0 = mask_name.empty() ? std::nullopt : opt_tensor(r, mask_name);
  if (gqa) {
    if (lq.empty() || lk.empty() || lv.empty()) r.refuse("enable_gqa without a dimension of heads");
    if (!r.b.syms().proves_eq(lk.back(), lv.back())) r.refuse("keys and values with different numbers of heads");
    const std::vector<Expr> bk = broadcast_dims(r.b.syms(), {lk.begin(), lk.end() - 1}, {lv.begin(), lv.end() - 1});
    std::vector<Expr> batch = broadcast_dims(r.b.syms(), {lq.begin(), lq.end() - 1}, bk);
    const Expr hq = lq.back(), hk = lk.back();
    lq = lk = batch;
    lq.push_back(hq);
    lk.push_back(hk);
  } else {
    lq = broadcast_dims(r.b.syms(), lq, broadcast_dims(r.b.syms(), lk, lv));
    // A mask of higher rank or wider batch widens the result too.
    if (mask0 && mask0->rank() > 2) {
      const std::vector<Expr> lm = lead_of(*mask0);
      lq = broadcast_dims(r.b.syms(), lq, lm);
    }
    // One head of keys for all heads of queries is shared, not repeated.
    std::vector<Expr> shared = lq;
    const bool one = !lk.empty() && !lv.empty() && lk.back().is(1) && lv.back().is(1);
    if (one && !shared.empty()) shared.back() = 1;
    lk = shared;
  }
  const TensorType out = r.meta_result();
  if (out.elems().is(0)) return r.set(0, full(r.b, out.dtype, out.dims, 0.0));
  if (k.dim(-2).is(0)) return r.set(0, full(r.b, out.dtype, out.dims, 0.0));
  std::vector<ValueId> in = {to_heads(q, lq), to_heads(k.to(t), lk), to_heads(v.to(t), lk)};
  if (mask0) in.push_back(to_mask(*mask0, lq, k.dim(-2), t));
  const T y(r.b, r.b.make1(Op::attention, in, {{Attr::scale, scale.number}, {Attr::causal, r.boolean_or("is_causal", false)}}));
  r.set(0, y.to(out.dtype).reshape(out.dims));
}

void sdpa(Rule& r) { attend(r, "attn_mask", r.boolean_or("enable_gqa", false)); }
void sdpa_bias(Rule& r) { attend(r, "attn_bias", false); }
void sdpa_flash(Rule& r) {
  attend(r, r.has("attn_mask") ? "attn_mask" : "", r.b.dims(r.tensor("query"))[1] != r.b.dims(r.tensor("key"))[1]);
}

/// Softmax over keys where a row that is masked whole gives zeros.
void safe_softmax(Rule& r) {
  const TensorType t = r.meta_result();
  const T x = tensor(r, "self").to(compute_type(t.dtype));
  const Ints d = {r.dim("dim", x.rank())};
  const T top = x.reduce(ReduceKind::max, d, true);
  const T none = top == -std::numeric_limits<double>::infinity();
  const T e = exp(x - where(none, 0.0, top));
  const T sum = e.sum(d, true);
  r.set(where(none, 0.0, e / sum).to(t.dtype));
}

constexpr RuleRow kRows[] = {
    {"aten.scaled_dot_product_attention.default aten._scaled_dot_product_attention_math.default", sdpa},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default aten._scaled_dot_product_flash_attention.default", sdpa_flash},
    {"aten._scaled_dot_product_efficient_attention.default aten._scaled_dot_product_cudnn_attention.default "
     "aten._scaled_dot_product_fused_attention_overrideable.default",
     sdpa_bias},
    {"aten._safe_softmax.default", safe_softmax},
};
}  // namespace

RuleTable attention_rules() { return kRows; }

}  // namespace aotc::decompose
