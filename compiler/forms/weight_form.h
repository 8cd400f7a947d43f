#pragma once
// The forms that a constant operand takes in an artifact when it is not stored as it is.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "aotc/detail/library_abi.h"
#include "base/dtype.h"

namespace aotc::forms {

/// The panel form of library_abi.h. Element (r, j) of a matrix is element begin + rows.at(r) + j * col_stride of the constant.
/// The matrices' panels follow each other: gemm: batch (row-major over the batch dims that B depends on), then segments; conv: groups,
/// then phases.
struct Panels {
  /// Where the rows of a matrix lie: row r at (r / inner) * outer_stride + (r % inner) * inner_stride, or with taps + taps[r % inner].
  struct Rows {
    int64_t count = 0;
    int64_t inner = 1, outer_stride = 0, inner_stride = 0;
    std::vector<int64_t> taps;
    int64_t at(int64_t r) const {
      const int64_t i = r % inner;
      return r / inner * outer_stride + (taps.empty() ? i * inner_stride : taps[static_cast<size_t>(i)]);
    }
    friend bool operator==(const Rows&, const Rows&) = default;
  };
  struct Matrix {
    int64_t begin, cols;
    size_t rows = 0;  ///< number in Panels::rows
    friend bool operator==(const Matrix&, const Matrix&) = default;
  };
  DType dtype = DType::f32;
  /// m: the transforms of 3x3 filters for Winograd's F(m x m, 3 x 3), f32 or bf16: a matrix has (m + 2)^2 times its rows, point after
  /// point. The nine taps of a row's filter lie at its place. 0: the constant's own elements.
  int winograd = 0;
  /// Not 0: no panels; the columns of a matrix follow each other, each `inner` rows of them filled up with zeros to a multiple of this.
  int64_t column_groups = 0;
  /// 2, of f32 columns: all of them rounded to TF32, then what that leaves of them (kernels/cuda/gemm.cuh, tf32_split). 1: as they are.
  int parts = 1;
  /// 8 or 4: numbers of so many bits in the form of gemm_quant (library_abi.h), or in slabs; the constant's are bytes, as is `dtype`. 0:
  /// whole elements.
  int bits = 0;
  bool slabs = false;  ///< of `bits`: as GPUs take them (forms/slabs.h)
  /// Of `bits`: every `line` rows (0: all of a matrix) are filled up with zeros to a multiple of `step`, one of AOTC_QUANT_BLOCK.
  int64_t line = 0, step = AOTC_QUANT_BLOCK;
  int64_t col_stride = 1;
  std::vector<Rows> rows;
  std::vector<Matrix> matrices;
  /// Rows of a matrix as they are stored: types that are multiplied in pairs have an even number.
  int64_t stored_rows(const Matrix& m) const;
  int64_t unit_columns() const;  ///< that are stored together: those of a matrix are filled up to a multiple
  int64_t elems() const;         ///< with padding
  int64_t bytes() const;
  friend bool operator==(const Panels&, const Panels&) = default;
};

/// Whether there is a panel form of the type.
bool has_panel_form(DType t);

using WeightForm = Panels;

}  // namespace aotc::forms
