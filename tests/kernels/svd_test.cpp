// Singular values and vectors of every instruction set: products, orthogonality, order and signs; matrices of every kind of rank.
#include <algorithm>
#include <catch2/catch.hpp>

#include "aotc/detail/svd_abi.h"
#include "support.h"

namespace kernel_test {
namespace {

struct Case {
  int64_t count, m, n;
};
Case case_of(std::mt19937& rng) {
  constexpr int64_t kColumns[] = {0, 1, 2, 3, 3, 4, 8, 15, 16, 17, 24, 33, 70};
  const int64_t n = kColumns[rng() % std::size(kColumns)], more = rng() % 2 ? static_cast<int64_t>(rng() % 40) : 0;
  return {static_cast<int64_t>(rng() % 12), n + more, n};
}

/// Of full rank, of few, of whole numbers, zeros, of columns that are alike, very large, very small; square ones symmetric at times.
void fill(Buffer& x, const Case& c, std::mt19937& rng) {
  std::uniform_real_distribution<double> real(-1, 1);
  for (int64_t b = 0; b < c.count; ++b) {
    const unsigned kind = rng() % 7;
    const double unit = kind == 5 ? 1e300 : kind == 6 ? 1e-310 : 1;
    for (int64_t i = 0; i < c.m; ++i) {
      const double row = real(rng);
      for (int64_t j = 0; j < c.n; ++j) {
        double value = real(rng) * unit;
        if (kind == 1) value = static_cast<double>(i + j * 3);
        if (kind == 2) value = static_cast<double>(rng() % 3) - 1;
        if (kind == 3) value = 0;
        if (kind == 4) value = row;
        x.put((b * c.m + i) * c.n + j, value);
      }
    }
    if (c.m == c.n && rng() % 2)
      for (int64_t i = 0; i < c.n; ++i)
        for (int64_t j = 0; j < i; ++j) x.put((b * c.n + i) * c.n + j, x.get((b * c.n + j) * c.n + i));
  }
}

/// What is wrong with the factors of matrix b, in its own unit; 0 to some roundings where all is right.
double error_of(const Case& c, int64_t b, Buffer& x, Buffer& u, Buffer& s, Buffer& v) {
  const auto left = [&](int64_t i, int64_t j) { return u.get((b * c.m + i) * c.n + j); };
  const auto right = [&](int64_t i, int64_t j) { return v.get((b * c.n + i) * c.n + j); };
  const auto value = [&](int64_t j) { return s.get(b * c.n + j); };
  double largest = 0, error = 0;
  for (int64_t i = 0; i < c.m * c.n; ++i) largest = std::max(largest, std::fabs(x.get(b * c.m * c.n + i)));
  const auto see = [&](double e) { error = std::isnan(e) ? INFINITY : std::max(error, std::fabs(e)); };
  for (int64_t j = 0; j < c.n; ++j) {
    see(value(j) >= 0 && (j == 0 || value(j - 1) >= value(j)) ? 0 : 1);
    double size = 0;
    for (int64_t i = 0; i < c.n; ++i) size = std::max(size, std::fabs(right(i, j)));
    int64_t first = 0;
    while (std::fabs(right(first, j)) < AOTC_SVD_SIGNED_PART * size) ++first;
    see(right(first, j) > 0 ? 0 : 1);
    for (int64_t k = 0; k < c.n; ++k) {
      double uu = 0, vv = 0;
      for (int64_t i = 0; i < c.m; ++i) uu += left(i, j) * left(i, k);
      for (int64_t i = 0; i < c.n; ++i) vv += right(i, j) * right(i, k);
      see(uu - (j == k)), see(vv - (j == k));
    }
  }
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < c.n; ++k) sum += left(i, k) * (largest > 0 ? value(k) / largest : value(k)) * right(j, k);
      const double wanted = x.get((b * c.m + i) * c.n + j);
      if (largest == 0 || largest > 1e-300) see(sum - (largest > 0 ? wanted / largest : wanted));
    }
  return error;
}

TEST_CASE("singular values and vectors", "[svd]") {
  std::mt19937 rng(13);
  for (const Entry& e : entries("svd"))
    for (int i = 0; i < 150; ++i) {
      if (!runs_here(e.isa)) continue;
      const Case c = case_of(rng);
      INFO(e.isa << " " << c.count << " of " << c.m << " x " << c.n);
      Buffer x(c.count * c.m * c.n, e.dtype), u(c.count * c.m * c.n, e.dtype), s(c.count * c.n, e.dtype), v(c.count * c.n * c.n, e.dtype);
      fill(x, c, rng);
      const bool spoilt = c.count > 1 && c.n > 0 && rng() % 4 == 0;
      if (spoilt) x.put(c.m * c.n, rng() % 2 ? NAN : INFINITY);  // of the second matrix
      int64_t size[] = {c.count, c.m, c.n};
      Scratch scratch(aotc_svd_scratch_bytes(c.m, c.n));
      volatile int32_t fault = 0;
      void* ptr[] = {x.ptr(), u.ptr(), s.ptr(), v.ptr()};
      aotc_svd_config cfg = {1};
      const aotc_kargs args = {ptr, size, &cfg, scratch.ptr(), 0, 1, &fault};
      const int64_t cut = static_cast<int64_t>(rng() % static_cast<uint64_t>(c.count + 1));
      e.fn(&args, cut, c.count);
      e.fn(&args, 0, cut);
      for (int64_t b = 0; b < c.count; ++b) {
        INFO("matrix " << b);
        if (spoilt && b == 1) {
          CHECK((std::isnan(s.get(c.n)) && std::isnan(u.get(c.m * c.n)) && std::isnan(v.get(c.n * c.n))));
          continue;
        }
        CHECK(error_of(c, b, x, u, s, v) <= 1e-14 * (10 + static_cast<double>(c.m)));
      }
      if (c.count) {  // values alone
        Buffer values(c.count * c.n, e.dtype);
        cfg.vectors = 0;
        ptr[2] = values.ptr();
        e.fn(&args, 0, c.count);
        cfg.vectors = 1;
        bool alike = true;
        for (int64_t b = 0; b < c.count; ++b)
          for (int64_t j = 0; j < c.n; ++j) {
            const double v = values.get(b * c.n + j), w = s.get(b * c.n + j);
            alike &= v == w || (std::isnan(v) && std::isnan(w));
          }
        CHECK(alike);
      }
      if (c.count) {  // computed with the others or by itself: the same bits
        Buffer alone(c.m * c.n, e.dtype), values(c.n, e.dtype), other(c.n * c.n, e.dtype);
        void* last[] = {static_cast<char*>(x.ptr()) + (c.count - 1) * c.m * c.n * 8, alone.ptr(), values.ptr(), other.ptr()};
        const aotc_kargs one = {last, size, &cfg, scratch.ptr(), 0, 1, &fault};
        e.fn(&one, 0, 1);
        bool same = true;
        for (int64_t j = 0; j < c.n; ++j) {
          const double a = values.get(j), b = s.get((c.count - 1) * c.n + j);
          same &= a == b || (std::isnan(a) && std::isnan(b));
        }
        CHECK(same);
      }
    }
}

}  // namespace
}  // namespace kernel_test
