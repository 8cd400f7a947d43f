#pragma once
// qr of aotc/detail/qr_abi.h: a panel of columns is factorised in the scratch, what its reflections do together to the columns right of it
// is I - V T^T V^T, as products (Schreiber and Van Loan, "A storage-efficient WY representation").
#include "any_vec.h"
#include "aotc/detail/qr_abi.h"
#include "simd.h"

namespace {

/// A matrix, factorised in place.
struct Qr {
  using V = AnyVec<double>::V;
  using U = AnyVec<double>::U;
  static constexpr int kLanes = AnyVec<double>::kLanes, kPanel = AOTC_QR_PANEL, kPanelVecs = kPanel / kLanes;
  static constexpr int kRows = 4;                                            ///< that are updated together
  static constexpr int kVecs = kLanes == 8 ? 4 : 2, kTile = kVecs * kLanes;  ///< columns of a product that registers hold
  static_assert(kTile <= kPanel && kPanel % kRows == 0);
  double* a;
  int64_t m, n;
  double* tau;
  double* panel;  ///< [m][kPanel]: the panel's rows from its diagonal on; then V, with its ones and zeros
  double* t;      ///< [kPanel][kPanel], upper triangle
  double* sums;   ///< [kPanel][kTile]: V^T times a tile of columns

  static U& at(double* p) { return *reinterpret_cast<U*>(p); }
  static V get(const double* p) { return *reinterpret_cast<const U*>(p); }

  /// Column c of the panel's `rows` rows, of which N vectors are in use: its reflection, and what that does to the columns right of it.
  /// In `products` what the rows below c of column c give with each column.
  template <int N>
  void reflect(int64_t rows, int c, double (&products)[kPanel]) const {
    V parts[N] = {};
    for (int64_t r = c + 1; r < rows; ++r)
      for (int v = 0; v < N; ++v) parts[v] += panel[r * kPanel + c] * get(panel + r * kPanel + v * kLanes);
    for (int v = 0; v < N; ++v) at(products + v * kLanes) = parts[v];
    double* const top = panel + c * kPanel;
    const double alpha = top[c], tail = products[c];
    if (tail == 0) {
      for (int j = 0; j < kPanel; ++j) products[j] = 0;
      tau[c] = 0;
      for (int64_t r = c + 1; r < rows; ++r) panel[r * kPanel + c] = 0;
      return;
    }
    const double norm = __builtin_sqrt(alpha * alpha + tail), beta = alpha < 0 || (alpha == 0 && __builtin_signbit(alpha)) ? norm : -norm;
    const double factor = (beta - alpha) / beta, scale = 1 / (alpha - beta);
    tau[c] = factor;
    for (int j = 0; j < kPanel; ++j) products[j] *= scale;  // of v's part below its one
    double taken[kPanel];                                   // what a row loses for each unit of v in it
    for (int j = 0; j < kPanel; ++j) taken[j] = j > c ? factor * (top[j] + products[j]) : 0.0;
    for (int64_t r = c + 1; r < rows; ++r) {
      double* const row = panel + r * kPanel;
      const double v = row[c] * scale;
      for (int k = 0; k < N; ++k) at(row + k * kLanes) = get(row + k * kLanes) - v * get(taken + k * kLanes);
      row[c] = v;
    }
    for (int j = c + 1; j < kPanel; ++j) top[j] -= taken[j];
    top[c] = beta;
  }
  void reflect(int vecs, int64_t rows, int c, double (&products)[kPanel]) const {
    if (vecs == 1) return reflect<1>(rows, c, products);
    if (vecs == 2) return reflect<2>(rows, c, products);
    if (kPanelVecs > 4 && vecs <= 4) return reflect<kPanelVecs / 2>(rows, c, products);
    reflect<kPanelVecs>(rows, c, products);
  }
  /// Column c of T, from the products of the v before it with its own, whose rows below c are in `products`.
  void add_to_triangle(int c, const double (&products)[kPanel]) const {
    double seen[kPanel];
    for (int j = 0; j < c; ++j) seen[j] = panel[c * kPanel + j] + products[j];
    for (int i = 0; i < c; ++i) {
      double sum = 0;
      for (int j = i; j < c; ++j) sum += t[i * kPanel + j] * seen[j];
      t[i * kPanel + c] = -tau[c] * sum;
    }
    t[c * kPanel + c] = tau[c];
    for (int i = c + 1; i < kPanel; ++i) t[i * kPanel + c] = 0;
  }

  /// R rows of the sums from k on: those of V's columns with a tile of columns of `rows` rows at `x`.
  template <int R>
  void multiply(const double* x, int64_t rows, int k) const {
    V parts[R][kVecs] = {};
    for (int64_t i = 0; i < rows; ++i)
      for (int v = 0; v < kVecs; ++v) {
        const V b = get(x + i * n + v * kLanes);
        for (int r = 0; r < R; ++r) parts[r][v] += panel[i * kPanel + k + r] * b;
      }
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < kVecs; ++v) at(sums + (k + r) * kTile + v * kLanes) = parts[r][v];
  }
  /// T^T times the sums, the last row first.
  void turn() const {
    for (int k = kPanel - 1; k >= 0; --k) {
      V parts[kVecs] = {};
      for (int j = 0; j <= k; ++j)
        for (int v = 0; v < kVecs; ++v) parts[v] += t[j * kPanel + k] * get(sums + j * kTile + v * kLanes);
      for (int v = 0; v < kVecs; ++v) at(sums + k * kTile + v * kLanes) = parts[v];
    }
  }
  /// R rows from i on of the tile at x lose what V has of the sums there.
  template <int R>
  void less(double* x, int64_t i) const {
    V rest[R][kVecs];
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < kVecs; ++v) rest[r][v] = get(x + (i + r) * n + v * kLanes);
    for (int k = 0; k < kPanel; ++k)
      for (int v = 0; v < kVecs; ++v) {
        const V b = get(sums + k * kTile + v * kLanes);
        for (int r = 0; r < R; ++r) rest[r][v] -= panel[(i + r) * kPanel + k] * b;
      }
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < kVecs; ++v) at(x + (i + r) * n + v * kLanes) = rest[r][v];
  }
  void tile(double* x, int64_t rows) const {
    for (int k = 0; k < kPanel; k += kRows) multiply<kRows>(x, rows, k);
    turn();
    int64_t i = 0;
    for (; i + kRows <= rows; i += kRows) less<kRows>(x, i);
    for (; i < rows; ++i) less<1>(x, i);
  }
  /// The same for one column.
  void column(double* x, int64_t rows) const {
    double seen[kPanel] = {}, turned[kPanel];
    for (int64_t i = 0; i < rows; ++i)
      for (int k = 0; k < kPanel; ++k) seen[k] += panel[i * kPanel + k] * x[i * n];
    for (int k = 0; k < kPanel; ++k) {
      turned[k] = 0;
      for (int j = 0; j <= k; ++j) turned[k] += t[j * kPanel + k] * seen[j];
    }
    for (int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (int k = 0; k < kPanel; ++k) sum += panel[i * kPanel + k] * turned[k];
      x[i * n] -= sum;
    }
  }

  /// `width` columns from `first` on, of all rows from there.
  void factorise_panel(int64_t first, int width) {
    const int64_t rows = m - first;
    double* const block = a + first * n + first;
    for (int64_t r = 0; r < rows; ++r) {
      double* const to = panel + r * kPanel;
      for (int c = 0; c < width; ++c) to[c] = block[r * n + c];
      for (int c = width; c < kPanel; ++c) to[c] = 0;
    }
    const int vecs = (width + kLanes - 1) / kLanes;
    tau += first;
    for (int c = 0; c < width; ++c) {
      double products[kPanel] = {};
      reflect(vecs, rows, c, products);
      add_to_triangle(c, products);
    }
    tau -= first;
    for (int c = width; c < kPanel; ++c)
      for (int i = 0; i < kPanel; ++i) t[i * kPanel + c] = t[c * kPanel + i] = 0;
    for (int64_t r = 0; r < rows; ++r)
      for (int c = 0; c < width; ++c) block[r * n + c] = panel[r * kPanel + c];
    for (int64_t r = 0; r < min_of<int64_t>(rows, kPanel); ++r) {
      panel[r * kPanel + r] = r < width ? 1 : 0;
      for (int c = static_cast<int>(r) + 1; c < kPanel; ++c) panel[r * kPanel + c] = 0;
    }
  }

  /// A power of two that brings the largest of `count` numbers, where it is near an end of the range, near one; else one.
  static double scale_of(const double* x, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; ++i) largest = max_of(largest, __builtin_fabs(x[i]));
    return largest > 0x1p+400 ? 0x1p-600 : largest < 0x1p-400 && largest > 0 ? 0x1p+600 : 1.0;
  }
  void factorise() {
    const double scale = scale_of(a, m * n);
    if (scale != 1.0)
      for (int64_t i = 0; i < m * n; ++i) a[i] *= scale;
    const int64_t steps = min_of(m, n);
    for (int64_t first = 0; first < steps; first += kPanel) {
      const int width = static_cast<int>(min_of<int64_t>(kPanel, steps - first));
      factorise_panel(first, width);
      double* const right = a + first * n;
      int64_t j = first + width;
      for (; j + kTile <= n; j += kTile) tile(right + j, m - first);
      for (; j < n; ++j) column(right + j, m - first);
    }
    if (scale == 1.0) return;
    for (int64_t i = 0; i < steps; ++i)
      for (int64_t j = i; j < n; ++j) a[i * n + j] /= scale;
  }
};

inline void qr(const aotc_kargs* args, int64_t begin, int64_t end) {
  const int64_t m = args->size[1], n = args->size[2], all = m * n;
  const double* const x = static_cast<const double*>(args->ptr[0]);
  double* const packed = static_cast<double*>(args->ptr[1]);
  double* const tau = static_cast<double*>(args->ptr[2]);
  double* const t = static_cast<double*>(args->scratch);
  double* const sums = t + Qr::kPanel * Qr::kPanel;
  double* const panel = sums + Qr::kPanel * Qr::kPanel;
  for (int64_t c = begin; c < end; ++c) {
    if (all) __builtin_memcpy(packed + c * all, x + c * all, static_cast<size_t>(all) * sizeof(double));
    Qr{packed + c * all, m, n, tau + c * min_of(m, n), panel, t, sums}.factorise();
  }
}

}  // namespace
