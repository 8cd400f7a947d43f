// What all attention kernels compute: out[b, h, l, :] = softmax(scale * q k' + mask) v, its operands, and numbers around a softmax. A sink is one more
// score of a row, whose weight multiplies no value. The query heads of one key head are rows of one tile. A row that attends nowhere gives zeros or NaN; a NaN stays one.
#pragma once
#include "attention_bytes.cuh"

struct NoMask {};
// What the masks of some rows show: no key outside of [begin, end); all of [inner_begin, inner_end). whole: each row shows a range of its own.
struct AttnSeen { i64 begin, end, inner_begin, inner_end; bool whole; };

// Keys and values of K.
template <class T, class Acc, class M, class K = T> struct AttnProblem : AttnScales<K> {
  typedef K Stored;
  i64 batch, heads, kv_heads, q_len, kv_len, head_dim, v_dim;
  const T* pq;
  const K *pk, *pv;
  T* po;
  const M* pm;
  AttnView q, k, v, o, m;
  // By row of a bool mask: the keys that it shows lie in [from, end); -1 - end where it hides some of those, too. Null where that is not known.
  const i64 *pfrom, *pend;
  AttnView from, end;
  const Acc* psink;  // by row; null where there are none
  AttnView sink;
  Acc share;    // a power of two of the scale, which queries take on their way in where their type has its range: scores leave the range later
  Acc scale;    // the rest of it
  bool fills;   // elements of a float mask of kHiddenScore and less take the score's place
  Acc nowhere;  // what the sums of a row that attends nowhere are multiplied with: 0, or NaN

  AOTC_DI i64 rows() const { return kv_heads ? quotient(heads, kv_heads) * q_len : 0; }
  // Row r of key head `head`: its query head and position.
  AOTC_DI i64 head_of(i64 head, i64 r) const { return head * quotient(heads, kv_heads) + quotient(r, q_len); }
  AOTC_DI i64 position(i64 r) const { return rest(r, q_len); }
  AOTC_DI const T* query(i64 b, i64 head, i64 r) const { return pq + q.base + b * q.b + head_of(head, r) * q.h + position(r) * q.s; }
  AOTC_DI T* result(i64 b, i64 head, i64 r) const { return po + o.base + b * o.b + head_of(head, r) * o.h + position(r) * o.s; }
  AOTC_DI const M* mask(i64 b, i64 head, i64 r) const {
    if constexpr (same<M, NoMask>::value) return nullptr;
    else return pm + m.base + b * m.b + head_of(head, r) * m.h + position(r) * m.s;
  }
  // Position `at` of query head `head`: the keys that its mask shows.
  AOTC_DI AttnSeen seen_at(i64 b, i64 head, i64 at) const {
    const i64 first = pfrom[from.base + b * from.b + head * from.h + at * from.s], to = pend[end.base + b * end.b + head * end.h + at * end.s];
    const i64 last = to < 0 ? -1 - to : to;
    return {first, last, first, last, to >= 0};
  }
  // The same of rows [r0, r1) of key head `head`, at least one, by all lanes of a warp.
  AOTC_DI AttnSeen seen_by(i64 b, i64 head, i64 r0, i64 r1) const {
    if (pfrom == nullptr) return {0, kv_len, 0, 0, false};
    return seen_by_lanes(r1 - r0, [&](i64 r) { return seen_at(b, head_of(head, r0 + r), position(r0 + r)); });
  }
  // What all of seen(0) .. seen(n - 1) say.
  template <class F> AOTC_DI AttnSeen seen_by_lanes(i64 n, const F& seen) const {
    int begin = static_cast<int>(kv_len), end = 0, inner_begin = 0, inner_end = static_cast<int>(kv_len);
    bool whole = true;
#pragma unroll 1
    for (int r = threadIdx.x & 31; r < n; r += 32) {
      const AttnSeen x = seen(r);
      const int from = static_cast<int>(x.begin), to = static_cast<int>(x.end);
      if (from < to) begin = from < begin ? from : begin, end = to > end ? to : end;
      inner_begin = from > inner_begin ? from : inner_begin, inner_end = to < inner_end ? to : inner_end;
      whole = whole && x.whole;
    }
#pragma unroll
    for (int by = 16; by; by >>= 1) {
      const int b = __shfl_xor_sync(~0u, begin, by), e = __shfl_xor_sync(~0u, end, by), ib = __shfl_xor_sync(~0u, inner_begin, by),
                ie = __shfl_xor_sync(~0u, inner_end, by);
      begin = b < begin ? b : begin, end = e > end ? e : end, inner_begin = ib > inner_begin ? ib : inner_begin, inner_end = ie < inner_end ? ie : inner_end;
    }
    whole = __ballot_sync(~0u, whole) == ~0u;
    return {begin < end ? begin : end, end, inner_begin, inner_end, whole};
  }
  // What the sums of a row, of position `at` of query head `head`, are multiplied with in the end: m is its largest score, scaled, l the sum of the exponents
  // of all under that.
  AOTC_DI Acc share_of(i64 b, i64 head, i64 at, Acc m, Acc l) const;
  // The keys that rows [r0, r1) see at most.
  AOTC_DI i64 keys_of(i64 r0, i64 r1, bool causal) const {
    if (!causal) return kv_len;
    return imin(kv_len, quotient(r0, q_len) == quotient(r1 - 1, q_len) ? position(r1 - 1) + 1 : q_len);
  }
};

AOTC_DI float exp_of(float x) { return expf(x); }
AOTC_DI double exp_of(double x) { return exp(x); }
// Rounded before anything is subtracted from it: a score less itself is zero, whatever its size.
AOTC_DI float scaled(float score, float by) { return __fmul_rn(score, by); }
AOTC_DI double scaled(double score, double by) { return __dmul_rn(score, by); }
constexpr float kLog2e = 1.44269504088896341f;
// From here on (by base 2) the rounding of a row's maximum is seen in its exponents: differences to the maximum come first.
constexpr float kFarMaximum = 256.0f;
AOTC_DI float larger(float a, float b) { return fmaxf(a, b); }  // a NaN is not seen: it comes back through the exponent
AOTC_DI double larger(double a, double b) { return fmax(a, b); }
// What is subtracted from scores whose maximum is m: a row that has seen nothing yet has none.
template <class Acc> AOTC_DI Acc subtracted(Acc m) { return m == lowest<Acc>() ? Acc(0) : m; }
template <class T, class Acc, class M, class K> AOTC_DI Acc AttnProblem<T, Acc, M, K>::share_of(i64 b, i64 head, i64 at, Acc m, Acc l) const {
  Acc down = Acc(1);
  if (psink != nullptr && kv_len > 0) {
    const Acc own = psink[sink.base + b * sink.b + head * sink.h + at * sink.s], top = subtracted(larger(m, own));
    down = exp_of(m - top);
    l = l * down + exp_of(own - top);
  }
  return l == Acc(0) ? nowhere : down * (Acc(1) / l);
}

constexpr float kHiddenScore = -1e30f;
template <class Acc> AOTC_DI Acc with_added(Acc s, Acc by, bool fills) { return fills && by <= Acc(kHiddenScore) ? by : s + by; }
// A score after the mask; `mask`: of the row.
template <class Acc, class M> AOTC_DI Acc masked(Acc s, const M* mask, i64 at, bool fills) {
  if constexpr (same<M, NoMask>::value) return s;
  else if constexpr (same<M, bool>::value) return mask[at] ? s : lowest<Acc>();
  else return with_added(s, static_cast<Acc>(mask[at]), fills);
}
