// Fourier transforms of lengths that are known when a run starts.
#include <cmath>

#include "decompose/linalg.h"
#include "decompose/waves.h"

namespace aotc::decompose {
namespace {

/// x with dim d cut or filled with zeros to n.
T resized_to(Rule& r, const T& x, int d, const Expr& n) {
  const SymTable& syms = r.b.syms();
  const Expr have = x.dim(d);
  if (syms.proves_eq(have, n)) return x;
  if (syms.proves_le(n, have)) return x.slice(d, 0, n);
  if (!syms.proves_le(have, n))
    r.refuse(fmt::format("a Fourier transform of length {} of {} numbers", n.str(syms), have.str(syms)), "cut or pad the signal first");
  std::vector<Expr> lo(static_cast<size_t>(x.rank()), Expr(0)), hi = lo;
  hi[static_cast<size_t>(d)] = n - have;
  return {r.b, r.b.pad(x, lo, hi, 0.0)};
}

}  // namespace

Complex fourier_of_size(Rule& r, const T& re, const std::optional<T>& im, int d, Spectrum kind, const Expr& n, bool inverse) {
  Builder& b = r.b;
  const Expr half = b.syms().simplify(floordiv(n, 2) + 1), in = kind == Spectrum::line ? half : n, out = kind == Spectrum::half ? half : n;
  const int last = re.rank() - 1;
  const auto swapped = [&](const T& x) { return T(b, b.transpose(x, d, last)); };
  const T size = scalar_of(b, n, DType::f64);
  const auto read = [&](const T& x) {
    const T y = swapped(resized_to(r, x, d, in));
    if (kind != Spectrum::line) return y;
    // Half of the spectrum: the other half is its conjugate, so all but the lowest and the highest of an even length count twice.
    const T k = iota(b, {in}, 0, DType::f64);
    const T once = (k == 0.0) | (k * 2.0 == size);
    return y * where(once, 1.0, once.to(y.dtype()).like(2.0));
  };
  // Whole turns are taken off while all numbers are whole, and so exact; what is left names one of n waves.
  const T jk = iota(b, {in, 1}, 0, DType::f64) * iota(b, {1, out}, 1, DType::f64), wave = (jk - floor(jk / size) * size).to(DType::i64);
  // Their angles are taken into the first eighth of the circle while they are whole numbers (base/unit_roots.h): that of 2 pi j / n is
  // rounded to 4e-16.
  const T j = iota(b, {n}, 0, DType::f64), below = j * 2.0 > size, m = where(below, size - j, j), left = m * 4.0 > size;
  const T p = where(left, size - m * 2.0, m * 2.0), steep = p * 4.0 > size, angle = where(steep, size * 0.5 - p, p) * M_PI / size;
  const T near = unary(Op::cos, angle), far = unary(Op::sin, angle), real = where(steep, far, near), imaginary = where(steep, near, far);
  const auto waves = [&](const T& x) { return T(b, b.index(x.to(re.dtype()), {wave}, {0}, 0)); };
  const T c = waves(where(left, -real, real)), s = waves(where(below, -imaginary, imaginary));
  const bool forward = kind != Spectrum::line && !inverse;
  const T x = read(re), xc = matmul(x, c, re.dtype()), xs = matmul(x, s, re.dtype());
  if (!im) return {swapped(xc), swapped(forward ? -xs : xs)};
  const T y = read(*im), yc = matmul(y, c, re.dtype()), ys = matmul(y, s, re.dtype());
  return {swapped(forward ? xc + ys : xc - ys), swapped(forward ? yc - xs : yc + xs)};
}

}  // namespace aotc::decompose
