// Cholesky and LU factors and triangular systems of every dtype and instruction set against plain loops over doubles.
#include <algorithm>
#include <catch2/catch.hpp>

#include "aotc/detail/lu_abi.h"
#include "support.h"

namespace kernel_test {
namespace {

using Matrix = std::vector<double>;

int64_t order(std::mt19937& rng) {
  constexpr int64_t kOrders[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 64, 77, 103};
  return kOrders[rng() % std::size(kOrders)];
}

/// A positive matrix, of which the algorithm may read one triangle: the other is NaN.
void fill_positive(Buffer& x, int64_t count, int64_t n, std::mt19937& rng) {
  std::uniform_real_distribution<double> real(-1, 1);
  for (int64_t m = 0; m < count; ++m) {
    Matrix g(static_cast<size_t>(n * n));
    for (double& v : g) v = real(rng);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double s = i == j ? 1 : 0;
        for (int64_t k = 0; k < n; ++k) s += g[static_cast<size_t>(i * n + k)] * g[static_cast<size_t>(j * n + k)];
        x.put((m * n + i) * n + j, j > i ? NAN : s);
      }
  }
}

/// All work units, the later ones first.
void run(const Entry& e, const aotc_kargs& args, int64_t units, std::mt19937& rng) {
  const int64_t cut = static_cast<int64_t>(rng() % static_cast<uint64_t>(units + 1));
  e.fn(&args, cut, units);
  e.fn(&args, 0, cut);
}

TEST_CASE("Cholesky factors", "[triangle]") {
  std::mt19937 rng(11);
  for (const Entry& e : entries("cholesky"))
    for (int i = 0; i < 40; ++i) {
      if (!runs_here(e.isa)) continue;
      const int64_t count = static_cast<int64_t>(rng() % 4), n = order(rng);
      INFO(e.isa << " " << aotc::dtype_name(e.dtype) << " " << count << " of order " << n);
      Buffer x(count * n * n, e.dtype), out(count * n * n, e.dtype), info(count, DType::i32);
      fill_positive(x, count, n, rng);
      const int64_t minor = n && rng() % 3 == 0 ? static_cast<int64_t>(rng() % static_cast<uint64_t>(n)) : -1;  // of the first matrix
      if (minor >= 0 && count) x.put(minor * n + minor, rng() % 2 ? -1 : NAN);
      int64_t size[] = {count, n, n};
      void* ptr[] = {x.ptr(), out.ptr(), info.ptr()};
      Scratch scratch(aotc_cholesky_scratch_bytes(n));
      volatile int32_t fault = 0;
      run(e, {ptr, size, nullptr, scratch.ptr(), 0, 1, &fault}, count, rng);
      bool good = true;
      for (int64_t m = 0; m < count; ++m) {
        const int64_t failed = m == 0 && minor >= 0 ? minor : n;
        good &= info.get(m) == (failed < n ? static_cast<double>(failed + 1) : 0.0);
        for (int64_t r = 0; r < n; ++r)
          for (int64_t c = 0; c < n; ++c) {
            const double v = out.get((m * n + r) * n + c);
            if (c > r) good &= v == 0;
            if (c <= r && c >= failed) good &= std::isnan(v);
            if (c > r || c >= failed) continue;
            double sum = 0;
            for (int64_t k = 0; k <= c; ++k) sum += out.get((m * n + r) * n + k) * out.get((m * n + c) * n + k);
            good &= std::fabs(sum - x.get((m * n + r) * n + c)) <= 8 * epsilon(e.dtype) * (3 + static_cast<double>(n));
          }
      }
      CHECK(good);
    }
}

TEST_CASE("LU factors", "[triangle]") {
  std::mt19937 rng(13);
  for (const Entry& e : entries("lu"))
    for (int i = 0; i < 80; ++i) {
      if (!runs_here(e.isa)) continue;
      const int64_t count = static_cast<int64_t>(rng() % 20), m = order(rng), n = rng() % 2 ? m : order(rng), steps = std::min(m, n);
      INFO(e.isa << " " << count << " of " << m << " x " << n);
      Buffer x(count * m * n, e.dtype), packed(count * m * n, e.dtype), place(count * m, DType::i64), swaps(count * steps, DType::i64);
      x.fill(rng);
      for (int64_t j = 0; j < x.size; ++j)  // zeros, and numbers of one size
        if (rng() % 3 == 0) x.put(j, static_cast<double>(rng() % 3) - 1);
      int64_t size[] = {count, m, n};
      void* ptr[] = {x.ptr(), packed.ptr(), place.ptr(), swaps.ptr()};
      volatile int32_t fault = 0;
      Scratch scratch(AOTC_LU_SCRATCH_BYTES);
      run(e, {ptr, size, nullptr, scratch.ptr(), 0, 1, &fault}, count, rng);
      Buffer alone(m * n, e.dtype);  // computed with the others or by itself: the same bits
      bool good = true;
      for (int64_t c = 0; c < count; ++c) {
        const auto at = [&](int64_t r, int64_t k) { return packed.get((c * m + r) * n + k); };
        std::vector<int64_t> rows(static_cast<size_t>(m));
        for (int64_t r = 0; r < m; ++r) rows[static_cast<size_t>(r)] = r;
        for (int64_t k = 0; k < steps; ++k) {
          const auto p = static_cast<int64_t>(swaps.get(c * steps + k));
          good &= p >= k && p < m;
          if (p >= k && p < m) std::swap(rows[static_cast<size_t>(k)], rows[static_cast<size_t>(p)]);
        }
        for (int64_t r = 0; r < m; ++r) {
          good &= place.get(c * m + r) == static_cast<double>(rows[static_cast<size_t>(r)]);
          for (int64_t k = 0; k < n; ++k) {
            double sum = 0;
            for (int64_t j = 0; j <= std::min({r, k, steps - 1}); ++j) sum += (j == r ? 1.0 : at(r, j)) * at(j, k);
            good &= k >= r || std::fabs(at(r, k)) <= 1;  // no factor is larger than 1
            good &= std::fabs(sum - x.get((c * m + rows[static_cast<size_t>(r)]) * n + k)) <= 1e-13 * (3 + static_cast<double>(m));
          }
        }
      }
      if (count) {
        void* last[] = {static_cast<char*>(x.ptr()) + (count - 1) * m * n * 8, alone.ptr(), place.ptr(), swaps.ptr()};
        const aotc_kargs args = {last, size, nullptr, scratch.ptr(), 0, 1, &fault};
        e.fn(&args, 0, 1);
        for (int64_t j = 0; j < m * n; ++j) good &= alone.get(j) == packed.get((count - 1) * m * n + j);
      }
      CHECK(good);
    }
}

TEST_CASE("triangular systems", "[triangle]") {
  std::mt19937 rng(12);
  for (const Entry& e : entries("solve_triangular"))
    for (int i = 0; i < 60; ++i) {
      if (!runs_here(e.isa)) continue;
      constexpr int64_t kColumns[] = {0, 1, 2, 5, 31, 32, 33, 70};
      const bool below = rng() % 3 == 0;
      const int64_t count = static_cast<int64_t>(rng() % 4), n = order(rng), k = below ? n : kColumns[rng() % std::size(kColumns)];
      const aotc_solve_triangular_config cfg = {static_cast<int32_t>(!below && rng() % 2), static_cast<int32_t>(rng() % 2), below};
      INFO(e.isa << " " << aotc::dtype_name(e.dtype) << " " << count << " of order " << n << ", " << k << " columns, upper " << cfg.upper
                 << " unit " << cfg.unit << " below " << cfg.below);
      Buffer a(count * n * n, e.dtype), b(count * n * k, e.dtype), x(count * n * k, e.dtype);
      a.fill(rng), b.fill(rng);
      for (int64_t m = 0; m < count; ++m)
        for (int64_t r = 0; r < n; ++r)
          for (int64_t c = 0; c < n; ++c) {
            const int64_t at = (m * n + r) * n + c;
            if (r == c)
              a.put(at, cfg.unit ? NAN : 2 + std::fabs(a.get(at)));
            else
              a.put(at, (c > r) == static_cast<bool>(cfg.upper) ? a.get(at) / static_cast<double>(n) : NAN);
          }
      int64_t size[] = {count, n, k};
      void* ptr[] = {a.ptr(), b.ptr(), x.ptr()};
      volatile int32_t fault = 0;
      Scratch scratch(aotc_solve_triangular_scratch_bytes(n, k));
      run(e, {ptr, size, &cfg, scratch.ptr(), 0, 1, &fault}, count * ((k + AOTC_TRIANGLE_COLUMNS - 1) / AOTC_TRIANGLE_COLUMNS), rng);
      bool good = true;
      for (int64_t m = 0; m < count; ++m)
        for (int64_t r = 0; r < n; ++r)
          for (int64_t c = 0; c < k; ++c) {
            double sum = 0;
            for (int64_t j = cfg.upper ? r : 0; j < (cfg.upper ? n : r + 1); ++j)
              sum += (j == r && cfg.unit ? 1.0 : a.get((m * n + r) * n + j)) * x.get((m * n + j) * k + c);
            if (cfg.below && c >= r)
              good &= x.get((m * n + r) * k + c) == b.get((m * n + r) * k + c);
            else
              good &= std::fabs(sum - b.get((m * n + r) * k + c)) <= 16 * epsilon(e.dtype);
          }
      CHECK(good);
    }
}

}  // namespace
}  // namespace kernel_test
