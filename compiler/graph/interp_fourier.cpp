// The meaning of Fourier transforms: sums by factors, in doubles.
#include <complex>

#include "base/unit_roots.h"
#include "graph/interp_detail.h"

namespace aotc::interp {
namespace {

using Line = std::vector<std::complex<double>>;

std::complex<double> wave(int64_t j, int64_t n, int sign) {
  const std::complex<double> root = unit_root(j, n);
  return sign < 0 ? std::conj(root) : root;
}

/// Sums over the smallest factor p of transforms of the numbers that lie p apart.
Line transformed(const Line& x, int sign) {
  const auto n = static_cast<int64_t>(x.size());
  int64_t p = 2;
  while (p * p <= n && n % p) ++p;
  if (p * p > n) p = n;
  const int64_t m = n / p;
  std::vector<Line> parts;
  for (int64_t r = 0; r < p && m > 1; ++r) {
    Line part;
    for (int64_t j = r; j < n; j += p) part.push_back(x[j]);
    parts.push_back(transformed(part, sign));
  }
  Line out(x.size());
  for (int64_t k = 0; k < n; ++k)
    for (int64_t r = 0; r < p; ++r) out[k] += (m > 1 ? parts[r][k % m] : x[r]) * wave(r * k % n, n, sign);
  return out;
}

}  // namespace

void fourier(Eval& e) {
  const std::string& kind = e.n.get<std::string>(Attr::kind);
  const bool line = kind == "line", complex = kind == "line" || e.in.size() == 3;
  const int sign = line || e.n.get<bool>(Attr::reverse) ? 1 : -1;
  const double scale = e.n.get<double>(Attr::scale);
  const auto d = static_cast<size_t>(e.n.get<int64_t>(Attr::dim));
  const std::vector<double> re = as_f64(*e.in[0]), im = complex ? as_f64(*e.in[1]) : std::vector<double>(re.size());
  const std::vector<int64_t>& dims = e.in_dims(0);
  const int64_t outer = count_of({dims.begin(), dims.begin() + d}), inner = count_of({dims.begin() + d + 1, dims.end()});
  const int64_t in = dims[d], n = e.in_dims(e.in.size() - 1)[1], count = e.out_dims()[d];
  std::vector<double> out_re(e.out[0].elems()), out_im(out_re.size());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      Line x(static_cast<size_t>(n));
      for (int64_t j = 0; j < in; ++j) x[j] = {re[(o * in + j) * inner + i], im[(o * in + j) * inner + i]};
      if (line) {
        x[0] = x[0].real();
        if (n % 2 == 0) x[n / 2] = x[n / 2].real();
        for (int64_t k = 1; k < n - k; ++k) x[n - k] = std::conj(x[k]);
      }
      const Line y = transformed(x, sign);
      for (int64_t k = 0; k < count; ++k) {
        const int64_t at = (o * count + k) * inner + i;
        out_re[at] = scale * y[k].real(), out_im[at] = scale * y[k].imag();
      }
    }
  set_f64(e.out[0], out_re);
  if (!line) set_f64(e.out[1], out_im);
}

}  // namespace aotc::interp
