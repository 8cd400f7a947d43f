#pragma once
// Attention in one pass over the keys: aotc_attention_* of aotc/detail/library_abi.h.
//
// Scores of a block of keys go to scratch; all arithmetic in the accumulation type. A block with few rows takes the scores as dot products,
// so that keys are read once.
#include "attention_bytes.h"
#include "attention_rows.h"
#include "dots.h"

namespace {

/// K: of what keys and values are stored.
template <class E, class Acc, class K = E>
struct AttentionRun : AttentionRows<E, Acc> {
  using Base = AttentionRows<E, Acc>;
  using P = MulPlain<Acc>;
  using Base::z, Base::cfg, Base::len, Base::e, Base::ev, Base::evp, Base::kvb, Base::kPanel;
  static constexpr int W = Vec<Acc>::kLanes;
  /// What aotc_attn_few_rows is asked with, on all machines: keys that are read as they are cost least as dot products.
  static constexpr int64_t kLanes = (same_type<K, Acc> ? 32 : 64) / sizeof(Acc);

  Acc *q, *kp, *vp, *s, *o, *m, *l;
  int64_t kv_key = -1, kv_end = 0;  // what the panels hold where all keys are one block

  explicit AttentionRun(const aotc_kargs* a) : AttentionRun(a, a->scratch) {}
  AttentionRun(const aotc_kargs* a, void* scratch) : Base(a) {
    const int64_t qb = cfg->q_block + 16;
    kp = static_cast<Acc*>(scratch);
    vp = kp + kvb * e;
    s = vp + kvb * evp;
    o = s + qb * kvb;
    m = o + qb * evp;
    l = m + qb;
    q = l + qb;
  }

  static constexpr bool kScaled = sizeof(K) == 1 && !same_type<K, stored_e4m3>;
  const aotc_attn_kv8_config* bytes() const { return static_cast<const aotc_attn_kv8_config*>(this->args->config); }
  const float* scales_of_keys(int64_t b, int64_t hkv) const {
    return this->template at<float>(bytes()->ks_ptr, AOTC_ATTN_KS_BASE) + b * z[AOTC_ATTN_KS_B] + hkv * z[AOTC_ATTN_KS_H];
  }
  const float* scales_of_values(int64_t b, int64_t hkv) const {
    return this->template at<float>(bytes()->vs_ptr, AOTC_ATTN_VS_BASE) + b * z[AOTC_ATTN_VS_B] + hkv * z[AOTC_ATTN_VS_H];
  }
  static void scale_row(Acc* row, const float* by, int64_t step, int64_t n) {
    if (step == 1)
      for (int64_t i = 0; i < n; ++i) row[i] *= Acc(by[i]);
    else
      for (int64_t i = 0; i < n; ++i) row[i] *= Acc(by[i * step]);
  }

  void load_queries(int64_t b, int64_t hkv, int64_t r0, int64_t n, bool panels) {
    const Acc scale = static_cast<Acc>(cfg->scale);
    const int64_t tiles = ceil_div(n, kMaxMr), qe = z[AOTC_ATTN_Q_E];
    Acc* dst = q;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t i0 = t * n / tiles, i1 = (t + 1) * n / tiles, tr = i1 - i0;
      for (int64_t i = i0; i < i1; ++i) {
        const E* row = this->query(b, hkv, r0 + i);
        if (panels)
          for (int64_t c = 0; c < e; ++c) dst[c * tr + i - i0] = Acc(to_acc(row[c * qe])) * scale;
        else
          for (int64_t c = 0; c < e; ++c) q[i * e + c] = Acc(to_acc(row[c * qe])) * scale;
      }
      dst += tr * e;
    }
  }

  /// Whose sums go in the order of k, however the rows are divided.
  template <bool RowA>
  static MicroFn tile(int64_t rows, int64_t vecs) {
    const MicroFn ordered = rows <= 6 ? kMicroOrdered<P, RowA>.fn[rows - 1][vecs - 1] : nullptr;
    return ordered ? ordered : kMicro<P, RowA, false>.fn[rows - 1][vecs - 1];
  }

  /// Of values: sums of few rows go by several chains, as many whatever the columns.
  MicroFn tile_of_values(int64_t n, int64_t vecs) const {
    static_assert(kChains<1, 1> == 4 && kChains<1, 2> == 4 && kChains<2, 2> == 2 && kChains<3, 1> == 2 && kChains<3, 2> == 2);
    if (this->rows > 3 || n < this->rows) return tile<true>(n, vecs);
    return n == 2 && vecs == 1 ? micro<P, 2, 1, true, false, 2> : kMicro<P, true, false>.fn[n - 1][vecs - 1];
  }

  /// o, m and l of rows [r0, r1) over the keys [from, to) or those of them that the rows see.
  void sums(int64_t b, int64_t hkv, int64_t r0, int64_t r1, int64_t from, int64_t to, int64_t key) {
    const int64_t n = r1 - r0, tiles = ceil_div(n, kMaxMr);
    const bool few = this->rows <= aotc_attn_few_rows(e, kLanes) && z[AOTC_ATTN_K_E] == 1;
    const K* kb = this->template at<K>(cfg->k_ptr, AOTC_ATTN_K_BASE) + b * z[AOTC_ATTN_K_B] + hkv * z[AOTC_ATTN_K_H];
    const K* vb = this->template at<K>(cfg->v_ptr, AOTC_ATTN_V_BASE) + b * z[AOTC_ATTN_V_B] + hkv * z[AOTC_ATTN_V_H];
    const int64_t ks = z[AOTC_ATTN_K_S], ke = z[AOTC_ATTN_K_E], vs = z[AOTC_ATTN_V_S], ve = z[AOTC_ATTN_V_E];
    const bool v_in_place = sizeof(K) == sizeof(Acc) && ve == 1 && ev % W == 0;
    load_queries(b, hkv, r0, n, !few);
    for (int64_t i = 0; i < n; ++i) m[i] = -static_cast<Acc>(__builtin_inf()), l[i] = 0;
    for (int64_t i = 0; i < n * evp; ++i) o[i] = 0;
    const int64_t end = this->keys_end(b, hkv, r0, r1, from, to);
    const bool kept = len <= kvb;
    const bool fresh = !kept || kv_key != key;
    if (kept && fresh && !few && end > 0) kv_key = key, kv_end = this->keys_end(b, hkv, 0, this->rows, 0, len);
    for (int64_t s0 = from; s0 < end; s0 += kvb) {
      const int64_t s1 = min_of(s0 + kvb, end), width = s1 - s0, copied = kept ? kv_end : width;
      if (few) {
        Dots<Acc, K>{e, e, ks}.run(q, n, kb + s0 * ks, width, s, kvb);
      } else {
        for (int64_t j = 0; fresh && j < copied; j += kPanel) {
          const int64_t cols = min_of(kPanel, copied - j);
          pack_numbers(kb + (s0 + j) * ks, ke, ks, e, cols, ceil_div(cols, int64_t{W}) * W, kp + j * e, kPanel);
        }
        for (int64_t j = 0; j < width; j += kPanel) {
          const int64_t vecs = ceil_div(min_of(kPanel, width - j), W);
          Acc* panel = kp + j * e;
          for (int64_t v = 0; v < vecs; v += kMaxNv) {
            RowTiles each(n, tiles);
            for (int64_t t = 0; t < tiles; ++t) {
              const auto [i0, tr] = each.next();
              const char* bp = reinterpret_cast<const char*>(panel + v * W);
              tile<false>(tr, min_of<int64_t>(kMaxNv, vecs - v))(e, reinterpret_cast<const char*>(q + i0 * e), tr * sizeof(Acc), bp,
                                                                 kPanel * sizeof(Acc), s + i0 * kvb + j + v * W, kvb, true, bp, 0, nullptr);
            }
          }
        }
      }
      for (int64_t i = 0; i < n; ++i) {
        Acc* row = s + i * kvb;
        if constexpr (kScaled) scale_row(row, scales_of_keys(b, hkv) + s0 * z[AOTC_ATTN_KS_S], z[AOTC_ATTN_KS_S], width);
        this->mask_row(row, b, hkv, r0 + i, s0, s1);
        const Acc down = Base::exponents(row, width, m[i], l[i]);
        if constexpr (kScaled) scale_row(row, scales_of_values(b, hkv) + s0 * z[AOTC_ATTN_VS_S], z[AOTC_ATTN_VS_S], width);
        if (down == Acc(1)) continue;
        Acc* out = o + i * evp;
        for (int64_t c = 0; c < evp; ++c) out[c] *= down;
      }
      for (int64_t c = 0; c < ev; c += kPanel) {
        const int64_t cols = min_of(kPanel, ev - c), vecs = ceil_div(cols, W);
        const Acc* bp = vp + c * kvb;
        int64_t stride = kPanel;
        if (v_in_place)
          bp = reinterpret_cast<const Acc*>(vb + s0 * vs + c), stride = vs;
        else if (fresh)
          pack_numbers(vb + s0 * vs + c * ve, vs, ve, few ? width : copied, cols, vecs * W, vp + c * kvb, kPanel);
        for (int64_t v = 0; v < vecs; v += kMaxNv) {
          RowTiles each(n, tiles);
          for (int64_t t = 0; t < tiles; ++t) {
            const auto [i0, tr] = each.next();
            tile_of_values(tr, min_of<int64_t>(kMaxNv, vecs - v))(
                width, reinterpret_cast<const char*>(s + i0 * kvb), kvb * sizeof(Acc), reinterpret_cast<const char*>(bp + v * W),
                stride * sizeof(Acc), o + i0 * evp + c + v * W, evp, false, reinterpret_cast<const char*>(bp), 0, nullptr);
          }
        }
      }
    }
  }

  void unit(int64_t b, int64_t hkv, int64_t r0, int64_t r1, int64_t key) {
    sums(b, hkv, r0, r1, 0, len, key);
    this->store(b, hkv, r0, r1 - r0, o, m, l);
  }

  void run(int64_t begin, int64_t end) {
    kv_key = held_key(this->args, 0), kv_end = held_key(this->args, 1);
    this->each_unit(begin, end, [this](auto... unit_of) { unit(unit_of...); });
    hold_key(this->args, kv_key, 0), hold_key(this->args, kv_end, 1);
  }
};

/// Keys and values of 8 bits, of the kind that the config names, by one of the ways to attend.
template <class E, template <class, class, class> class Run = AttentionRun>
void attention_kv8(const aotc_kargs* args, int64_t begin, int64_t end) {
  if (static_cast<const aotc_attn_kv8_config*>(args->config)->kv_dtype == AOTC_DTYPE_I8)
    Run<E, float, stored_i8>(args).run(begin, end);
  else
    Run<E, float, stored_e4m3>(args).run(begin, end);
}

}  // namespace
