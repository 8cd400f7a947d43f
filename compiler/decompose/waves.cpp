// Sums of waves: the discrete Fourier transform of whole and of partly known, or partly wanted, lines.
#include "decompose/waves.h"
#include "base/unit_roots.h"
#include "decompose/linalg.h"

namespace aotc::decompose {
namespace {

/// A sum of waves along the last dim: of the first `in` numbers x[j] of n, the others being zero, the first `out` of
/// sum_j x[j] e^(sign 2 pi i j k / n).
struct Waves {
  int64_t n, in, out;
  int sign;               ///< -1: forward
  bool real_out = false;  ///< only the real part of the sums is wanted: the other is not valid
};
/// As products with matrices of waves: one with all of them, or where that is less work for factors of n one after another.
Complex sum_of_waves(const T& re, const std::optional<T>& im, const Waves& w);

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
  const std::complex<double> root = unit_root(i * j % n, n);
  return sine ? sign * root.imag() : root.real();
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

Complex sum_of_waves(const T& re, const std::optional<T>& im, const Waves& w) {
  const Way way = way_of(w, !im);
  return way.first ? by_factors(re, im, w, way.first) : by_product(re, im, w);
}

/// x with dim d cut to w.in numbers, or filled up to them where fewer are not known.
T cut(const T& x, int d, Waves& w) {
  const std::optional<int64_t> have = x.dim(d).as_const();
  if (have && *have < w.in) w.in = *have;
  return resized(x, d, w.in);
}

/// The waves summed along dim d.
Complex along(const T& re, const std::optional<T>& im, int d, Waves w) {
  Builder& b = re.b();
  const int last = re.rank() - 1;
  const auto swapped = [&](const T& x) { return T(b, b.transpose(x, d, last)); };
  const T real = swapped(cut(re, d, w));
  const Complex c = sum_of_waves(real, im ? std::optional(swapped(resized(*im, d, w.in))) : std::nullopt, w);
  return {swapped(c.re), swapped(c.im)};
}

/// The real signal of length n whose spectrum's first half lies along dim d, times scale. The other half is the conjugate: inner
/// frequencies count twice. The highest of an even length only adds and subtracts, and is left out of the waves, whose number then has
/// factors.
T real_signal(const Complex& c, int d, int64_t n, double scale) {
  Builder& b = c.re.b();
  const int64_t waves = (n + 1) / 2;
  const auto shaped = [&](const std::vector<double>& values) {
    std::vector<Expr> dims(static_cast<size_t>(c.re.rank()), Expr(1));
    dims[static_cast<size_t>(d)] = static_cast<int64_t>(values.size());
    return T(b, literal_f(b, values, c.re.dtype())).reshape(dims);
  };
  std::vector<double> times(static_cast<size_t>(waves), 2 * scale), turns;
  times[0] = scale;
  const T factor = shaped(times);
  const T y = along(resized(c.re, d, waves) * factor, resized(c.im, d, waves) * factor, d, {n, waves, n, 1, true}).re;
  if (n % 2) return y;
  for (int64_t j = 0; j < n; ++j) turns.push_back(j % 2 ? -scale : scale);
  return y + resized(c.re, d, n / 2 + 1).slice(d, n / 2, 1) * shaped(turns);
}

struct Given {
  Spectrum kind;
  int d;
  int64_t n, in;
  bool inverse;
  double scale;
  bool complex;
};
Given given(const Graph& g, const Node& n) {
  const std::string& kind = n.get<std::string>(Attr::kind);
  const auto d = static_cast<int>(n.get<int64_t>(Attr::dim));
  return {kind == "pairs"  ? Spectrum::pairs
          : kind == "half" ? Spectrum::half
                           : Spectrum::line,
          d,
          n.get<Expr>(Attr::k).as_const().value(),
          g.type(n.inputs[0]).dims[static_cast<size_t>(d)].as_const().value(),
          n.get<bool>(Attr::reverse),
          n.get<double>(Attr::scale),
          n.inputs.size() == 3};
}

}  // namespace

T resized(const T& x, int d, int64_t n) {
  const std::optional<int64_t> have = x.dim(d).as_const();
  if (have && *have == n) return x;
  if (have && *have > n) return x.slice(d, 0, n);
  std::vector<Expr> lo(static_cast<size_t>(x.rank()), Expr(0)), hi = lo;
  hi[static_cast<size_t>(d)] = Expr(n) - x.dim(d);
  return {x.b(), x.b().pad(x, lo, hi, 0.0)};
}

bool has_waves(int64_t n) {
  if (n <= kLongestWaves) return n > 0;
  for (int64_t p = 2; p * p <= n; ++p)
    while (n % p == 0) n /= p;
  return n <= kLongestWaves;
}

Complex fourier(const T& re, const std::optional<T>& im, int d, const Transform& t) {
  Builder& b = re.b();
  const int64_t most = t.kind == Spectrum::line ? t.n / 2 + 1 : t.n;
  const auto read = [&](const T& x) {
    const std::optional<int64_t> have = x.dim(d).as_const();
    return have && *have <= most ? x : resized(x, d, most);
  };
  std::vector<ValueId> in = {read(re)};
  if (im) in.push_back(read(*im));
  in.push_back(matrix(b, 2, t.n, re.dtype(), [&](int64_t sine, int64_t j) { return wave(1, j, t.n, 1, sine != 0); }));
  constexpr const char* kKinds[] = {"pairs", "half", "line"};
  const std::vector<ValueId> out = b.make(Op::fourier, in,
                                          {{Attr::kind, std::string(kKinds[static_cast<size_t>(t.kind)])},
                                           {Attr::dim, int64_t{d}},
                                           {Attr::k, Expr(t.n)},
                                           {Attr::reverse, t.inverse},
                                           {Attr::scale, t.scale}});
  return {T(b, out[0]), T(b, out.back())};
}

std::vector<ValueId> fourier_by_products(Builder& b, const Node& n) {
  const Given t = given(b.graph(), n);
  const T re(b, n.inputs[0]);
  const std::optional<T> im = t.complex ? std::optional(T(b, n.inputs[1])) : std::nullopt;
  if (t.kind == Spectrum::line) return {real_signal({re, *im}, t.d, t.n, t.scale)};
  const Complex c = along(re, im, t.d, {t.n, t.n, t.kind == Spectrum::half ? t.n / 2 + 1 : t.n, t.inverse ? 1 : -1});
  if (t.scale == 1) return {c.re, c.im};
  return {c.re * t.scale, c.im * t.scale};
}

double products_cost(const Graph& g, const Node& n) {
  const Given t = given(g, n);
  const bool line = t.kind == Spectrum::line;
  const int64_t in = line ? std::min(t.in, (t.n + 1) / 2) : t.in;
  return way_of({t.n, in, t.kind == Spectrum::half ? t.n / 2 + 1 : t.n, line || t.inverse ? 1 : -1, line}, !t.complex).cost;
}

}  // namespace aotc::decompose
