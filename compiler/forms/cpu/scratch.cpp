#include "forms/cpu/scratch.h"

#include <algorithm>

namespace aotc::forms::cpu {
namespace {

/// A function that is affine in x up to `cap` and constant from there on; x is a multiple of `step`.
template <class F>
Expr affine_until(const F& f, const Expr& x, int64_t cap, int64_t step) {
  const int64_t base = f(0), slope = cap < step ? 0 : (f(step) - base) / step;
  return Expr(base) + min(x, cap) * slope;
}

}  // namespace

Expr gemm_scratch(const aotc_gemm_config& c, const Expr& k, int64_t acc_bytes, bool has_a, bool has_b) {
  const auto bytes = [&](int64_t n) {
    return aotc_gemm_scratch_bytes(&c, n, acc_bytes) + (has_a || has_b ? aotc_gemm_prologue_bytes(&c, n, acc_bytes, has_a, has_b) : 0);
  };
  return affine_until(bytes, k + mod(k, 2), c.kp, 2);
}

Expr conv_scratch(const aotc_conv_config& c, const Expr& depth, int64_t acc_bytes) {
  const auto bytes = [&](int64_t n) { return aotc_conv_scratch_bytes(&c, n, acc_bytes); };
  if (c.algo == AOTC_CONV_WINOGRAD) return bytes(depth.as_const().value());  // its channels are constant
  if (c.algo == AOTC_CONV_PHASES) return affine_until(bytes, depth, std::max(0, c.kp - c.stride[2] - 1), 1);
  return affine_until(bytes, depth + mod(depth, 2), c.kp, 2);
}

Expr attention_scratch(const aotc_attn_config& c, const Expr& e, const Expr& ev, int64_t acc_bytes) {
  const auto bytes = [&](int64_t x, int64_t v) { return aotc_attn_scratch_bytes(&c, x, v, acc_bytes); };
  const int64_t base = bytes(0, 0);
  return Expr(base) + e * (bytes(1, 0) - base) + ceildiv(ev, AOTC_PANEL_N) * (bytes(0, AOTC_PANEL_N) - base);
}

Expr attention_tiles_scratch(const aotc_attn_config& c, const Expr& e, const Expr& ev) {
  const auto bytes = [&](int64_t x, int64_t v) { return aotc_attn_tiles_scratch_bytes(&c, x, v); };
  const int64_t base = bytes(0, 0);
  return Expr(base) + ceildiv(e, 32) * (bytes(32, 0) - base) + ceildiv(ev, AOTC_PANEL_N) * (bytes(0, AOTC_PANEL_N) - base);
}

Expr recurrence_scratch(int cell, const Expr& hidden, const Expr& width, int64_t acc_bytes) {
  const auto bytes = [&](int64_t h, int64_t w) { return aotc_recurrence_scratch_bytes(cell, h, w, acc_bytes); };
  const int64_t base = bytes(0, 0), widest = bytes(0, 1) - base;
  return Expr(base) + max(hidden, width) * widest + hidden * (bytes(1, 1) - base - widest);
}

}  // namespace aotc::forms::cpu
