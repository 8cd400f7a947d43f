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

}  // namespace aotc::kernels
