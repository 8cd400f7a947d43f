#pragma once
// Matrix products as dot products: aotc_gemm_dots_* of aotc/detail/library_abi.h. Both operands lie along k. Nothing is copied: a block of
// rows times columns runs along k in registers, its sums are added up over the lanes at the end.
#include "gemm_units.h"

namespace {

template <class T>
struct GemmDots {
  using Lanes = Vec<T>;
  static constexpr int W = Lanes::kLanes;

  const aotc_kargs* args;
  GemmUnits units;
  const T *a, *b;
  int64_t k, a_rs, b_cs;

  explicit GemmDots(const aotc_kargs* x) : args(x), units(x) {
    const int64_t* size = x->size;
    a = static_cast<const T*>(x->ptr[units.cfg->a_ptr]) + size[AOTC_GEMM_A_BASE];
    b = static_cast<const T*>(x->ptr[units.cfg->b_ptr]) + size[AOTC_GEMM_B_BASE];
    k = size[AOTC_GEMM_K], a_rs = size[AOTC_GEMM_A_RS], b_cs = size[AOTC_GEMM_B_CS];
  }

  static T sum(typename Lanes::V v) {
    T x[W];
    Lanes::store(x, v);
    for (int half = W / 2; half; half /= 2)
      for (int i = 0; i < half; ++i) x[i] += x[i + half];
    return x[0];
  }

  /// R rows of A times C columns of B.
  template <int R, int C>
  void block(const T* x, const T* y, T* out, int64_t ld) const {
    typename Lanes::V sums[R][C];
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) sums[r][c] = Lanes::zero();
    int64_t i = 0;
    for (; i + W <= k; i += W) {
      typename Lanes::V column[C];
      for (int c = 0; c < C; ++c) column[c] = Lanes::load(y + c * b_cs + i);
      for (int r = 0; r < R; ++r) {
        const typename Lanes::V row = Lanes::load(x + r * a_rs + i);
        for (int c = 0; c < C; ++c) sums[r][c] = Lanes::fma(row, column[c], sums[r][c]);
      }
    }
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) {
        T s = sum(sums[r][c]);
        for (int64_t rest = i; rest < k; ++rest) s += x[r * a_rs + rest] * y[c * b_cs + rest];
        out[r * ld + c] = s;
      }
  }

  template <int R>
  void rows(const T* x, const T* y, T* out, int64_t ld, int64_t cols) const {
    int64_t c = 0;
    for (; c + 4 <= cols; c += 4) block<R, 4>(x, y + c * b_cs, out + c, ld);
    for (; c < cols; ++c) block<R, 1>(x, y + c * b_cs, out + c, ld);
  }

  void run(int64_t begin, int64_t end) const {
    T* const tile = static_cast<T*>(args->scratch);
    const int64_t* size = args->size;
    for (int64_t number = begin; number < end; ++number) {
      const GemmUnits::Unit u = units.at(number);
      const int64_t b0 = u.batch / size[AOTC_GEMM_B1], b1 = u.batch % size[AOTC_GEMM_B1];
      const T* x = a + b0 * size[AOTC_GEMM_A_B0] + b1 * size[AOTC_GEMM_A_B1] + u.m0 * a_rs;
      const T* y = b + b0 * size[AOTC_GEMM_B_B0] + b1 * size[AOTC_GEMM_B_B1] + (units.segment_begin(u.segment) + u.n0) * b_cs;
      int64_t r = 0;
      for (; r + 4 <= u.rows(); r += 4) rows<4>(x + r * a_rs, y, tile + r * u.cols(), u.cols(), u.cols());
      for (; r < u.rows(); ++r) rows<1>(x + r * a_rs, y, tile + r * u.cols(), u.cols(), u.cols());
      units.cfg->epilogues[u.segment](args, tile, u.cols(), u.batch, u.m0, u.rows(), u.n0, u.cols());
    }
  }
};

}  // namespace
