#pragma once
// Matrix products as dot products: aotc_gemm_dots_* of aotc/detail/library_abi.h. Both operands lie along k. Nothing is copied.
#include "dots.h"
#include "gemm_units.h"

namespace {

template <class T>
struct GemmDots {
  const aotc_kargs* args;
  GemmUnits units;

  explicit GemmDots(const aotc_kargs* x) : args(x), units(x) {}

  void run(int64_t begin, int64_t end) const {
    T* const tile = static_cast<T*>(args->scratch);
    const int64_t* size = args->size;
    const T* const a = static_cast<const T*>(args->ptr[units.cfg->a_ptr]) + size[AOTC_GEMM_A_BASE];
    const T* const b = static_cast<const T*>(args->ptr[units.cfg->b_ptr]) + size[AOTC_GEMM_B_BASE];
    const Dots<T> dots{size[AOTC_GEMM_K], size[AOTC_GEMM_A_RS], size[AOTC_GEMM_B_CS]};
    for (int64_t number = begin; number < end; ++number) {
      const GemmUnits::Unit u = units.at(number);
      const int64_t b0 = u.batch / size[AOTC_GEMM_B1], b1 = u.batch % size[AOTC_GEMM_B1];
      const T* x = a + b0 * size[AOTC_GEMM_A_B0] + b1 * size[AOTC_GEMM_A_B1] + u.m0 * dots.row_step;
      const T* y = b + b0 * size[AOTC_GEMM_B_B0] + b1 * size[AOTC_GEMM_B_B1] + (units.segment_begin(u.segment) + u.n0) * dots.column_step;
      dots.run(x, u.rows(), y, u.cols(), tile, u.cols());
      units.cfg->epilogues[u.segment](args, tile, u.cols(), u.batch, u.m0, u.rows(), u.n0, u.cols());
    }
  }
};

}  // namespace
