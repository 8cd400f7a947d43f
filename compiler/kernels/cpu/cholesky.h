#pragma once
// cholesky of aotc/detail/library_abi.h, a panel of columns after the other: what the columns left of it give is a product, whose sums stay
// in registers over all of them, the rest of a panel is solved row by row against its square on the diagonal.
#include "any_vec.h"
#include "simd.h"

namespace {

typedef AnyVec<double>::V CholeskyV;
typedef AnyVec<double>::U CholeskyU;
constexpr int kCholeskyLanes = AnyVec<double>::kLanes;
constexpr int kCholeskyVecs = kCholeskyLanes == 8 ? 4 : 2;        ///< of a row of a panel
constexpr int kCholeskyColumns = kCholeskyVecs * kCholeskyLanes;  ///< of a panel
constexpr int kCholeskyRows = 4;                                  ///< that are computed together
static_assert(kCholeskyColumns <= AOTC_CHOLESKY_COLUMNS);
constexpr int kCholeskyNan = 16;  ///< rows of a float32 matrix up to which a column below an infinite pivot is NaN

template <class T>
struct Cholesky {
  static constexpr int kVecs = kCholeskyVecs, kLanes = kCholeskyLanes, kColumns = kCholeskyColumns, kRows = kCholeskyRows;
  const T* x;
  T* out;
  int64_t n;
  double* left;                       ///< [n, kColumns]: the panel's rows of all columns left of it, turned; then `diagonal`'s rows
  double square[kColumns][kColumns];  ///< L of the panel's diagonal block, turned: [column][row]
  double inverse[kColumns];           ///< of its diagonal

  /// Rows `row` to row + R - 1 of x in the panel's columns less what the columns left of it give.
  template <int R>
  void less(int64_t row, int64_t first, int64_t width, CholeskyV (&rest)[R][kVecs]) const {
    CholeskyV sums[R][kVecs] = {};
    const T* const l = out + row * n;
    for (int64_t k = 0; k < first; ++k) {
      CholeskyV b[kVecs];
      for (int v = 0; v < kVecs; ++v) b[v] = *reinterpret_cast<const CholeskyU*>(left + k * kColumns + v * kLanes);
      for (int r = 0; r < R; ++r) {
        const double factor = static_cast<double>(l[r * n + k]);
        for (int v = 0; v < kVecs; ++v) sums[r][v] += factor * b[v];
      }
    }
    for (int r = 0; r < R; ++r) {
      double given[kColumns] = {};
      for (int64_t c = 0; c < width; ++c) given[c] = static_cast<double>(x[(row + r) * n + first + c]);
      for (int v = 0; v < kVecs; ++v) rest[r][v] = *reinterpret_cast<const CholeskyU*>(given + v * kLanes) - sums[r][v];
    }
  }

  void turn(int64_t first, int64_t width) const {
    for (int64_t k = 0; k < first; ++k)
      for (int64_t c = 0; c < kColumns; ++c) left[k * kColumns + c] = c < width ? static_cast<double>(out[(first + c) * n + k]) : 0.0;
  }

  /// The square of `width` columns on the diagonal. The order of its first leading minor that is not positive, or 0.
  __attribute__((noinline)) int32_t diagonal(int64_t first, int64_t width) {
    int32_t info = 0;
    auto* const rows = reinterpret_cast<double(*)[kColumns]>(left + first * kColumns);
    int64_t row = 0;
    const auto take = [&](auto& rest) {
      for (auto& r : rest) {
        for (int v = 0; v < kVecs; ++v) *reinterpret_cast<CholeskyU*>(&rows[row][v * kLanes]) = r[v];
        ++row;
      }
    };
    while (row + kRows <= width) {
      CholeskyV rest[kRows][kVecs];
      less<kRows>(first + row, first, width, rest);
      take(rest);
    }
    while (row < width) {
      CholeskyV rest[1][kVecs];
      less<1>(first + row, first, width, rest);
      take(rest);
    }
    for (int64_t j = 0; j < width; ++j) {
      const double pivot = rows[j][j];
      if (!(pivot > 0) && info == 0) info = static_cast<int32_t>(first + j + 1);
      const double root = pivot > 0 ? __builtin_sqrt(pivot) : __builtin_nan("");
      inverse[j] = sizeof(T) == 4 && n <= kCholeskyNan && __builtin_isinf(root) ? __builtin_nan("") : 1 / root;
      for (int64_t i = 0; i < width; ++i) square[j][i] = i < j ? 0.0 : i == j ? root : rows[i][j] * inverse[j];
      for (int64_t i = j + 1; i < width; ++i)
        for (int64_t v = (j + 1) / kLanes; v * kLanes <= i; ++v) {
          CholeskyU* const at = reinterpret_cast<CholeskyU*>(&rows[i][v * kLanes]);
          *at -= square[j][i] * *reinterpret_cast<const CholeskyU*>(&square[j][v * kLanes]);
        }
    }
    for (int64_t r = 0; r < width; ++r) {
      T* const to = out + (first + r) * n + first;
      for (int64_t c = 0; c <= r; ++c) to[c] = static_cast<T>(square[c][r]);
      for (int64_t c = r + 1; c < n - first; ++c) to[c] = T(0);
    }
    return info;
  }

  /// R rows below the square, of whole panels.
  template <int R>
  void below(int64_t row, int64_t first) const {
    CholeskyV rest[R][kVecs];
    less<R>(row, first, kColumns, rest);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v)
#pragma GCC unroll 8
      for (int l = 0; l < kLanes; ++l) {
        const int j = v * kLanes + l;
        for (int r = 0; r < R; ++r) {
          const double value = rest[r][v][l] * inverse[j];
          for (int w = v; w < kVecs; ++w) rest[r][w] -= value * *reinterpret_cast<const CholeskyU*>(&square[j][w * kLanes]);
          out[(row + r) * n + first + j] = static_cast<T>(value);
        }
      }
  }

  int32_t factorise() {
    int32_t info = 0;
    for (int64_t first = 0; first < n; first += kColumns) {
      const int64_t width = min_of<int64_t>(kColumns, n - first);
      turn(first, width);
      const int32_t here = diagonal(first, width);
      if (info == 0) info = here;
      int64_t row = first + width;
      for (; row + kRows <= n; row += kRows) below<kRows>(row, first);
      for (; row < n; ++row) below<1>(row, first);
    }
    return info;
  }
};

template <class T>
void cholesky(const aotc_kargs* args, int64_t begin, int64_t end) {
  const int64_t n = args->size[1];
  Cholesky<T> c;
  c.n = n, c.left = static_cast<double*>(args->scratch);
  for (int64_t m = begin; m < end; ++m) {
    c.x = static_cast<const T*>(args->ptr[0]) + m * n * n;
    c.out = static_cast<T*>(args->ptr[1]) + m * n * n;
    static_cast<int32_t*>(args->ptr[2])[m] = c.factorise();
  }
}

}  // namespace
