#pragma once
// Copies of operands into the panels that the register tiles read.
#include "micro.h"

namespace {

/// dst[k][rows] (T) from rows x k elements at src[i*rs + k*cs]. May write up to 16 elements beyond the end.
template <class E, class T>
void pack_rows(const E* src, int64_t rs, int64_t cs, int64_t rows, int64_t k, T* dst) {
  int64_t k0 = 0;
  if constexpr (sizeof(T) == 4) {
    if (cs == 1 && rows <= 16) {
      for (; k0 + 8 <= k; k0 += 8) {
        __m256 lo[8], hi[8];
        for (int i = 0; i < 8; ++i) lo[i] = i < rows ? load8(src + i * rs + k0) : _mm256_setzero_ps();
        transpose8(lo);
        if (rows > 8) {
          for (int i = 0; i < 8; ++i) hi[i] = i + 8 < rows ? load8(src + (i + 8) * rs + k0) : _mm256_setzero_ps();
          transpose8(hi);
        }
        // Ascending k: what a store leaves beyond its row is overwritten by the next row.
        for (int i = 0; i < 8; ++i) {
          float* out = reinterpret_cast<float*>(dst) + (k0 + i) * rows;
          _mm256_storeu_ps(out, lo[i]);
          if (rows > 8) _mm256_storeu_ps(out + 8, hi[i]);
        }
      }
    }
  }
  if (rs == 1) {
    for (; k0 < k; ++k0)
      for (int64_t i = 0; i < rows; ++i) dst[k0 * rows + i] = to_acc(src[i + k0 * cs]);
    return;
  }
  for (; k0 < k; ++k0)
    for (int64_t i = 0; i < rows; ++i) dst[k0 * rows + i] = to_acc(src[i * rs + k0 * cs]);
}

/// dst[ceil(k/2)][rows] pairs of bf16. May write up to 16 elements beyond the end.
inline void pack_row_pairs(const bf16* src, int64_t rs, int64_t cs, int64_t rows, int64_t k, u32* dst) {
  int64_t k0 = 0;
  if (cs == 1 && rows <= 16) {
    for (; k0 + 16 <= k; k0 += 16) {
      __m256 lo[8], hi[8];
      for (int i = 0; i < 8; ++i) lo[i] = i < rows ? load8(reinterpret_cast<const float*>(src + i * rs + k0)) : _mm256_setzero_ps();
      transpose8(lo);
      if (rows > 8) {
        for (int i = 0; i < 8; ++i)
          hi[i] = i + 8 < rows ? load8(reinterpret_cast<const float*>(src + (i + 8) * rs + k0)) : _mm256_setzero_ps();
        transpose8(hi);
      }
      for (int i = 0; i < 8; ++i) {
        float* out = reinterpret_cast<float*>(dst) + (k0 / 2 + i) * rows;
        _mm256_storeu_ps(out, lo[i]);
        if (rows > 8) _mm256_storeu_ps(out + 8, hi[i]);
      }
    }
  }
  for (; k0 < k; k0 += 2)
    for (int64_t i = 0; i < rows; ++i) {
      u32 a = src[i * rs + k0 * cs].bits, b = k0 + 1 < k ? src[i * rs + (k0 + 1) * cs].bits : 0;
      dst[k0 / 2 * rows + i] = a | b << 16;
    }
}

/// dst[k][ld] (T) from k x cols elements at src[i*rs + j*cs]; columns from cols to `to` are zeros.
template <class E, class T>
void pack_cols(const E* src, int64_t rs, int64_t cs, int64_t k, int64_t cols, int64_t to, T* dst, int64_t ld) {
  if (cs == 1) {
    for (int64_t i = 0; i < k; ++i) {
      const E* in = src + i * rs;
      T* out = dst + i * ld;
      int64_t j = 0;
      for (; j < cols; ++j) out[j] = to_acc(in[j]);
      for (; j < to; ++j) out[j] = 0;
    }
    return;
  }
  int64_t i0 = 0;
  if constexpr (sizeof(T) == 4) {
    if (rs == 1) {
      for (; i0 + 8 <= k; i0 += 8)
        for (int64_t j0 = 0; j0 < to; j0 += 8) {
          __m256 r[8];
          for (int j = 0; j < 8; ++j) r[j] = j0 + j < cols ? load8(src + (j0 + j) * cs + i0) : _mm256_setzero_ps();
          transpose8(r);
          for (int i = 0; i < 8; ++i) _mm256_storeu_ps(reinterpret_cast<float*>(dst) + (i0 + i) * ld + j0, r[i]);
        }
    }
  }
  for (; i0 < k; ++i0) {
    int64_t j = 0;
    for (; j < cols; ++j) dst[i0 * ld + j] = to_acc(src[i0 * rs + j * cs]);
    for (; j < to; ++j) dst[i0 * ld + j] = 0;
  }
}

/// dst[ceil(k/2)][ld] pairs of bf16, likewise; `to` a multiple of 8.
inline void pack_col_pairs(const bf16* src, int64_t rs, int64_t cs, int64_t k, int64_t cols, int64_t to, u32* dst, int64_t ld) {
  int64_t i0 = 0;
  if (rs == 1 && cs != 1) {
    for (; i0 + 16 <= k; i0 += 16)
      for (int64_t j0 = 0; j0 < to; j0 += 8) {
        __m256 r[8];
        for (int j = 0; j < 8; ++j)
          r[j] = j0 + j < cols ? load8(reinterpret_cast<const float*>(src + (j0 + j) * cs + i0)) : _mm256_setzero_ps();
        transpose8(r);
        for (int i = 0; i < 8; ++i) _mm256_storeu_ps(reinterpret_cast<float*>(dst) + (i0 / 2 + i) * ld + j0, r[i]);
      }
  }
  for (; i0 < k; i0 += 2) {
    u32* out = dst + i0 / 2 * ld;
    const bf16 *even = src + i0 * rs, *odd = i0 + 1 < k ? even + rs : nullptr;
    int64_t j = 0;
    if (cs == 1 && odd) {
      for (; j + 16 <= cols; j += 16) {
        const __m256i e = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(even + j));
        const __m256i o = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(odd + j));
        const __m256i lo = _mm256_unpacklo_epi16(e, o), hi = _mm256_unpackhi_epi16(e, o);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + j), _mm256_permute2x128_si256(lo, hi, 0x20));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + j + 8), _mm256_permute2x128_si256(lo, hi, 0x31));
      }
    }
    for (; j < cols; ++j) out[j] = even[j * cs].bits | static_cast<u32>(odd ? odd[j * cs].bits : 0) << 16;
    for (; j < to; ++j) out[j] = 0;
  }
}

}  // namespace
