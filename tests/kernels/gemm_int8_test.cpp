// Products with int8 weights whose rows are rounded, too, every instruction set: rows rounded here and multiplied in double; tails of every
// size, batches, segments, strided and computed rows; the same bits everywhere, tile registers among them; what infinities become.
#include <algorithm>
#include <catch2/catch.hpp>

#include "kernels/cpu/pack.h"
#include "support.h"

extern "C" void aotc_gemm_int8_tiles_f32_amx_emulated(const aotc_kargs*, int64_t, int64_t);

namespace kernel_test {
namespace {

/// Those in tile registers last: the real ones and, on any machine, their emulation.
const std::vector<Entry> kEntries = [] {
  std::vector<Entry> all = entries("gemm_int8");
  all.push_back(entry("gemm_int8_tiles", DType::f32, "amx"));
  all.push_back({"avx512", DType::f32, aotc_gemm_int8_tiles_f32_amx_emulated});
  return all;
}();

struct Case {
  int64_t b0 = 1, b1 = 1, m = 1, n = 1, k = 1;
  bool ta = false, make_a = false;
  int segments = 1, mc = 8, nc = 64;
  double size = 1, shift = 0;
};

template <int kSegment>
void store_tile(const aotc_kargs* args, const void* acc, int64_t ld, int64_t batch, int64_t m0, int64_t rows, int64_t n0, int64_t cols) {
  const int64_t* s = args->size;
  n0 += s[AOTC_GEMM_SIZES + 2 * kSegment];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t at = (batch * s[AOTC_GEMM_M] + m0 + i) * s[AOTC_GEMM_N] + n0 + j;
      static_cast<float*>(args->ptr[3])[at] = static_cast<const float*>(acc)[i * ld + j];
      ++static_cast<int32_t*>(args->ptr[4])[at];
    }
}

/// Minus what is stored. Its strides stand behind the segments: batch, row, column.
void make_rows(const aotc_kargs* args, int64_t batch, int64_t row0, int64_t rows, int64_t col0, int64_t cols, void* dst, int64_t ld) {
  const int64_t* s = args->size + AOTC_GEMM_SIZES + 4;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      put(dst, i * ld + j, DType::f32, -get(args->ptr[0], batch * s[0] + (row0 + i) * s[1] + (col0 + j) * s[2], DType::f32));
}

/// A case's operands, and its product as an entry gives it.
struct Product {
  Case c;
  int64_t batch, rs, cs, mat, cut;
  Buffer a, scales;
  std::vector<int8_t> values;  // [n, k]
  std::vector<float> out;
  bool once = true;

  Product(const Case& x, std::mt19937& rng)
      : c(x),
        batch(c.b0 * c.b1),
        rs(c.ta ? 1 : c.k + static_cast<int64_t>(rng() % 3)),
        cs(c.ta ? c.m + static_cast<int64_t>(rng() % 3) : 1),
        mat(c.ta ? cs * c.k : rs * c.m),
        cut(c.segments == 2 ? c.n / 3 : c.n),
        a(mat * batch, DType::f32, static_cast<int64_t>(rng() % 2)),
        scales(c.n, DType::bf16),
        values(static_cast<size_t>(c.n * c.k)) {
    a.fill(rng), scales.fill(rng);
    for (int64_t i = 0; i < a.size; ++i) a.put(i, a.get(i) * c.size + c.shift);
    for (int8_t& v : values) v = static_cast<int8_t>(static_cast<int>(rng() % 256) - 128);
  }

  void run(const Entry& e, int64_t split_seed) {
    const int64_t first = aotc::kernels::quant_panel_bytes(c.k, cut, 8);
    Buffer panels(first + (c.segments == 2 ? aotc::kernels::quant_panel_bytes(c.k, c.n - cut, 8) : 0), DType::i8);
    const auto pack = [&](int64_t n0, int64_t n1, int64_t at) {
      aotc::kernels::pack_quant_panels(values.data() + n0 * c.k, 1, c.k, c.k, n1 - n0, 8, static_cast<char*>(panels.ptr()) + at);
    };
    pack(0, cut, 0);
    if (c.segments == 2) pack(cut, c.n, first);
    std::vector<int64_t> sizes(AOTC_GEMM_SIZES, 0);
    sizes[AOTC_GEMM_B0] = c.b0, sizes[AOTC_GEMM_B1] = c.b1, sizes[AOTC_GEMM_M] = c.m, sizes[AOTC_GEMM_N] = c.n, sizes[AOTC_GEMM_K] = c.k;
    if (!c.make_a) sizes[AOTC_GEMM_A_B0] = mat * c.b1, sizes[AOTC_GEMM_A_B1] = mat, sizes[AOTC_GEMM_A_RS] = rs, sizes[AOTC_GEMM_A_CS] = cs;
    sizes.insert(sizes.end(), {0, cut, cut, c.n, mat, rs, cs});
    const aotc_epilogue_fn epilogues[2] = {store_tile<0>, store_tile<1>};
    aotc_gemm_quant_config cfg{};
    cfg.a_ptr = c.make_a ? -1 : 0, cfg.values_ptr = 1, cfg.scales_ptr = 2, cfg.offsets_ptr = -1;
    cfg.bits = 8, cfg.group = static_cast<int32_t>(c.k), cfg.mc = c.mc, cfg.nc = c.nc;
    cfg.n_segments = c.segments, cfg.epilogues = epilogues, cfg.a_prologue = c.make_a ? make_rows : nullptr;
    out.assign(static_cast<size_t>(batch * c.m * c.n), -77);
    std::vector<int32_t> writes(out.size(), 0);
    void* ptr[] = {a.ptr(), panels.ptr(), scales.ptr(), out.data(), writes.data()};
    const bool tiles = &e >= &kEntries.back() - 1 && &e <= &kEntries.back();
    Scratch scratch(tiles ? aotc_gemm_int8_tiles_scratch_bytes(&cfg, c.k) : aotc_gemm_int8_scratch_bytes(&cfg, c.k));
    volatile int32_t fault = 0;
    const aotc_kargs args = {ptr, sizes.data(), &cfg, scratch.ptr(), 0, 1, &fault};
    const auto blocks = [](int64_t x, int64_t by) { return (x + by - 1) / by; };
    const int64_t work = batch * blocks(c.m, c.mc) * (blocks(cut, c.nc) + blocks(c.n - cut, c.nc) * (c.segments == 2));
    const int64_t split = work ? split_seed % (work + 1) : 0;
    run_parts(e, args, work, split);
    once = std::all_of(writes.begin(), writes.end(), [](int32_t w) { return w == 1; });
  }

  /// Of what rows rounded as the contract says give, relative to the sums of magnitudes.
  double error() {
    double worst = 0;
    for (int64_t z = 0; z < batch; ++z)
      for (int64_t i = 0; i < c.m; ++i) {
        std::vector<float> x(static_cast<size_t>(c.k));
        for (int64_t p = 0; p < c.k; ++p)
          x[static_cast<size_t>(p)] = static_cast<float>(a.get(z * mat + i * rs + p * cs) * (c.make_a ? -1 : 1));
        const auto [low, high] = std::minmax_element(x.begin(), x.end());
        const float half = std::max(0.5f * *high - 0.5f * *low, 0x1p-103f), centre = 0.5f * *high + 0.5f * *low, inverse = 127 / half;
        for (int64_t j = 0; j < c.n; ++j) {
          double sum = 0, size = 0;
          for (int64_t p = 0; p < c.k; ++p) {
            const double w = values[static_cast<size_t>(j * c.k + p)] * scales.get(j);
            const double q = std::nearbyint((x[static_cast<size_t>(p)] - centre) * inverse);
            sum += w * (q * half / 127 + centre);
            size += std::fabs(w) * (half + std::fabs(centre));
          }
          worst = std::max(worst, std::fabs(out[static_cast<size_t>((z * c.m + i) * c.n + j)] - sum) / (size + 1e-300));
        }
      }
    return worst;
  }
};

TEST_CASE("gemm_int8 is the product of rounded rows, with the same bits everywhere", "[gemm]") {
  std::mt19937 rng(12);
  const auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (int i = 0; i < 150; ++i) {
    Case c;
    c.m = pick({0, 1, 2, 3, 5, 7, 13, 14, 15, 29, 64});
    c.n = pick({0, 1, 8, 15, 16, 17, 31, 32, 33, 64, 95, 130});
    c.k = pick({1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 300, 576});
    c.b0 = pick({1, 1, 2}), c.b1 = pick({1, 1, 3});
    c.ta = rng() % 3 == 0, c.make_a = rng() % 3 == 0;
    c.segments = 1 + static_cast<int>(rng() % 2);
    c.mc = static_cast<int>(pick({1, 8, 27, 64})), c.nc = static_cast<int>(pick({32, 64, 256}));
    c.size = std::ldexp(1.0, static_cast<int>(rng() % 121) - 60), c.shift = rng() % 2 ? 0 : c.size;
    Product p(c, rng);
    std::vector<float> before;
    const auto split = static_cast<int64_t>(rng() % 1000);
    for (const Entry& e : kEntries) {
      if (!runs_here(e.isa)) continue;
      INFO(e.isa << " b " << c.b0 << "x" << c.b1 << " m " << c.m << " n " << c.n << " k " << c.k << " ta " << c.ta << " made " << c.make_a
                 << " segments " << c.segments << " mc " << c.mc << " nc " << c.nc << " size " << c.size << " shift " << c.shift);
      p.run(e, split);
      CHECK(p.once);
      CHECK(p.error() <= 3 * epsilon(DType::f32));
      if (!before.empty()) CHECK(std::memcmp(p.out.data(), before.data(), before.size() * sizeof(float)) == 0);
      before = p.out;
    }
  }
}

TEST_CASE("gemm_int8: large numbers, equal ones, infinities and NaN", "[gemm]") {
  std::mt19937 rng(13);
  const double kBad[] = {INFINITY, -INFINITY, NAN};
  for (const Entry& e : kEntries) {
    if (!runs_here(e.isa)) continue;
    for (const int64_t at : {0, 5, 16, 69}) {  // in whole vectors and behind them
      for (const double bad : kBad) {
        Product p({.m = 3, .n = 33, .k = 70}, rng);
        p.a.put(p.rs + at, bad);
        p.run(e, 0);
        for (size_t i = 0; i < p.out.size(); ++i) CHECK(std::isnan(p.out[i]) == (i / 33 == 1));
      }
    }
    Product large({.m = 2, .n = 16, .k = 64, .size = 3e38}, rng);
    for (int64_t i = 0; i < large.scales.size; ++i) large.scales.put(i, 0x1p-20);
    large.run(e, 0);
    CHECK(large.error() <= 3 * epsilon(DType::f32));
    Product equal({.m = 2, .n = 16, .k = 64, .size = 0, .shift = 0.7}, rng);
    equal.run(e, 0);
    CHECK(equal.error() <= 3 * epsilon(DType::f32));
  }
}

}  // namespace
}  // namespace kernel_test
