// Products with weights of few bits, by digits of rows (gemm_quant) and as sums of floats (gemm_unpack), every instruction set, against
// fp64: groups, offsets, tails of every size, batches, segments, strided and computed rows, rows of very large and very small values.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "aotc/detail/parts_abi.h"
#include "kernels/cpu/pack.h"
#include "support.h"

extern "C" void aotc_gemm_unpack_parts_f32_amx_emulated(const aotc_kargs*, int64_t, int64_t);

namespace kernel_test {
namespace {

const std::vector<Entry> kEntries = entries("gemm_quant"), kUnpacking = entries("gemm_unpack");
/// In tile registers.
const std::vector<Entry> kInParts = {entry("gemm_unpack_parts", DType::f32, "amx"),
                                     {"avx512", DType::f32, aotc_gemm_unpack_parts_f32_amx_emulated}};

struct Case {
  int64_t b0 = 1, b1 = 1, m = 1, n = 1, k = 1;
  int bits = 8;
  int64_t group = 32;
  bool offsets = false, wide = false, ta = false, make_a = false;
  int segments = 1, mc = 8, nc = 64;
  int kp = 0;             ///< 0: gemm_quant; else gemm_unpack, k packed at once
  int register_rows = 6;  ///< of gemm_unpack
  bool parts = false;     ///< gemm_unpack_parts
};

/// The config of either kernel, and the scratch that it asks for.
class Config {
 public:
  Config(const Case& c, const aotc_epilogue_fn* epilogues, aotc_prologue_fn made) {
    const int bits = c.bits + (c.wide ? int{AOTC_QUANT_WIDE_SCALES} : 0), offsets = c.offsets ? 3 : -1, a = made ? -1 : 0;
    const auto group = static_cast<int32_t>(c.group);
    if (c.kp == 0) {
      digits_.a_ptr = a, digits_.values_ptr = 1, digits_.scales_ptr = 2, digits_.offsets_ptr = offsets, digits_.bits = bits,
      digits_.group = group;
      digits_.mc = c.mc, digits_.nc = c.nc, digits_.n_segments = c.segments, digits_.epilogues = epilogues, digits_.a_prologue = made;
      config = &digits_, scratch_bytes = aotc_gemm_quant_scratch_bytes(&digits_, c.k);
      return;
    }
    aotc_gemm_config& g = unpack_.product;
    g.a_ptr = a, g.b_ptr = 1, g.mr = 14, g.nv = 2, g.mc = c.mc, g.nc = c.nc, g.kc = std::min(c.kp, 512), g.kp = c.kp,
    g.b_packed = g.pack_a = 1;
    g.n_segments = c.segments, g.epilogues = epilogues, g.a_prologue = made;
    unpack_.scales_ptr = 2, unpack_.offsets_ptr = offsets, unpack_.bits = bits, unpack_.group = group;
    unpack_.register_rows = c.register_rows;
    const int64_t depth = (c.k + AOTC_QUANT_BLOCK - 1) / AOTC_QUANT_BLOCK * AOTC_QUANT_BLOCK;
    config = &unpack_;
    scratch_bytes = aotc_gemm_scratch_bytes(&g, depth, 4) + aotc_gemm_unpack_bytes(&g, depth);
    if (c.parts) scratch_bytes = std::max(scratch_bytes, aotc_gemm_parts_scratch_bytes(&g, c.k) + AOTC_GEMM_PARTS_ROOM);
    if (made) scratch_bytes += aotc_gemm_prologue_bytes(&g, depth, 4, 1, 0);
  }
  Config(const Config&) = delete;
  const void* config = nullptr;
  int64_t scratch_bytes = 0;

 private:
  aotc_gemm_quant_config digits_{};
  aotc_gemm_unpack_config unpack_{};
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
             << " mc " << c.mc << " nc " << c.nc << " kp " << c.kp);
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
  const Config cfg(c, epilogues, c.make_a ? make_rows : nullptr);
  std::vector<double> out(static_cast<size_t>(batch * c.m * c.n), -77);
  std::vector<int32_t> writes(out.size(), 0);
  void* ptr[] = {a.ptr(), panels.ptr(), scales.ptr(), offsets.ptr(), out.data(), writes.data()};
  Scratch scratch(cfg.scratch_bytes);
  volatile int32_t fault = 0;
  aotc_kargs args = {ptr, sizes.data(), cfg.config, scratch.ptr(), 0, 1, &fault};
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

/// Any case but its rows and kp.
Case drawn(std::mt19937& rng) {
  auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  Case c;
  c.n = pick({0, 1, 8, 15, 16, 17, 31, 32, 33, 64, 95, 130});
  c.k = pick({1, 2, 3, 31, 32, 33, 64, 65, 127, 128, 300, 576});
  c.b0 = pick({1, 1, 2});
  c.b1 = pick({1, 1, 3});
  c.bits = static_cast<int>(pick({8, 4}));
  c.group = pick({32, 64, 96, 128, 1024});
  c.offsets = rng() % 2;
  c.wide = rng() % 2;
  c.ta = rng() % 3 == 0;
  c.make_a = rng() % 3 == 0;
  c.segments = static_cast<int>(1 + rng() % 2);
  c.mc = static_cast<int>(pick({1, 8, 28, 64}));
  c.nc = static_cast<int>(pick({32, 64, 256}));
  return c;
}

TEST_CASE("gemm_quant against fp64", "[gemm]") {
  std::mt19937 rng(11);
  for (const Entry& e : kEntries)
    for (int i = 0; i < 150; ++i) {
      Case c = drawn(rng);
      constexpr int64_t kRows[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 29, 64};
      c.m = kRows[rng() % std::size(kRows)];
      check(e, c, rng);
    }
}

TEST_CASE("gemm_unpack against fp64, every number of rows", "[gemm]") {
  std::mt19937 rng(12);
  for (const Entry& e : kUnpacking)
    for (int i = 0; i < 260; ++i) {
      Case c = drawn(rng);
      c.m = i % 52;  // tiles in registers, panels unpacked for several tiles, remainders of both
      c.kp = std::array{32, 64, 256, 320, 512, 1024}[rng() % 6];
      c.register_rows = std::array{0, 6, 12, AOTC_GEMM_UNPACK_ROWS + 1}[rng() % 4];  // the last: more than there is room for
      check(e, c, rng);
    }
}

TEST_CASE("gemm_unpack_parts against fp64, every number of rows", "[gemm]") {
  std::mt19937 rng(13);
  for (const Entry& e : kInParts)
    for (int i = 0; i < 260; ++i) {
      Case c = drawn(rng);
      c.m = i < 70 ? i : static_cast<int64_t>(rng() % 150);
      c.kp = std::array{32, 64, 256, 320, 512, 1024}[rng() % 6];
      c.parts = true;
      if (i % 4 == 0) c.segments = 1, c.kp = 1024, c.nc = 160, c.m = 96 + i % 40;  // the weight is split once for all rows
      check(e, c, rng);
    }
}

TEST_CASE("few-bit products keep infinities and NaN visible", "[gemm]") {
  const auto bad_row = [](const Entry& e, int kp, double bad, int64_t m, bool parts = false) {
    if (!runs_here(e.isa)) return;
    INFO(e.isa << " kp " << kp << " rows " << m);
    Buffer a(m * 64, DType::f32), scales(2 * 16, DType::bf16), panels(aotc::kernels::quant_panel_bytes(64, 16, 8), DType::i8);
    for (int64_t i = 0; i < a.size; ++i) a.put(i, i == 64 + 40 ? bad : 0.5);
    for (int64_t i = 0; i < scales.size; ++i) scales.put(i, 1);
    const std::vector<int8_t> values(64 * 16, 1);
    aotc::kernels::pack_quant_panels(values.data(), 1, 64, 64, 16, 8, static_cast<char*>(panels.ptr()));
    std::vector<int64_t> sizes(AOTC_GEMM_SIZES, 0);
    sizes[AOTC_GEMM_B0] = sizes[AOTC_GEMM_B1] = sizes[AOTC_GEMM_A_CS] = 1;
    sizes[AOTC_GEMM_M] = m, sizes[AOTC_GEMM_N] = 16, sizes[AOTC_GEMM_K] = sizes[AOTC_GEMM_A_RS] = 64;
    sizes.insert(sizes.end(), {0, 16});
    const aotc_epilogue_fn epilogues[1] = {store_tile<0>};
    Case c;
    c.m = m, c.n = 16, c.k = 64, c.mc = 64, c.nc = 32, c.kp = kp, c.parts = parts;
    const Config cfg(c, epilogues, nullptr);
    std::vector<double> out(static_cast<size_t>(m * 16));
    std::vector<int32_t> writes(out.size(), 0);
    void* ptr[] = {a.ptr(), panels.ptr(), scales.ptr(), nullptr, out.data(), writes.data()};
    Scratch scratch(cfg.scratch_bytes);
    volatile int32_t fault = 0;
    const aotc_kargs args = {ptr, sizes.data(), cfg.config, scratch.ptr(), 0, 1, &fault};
    e.fn(&args, 0, 1);
    // Rows that are cut into digits lose which of the two it was; sums of floats do not.
    for (size_t i = 0; i < out.size(); ++i)
      CHECK((i / 16 != 1 ? out[i] == 32 : kp == 0 || std::isnan(bad) ? std::isnan(out[i]) : std::isinf(out[i])));
  };
  for (const double bad : {double(INFINITY), double(NAN)}) {
    for (const Entry& e : kEntries) bad_row(e, 0, bad, 3);
    for (const Entry& e : kInParts) bad_row(e, 64, bad, 40, true);
    for (const Entry& e : kUnpacking)
      for (const int64_t m : {3, 30}) bad_row(e, 64, bad, m);
  }
}

/// What gemm_unpack makes of the weight `values`, [n, k], with one group: its products with the rows of a matrix of ones on the diagonal.
std::vector<double> unpacked(const Entry& e, Case c, const std::vector<int8_t>& values, Buffer& scales, Buffer& offsets) {
  c.m = c.mc = static_cast<int>(c.k), c.nc = 32, c.kp = 64;
  Buffer a(c.m * c.k, DType::f32), panels(aotc::kernels::quant_panel_bytes(c.k, c.n, c.bits), DType::i8);
  for (int64_t i = 0; i < a.size; ++i) a.put(i, i % (c.k + 1) == 0);
  aotc::kernels::pack_quant_panels(values.data(), 1, c.k, c.k, c.n, c.bits, static_cast<char*>(panels.ptr()));
  std::vector<int64_t> sizes(AOTC_GEMM_SIZES, 0);
  sizes[AOTC_GEMM_B0] = sizes[AOTC_GEMM_B1] = sizes[AOTC_GEMM_A_CS] = 1;
  sizes[AOTC_GEMM_M] = c.m, sizes[AOTC_GEMM_N] = c.n, sizes[AOTC_GEMM_K] = sizes[AOTC_GEMM_A_RS] = c.k;
  sizes.insert(sizes.end(), {0, c.n});
  const aotc_epilogue_fn epilogues[1] = {store_tile<0>};
  const Config cfg(c, epilogues, nullptr);
  std::vector<double> out(static_cast<size_t>(c.m * c.n));
  std::vector<int32_t> writes(out.size(), 0);
  void* ptr[] = {a.ptr(), panels.ptr(), scales.ptr(), offsets.ptr(), out.data(), writes.data()};
  Scratch scratch(cfg.scratch_bytes);
  volatile int32_t fault = 0;
  const aotc_kargs args = {ptr, sizes.data(), cfg.config, scratch.ptr(), 0, 1, &fault};
  e.fn(&args, 0, (c.n + c.nc - 1) / c.nc);
  return out;
}

TEST_CASE("gemm_unpack rounds each weight once", "[gemm]") {
  std::mt19937 rng(13);
  for (const Entry& e : kUnpacking)
    for (int i = 0; i < 32; ++i) {
      if (!runs_here(e.isa)) continue;
      Case c;
      c.n = 40, c.k = c.group = 64, c.bits = i % 2 ? 4 : 8, c.offsets = i / 2 % 2, c.wide = i / 4 % 2;
      INFO(e.isa << " bits " << c.bits << " offsets " << c.offsets << " wide " << c.wide);
      const DType type = c.wide ? DType::f32 : DType::bf16;
      Buffer scales(c.n, type), offsets(c.n, type);
      scales.fill(rng), offsets.fill(rng);
      // As large as what a group's numbers span, as rounding makes them; and far below that.
      for (int64_t j = 0; j < c.n; ++j) offsets.put(j, offsets.get(j) * std::ldexp(scales.get(j), j % 2 ? 3 : -12));
      std::vector<int8_t> values(static_cast<size_t>(c.n * c.k));
      for (int8_t& v : values) v = static_cast<int8_t>(c.bits == 8 ? static_cast<int>(rng() % 256) - 128 : static_cast<int>(rng() % 16));
      const std::vector<double> out = unpacked(e, c, values, scales, offsets);
      double worst = 0;
      for (int64_t x = 0; x < c.k; ++x)
        for (int64_t j = 0; j < c.n; ++j) {
          const double exact = values[static_cast<size_t>(j * c.k + x)] * scales.get(j) + (c.offsets ? offsets.get(j) : 0);
          // Half a unit in the last place; with bf16 scales of 4 bits, that of the difference of offset and scale, too.
          const double near = c.bits == 4 && !c.wide && j % 2 == 0 ? 16 * std::fabs(scales.get(j)) : 0;
          const double unit = std::ldexp(1.0, -24) * (std::fabs(exact) + near) + 1e-40;
          worst = std::max(worst, std::fabs(out[static_cast<size_t>(x * c.n + j)] - exact) / unit);
        }
      CHECK(worst <= (!c.wide && !c.offsets ? 0 : 1));
    }
}

}  // namespace
}  // namespace kernel_test
