// Sums of waves: the discrete Fourier transform of whole and of partly known, or partly wanted, lines.
#include <cmath>

#include "decompose/complex.h"
#include "decompose/linalg.h"

namespace aotc::decompose {
namespace {

constexpr double kMoveCost = 64;  ///< multiply-adds in the time in which a factor's step moves a number between its products

/// The multiply-adds of one line, and which factor of n goes first; 0: all in one product.
struct Way {
  double cost = 0;
  int64_t first = 0;
};

struct Split {
  int64_t a, b, rows, cols;  ///< n = a * b; the line as rows of b, and the sums as `cols` rows of a
};
Split split_of(const Waves& w, int64_t a) {
  const int64_t b = w.n / a;
  return {a, b, (w.in + b - 1) / b, (w.out + a - 1) / a};
}

Waves inner(const Waves& w, const Split& s) { return {s.b, s.b, s.cols, w.sign, w.real_out}; }

Way way_of(const Waves& w, bool real_in) {
  const int in_parts = real_in ? 1 : 2, out_parts = w.real_out ? 1 : 2;
  constexpr double kNever = 1e30;
  Way best = {w.n > kLongestWaves ? kNever : static_cast<double>(w.in * in_parts) * static_cast<double>(w.out * out_parts), 0};
  if (w.n < 64) return best;
  for (int64_t a = 2; a * a <= w.n; ++a) {
    if (w.n % a) continue;
    const Split s = split_of(w, a);
    const double products = static_cast<double>(s.b * s.rows * in_parts * 2 * a), moves = kMoveCost * 2 * static_cast<double>(w.n);
    if (products + moves >= best.cost) continue;
    const double cost = products + moves + static_cast<double>(a) * way_of(inner(w, s), false).cost;
    if (cost < best.cost) best = {cost, a};
  }
  return best;
}

/// value(i, j) for all of [rows, cols].
template <class F>
T matrix(Builder& b, int64_t rows, int64_t cols, DType t, const F& value) {
  std::vector<double> v;
  v.reserve(static_cast<size_t>(rows * cols));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) v.push_back(value(i, j));
  return T(b, literal_f(b, v, t)).reshape({rows, cols});
}

/// cos or sin of sign * 2 pi i j / n.
double wave(int64_t i, int64_t j, int64_t n, int sign, bool sine) {
  const double a = 2 * M_PI * static_cast<double>(i * j % n) / static_cast<double>(n);
  return sine ? sign * std::sin(a) : std::cos(a);
}

T last_dim(const T& x, int64_t begin, int64_t size) { return x.slice(-1, begin, size); }

/// [re, im] times it are the sums: [[cos, sin], [-sin, cos]].
T waves_matrix(Builder& b, const Waves& w, bool complex_in, DType t) {
  return matrix(b, w.in * (complex_in ? 2 : 1), w.out * (w.real_out ? 1 : 2), t, [&](int64_t i, int64_t j) {
    const bool imaginary_in = i >= w.in, imaginary_out = j >= w.out;
    const double v = wave(i % w.in, j % w.out, w.n, w.sign, imaginary_in != imaginary_out);
    return imaginary_in && !imaginary_out ? -v : v;
  });
}

/// All sums by one product.
Complex by_product(const T& re, const std::optional<T>& im, const Waves& w) {
  Builder& b = re.b();
  const T x = im ? T(b, b.cat({re, *im}, re.rank() - 1)) : re;
  const T y = matmul(x, waves_matrix(b, w, im.has_value(), re.dtype()), re.dtype());
  return {last_dim(y, 0, w.out), w.real_out ? last_dim(y, 0, w.out) : last_dim(y, w.out, w.out)};
}

T with_last(const T& x, std::vector<Expr> tail) {
  std::vector<Expr> dims(x.dims().begin(), x.dims().end() - 1);
  dims.insert(dims.end(), tail.begin(), tail.end());
  return x.reshape(dims);
}
T swapped(const T& x) { return {x.b(), x.b().transpose(x, x.rank() - 2, x.rank() - 1)}; }

/// With j = b j1 + j2 and k = k1 + a k2: sums over j1 of lines that lie b apart, turned by e^(sign 2 pi i j2 k1 / n), then sums over j2.
Complex by_factors(const T& re, const std::optional<T>& im, const Waves& w, int64_t first) {
  Builder& b = re.b();
  const Split s = split_of(w, first);
  const int last = re.rank();
  const auto lines = [&](const T& x) {  // [.., j1, j2]
    std::vector<Expr> lo(static_cast<size_t>(x.rank()), Expr(0)), hi = lo;
    hi.back() = s.rows * s.b - w.in;
    return with_last(s.rows * s.b == w.in ? x : T(b, b.pad(x, lo, hi, 0.0)), {s.rows, s.b});
  };
  const T x = im ? T(b, b.cat({lines(re), lines(*im)}, last - 1)) : lines(re);
  const T y = matmul(swapped(waves_matrix(b, {s.a, s.rows, s.a, w.sign}, im.has_value(), re.dtype())), x, re.dtype());
  const T yr = y.slice(-2, 0, s.a), yi = y.slice(-2, s.a, s.a);
  const auto turn = [&](bool sine) {
    return matrix(b, s.a, s.b, re.dtype(), [&](int64_t k1, int64_t j2) { return wave(j2, k1, w.n, w.sign, sine); });
  };
  const T c = turn(false), sn = turn(true);
  const Complex z = sum_of_waves(yr * c - yi * sn, yr * sn + yi * c, inner(w, s));
  const auto line = [&](const T& v) {  // [.., k1, k2] to [.., k]
    const T t = swapped(v);
    std::vector<Expr> dims(t.dims().begin(), t.dims().end() - 2);
    dims.push_back(s.cols * s.a);
    return last_dim(t.reshape(dims), 0, w.out);
  };
  return {line(z.re), line(z.im)};
}

}  // namespace

Complex sum_of_waves(const T& re, const std::optional<T>& im, const Waves& w) {
  const Way way = way_of(w, !im);
  return way.first ? by_factors(re, im, w, way.first) : by_product(re, im, w);
}

bool has_waves(int64_t n) {
  if (n <= kLongestWaves) return n > 0;
  for (int64_t p = 2; p * p <= n; ++p)
    while (n % p == 0) n /= p;
  return n <= kLongestWaves;
}

}  // namespace aotc::decompose
