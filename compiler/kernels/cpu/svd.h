#pragma once
// svd of aotc/detail/svd_abi.h. Small matrices are lanes of vectors: pairs of columns are rotated until all are orthogonal (Hestenes).
// Others go by a bidiagonal matrix, symmetric ones by a tridiagonal one.
#include "any_vec.h"
#include "aotc/detail/svd_abi.h"
#include "simd.h"
#include "tridiagonal.h"

namespace {

using SvdLanes = AnyVec<double>::V;
constexpr int kSvdLanes = AnyVec<double>::kLanes;
static_assert(AOTC_SVD_LANES % kSvdLanes == 0);
static_assert(AOTC_SVD_SWEEPS_KEPT == Sweeps::kMost);

constexpr double kEpsilon = 2.220446049250313e-16;

inline SvdLanes root_of(SvdLanes x) {
  for (int l = 0; l < kSvdLanes; ++l) x[l] = __builtin_sqrt(x[l]);
  return x;
}
inline SvdLanes size_of(SvdLanes x) { return x < 0.0 ? -x : x; }
template <class V>
V repeated(double x) {
  return V{} + x;
}
template <class Mask>
inline bool any(const Mask& m) {
  bool found = false;
  for (int l = 0; l < kSvdLanes; ++l) found |= m[l] != 0;
  return found;
}

/// What makes two columns orthogonal: (p, q) becomes (c p - s q, s p + c q); identity where they are, or where one is zero.
template <class V>
struct Rotation {
  V c, s;
  bool turns;
  Rotation(V pp, V qq, V pq, double tolerance) {
    const V smallest = repeated<V>(AOTC_SVD_SMALLEST_SQUARE), one = repeated<V>(1), zero = repeated<V>(0);
    const auto apart = (pp > smallest) & (qq > smallest) & (size_of(pq) > tolerance * root_of(pp) * root_of(qq));
    turns = any(apart);
    if (!turns) return;
    const V twice = apart ? 2.0 * pq : one, zeta = (qq - pp) / twice;
    const V size = one / (size_of(zeta) + root_of(one + zeta * zeta)), tangent = apart ? (zeta < zero ? -size : size) : zero;
    c = one / root_of(one + tangent * tangent);
    s = c * tangent;
  }
};

/// Columns of a matrix and of v beside each other, values of a column one after another; an element is a number, or one of every lane's
/// matrix.
template <class V>
struct Columns {
  V *a, *v;  ///< [n][m], [n][n]
  int64_t m, n;

  static void products(const V* p, const V* q, int64_t m, V& pp, V& qq, V& pq) {
    pp = qq = pq = V{};
    for (int64_t i = 0; i < m; ++i) pp += p[i] * p[i], qq += q[i] * q[i], pq += p[i] * q[i];
  }
  static void rotate(V* p, V* q, int64_t count, const Rotation<V>& r) {
    for (int64_t i = 0; i < count; ++i) {
      const V x = p[i], y = q[i];
      p[i] = r.c * x - r.s * y;
      q[i] = r.s * x + r.c * y;
    }
  }
  void orthogonalise() const {
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < n; ++i) v[j * n + i] = repeated<V>(i == j ? 1 : 0);
    const double tolerance = kEpsilon * __builtin_sqrt(static_cast<double>(m));
    bool turned = true;
    for (int sweep = 0; sweep < AOTC_SVD_SWEEPS && turned; ++sweep) {
      turned = false;
      for (int64_t p = 0; p < n; ++p)
        for (int64_t q = p + 1; q < n; ++q) {
          V pp, qq, pq;
          products(a + p * m, a + q * m, m, pp, qq, pq);
          const Rotation<V> r(pp, qq, pq, tolerance);
          if (!r.turns) continue;
          rotate(a + p * m, a + q * m, m, r);
          rotate(v + p * n, v + q * n, n, r);
          turned = true;
        }
    }
  }
};

/// The largest power of two that is at most x; 1 for 0.
inline double power_below(double x) {
  uint64_t bits;
  __builtin_memcpy(&bits, &x, 8);
  bits &= 0x7ff0000000000000u;
  if (bits == 0) bits = x > 0 ? 0x0010000000000000u : 0x3ff0000000000000u;
  double power;
  __builtin_memcpy(&power, &bits, 8);
  return power;
}

/// A matrix and its results; the columns lie every `step` numbers.
struct Svd {
  const double* x;
  double *u, *s, *v;
  int64_t m, n;
  double* a;      ///< [n][m], the rotated columns
  double* right;  ///< [n][n], v's columns
  int64_t step;
  double* sizes;   ///< [n]: what the singular values' order goes by
  int64_t* order;  ///< [n]

  /// The power of two by which `load` divides, or 0 where a number is not finite.
  double unit() const {
    double largest = 0;
    bool finite = true;
    for (int64_t i = 0; i < m * n; ++i) {
      const double size = __builtin_fabs(x[i]);
      finite &= size <= 1.7976931348623157e308;
      largest = max_of(largest, size);
    }
    return finite ? power_below(largest) : 0;
  }
  void load(double unit) const {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) a[(j * m + i) * step] = unit > 0 ? x[i * n + j] / unit : 0;
  }
  /// Puts j among those before it, the largest first.
  void place(int64_t j, double size) const {
    sizes[j] = size;
    int64_t at = j;
    for (; at > 0 && sizes[order[at - 1]] < size; --at) order[at] = order[at - 1];
    order[at] = j;
  }
  void sort() const {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < m; ++i) sum += a[(j * m + i) * step] * a[(j * m + i) * step];
      place(j, sum);
    }
  }
  /// Of a column of v, whose numbers lie every `by`.
  double sign_of(const double* column, int64_t by) const {
    double largest = 0;
    for (int64_t i = 0; i < n; ++i) largest = max_of(largest, __builtin_fabs(column[i * by]));
    for (int64_t i = 0; i < n; ++i)
      if (const double value = column[i * by]; __builtin_fabs(value) >= AOTC_SVD_SIGNED_PART * largest) return value < 0 ? -1 : 1;
    return 1;
  }
  /// Column j of u is a unit vector orthogonal to those before it.
  void complete(int64_t j) const {
    int64_t at = 0;
    double least = 2;
    for (int64_t i = 0; i < m; ++i) {
      double taken = 0;
      for (int64_t k = 0; k < j; ++k) taken += u[i * n + k] * u[i * n + k];
      if (taken < least) least = taken, at = i;
    }
    for (int64_t i = 0; i < m; ++i) u[i * n + j] = i == at ? 1 : 0;
    for (int twice = 0; twice < 2; ++twice)
      for (int64_t k = 0; k < j; ++k) {
        double part = 0;
        for (int64_t i = 0; i < m; ++i) part += u[i * n + k] * u[i * n + j];
        for (int64_t i = 0; i < m; ++i) u[i * n + j] -= part * u[i * n + k];
      }
    double square = 0;
    for (int64_t i = 0; i < m; ++i) square += u[i * n + j] * u[i * n + j];
    const double length = __builtin_sqrt(square);
    for (int64_t i = 0; i < m; ++i) u[i * n + j] /= length;
  }
  void store_nan(bool vectors) const {
    const double nan = __builtin_nan("");
    for (int64_t i = 0; i < n; ++i) s[i] = nan;
    if (!vectors) return;
    for (int64_t i = 0; i < m * n; ++i) u[i] = nan;
    for (int64_t i = 0; i < n * n; ++i) v[i] = nan;
  }
  /// Of singular values d of any sign and order, and the vectors in rows of ut and vt.
  void give(const double* d, const double* ut, int64_t uld, const double* vt, int64_t vld, double unit, bool vectors) const {
    for (int64_t j = 0; j < n; ++j) {
      const double size = __builtin_fabs(d[j]);
      place(j, size > AOTC_SVD_SMALLEST ? size : 0);
    }
    for (int64_t j = 0; j < n; ++j) {
      const int64_t from = order[j];
      s[j] = sizes[from] * unit;
      if (!vectors) continue;
      const double sign = sign_of(vt + from * vld, 1), other = d[from] < 0 ? -sign : sign;
      for (int64_t i = 0; i < n; ++i) v[i * n + j] = sign * vt[from * vld + i];
      for (int64_t i = 0; i < m; ++i) u[i * n + j] = other * ut[from * uld + i];
    }
  }
  /// By a bidiagonal matrix, in the scratch. Not of matrices in lanes.
  void bidiagonal(double unit, bool vectors, double* scratch) const {
    const int64_t uld = Bidiagonal::ld_of(m), vld = Bidiagonal::ld_of(n);
    double *const ut = scratch, *const vt = ut + n * uld, *const held = vt + n * vld, *const sum = held + uld, *const d = sum + uld;
    const Bidiagonal b{ut, vt, m, n, uld, vld, vectors, d, d + n, d + 2 * n, d + 3 * n, held, sum, d + 4 * n};
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) ut[j * uld + i] = x[i * n + j] / unit;
    b.reduce();
    if (vectors) b.form_vectors();
    b.diagonalise();
    give(d, ut, uld, vt, vld, unit, vectors);
  }
  /// The same of a symmetric matrix, by a tridiagonal one: singular values are the sizes of eigenvalues.
  void tridiagonal(double unit, bool vectors, double* scratch) const {
    const int64_t ld = Bidiagonal::ld_of(n);
    double *const vt = scratch, *const lines = vt + n * ld, *const d = lines + 3 * ld;
    const Tridiagonal t{vt, n, ld, vectors, d, d + n, d + 2 * n, lines, lines + ld, lines + 2 * ld, d + 3 * n};
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < ld; ++j) vt[i * ld + j] = j < n ? x[i * n + j] / unit : 0;
    t.reduce();
    if (vectors) t.form_vectors();
    t.diagonalise();
    give(d, vt, ld, vt, ld, unit, vectors);
  }
  void store(double unit) const {
    if (unit == 0) return store_nan(true);
    sort();
    for (int64_t j = 0; j < n; ++j) {
      const int64_t from = order[j];
      const double sign = sign_of(right + from * n * step, step),
                   length = sizes[from] > AOTC_SVD_SMALLEST_SQUARE ? __builtin_sqrt(sizes[from]) : 0;
      s[j] = length * unit;
      for (int64_t i = 0; i < n; ++i) v[i * n + j] = sign * right[(from * n + i) * step];
      if (length > 0)
        for (int64_t i = 0; i < m; ++i) u[i * n + j] = sign * a[(from * m + i) * step] / length;
      else
        complete(j);
    }
  }
};

inline void svd(const aotc_kargs* args, int64_t begin, int64_t end) {
  const int64_t m = args->size[1], n = args->size[2];
  const auto matrix = [&](int64_t c, double* a, double* right, int64_t step, double* sizes, int64_t* order) {
    return Svd{static_cast<const double*>(args->ptr[0]) + c * m * n,
               static_cast<double*>(args->ptr[1]) + c * m * n,
               static_cast<double*>(args->ptr[2]) + c * n,
               static_cast<double*>(args->ptr[3]) + c * n * n,
               m,
               n,
               a,
               right,
               step,
               sizes,
               order};
  };
  if (m > AOTC_SVD_SMALL) {
    const bool vectors = static_cast<const aotc_svd_config*>(args->config)->vectors != 0;
    double* const scratch = static_cast<double*>(args->scratch);
    double* const sizes = scratch + aotc_svd_scratch_bytes(m, n) / 8 - 2 * n;  // the last of it
    double* const order = sizes + n;
    for (int64_t c = begin; c < end; ++c) {
      const Svd one = matrix(c, nullptr, nullptr, 1, sizes, reinterpret_cast<int64_t*>(order));
      const double unit = one.unit();
      if (!(unit > 0))
        one.store_nan(vectors);
      else if (m == n && Tridiagonal::is_symmetric(one.x, n))
        one.tridiagonal(unit, vectors, scratch);
      else
        one.bidiagonal(unit, vectors, scratch);
    }
    return;
  }
  auto* const a = static_cast<SvdLanes*>(args->scratch);
  SvdLanes* const right = a + m * n;
  double sizes[AOTC_SVD_SMALL];
  int64_t order[AOTC_SVD_SMALL];
  for (int64_t first = begin; first < end; first += kSvdLanes) {
    const int64_t here = min_of<int64_t>(kSvdLanes, end - first);
    double units[kSvdLanes];
    const auto lane_of = [&](int64_t lane) {  // lanes that nobody needs repeat the last matrix
      return matrix(first + min_of(lane, here - 1), reinterpret_cast<double*>(a) + lane, reinterpret_cast<double*>(right) + lane, kSvdLanes,
                    sizes, order);
    };
    for (int64_t lane = 0; lane < kSvdLanes; ++lane) {
      units[lane] = lane_of(lane).unit();
      lane_of(lane).load(units[lane]);
    }
    Columns<SvdLanes>{a, right, m, n}.orthogonalise();
    for (int64_t lane = 0; lane < here; ++lane) lane_of(lane).store(units[lane]);
  }
}

}  // namespace
