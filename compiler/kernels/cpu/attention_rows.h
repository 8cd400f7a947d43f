#pragma once
// What the attention kernels have in common: their operands, masks, and the softmax of a row that is seen block of keys by block of keys.
//
// A work unit is a block of rows (query heads of one key head, query positions). A row's maximum and sum are carried along; what was summed
// under an older maximum is scaled down. Scores are to base e, so that they leave the range of the type where PyTorch's do. All of it has
// the same bits on all machines.
#include "panels.h"

namespace {

constexpr double kLog2e = 1.4426950408889634;

/// 2^f on [-0.5, 0.5], relative error 2e-8.
constexpr float kExp2[] = {1.0f, 0.69314718246f, 0.24022650719f, 0.05550327152f, 0.0096180253f, 0.001340043265f, 0.000154697321705f};

/// 2^x for x <= 0; below 2^-126 zero; a NaN stays one.
inline Vec<float>::V exp2_lanes(Vec<float>::V x) {
  using V = Vec<float>;
#if defined(__AVX512F__)
  x = _mm512_max_ps(_mm512_set1_ps(-127.0f), x);  // max(limit, NaN) is NaN
  const __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
#else
  x = _mm256_max_ps(_mm256_set1_ps(-127.0f), x);
  const __m256 n = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256 scale = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
#endif
  const V::V f = x - n;
  V::V p = V::set1(kExp2[6]);
#pragma GCC unroll 8
  for (int i = 5; i >= 0; --i) p = V::fma(p, f, V::set1(kExp2[i]));
  return p * scale;
}
/// e^x for x <= 0.
inline Vec<float>::V exp_lanes(Vec<float>::V x) { return exp2_lanes(x * Vec<float>::set1(static_cast<float>(kLog2e))); }
inline float exp_of(float x) {
  float t[Vec<float>::kLanes];
  Vec<float>::store(t, exp_lanes(Vec<float>::set1(x)));
  return t[0];
}
inline double exp_of(double x) { return __builtin_exp2(x * kLog2e); }

/// a * b + c, rounded once on all machines.
inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

inline float sum_lanes(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/// Rows of scores go by whole blocks of so many, whatever the vectors: sums have the same order on all machines.
template <class Acc>
constexpr int64_t kScores = 1;
template <>
inline constexpr int64_t kScores<float> = 16;

/// s[i] = e^(s[i] - m) of whole blocks; returns the sum.
inline float softmax_row(float* s, int64_t blocks, float m) {
  using V = Vec<float>;
  constexpr int kVecs = kScores<float> / V::kLanes;
  V::V sum[kVecs] = {};
  const V::V mv = V::set1(m);
  for (int64_t i = 0; i < blocks; ++i, s += kScores<float>)
#pragma GCC unroll 2
    for (int v = 0; v < kVecs; ++v) {
      const V::V p = exp_lanes(V::load(s + v * V::kLanes) - mv);
      V::store(s + v * V::kLanes, p);
      sum[v] = V::add(sum[v], p);
    }
#if defined(__AVX512F__)
  return sum_lanes(_mm256_add_ps(_mm512_castps512_ps256(sum[0]), _mm512_extractf32x8_ps(sum[0], 1)));
#else
  return sum_lanes(_mm256_add_ps(sum[0], sum[1]));
#endif
}
inline double softmax_row(double* s, int64_t len, double m) {
  double sum = 0;
  for (int64_t i = 0; i < len; ++i) sum += s[i] = exp_of(s[i] - m);
  return sum;
}

/// The largest of whole blocks; NaN is not seen here (it comes back through the exponent).
inline float max_row(const float* s, int64_t blocks) {
  using V = Vec<float>;
  V::V mv = V::set1(-__builtin_inff());
  for (int64_t i = 0; i < blocks * kScores<float>; i += V::kLanes) mv = V::max(V::load(s + i), mv);  // of a NaN and mv that is mv
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps(mv);
#else
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(mv), _mm256_extractf128_ps(mv, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
#endif
}
inline double max_row(const double* s, int64_t len) {
  double m = -__builtin_inf();
  for (int64_t i = 0; i < len; ++i) m = s[i] > m ? s[i] : m;
  return m;
}

template <class E, class Acc>
struct AttentionRows {
  static constexpr int64_t kPanel = AOTC_PANEL_N;

  const aotc_kargs* args;
  const aotc_attn_config* cfg;
  const int64_t* z;
  int64_t group, rows, len, e, ev, evp, kvb;

  explicit AttentionRows(const aotc_kargs* a) : args(a), cfg(static_cast<const aotc_attn_config*>(a->config)), z(a->size) {
    group = z[AOTC_ATTN_HKV] ? z[AOTC_ATTN_H] / z[AOTC_ATTN_HKV] : 0;
    rows = group * z[AOTC_ATTN_L];
    len = z[AOTC_ATTN_S], e = z[AOTC_ATTN_E], ev = z[AOTC_ATTN_EV], evp = ceil_div(ev, kPanel) * kPanel;
    kvb = cfg->kv_block;
  }

  template <class T>
  const T* at(int ptr, int first) const {  // base of one of the views
    return static_cast<const T*>(args->ptr[ptr]) + z[first];
  }

  template <class M>
  void add_mask(Acc* row, const M* mk, int64_t step, int64_t n) const {
    const Acc hidden = cfg->mask_fills ? Acc(AOTC_ATTN_HIDDEN) : static_cast<Acc>(__builtin_nanf(""));  // nothing is at or below a NaN
    const auto add = [&](Acc& score, Acc by) { score = by <= hidden ? by : score + by; };
    if (step == 1)
      for (int64_t i = 0; i < n; ++i) add(row[i], Acc(to_acc(mk[i])));
    else
      for (int64_t i = 0; i < n; ++i) add(row[i], Acc(to_acc(mk[i * step])));
  }

  /// Scores of row r (of all rows) against keys [s0, s1): mask and causality.
  void mask_row(Acc* row, int64_t b, int64_t hkv, int64_t r, int64_t s0, int64_t s1) const {
    const int64_t h = hkv * group + r / z[AOTC_ATTN_L], pos = r % z[AOTC_ATTN_L], n = s1 - s0;
    const Acc none = -static_cast<Acc>(__builtin_inf());
    if (cfg->mask_ptr >= 0) {
      const int64_t me = z[AOTC_ATTN_M_E];
      const int64_t off = b * z[AOTC_ATTN_M_B] + h * z[AOTC_ATTN_M_H] + pos * z[AOTC_ATTN_M_S] + s0 * me;
      if (cfg->mask_dtype == AOTC_DTYPE_BOOL) {
        const uint8_t* mk = at<uint8_t>(cfg->mask_ptr, AOTC_ATTN_M_BASE) + off;
        if (me == 1)
          for (int64_t i = 0; i < n; ++i) row[i] = mk[i] ? row[i] : none;
        else
          for (int64_t i = 0; i < n; ++i) row[i] = mk[i * me] ? row[i] : none;
      } else if (cfg->mask_dtype == AOTC_DTYPE_F32) {
        add_mask(row, at<float>(cfg->mask_ptr, AOTC_ATTN_M_BASE) + off, me, n);
      } else {
        add_mask(row, at<E>(cfg->mask_ptr, AOTC_ATTN_M_BASE) + off, me, n);
      }
    }
    if (cfg->causal)
      for (int64_t i = max_of<int64_t>(pos + 1 - s0, 0); i < n; ++i) row[i] = none;
  }

  /// The end of the keys of [from, to) that the mask shows to the row; `from` where it shows none.
  int64_t mask_end(int64_t b, int64_t h, int64_t pos, int64_t from, int64_t to) const {
    const int64_t off = b * z[AOTC_ATTN_M_B] + h * z[AOTC_ATTN_M_H] + pos * z[AOTC_ATTN_M_S];
    const auto search = [&](const auto* mask, auto shows) {
      const int64_t step = z[AOTC_ATTN_M_E];
      while (to > from && !shows(mask[off + (to - 1) * step])) --to;
      return to;
    };
    const auto finite = [](auto x) { return x != -static_cast<decltype(x)>(__builtin_inf()); };
    if (cfg->mask_dtype == AOTC_DTYPE_F32) return search(at<float>(cfg->mask_ptr, AOTC_ATTN_M_BASE), finite);
    if (cfg->mask_dtype != AOTC_DTYPE_BOOL)
      return search(at<E>(cfg->mask_ptr, AOTC_ATTN_M_BASE), [&](const E& x) { return finite(to_acc(x)); });
    const uint8_t* mask = at<uint8_t>(cfg->mask_ptr, AOTC_ATTN_M_BASE);
    for (uint64_t eight; z[AOTC_ATTN_M_E] == 1 && to - from >= 8; to -= 8) {
      __builtin_memcpy(&eight, mask + off + to - 8, 8);
      if (eight) break;
    }
    return search(mask, [](uint8_t x) { return x != 0; });
  }

  /// Row r of the queries of batch b and key head hkv.
  const E* query(int64_t b, int64_t hkv, int64_t r) const {
    return at<E>(cfg->q_ptr, AOTC_ATTN_Q_BASE) + b * z[AOTC_ATTN_Q_B] + (hkv * group + r / z[AOTC_ATTN_L]) * z[AOTC_ATTN_Q_H] +
           r % z[AOTC_ATTN_L] * z[AOTC_ATTN_Q_S];
  }

  /// Of the keys [from, to), those that some row of [r0, r1) may see end here: by causality, and by what the mask hides from all of them (a
  /// cache that is not full yet, padding); `from` where they see none. What lies beyond is not read.
  int64_t keys_end(int64_t b, int64_t hkv, int64_t r0, int64_t r1, int64_t from, int64_t to) const {
    const int64_t positions = z[AOTC_ATTN_L];
    const bool heads_alike = cfg->mask_ptr < 0 || z[AOTC_ATTN_M_H] == 0;
    int64_t end = from;
    for (int64_t r = r0; r < r1 && end < to && !(heads_alike && r >= r0 + positions); ++r) {
      const int64_t may = cfg->causal ? min_of(to, r % positions + 1) : to;
      if (may > end) end = cfg->mask_ptr < 0 ? may : mask_end(b, hkv * group + r / positions, r % positions, end, may);
    }
    return end;
  }

  /// Scores of a row, masked, to exponents under its largest so far, m; l: their sum so far. Returns what older sums are to be multiplied
  /// by. The row has room for a whole block, which is filled.
  static Acc exponents(Acc* row, int64_t width, Acc& m, Acc& l) {
    const int64_t blocks = ceil_div(width, kScores<Acc>);
    for (int64_t j = width; j < blocks * kScores<Acc>; ++j) row[j] = -static_cast<Acc>(__builtin_inf());
    const Acc top = max_row(row, blocks), now = m > top ? m : top;
    if (now == -static_cast<Acc>(__builtin_inf())) {  // nothing to attend to yet, unless it is NaN
      Acc bad = 0;
      for (int64_t j = 0; j < width; ++j) bad += row[j] != row[j] ? row[j] : Acc(0), row[j] = row[j] != row[j] ? row[j] : Acc(0);
      l += bad;
      return 1;
    }
    const Acc down = m == now ? Acc(1) : m == -static_cast<Acc>(__builtin_inf()) ? Acc(0) : exp_of(m - now);
    l = fused(l, down, softmax_row(row, blocks, now));
    m = now;
    return down;
  }

  /// What the sums of a row are multiplied by in the end, whose largest score is m and whose exponents under that add up to l.
  Acc share(int64_t b, int64_t h, int64_t pos, Acc m, Acc l) const {
    const Acc nowhere = cfg->nan_rows && len > 0 ? static_cast<Acc>(__builtin_nanf("")) : Acc(0);  // of a row that attends nowhere
    if (cfg->sink_ptr >= 0 && len > 0) {
      const Acc none = -static_cast<Acc>(__builtin_inf());
      const Acc sink =
          at<Acc>(cfg->sink_ptr, AOTC_ATTN_SINK_BASE)[b * z[AOTC_ATTN_SINK_B] + h * z[AOTC_ATTN_SINK_H] + pos * z[AOTC_ATTN_SINK_S]];
      const Acc top = sink > m ? sink : m;
      if (sink != none && top != none) {
        const Acc down = exp_of(m - top);
        return down / fused(l, down, exp_of(sink - top));
      }
      if (sink != sink) return sink;
    }
    return l == 0 ? nowhere : Acc(1) / l;
  }

  /// Stores n rows from r0 on: their weighted sums o over their sums l; m: their largest scores.
  void store(int64_t b, int64_t hkv, int64_t r0, int64_t n, const Acc* o, const Acc* m, const Acc* l) const {
    E* out = static_cast<E*>(args->ptr[cfg->out_ptr]) + z[AOTC_ATTN_O_BASE] + b * z[AOTC_ATTN_O_B];
    const int64_t oe = z[AOTC_ATTN_O_E];
    for (int64_t i = 0; i < n; ++i) {
      const int64_t r = r0 + i, h = hkv * group + r / z[AOTC_ATTN_L], pos = r % z[AOTC_ATTN_L];
      E* row = out + h * z[AOTC_ATTN_O_H] + pos * z[AOTC_ATTN_O_S];
      const Acc inv = share(b, h, pos, m[i], l[i]);
      if (oe == 1)
        for (int64_t c = 0; c < ev; ++c) from_acc(o[i * evp + c] * inv, row + c);
      else
        for (int64_t c = 0; c < ev; ++c) from_acc(o[i * evp + c] * inv, row + c * oe);
    }
  }

  /// unit(batch, key head, first row, last row + 1, batch and key head as one number) for each of the work units.
  template <class F>
  void each_unit(int64_t begin, int64_t end, F&& unit) const {
    const int64_t blocks = ceil_div(rows, cfg->q_block);
    for (int64_t u = begin; u < end; ++u) {
      const int64_t rb = u % blocks, head = u / blocks;
      unit(head / z[AOTC_ATTN_HKV], head % z[AOTC_ATTN_HKV], rb * rows / blocks, (rb + 1) * rows / blocks, head);
    }
  }
};

}  // namespace
