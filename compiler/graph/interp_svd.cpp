// Singular values and vectors.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/interp_detail.h"
#include "graph/singular.h"

namespace aotc::interp {

namespace {

using Column = std::vector<double>;

double dot(const Column& a, const Column& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }
void rotate(Column& a, Column& b, double c, double s) {
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    a[i] = c * x - s * y;
    b[i] = s * x + c * y;
  }
}

/// Rotates pairs of columns until all are orthogonal (Hestenes).
void orthogonalise(std::vector<Column>& a, std::vector<Column>& v) {
  constexpr int kSweeps = 40;
  const double tolerance = a.empty() ? 0 : std::sqrt(static_cast<double>(a[0].size())) * std::numeric_limits<double>::epsilon();
  bool rotated = true;
  for (int sweep = 0; sweep < kSweeps && rotated; ++sweep) {
    rotated = false;
    for (size_t p = 0; p < a.size(); ++p)
      for (size_t q = p + 1; q < a.size(); ++q) {
        const double alpha = dot(a[p], a[p]), beta = dot(a[q], a[q]), gamma = dot(a[p], a[q]);
        if (alpha <= kSmallestSquare || beta <= kSmallestSquare || !(std::fabs(gamma) > tolerance * std::sqrt(alpha) * std::sqrt(beta)))
          continue;
        const double zeta = (beta - alpha) / (2 * gamma), t = std::copysign(1.0, zeta) / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta));
        const double c = 1 / std::sqrt(1 + t * t);
        rotate(a[p], a[q], c, c * t);
        rotate(v[p], v[q], c, c * t);
        rotated = true;
      }
  }
}

/// A unit vector that is orthogonal to the first `known` columns of u.
Column another(const std::vector<Column>& u, size_t known, size_t rows) {
  size_t at = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < rows; ++i) {
    double taken = 0;
    for (size_t k = 0; k < known; ++k) taken += u[k][i] * u[k][i];
    if (taken < least) least = taken, at = i;
  }
  Column e(rows);
  e[at] = 1;
  for (int twice = 0; twice < 2; ++twice)
    for (size_t k = 0; k < known; ++k) {
      const double part = dot(u[k], e);
      for (size_t i = 0; i < rows; ++i) e[i] -= part * u[k][i];
    }
  const double length = std::sqrt(dot(e, e));
  for (double& x : e) x /= length;
  return e;
}

double sign_of(const Column& v) {
  double largest = 0;
  for (const double x : v) largest = std::max(largest, std::fabs(x));
  for (const double x : v)
    if (std::fabs(x) >= kSignedPart * largest) return x < 0 ? -1 : 1;
  return 1;
}

struct Factors {
  double *u, *s, *v;
  int64_t m, n;
};
void factorise(const double* x, const Factors& f) {
  const auto m = static_cast<size_t>(f.m), n = static_cast<size_t>(f.n);
  double largest = 0;
  bool finite = true;
  for (size_t i = 0; i < m * n; ++i) largest = std::max(largest, std::fabs(x[i])), finite &= std::isfinite(x[i]);
  if (!finite) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    std::fill_n(f.u, m * n, nan), std::fill_n(f.s, n, nan), std::fill_n(f.v, n * n, nan);
    return;
  }
  const double unit = largest > 0 ? std::ldexp(1.0, std::ilogb(largest)) : 1;
  std::vector<Column> a(n, Column(m)), v(n, Column(n)), u;
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = 0; i < m; ++i) a[j][i] = x[i * n + j] / unit;
    v[j][j] = 1;
  }
  orthogonalise(a, v);
  std::vector<double> squares;
  for (const Column& c : a) squares.push_back(dot(c, c));
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t p, size_t q) { return squares[p] > squares[q]; });
  for (size_t j = 0; j < n; ++j) {
    const size_t from = order[j];
    const double sign = sign_of(v[from]), length = squares[from] > kSmallestSquare ? std::sqrt(squares[from]) : 0;
    if (length > 0) {
      u.push_back(a[from]);
      for (double& value : u.back()) value *= sign / length;
    } else {
      u.push_back(another(u, j, m));
    }
    f.s[j] = length * unit;
    for (size_t i = 0; i < m; ++i) f.u[i * n + j] = u[j][i];
    for (size_t i = 0; i < n; ++i) f.v[i * n + j] = sign * v[from][i];
  }
}

}  // namespace

void svd(Eval& e) {
  const std::vector<double> x = as_f64(*e.in[0]);
  const std::vector<int64_t>& dims = e.in_dims(0);
  const int64_t m = dims[dims.size() - 2], n = dims.back(), count = count_of({dims.begin(), dims.end() - 2});
  std::vector<double> u(x.size()), s(static_cast<size_t>(count * n)), v(static_cast<size_t>(count * n * n));
  for (int64_t c = 0; c < count; ++c) factorise(x.data() + c * m * n, {u.data() + c * m * n, s.data() + c * n, v.data() + c * n * n, m, n});
  set_f64(e.out[0], u);
  set_f64(e.out[1], s);
  set_f64(e.out[2], v);
}

}  // namespace aotc::interp
