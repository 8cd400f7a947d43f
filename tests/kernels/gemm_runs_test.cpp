// Products of rows in runs (aotc_gemm_config::in_runs) of every float type and instruction set against sums in fp64: ends in order, equal
// ones, ends of any values.
#include <algorithm>
#include <catch2/catch.hpp>

#include "kernels/cpu/pack.h"
#include "support.h"

namespace kernel_test {
namespace {

/// Writes the accumulators to ptr[2], [m, n], counting in ptr[3].
template <int kSegment>
void store_rows(const aotc_kargs* args, const void* acc, int64_t ld, int64_t batch, int64_t m0, int64_t rows, int64_t n0, int64_t cols) {
  const int64_t* s = args->size;
  n0 += s[AOTC_GEMM_SIZES + 2 * kSegment];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t at = (m0 + i) * s[AOTC_GEMM_N] + n0 + j;
      put(args->ptr[2], at, DType::f64, batch ? -1 : get(acc, i * ld + j, static_cast<DType>(s[AOTC_GEMM_SIZES + 4])));
      ++static_cast<int32_t*>(args->ptr[3])[at];
    }
}

struct RunsCase {
  int64_t m, n, k, runs;
  std::vector<int64_t> ends;
  bool packed;
  int mc, nc, kc, kp, pack_a;
};

void check(const Entry& e, const RunsCase& c, std::mt19937& rng) {
  INFO(e.isa << " " << aotc::dtype_name(e.dtype) << " m " << c.m << " n " << c.n << " k " << c.k << " runs " << c.runs << " packed "
             << c.packed << " mc " << c.mc << " nc " << c.nc << " kc " << c.kc << " kp " << c.kp << " pack_a " << c.pack_a);
  const int64_t cut = c.n / 3, eb = aotc::dtype_bytes(e.dtype);
  Buffer a(c.m * c.k, e.dtype, false), b(c.runs * c.k * c.n, e.dtype, false);
  a.fill(rng), b.fill(rng);
  std::vector<int64_t> size(AOTC_GEMM_SIZES, 0);
  size[AOTC_GEMM_B0] = size[AOTC_GEMM_B1] = 1, size[AOTC_GEMM_M] = c.m, size[AOTC_GEMM_N] = c.n, size[AOTC_GEMM_K] = c.k;
  size[AOTC_GEMM_A_RS] = c.k, size[AOTC_GEMM_A_CS] = 1, size[AOTC_GEMM_B_RS] = c.n, size[AOTC_GEMM_B_CS] = 1;
  size[AOTC_GEMM_RUNS] = c.runs, size[AOTC_GEMM_RUN_STRIDE] = c.k * c.n;
  size.insert(size.end(), {0, cut, cut, c.n, static_cast<int64_t>(acc_of(e.dtype))});
  const int64_t first = aotc::kernels::panel_bytes(c.k, cut, e.dtype), set = first + aotc::kernels::panel_bytes(c.k, c.n - cut, e.dtype);
  Scratch panels(set * c.runs + 64);
  for (int64_t r = 0; c.packed && r < c.runs; ++r) {
    char *to = static_cast<char*>(panels.ptr()) + r * set, *from = static_cast<char*>(b.ptr()) + r * c.k * c.n * eb;
    aotc::kernels::pack_panels(from, c.n, 1, c.k, cut, e.dtype, to);
    aotc::kernels::pack_panels(from + cut * eb, c.n, 1, c.k, c.n - cut, e.dtype, to + first);
    size[AOTC_GEMM_RUN_STRIDE] = set / eb;
  }
  const aotc_epilogue_fn epilogues[2] = {store_rows<0>, store_rows<1>};
  aotc_gemm_config cfg = {};
  cfg.a_ptr = 0, cfg.b_ptr = 1, cfg.mr = 14, cfg.nv = 2, cfg.mc = c.mc, cfg.nc = c.nc, cfg.kc = c.kc, cfg.kp = c.kp;
  cfg.b_packed = c.packed, cfg.pack_a = c.pack_a, cfg.n_segments = 2, cfg.epilogues = epilogues, cfg.in_runs = 1, cfg.ends_ptr = 4;
  std::vector<double> out(static_cast<size_t>(c.m * c.n), -77);
  std::vector<int32_t> writes(out.size(), 0);
  std::vector<int64_t> ends = c.ends;
  void* ptr[] = {a.ptr(), c.packed ? panels.ptr() : b.ptr(), out.data(), writes.data(), ends.data()};
  Scratch scratch(aotc_gemm_scratch_bytes(&cfg, c.k, acc_of(e.dtype) == DType::f64 ? 8 : 4) +
                  (c.packed && eb == 2 ? AOTC_GEMM_WIDENED_BYTES : 0));
  volatile int32_t fault = 0;
  aotc_kargs args = {ptr, size.data(), &cfg, scratch.ptr(), 0, 1, &fault, nullptr, 0};
  const auto blocks = [](int64_t x, int64_t by) { return (x + by - 1) / by; };
  const int64_t work = (c.m / c.mc + std::min(c.m, c.runs)) * (blocks(cut, c.nc) + blocks(c.n - cut, c.nc));
  run_parts(e, args, work, work ? static_cast<int64_t>(rng() % (work + 1)) : 0);
  double worst = 0;
  bool once = true;
  for (int64_t i = 0; i < c.m; ++i) {
    int64_t run = 0;
    while (run + 1 < c.runs && c.ends[run] <= i) ++run;
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = 0, of = 0;
      for (int64_t x = 0; x < c.k; ++x) {
        const double t = a.get(i * c.k + x) * b.get((run * c.k + x) * c.n + j);
        sum += t, of += std::fabs(t);
      }
      const auto at = static_cast<size_t>(i * c.n + j);
      once &= writes[at] == 1;
      worst = std::max(worst, std::fabs(out[at] - sum) / (of + 1e-30));
    }
  }
  CHECK(once);
  CHECK(worst <= 4 * epsilon(acc_of(e.dtype)));
}

TEST_CASE("gemm: rows in runs against fp64", "[gemm]") {
  std::mt19937 rng(11);
  const auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (const Entry& e : entries("gemm")) {
    if (!runs_here(e.isa) || !is_float(e.dtype)) continue;
    for (int i = 0; i < 40; ++i) {
      RunsCase c{};
      c.m = pick({0, 1, 2, 7, 15, 40, 64, 65}), c.n = pick({1, 16, 33, 64, 130}), c.k = pick({1, 8, 65, 128}), c.runs = pick({1, 2, 5, 40});
      for (int64_t r = 0; r < c.runs; ++r) c.ends.push_back(static_cast<int64_t>(rng() % static_cast<uint64_t>(c.m + 1)));
      if (i % 4 != 0) std::sort(c.ends.begin(), c.ends.end());
      if (i % 8 == 0) c.ends[0] = INT64_MIN, c.ends.back() = INT64_MAX;
      if (i % 8 == 4) c.ends[static_cast<size_t>(c.runs / 2)] = INT64_MAX;
      c.packed = rng() % 2, c.pack_a = rng() % 2;
      c.mc = static_cast<int>(pick({1, 8, 28, 512})), c.nc = static_cast<int>(pick({32, 64})), c.kc = static_cast<int>(pick({32, 64, 512}));
      c.kp = c.kc * static_cast<int>(pick({1, 2, 100}));
      check(e, c, rng);
    }
  }
}

}  // namespace
}  // namespace kernel_test
