#pragma once
// What recurrent layers do with the sums of their gates, vector by vector.
#include "vec/vec_reduce.h"

namespace {

#if defined(AOTC_SAME_BITS)
constexpr bool kSameBits = true;
#else
constexpr bool kSameBits = false;
#endif

AOTC_I f32v mul_add(f32v a, f32v b, f32v c) { return fma(a, b, c); }
AOTC_I f64v mul_add(f64v a, f64v b, f64v c) { return {fma(a.lo, b.lo, c.lo), fma(a.hi, b.hi, c.hi)}; }

/// What the next state is made of besides the one before, so that the gates of several vectors can be computed before their states.
template <class V>
struct LstmGates {
  V fresh, keep, out;
};
/// Of the sums of the four gates.
template <class V>
AOTC_I LstmGates<V> lstm_gates(V in, V forget, V cell, V out) {
  const V i = v_sigmoid(in), f = v_sigmoid(forget), c = v_tanh(cell), o = v_sigmoid(out);
  return {v_mul(i, c), f, o};
}
template <class V>
AOTC_I V lstm_cell(const LstmGates<V>& g, V c) {
  return mul_add(g.keep, c, g.fresh);
}
/// c: the new cell. Before a projection.
template <class V>
AOTC_I V lstm_state(const LstmGates<V>& g, V c) {
  return v_mul(g.out, v_tanh(c));
}

template <class V>
struct GruGates {
  V fresh, keep;  ///< fresh: before its tanh
};
/// reset, update: the sums of those gates. x, state: the two parts of the new value's.
template <class V>
AOTC_I GruGates<V> gru_gates(V reset, V update, V x, V state) {
  const V r = v_sigmoid(reset), u = v_sigmoid(update);
  return {mul_add(r, state, x), u};
}
template <class V>
AOTC_I V gru_state(const GruGates<V>& g, V h) {
  const V fresh = v_tanh(g.fresh);
  return mul_add(g.keep, v_sub(h, fresh), fresh);
}
/// A NaN stays.
template <class V>
AOTC_I V relu_state(V x) {
  return sel(v_lt(x, like(x, 0)), like(x, 0), x);
}

}  // namespace
