// Fourier transforms of every kind, dtype and instruction set against sums over doubles.
#include <catch2/catch.hpp>
#include <complex>

#include "aotc/detail/fourier_abi.h"
#include "support.h"

namespace kernel_test {
namespace {

using Complex = std::complex<double>;

constexpr int64_t kGuard = 32;  ///< elements after each result that must stay as they were

struct Case {
  int kind;
  bool im, inverse, along;
  int64_t outer, inner, in, n;
};

/// The numbers of a line as the transform takes them.
std::vector<Complex> given(const Case& c, Buffer& re, Buffer& im, int64_t outer, int64_t inner) {
  std::vector<Complex> x(static_cast<size_t>(c.n));
  for (int64_t j = 0; j < c.in; ++j) {
    const int64_t at = (outer * c.in + j) * c.inner + inner;
    x[static_cast<size_t>(j)] = {re.get(at), c.im ? im.get(at) : 0};
  }
  if (c.kind != AOTC_FOURIER_LINE) return x;
  x[0] = x[0].real();
  if (c.n % 2 == 0) x[static_cast<size_t>(c.n / 2)] = x[static_cast<size_t>(c.n / 2)].real();
  for (int64_t k = 1; k < c.n - k; ++k) x[static_cast<size_t>(c.n - k)] = std::conj(x[static_cast<size_t>(k)]);
  return x;
}

void check(const Entry& e, const Case& c, std::mt19937& rng) {
  if (!runs_here(e.isa)) return;
  INFO(e.isa << " " << aotc::dtype_name(e.dtype) << " kind " << c.kind << " im " << c.im << " inverse " << c.inverse << " along " << c.along
             << " outer " << c.outer << " inner " << c.inner << " in " << c.in << " n " << c.n);
  constexpr double kScale = 0.75;
  const bool line = c.kind == AOTC_FOURIER_LINE;
  const int64_t count = c.kind == AOTC_FOURIER_HALF ? c.n / 2 + 1 : c.n, lines = c.outer * c.inner;
  Buffer re(lines * c.in, e.dtype), im(lines * c.in, e.dtype), waves(2 * c.n, e.dtype), out_re(lines * count + kGuard, e.dtype),
      out_im(lines * count + kGuard, e.dtype);
  re.fill(rng), im.fill(rng);
  std::vector<Complex> wave(static_cast<size_t>(c.n));
  for (int64_t j = 0; j < c.n; ++j) {
    const Complex w = std::polar(1.0, 2 * M_PI * static_cast<double>(j) / static_cast<double>(c.n));
    waves.put(j, w.real()), waves.put(c.n + j, w.imag());
    wave[static_cast<size_t>(j)] = line || c.inverse ? w : std::conj(w);
  }
  for (Buffer* b : {&out_re, &out_im})
    for (int64_t i = 0; i < b->size; ++i) b->put(i, 7);
  std::vector<void*> ptr = {re.ptr()};
  if (c.im) ptr.push_back(im.ptr());
  ptr.insert(ptr.end(), {waves.ptr(), out_re.ptr()});
  if (!line) ptr.push_back(out_im.ptr());
  int64_t size[] = {c.outer, c.inner, c.in, c.n, c.along};
  const aotc_fourier_config cfg = {c.kind, c.im, c.inverse, kScale};
  Scratch scratch(aotc_fourier_scratch_bytes(c.n));
  volatile int32_t fault = 0;
  const aotc_kargs args = {ptr.data(), size, &cfg, scratch.ptr(), 0, 1, &fault};
  const int64_t units =
      c.along ? c.outer * ((c.inner + AOTC_FOURIER_LINES - 1) / AOTC_FOURIER_LINES) : (lines + AOTC_FOURIER_LINES - 1) / AOTC_FOURIER_LINES;
  for (int64_t u = units; u-- > 0;) e.fn(&args, u, u + 1);

  double worst = 0, largest = 1e-30;
  for (int64_t o = 0; o < c.outer; ++o)
    for (int64_t i = 0; i < c.inner; ++i) {
      const std::vector<Complex> x = given(c, re, im, o, i);
      for (int64_t k = 0; k < count; ++k) {
        Complex sum;
        for (int64_t j = 0, jk = 0; j < c.n; ++j, jk += k) {  // jk: j * k modulo n
          if (jk >= c.n) jk -= c.n;
          sum += x[static_cast<size_t>(j)] * wave[static_cast<size_t>(jk)];
        }
        sum *= kScale;
        const int64_t at = (o * count + k) * c.inner + i;
        largest = std::max(largest, std::abs(sum));
        worst = std::max(worst, std::abs(out_re.get(at) - sum.real()));
        if (!line) worst = std::max(worst, std::abs(out_im.get(at) - sum.imag()));
      }
    }
  CHECK(worst <= largest * (e.dtype == DType::f64 ? 4e-15 : 1e-6));
  for (Buffer* b : {&out_re, &out_im})
    for (int64_t i = 1; i <= kGuard; ++i) CHECK(b->get(b->size - i) == 7);
}

struct Lines {
  int64_t outer, inner;
  bool along;
};

TEST_CASE("Fourier transforms: every kind, factor and place of the lines", "[fourier]") {
  std::mt19937 rng(3);
  const Lines places[] = {{1, 1, false}, {18, 1, false}, {2, 3, false}, {2, 19, true}, {1, 5, true}};
  for (const Entry& e : entries("fourier"))
    for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 16, 24, 31, 32, 49, 61, 64, 77, 100, 122, 128, 200, 256, 512})
      for (const Lines& l : places) {
        if (n > 128 && l.inner == 3) continue;
        const auto run = [&](int kind, bool im, bool inverse, int64_t in) {
          check(e, {kind, im, inverse, l.along, l.outer, l.inner, in, n}, rng);
        };
        run(AOTC_FOURIER_PAIRS, true, false, n), run(AOTC_FOURIER_PAIRS, true, true, n);
        run(AOTC_FOURIER_PAIRS, false, false, n - n / 3), run(AOTC_FOURIER_PAIRS, false, true, n);
        run(AOTC_FOURIER_HALF, false, false, n), run(AOTC_FOURIER_HALF, false, false, (n + 1) / 2);
        run(AOTC_FOURIER_LINE, true, false, n / 2 + 1), run(AOTC_FOURIER_LINE, true, false, (n + 3) / 4);
      }
}

}  // namespace
}  // namespace kernel_test
