// Products with weights of few bits, every instruction set, against fp64: groups, offsets, tails of every size, batches, segments, strided
// and computed rows, rows of very large and very small values.
#include <algorithm>
#include <catch2/catch.hpp>

#include "aotc/detail/quant_abi.h"
#include "kernels/cpu/pack.h"
#include "support.h"

namespace kernel_test {
namespace {

const std::vector<Entry> kEntries = entries("gemm_quant");

struct Case {
  int64_t b0 = 1, b1 = 1, m = 1, n = 1, k = 1;
  int bits = 8;
  int64_t group = 32;
  bool offsets = false, wide = false, ta = false, make_a = false;
  int segments = 1, mc = 8, nc = 64;
};

template <int kSegment>
void store_tile(const aotc_kargs* args, const void* acc, int64_t ld, int64_t batch, int64_t m0, int64_t rows, int64_t n0, int64_t cols) {
  const int64_t* s = args->size;
  n0 += s[AOTC_GEMM_SIZES + 2 * kSegment];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t at = (batch * s[AOTC_GEMM_M] + m0 + i) * s[AOTC_GEMM_N] + n0 + j;
      static_cast<double*>(args->ptr[4])[at] = get(acc, i * ld + j, DType::f32);
      ++static_cast<int32_t*>(args->ptr[5])[at];
    }
}

/// Minus what is stored. Its strides stand behind the segments: batch, row, column.
void make_rows(const aotc_kargs* args, int64_t batch, int64_t row0, int64_t rows, int64_t col0, int64_t cols, void* dst, int64_t ld) {
  const int64_t* s = args->size + AOTC_GEMM_SIZES + 4;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      put(dst, i * ld + j, DType::f32, -get(args->ptr[0], batch * s[0] + (row0 + i) * s[1] + (col0 + j) * s[2], DType::f32));
}

void check(const Entry& e, const Case& c, std::mt19937& rng) {
  if (!runs_here(e.isa)) return;
  INFO(e.isa << " b " << c.b0 << "x" << c.b1 << " m " << c.m << " n " << c.n << " k " << c.k << " bits " << c.bits << " group " << c.group
             << " offsets " << c.offsets << " wide " << c.wide << " ta " << c.ta << " made " << c.make_a << " segments " << c.segments
             << " mc " << c.mc << " nc " << c.nc);
  const int64_t batch = c.b0 * c.b1, groups = (c.k + c.group - 1) / c.group, pad = rng() % 3;
  const int64_t rs = c.ta ? 1 : c.k + pad, cs = c.ta ? c.m + pad : 1, mat = c.ta ? cs * c.k : rs * c.m;
  Buffer a(mat * batch, DType::f32, rng() % 2), scales(groups * c.n, c.wide ? DType::f32 : DType::bf16),
      offsets(groups * c.n, c.wide ? DType::f32 : DType::bf16);
  a.fill(rng);
  const double size = std::ldexp(1.0, static_cast<int>(rng() % 121) - 60);
  for (int64_t i = 0; i < a.size; ++i) a.put(i, a.get(i) * size);
  scales.fill(rng);
  offsets.fill(rng);
  std::vector<int8_t> values(static_cast<size_t>(c.n * c.k));  // [n, k]
  for (int8_t& v : values) v = static_cast<int8_t>(c.bits == 8 ? static_cast<int>(rng() % 256) - 128 : static_cast<int>(rng() % 16));
  const int64_t cut = c.segments == 2 ? c.n / 3 : c.n;
  const int64_t first = aotc::kernels::quant_panel_bytes(c.k, cut, c.bits);
  Buffer panels(first + aotc::kernels::quant_panel_bytes(c.k, c.n - cut, c.bits), DType::i8);
  auto pack = [&](int64_t n0, int64_t n1, int64_t at) {
    aotc::kernels::pack_quant_panels(values.data() + n0 * c.k, 1, c.k, c.k, n1 - n0, c.bits, static_cast<char*>(panels.ptr()) + at);
  };
  pack(0, cut, 0);
  if (c.segments == 2) pack(cut, c.n, first);
  std::vector<int64_t> sizes(AOTC_GEMM_SIZES, 0);
  sizes[AOTC_GEMM_B0] = c.b0, sizes[AOTC_GEMM_B1] = c.b1, sizes[AOTC_GEMM_M] = c.m, sizes[AOTC_GEMM_N] = c.n, sizes[AOTC_GEMM_K] = c.k;
  if (!c.make_a) {
    sizes[AOTC_GEMM_A_B0] = mat * c.b1, sizes[AOTC_GEMM_A_B1] = mat, sizes[AOTC_GEMM_A_RS] = rs, sizes[AOTC_GEMM_A_CS] = cs;
  }
  sizes.insert(sizes.end(), {0, cut, cut, c.n, mat, rs, cs});
  const aotc_epilogue_fn epilogues[2] = {store_tile<0>, store_tile<1>};
  aotc_gemm_quant_config cfg{};
  cfg.a_ptr = c.make_a ? -1 : 0, cfg.values_ptr = 1, cfg.scales_ptr = 2, cfg.offsets_ptr = c.offsets ? 3 : -1;
  cfg.bits = c.bits + (c.wide ? int{AOTC_QUANT_WIDE_SCALES} : 0), cfg.group = static_cast<int32_t>(c.group), cfg.mc = c.mc, cfg.nc = c.nc;
  cfg.n_segments = c.segments, cfg.epilogues = epilogues, cfg.a_prologue = c.make_a ? make_rows : nullptr;
  std::vector<double> out(static_cast<size_t>(batch * c.m * c.n), -77);
  std::vector<int32_t> writes(out.size(), 0);
  void* ptr[] = {a.ptr(), panels.ptr(), scales.ptr(), offsets.ptr(), out.data(), writes.data()};
  Scratch scratch(aotc_gemm_quant_scratch_bytes(&cfg, c.k));
  volatile int32_t fault = 0;
  aotc_kargs args = {ptr, sizes.data(), &cfg, scratch.ptr(), 0, 1, &fault};
  auto blocks = [](int64_t x, int64_t by) { return (x + by - 1) / by; };
  const int64_t work = batch * blocks(c.m, c.mc) * (blocks(cut, c.nc) + blocks(c.n - cut, c.nc) * (c.segments == 2));
  const int64_t split = work ? static_cast<int64_t>(rng() % (work + 1)) : 0;
  run_parts(e, args, work, split);
  double worst = 0;
  bool once = true;
  for (int64_t z = 0; z < batch; ++z)
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        double sum = 0, mag = 0;
        for (int64_t x = 0; x < c.k; ++x) {
          const double av = a.get(z * mat + i * rs + x * cs) * (c.make_a ? -1 : 1);
          const int64_t g = x / c.group * c.n + j;
          const double q = values[static_cast<size_t>(j * c.k + x)] * scales.get(g), o = c.offsets ? offsets.get(g) : 0;
          sum += av * (q + o);
          mag += size * (std::fabs(q) + std::fabs(o));  // a block is rounded at its largest value
        }
        const size_t at = static_cast<size_t>((z * c.m + i) * c.n + j);
        once &= writes[at] == 1;
        worst = std::max(worst, std::fabs(out[at] - sum) / (mag + 1e-300));
      }
  CHECK(once);
  CHECK(worst <= 3 * epsilon(DType::f32));
}

TEST_CASE("gemm_quant against fp64", "[gemm]") {
  std::mt19937 rng(11);
  auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (const Entry& e : kEntries)
    for (int i = 0; i < 150; ++i) {
      Case c;
      c.m = pick({0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 29, 64});
      c.n = pick({0, 1, 8, 15, 16, 17, 31, 32, 33, 64, 95, 130});
      c.k = pick({1, 2, 3, 31, 32, 33, 64, 65, 127, 128, 300, 576});
      c.b0 = pick({1, 1, 2});
      c.b1 = pick({1, 1, 3});
      c.bits = static_cast<int>(pick({8, 4}));
      c.group = pick({32, 64, 128, 1024});
      c.offsets = rng() % 2;
      c.wide = rng() % 2;
      c.ta = rng() % 3 == 0;
      c.make_a = rng() % 3 == 0;
      c.segments = 1 + rng() % 2;
      c.mc = static_cast<int>(pick({1, 8, 28, 64}));
      c.nc = static_cast<int>(pick({32, 64, 256}));
      check(e, c, rng);
    }
}

TEST_CASE("gemm_quant keeps infinities and NaN visible", "[gemm]") {
  for (const Entry& e : kEntries) {
    if (!runs_here(e.isa)) continue;
    for (const double bad : {double(INFINITY), double(NAN)}) {
      Buffer a(3 * 64, DType::f32), scales(2 * 16, DType::bf16), panels(aotc::kernels::quant_panel_bytes(64, 16, 8), DType::i8);
      for (int64_t i = 0; i < a.size; ++i) a.put(i, i == 64 + 40 ? bad : 0.5);
      for (int64_t i = 0; i < scales.size; ++i) scales.put(i, 1);
      const std::vector<int8_t> values(64 * 16, 1);
      aotc::kernels::pack_quant_panels(values.data(), 1, 64, 64, 16, 8, static_cast<char*>(panels.ptr()));
      std::vector<int64_t> sizes(AOTC_GEMM_SIZES, 0);
      sizes[AOTC_GEMM_B0] = sizes[AOTC_GEMM_B1] = sizes[AOTC_GEMM_A_CS] = 1;
      sizes[AOTC_GEMM_M] = 3, sizes[AOTC_GEMM_N] = 16, sizes[AOTC_GEMM_K] = sizes[AOTC_GEMM_A_RS] = 64;
      sizes.insert(sizes.end(), {0, 16});
      const aotc_epilogue_fn epilogues[1] = {store_tile<0>};
      aotc_gemm_quant_config cfg{};
      cfg.values_ptr = 1, cfg.scales_ptr = 2, cfg.offsets_ptr = -1, cfg.bits = 8, cfg.group = 32, cfg.mc = 8, cfg.nc = 32;
      cfg.n_segments = 1, cfg.epilogues = epilogues;
      std::vector<double> out(48);
      std::vector<int32_t> writes(48, 0);
      void* ptr[] = {a.ptr(), panels.ptr(), scales.ptr(), nullptr, out.data(), writes.data()};
      Scratch scratch(aotc_gemm_quant_scratch_bytes(&cfg, 64));
      volatile int32_t fault = 0;
      const aotc_kargs args = {ptr, sizes.data(), &cfg, scratch.ptr(), 0, 1, &fault};
      e.fn(&args, 0, 1);
      for (size_t i = 0; i < 48; ++i) CHECK((i / 16 == 1 ? std::isnan(out[i]) : out[i] == 32));
    }
  }
}

}  // namespace
}  // namespace kernel_test
