#pragma once
// svd of aotc/detail/svd_abi.h: pairs of columns are rotated until all are orthogonal (Hestenes). Small matrices are lanes of vectors.
#include "any_vec.h"
#include "aotc/detail/svd_abi.h"
#include "simd.h"

namespace {

using SvdLanes = AnyVec<double>::V;
using SvdMemory = AnyVec<double>::U;
constexpr int kSvdLanes = AnyVec<double>::kLanes;
static_assert(AOTC_SVD_LANES % kSvdLanes == 0);

constexpr double kEpsilon = 2.220446049250313e-16;

inline SvdLanes root_of(SvdLanes x) {
  for (int l = 0; l < kSvdLanes; ++l) x[l] = __builtin_sqrt(x[l]);
  return x;
}
inline double root_of(double x) { return __builtin_sqrt(x); }
inline SvdLanes size_of(SvdLanes x) { return x < 0.0 ? -x : x; }
inline double size_of(double x) { return __builtin_fabs(x); }
template <class V>
V repeated(double x) {
  return V{} + x;
}
inline bool any(int x) { return x != 0; }
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

  static void products(const SvdLanes* p, const SvdLanes* q, int64_t m, SvdLanes& pp, SvdLanes& qq, SvdLanes& pq) {
    pp = qq = pq = SvdLanes{};
    for (int64_t i = 0; i < m; ++i) pp += p[i] * p[i], qq += q[i] * q[i], pq += p[i] * q[i];
  }
  static double sum_of(SvdLanes part) {
    for (int half = kSvdLanes / 2; half; half /= 2)
      for (int l = 0; l < half; ++l) part[l] += part[l + half];
    return part[0];
  }
  static void products(const double* p, const double* q, int64_t m, double& pp, double& qq, double& pq) {
    SvdLanes parts[3] = {};
    int64_t i = 0;
    for (; i + kSvdLanes <= m; i += kSvdLanes) {
      const SvdLanes x = *reinterpret_cast<const SvdMemory*>(p + i), y = *reinterpret_cast<const SvdMemory*>(q + i);
      parts[0] += x * x, parts[1] += y * y, parts[2] += x * y;
    }
    pp = sum_of(parts[0]), qq = sum_of(parts[1]), pq = sum_of(parts[2]);
    for (; i < m; ++i) pp += p[i] * p[i], qq += q[i] * q[i], pq += p[i] * q[i];
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
  double* squares;  ///< [n]
  int64_t* order;   ///< [n]

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
  void sort() const {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < m; ++i) sum += a[(j * m + i) * step] * a[(j * m + i) * step];
      squares[j] = sum;
      int64_t at = j;
      for (; at > 0 && squares[order[at - 1]] < sum; --at) order[at] = order[at - 1];
      order[at] = j;
    }
  }
  double sign_of(int64_t from) const {
    double largest = 0;
    for (int64_t i = 0; i < n; ++i) largest = max_of(largest, __builtin_fabs(right[(from * n + i) * step]));
    for (int64_t i = 0; i < n; ++i) {
      const double value = right[(from * n + i) * step];
      if (__builtin_fabs(value) >= AOTC_SVD_SIGNED_PART * largest) return value < 0 ? -1 : 1;
    }
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
  void store(double unit) const {
    if (unit == 0) {
      const double nan = __builtin_nan("");
      for (int64_t i = 0; i < m * n; ++i) u[i] = nan;
      for (int64_t i = 0; i < n * n; ++i) v[i] = nan;
      for (int64_t i = 0; i < n; ++i) s[i] = nan;
      return;
    }
    sort();
    for (int64_t j = 0; j < n; ++j) {
      const int64_t from = order[j];
      const double sign = sign_of(from), length = squares[from] > AOTC_SVD_SMALLEST_SQUARE ? __builtin_sqrt(squares[from]) : 0;
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
  const auto matrix = [&](int64_t c, double* a, double* right, int64_t step, double* squares, int64_t* order) {
    return Svd{static_cast<const double*>(args->ptr[0]) + c * m * n,
               static_cast<double*>(args->ptr[1]) + c * m * n,
               static_cast<double*>(args->ptr[2]) + c * n,
               static_cast<double*>(args->ptr[3]) + c * n * n,
               m,
               n,
               a,
               right,
               step,
               squares,
               order};
  };
  if (m > AOTC_SVD_SMALL) {
    double* const a = static_cast<double*>(args->scratch);
    double* const right = a + m * n;
    double* const squares = right + n * n;
    for (int64_t c = begin; c < end; ++c) {
      const Svd one = matrix(c, a, right, 1, squares, reinterpret_cast<int64_t*>(squares + n));
      const double unit = one.unit();
      one.load(unit);
      if (unit > 0) Columns<double>{a, right, m, n}.orthogonalise();
      one.store(unit);
    }
    return;
  }
  SvdLanes a[AOTC_SVD_SMALL * AOTC_SVD_SMALL], right[AOTC_SVD_SMALL * AOTC_SVD_SMALL];
  double squares[AOTC_SVD_SMALL];
  int64_t order[AOTC_SVD_SMALL];
  for (int64_t first = begin; first < end; first += kSvdLanes) {
    const int64_t here = min_of<int64_t>(kSvdLanes, end - first);
    double units[kSvdLanes];
    const auto lane_of = [&](int64_t lane) {  // lanes that nobody needs repeat the last matrix
      return matrix(first + min_of(lane, here - 1), reinterpret_cast<double*>(a) + lane, reinterpret_cast<double*>(right) + lane, kSvdLanes,
                    squares, order);
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
