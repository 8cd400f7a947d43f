#pragma once
// The panel form of a weight (runtime/include/aotc/detail/library_abi.h), made when a model is built. One segment a call; the panels of
// several segments, or of several groups of a convolution, follow each other.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "aotc/detail/library_abi.h"
#include "base/dtype.h"

namespace aotc::kernels {

/// k rows as stored: even for bf16, whose rows go in pairs.
constexpr int64_t panel_rows(int64_t k, DType t) { return t == DType::bf16 ? (k + 1) / 2 * 2 : k; }
constexpr int64_t panel_elems(int64_t k, int64_t n, DType t) {
  return (n + AOTC_PANEL_N - 1) / AOTC_PANEL_N * AOTC_PANEL_N * panel_rows(k, t);
}
constexpr int64_t panel_bytes(int64_t k, int64_t n, DType t) { return panel_elems(k, n, t) * dtype_bytes(t); }

namespace detail {
template <class T>
void pack_panels(const T* src, int64_t rs, int64_t cs, int64_t k, int64_t n, bool pairs, T* dst) {
  const int64_t rows = pairs ? (k + 1) / 2 * 2 : k;
  for (int64_t j0 = 0; j0 < n; j0 += AOTC_PANEL_N, dst += rows * AOTC_PANEL_N) {
    const int64_t cols = std::min<int64_t>(n - j0, AOTC_PANEL_N);
    for (int64_t i = 0; i < rows; ++i) {
      T* out = pairs ? dst + (i / 2) * 2 * AOTC_PANEL_N + i % 2 : dst + i * AOTC_PANEL_N;
      const int64_t step = pairs ? 2 : 1;
      for (int64_t j = 0; j < AOTC_PANEL_N; ++j) out[j * step] = i < k && j < cols ? src[i * rs + (j0 + j) * cs] : T(0);
    }
  }
}
}  // namespace detail

/// Packs B[k, n], element (i, j) at src[i*rs + j*cs] (strides in elements), into dst of panel_bytes(k, n, t). Only f16, bf16, f32, f64.
inline void pack_panels(const void* src, int64_t rs, int64_t cs, int64_t k, int64_t n, DType t, void* dst) {
  switch (dtype_bytes(t)) {
    case 2: return detail::pack_panels(static_cast<const uint16_t*>(src), rs, cs, k, n, t == DType::bf16, static_cast<uint16_t*>(dst));
    case 4: return detail::pack_panels(static_cast<const uint32_t*>(src), rs, cs, k, n, false, static_cast<uint32_t*>(dst));
    default: return detail::pack_panels(static_cast<const uint64_t*>(src), rs, cs, k, n, false, static_cast<uint64_t*>(dst));
  }
}

/// Of the weights of gemm_quant: bytes of a segment's n columns, k filled up to a multiple of `step`, one of AOTC_QUANT_BLOCK.
constexpr int64_t quant_panel_bytes(int64_t k, int64_t n, int bits, int64_t step = AOTC_QUANT_BLOCK) {
  return (n + AOTC_PANEL_N - 1) / AOTC_PANEL_N * AOTC_PANEL_N * ((k + step - 1) / step * step) * bits / 8;
}

/// Element (i, j) at src[i*rs + j*cs], signed bytes (bits 8) or numbers below 16 (bits 4), into dst of quant_panel_bytes(k, n, bits, step).
inline void pack_quant_panels(const int8_t* src, int64_t rs, int64_t cs, int64_t k, int64_t n, int bits, char* dst,
                              int64_t step = AOTC_QUANT_BLOCK) {
  constexpr int64_t kBlock = AOTC_QUANT_BLOCK, kLanes = AOTC_QUANT_LANES, kHalf = kBlock / 2;
  std::memset(dst, 0, static_cast<size_t>(quant_panel_bytes(k, n, bits, step)));
  for (int64_t j0 = 0; j0 < (n + AOTC_PANEL_N - 1) / AOTC_PANEL_N * AOTC_PANEL_N; j0 += kLanes)
    for (int64_t k0 = 0; k0 < (k + step - 1) / step * step; k0 += kBlock, dst += kBlock * kLanes * bits / 8)
      for (int64_t j = 0; j < std::min(kLanes, n - j0); ++j)
        for (int64_t i = 0; i < std::min(kBlock, k - k0); ++i) {
          const int8_t v = src[(k0 + i) * rs + (j0 + j) * cs];
          const int64_t in_half = i % kHalf;
          if (bits == 8)
            dst[i / 4 * 4 * kLanes + j * 4 + i % 4] = static_cast<char>(v);
          else
            dst[in_half / 4 * 4 * kLanes + j * 4 + in_half % 4] |= static_cast<char>(i < kHalf ? v : v * 16);
        }
}

}  // namespace aotc::kernels
