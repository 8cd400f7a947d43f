#pragma once
// Attention of bf16 by tile registers: aotc_attention_tiles_bf16 of aotc/detail/library_abi.h.
//
// Scores and weighted sums are products of tiles with sums in f32; the softmax between them is in f32, and what it gives is rounded to
// bf16. Keys and values of a head are copied to panels, which the blocks of queries share where all keys are one block.
#include "attention_rows.h"
#include "panels.h"
#include "tile_blocks.h"

namespace {

/// n floats to bf16, then zeros up to `to`; both rows have room for whole vectors.
inline void round_row(const float* src, int64_t n, int64_t to, bf16* dst) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512 x = _mm512_loadu_ps(src + i);
#if defined(__AVX512BF16__)
    const __m256i h = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x));
#else
    const __m512i u = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd), 16);
    const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(0x40));
    const __m256i h = _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet));
#endif
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i), h);
  }
  for (; i < n; ++i) from_acc(src[i], dst + i);
  for (; i < to; ++i) dst[i].bits = 0;
}

class AttentionTiles : AttentionRows<bf16, float> {
 public:
  /// What sums are: scores of a block of keys, or what its values add to the rows.
  struct Unit {
    bool scores;
  };

 private:
  int64_t e_steps_, q_pitch_, p_pitch_;
  bf16 *kp_, *vp_, *q_, *p_;  // panels of keys and values, rows of queries and of exponents
  float *s_, *o_, *m_, *l_, *down_;
  float scale_;
  int64_t kv_key_ = -1, kv_end_ = 0;  // what the panels hold where all keys are one block
  TileBlocks<AttentionTiles> blocks_;

 public:
  explicit AttentionTiles(const aotc_kargs* a) : AttentionRows(a), blocks_(this, static_cast<float*>(a->scratch)) {
    const int64_t qb = ceil_div(cfg->q_block, kTileRows) * kTileRows;
    e_steps_ = tile_steps(e), q_pitch_ = tile_pitch(e), p_pitch_ = tile_pitch(kvb);
    scale_ = static_cast<float>(cfg->scale);
    kp_ = reinterpret_cast<bf16*>(static_cast<float*>(a->scratch) + 2 * kTileSums);
    vp_ = kp_ + kvb / kPanel * e_steps_ * (kStepBytes / 2);
    q_ = vp_ + evp / kPanel * tile_steps(kvb) * (kStepBytes / 2);
    p_ = q_ + qb * q_pitch_;
    s_ = reinterpret_cast<float*>(p_ + qb * p_pitch_);
    o_ = s_ + qb * kvb;
    m_ = o_ + qb * evp;
    l_ = m_ + qb;
    down_ = l_ + qb;
  }

  void run(int64_t begin, int64_t end) {
    each_unit(begin, end, [this](auto... unit_of) { unit(unit_of...); });
  }

  int64_t slice() const { return kSliceOfCalls; }
  /// Whole vectors: the rows of scores and of sums have room for whole panels.
  void consume(const Unit& u, int64_t row, int64_t n, int64_t col, int64_t cols, const float* sums, int64_t ld) const {
    using V = Vec<float>;
    for (int64_t i = row; i < row + n; ++i, sums += ld) {
      if (u.scores) {
        float* out = s_ + i * kvb + col;
        for (int64_t j = 0; j < cols; j += V::kLanes) V::store(out + j, V::load(sums + j) * V::set1(scale_));
      } else {
        float* out = o_ + i * evp + col;
        const V::V down = V::set1(down_[i]);
        for (int64_t j = 0; j < cols; j += V::kLanes) V::store(out + j, V::fma(V::load(out + j), down, V::load(sums + j)));
      }
    }
  }

 private:
  /// A panel of k x cols elements as whole steps.
  static void copy_panel(const bf16* src, int64_t rs, int64_t cs, int64_t k, int64_t cols, int64_t steps, bf16* dst) {
    pack_col_pairs(src, rs, cs, k, cols, kPanel, reinterpret_cast<u32*>(dst), kPanel);
    const int64_t done = (k + (k & 1)) * kPanel;
    __builtin_memset(dst + done, 0, static_cast<size_t>(steps * kStepBytes - done * 2));
  }

  /// Share i of n of the queries, or of the keys and values, that the unit after rows [r0, r1) of a head begins with: rows lie far apart,
  /// so that nothing else fetches them ahead.
  void prefetch_next(int64_t b, int64_t hkv, int64_t r1, int64_t i, int64_t n) const {
    const bool same_head = r1 < rows;
    if (!same_head && hkv + 1 >= z[AOTC_ATTN_HKV]) return;
    const int64_t head = same_head ? hkv : hkv + 1, r = same_head ? r1 + i : i;
    const auto lines = [](const bf16* p, int64_t count) {
      for (int64_t j = 0; j < count; j += 32) _mm_prefetch(reinterpret_cast<const char*>(p + j), _MM_HINT_T1);
    };
    if (r < rows && z[AOTC_ATTN_Q_E] == 1) lines(query(b, head, r), e);
    if (same_head || len > kvb || z[AOTC_ATTN_K_E] != 1 || z[AOTC_ATTN_V_E] != 1) return;
    const bf16* kb = at<bf16>(cfg->k_ptr, AOTC_ATTN_K_BASE) + b * z[AOTC_ATTN_K_B] + head * z[AOTC_ATTN_K_H];
    const bf16* vb = at<bf16>(cfg->v_ptr, AOTC_ATTN_V_BASE) + b * z[AOTC_ATTN_V_B] + head * z[AOTC_ATTN_V_H];
    for (int64_t j = i * len / n; j < (i + 1) * len / n; ++j) lines(kb + j * z[AOTC_ATTN_K_S], e), lines(vb + j * z[AOTC_ATTN_V_S], ev);
  }

  void unit(int64_t b, int64_t hkv, int64_t r0, int64_t r1, int64_t key) {
    const int64_t n = r1 - r0;
    const bf16* kb = at<bf16>(cfg->k_ptr, AOTC_ATTN_K_BASE) + b * z[AOTC_ATTN_K_B] + hkv * z[AOTC_ATTN_K_H];
    const bf16* vb = at<bf16>(cfg->v_ptr, AOTC_ATTN_V_BASE) + b * z[AOTC_ATTN_V_B] + hkv * z[AOTC_ATTN_V_H];
    const int64_t ks = z[AOTC_ATTN_K_S], ke = z[AOTC_ATTN_K_E], vs = z[AOTC_ATTN_V_S], ve = z[AOTC_ATTN_V_E];
    for (int64_t i = 0; i < n; ++i) {
      copy_tile_rows(query(b, hkv, r0 + i), 0, z[AOTC_ATTN_Q_E], 1, e, q_ + i * q_pitch_, q_pitch_);
      m_[i] = -__builtin_inff(), l_[i] = 0;
    }
    for (int64_t i = 0; i < n * evp; ++i) o_[i] = 0;
    const int64_t end = keys_end(b, hkv, r0, r1, 0, len);
    const bool kept = len <= kvb, fresh = !kept || kv_key_ != key;
    if (kept && fresh && end > 0) kv_key_ = key, kv_end_ = keys_end(b, hkv, 0, rows, 0, len);
    for (int64_t s0 = 0; s0 < end; s0 += kvb) {
      // Panels that are kept have the keys of all rows.
      const int64_t s1 = kept ? kv_end_ : min_of(s0 + kvb, end), width = s1 - s0, steps = tile_steps(width);
      const auto q_rows = [&](int64_t row) { return TileRows{reinterpret_cast<const char*>(q_ + row * q_pitch_), q_pitch_ * 2}; };
      blocks_.multiply({true}, n, width, e_steps_, q_rows, [&](int64_t p) -> TilePanel {
        bf16* panel = kp_ + p * e_steps_ * (kStepBytes / 2);
        const int64_t j = p * kPanel;
        if (fresh) copy_panel(kb + (s0 + j) * ks, ke, ks, e, min_of(kPanel, width - j), e_steps_, panel);
        return {reinterpret_cast<const char*>(panel)};
      });
      blocks_.finish();
      for (int64_t i = 0; i < n; ++i) {
        if (s0 == 0) prefetch_next(b, hkv, r1, i, n);
        float* row = s_ + i * kvb;
        mask_row(row, b, hkv, r0 + i, s0, s1);
        down_[i] = exponents(row, width, m_[i], l_[i]);
        round_row(row, width, steps * kTileK, p_ + i * p_pitch_);
      }
      const auto p_rows = [&](int64_t row) { return TileRows{reinterpret_cast<const char*>(p_ + row * p_pitch_), p_pitch_ * 2}; };
      blocks_.multiply({false}, n, ev, steps, p_rows, [&](int64_t p) -> TilePanel {
        bf16* panel = vp_ + p * tile_steps(kvb) * (kStepBytes / 2);
        const int64_t j = p * kPanel;
        if (fresh) copy_panel(vb + s0 * vs + j * ve, vs, ve, width, min_of(kPanel, ev - j), steps, panel);
        return {reinterpret_cast<const char*>(panel)};
      });
    }
    blocks_.finish();
    store(b, hkv, r0, n, o_, m_, l_);
  }
};

}  // namespace
