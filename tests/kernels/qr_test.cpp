// QR factors of every instruction set: what their reflections give of R is the matrix.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "aotc/detail/qr_abi.h"
#include "support.h"

namespace kernel_test {
namespace {

using Matrix = std::vector<double>;

struct Case {
  int64_t count, m, n;
  double scale = 1;
};

Case case_of(std::mt19937& rng) {
  constexpr int64_t kSizes[] = {0, 1, 2, 3, 5, 8, 13, 31, 32, 33, 40, 64, 65, 97, 130};
  constexpr double kScales[] = {1, 1, 1, 1e-3, 1e200, 1e-200, 1e300, 1e-290};
  const auto one = [&] { return kSizes[rng() % std::size(kSizes)]; };
  return {static_cast<int64_t>(rng() % 4), one(), one(), kScales[rng() % std::size(kScales)]};
}

/// x, with columns of zeros, equal columns and what is a triangle already among it.
void fill(Buffer& x, const Case& c, std::mt19937& rng) {
  x.fill(rng);
  const uint32_t odd = rng() % 5;
  for (int64_t b = 0; b < c.count; ++b)
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        const int64_t at = (b * c.m + i) * c.n + j;
        if (odd == 0 && i > j) x.put(at, 0);
        if (odd == 1 && j % 3 == 0) x.put(at, 0);
        if (odd == 2 && j % 4 == 1) x.put(at, x.get(at - 1));
      }
  for (int64_t i = 0; i < x.size; ++i) x.put(i, x.get(i) * c.scale);
}

TEST_CASE("QR factors", "[qr]") {
  std::mt19937 rng(17);
  for (const Entry& e : entries("qr"))
    for (int i = 0; i < 150; ++i) {
      if (!runs_here(e.isa)) continue;
      const Case c = case_of(rng);
      const int64_t steps = std::min(c.m, c.n);
      INFO(e.isa << " " << c.count << " of " << c.m << " x " << c.n << " times " << c.scale);
      Buffer x(c.count * c.m * c.n, e.dtype), packed(c.count * c.m * c.n, e.dtype), tau(c.count * steps, e.dtype);
      fill(x, c, rng);
      int64_t size[] = {c.count, c.m, c.n};
      void* ptr[] = {x.ptr(), packed.ptr(), tau.ptr()};
      Scratch scratch(aotc_qr_scratch_bytes(c.m));
      volatile int32_t fault = 0;
      const aotc_kargs args = {ptr, size, nullptr, scratch.ptr(), 0, 1, &fault};
      const int64_t cut = static_cast<int64_t>(rng() % static_cast<uint64_t>(c.count + 1));
      e.fn(&args, cut, c.count);
      e.fn(&args, 0, cut);
      double error = 0;
      for (int64_t b = 0; b < c.count; ++b) {
        const auto at = [&](int64_t r, int64_t k) { return packed.get((b * c.m + r) * c.n + k); };
        Matrix y(static_cast<size_t>(c.m * c.n));  // H1 H2 .. R
        for (int64_t r = 0; r < c.m; ++r)
          for (int64_t k = r; k < c.n; ++k) y[static_cast<size_t>(r * c.n + k)] = at(r, k) / c.scale;
        for (int64_t s = steps; s-- > 0;) {
          const double t = tau.get(b * steps + s);
          double length = 1;
          for (int64_t r = s + 1; r < c.m; ++r) length += at(r, s) * at(r, s);
          error = std::max(error, t == 0 ? 0 : std::fabs(t * length - 2));  // a reflection keeps lengths
          if (t == 0)
            for (int64_t r = s + 1; r < c.m; ++r) error = std::max(error, std::fabs(at(r, s)));
          for (int64_t k = 0; k < c.n; ++k) {
            double sum = y[static_cast<size_t>(s * c.n + k)];
            for (int64_t r = s + 1; r < c.m; ++r) sum += at(r, s) * y[static_cast<size_t>(r * c.n + k)];
            y[static_cast<size_t>(s * c.n + k)] -= t * sum;
            for (int64_t r = s + 1; r < c.m; ++r) y[static_cast<size_t>(r * c.n + k)] -= t * sum * at(r, s);
          }
        }
        for (int64_t k = 0; k < c.m * c.n; ++k) {
          const double off = std::fabs(y[static_cast<size_t>(k)] - x.get(b * c.m * c.n + k) / c.scale);
          error = std::max(error, std::isnan(off) ? INFINITY : off);
        }
      }
      CHECK(error <= 1e-15 * (20 + 4 * static_cast<double>(c.m)));
    }
}

TEST_CASE("QR factors of NaN are NaN, and of one matrix alone", "[qr]") {
  std::mt19937 rng(18);
  for (const Entry& e : entries("qr")) {
    if (!runs_here(e.isa)) continue;
    const int64_t m = 40, n = 37;
    Buffer x(2 * m * n, e.dtype), packed(2 * m * n, e.dtype), tau(2 * n, e.dtype);
    x.fill(rng);
    x.put(m * n + 5 * n, NAN);  // of the second one's first column
    int64_t size[] = {2, m, n};
    void* ptr[] = {x.ptr(), packed.ptr(), tau.ptr()};
    Scratch scratch(aotc_qr_scratch_bytes(m));
    volatile int32_t fault = 0;
    e.fn(std::array<aotc_kargs, 1>{{{ptr, size, nullptr, scratch.ptr(), 0, 1, &fault}}}.data(), 0, 2);
    bool finite = true, nan = true;
    for (int64_t k = 0; k < m * n; ++k) finite &= std::isfinite(packed.get(k));
    for (int64_t k = 0; k < n; ++k) nan &= std::isnan(tau.get(n + k)) && std::isnan(packed.get(m * n + k * n + k));
    CHECK(finite);
    CHECK(nan);
  }
}

}  // namespace
}  // namespace kernel_test
