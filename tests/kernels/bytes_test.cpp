// Unsigned bytes by signed ones, every instruction set and in tiles, exactly: products with tails of every size, batches, segments and
// strided rows; channels-last convolutions with groups, strides, borders of a number and dilation, as products in every way that tiles read
// them and channel by channel.
#include "aotc/detail/bytes_abi.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "conv_support.h"
#include "kernels/cpu/pack.h"
#include "support.h"

extern "C" void aotc_gemm_bytes_tiles_u8_amx_emulated(const aotc_kargs*, int64_t, int64_t);
extern "C" void aotc_conv_bytes_tiles_u8_amx_emulated(const aotc_kargs*, int64_t, int64_t);

namespace kernel_test {
namespace {

using aotc::kernels::pack_quant_panels;
using aotc::kernels::quant_panel_bytes;

template <class T>
std::vector<T> bytes(int64_t n, std::mt19937& rng) {
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) x = static_cast<T>(rng() % 4 ? rng() : rng() % 2 ? 255 : 128);  // the ends of both ranges often
  return v;
}

/// Of an algorithm, in tiles too, which may be emulated.
std::vector<Entry> entries_with_tiles(const std::string& algorithm, aotc_kernel_fn emulated) {
  std::vector<Entry> all = entries(algorithm);
  all.push_back(entry(algorithm + "_tiles", DType::u8, "amx"));
  all.push_back({"avx512", DType::u8, emulated});
  return all;
}

template <int kSegment>
void store_sums(const aotc_kargs* args, const void* acc, int64_t ld, int64_t batch, int64_t m0, int64_t rows, int64_t n0, int64_t cols) {
  const int64_t* s = args->size;
  n0 += s[AOTC_GEMM_SIZES + 2 * kSegment];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      static_cast<int32_t*>(args->ptr[2])[(batch * s[AOTC_GEMM_M] + m0 + i) * s[AOTC_GEMM_N] + n0 + j] +=
          static_cast<const int32_t*>(acc)[i * ld + j];
}

TEST_CASE("gemm_bytes sums bytes exactly", "[gemm]") {
  std::mt19937 rng(21);
  const auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (int i = 0; i < 150; ++i) {
    const int64_t m = pick({0, 1, 2, 3, 4, 5, 13, 14, 15, 29, 64, 97}), n = pick({0, 1, 8, 15, 17, 31, 32, 33, 64, 95, 130});
    const int64_t k = pick({1, 2, 3, 4, 31, 32, 33, 63, 64, 65, 127, 128, 300, 2048});
    const int64_t b0 = pick({1, 1, 2}), b1 = pick({1, 1, 3}), batch = b0 * b1;
    const bool turned = rng() % 3 == 0;
    const int64_t rs = turned ? 1 : k + pick({0, 0, 3, 4, 512 - k % 512}), cs = turned ? m + 2 : 1, mat = turned ? cs * k : rs * m;
    const int64_t cut = rng() % 2 ? n : n / 3;
    const int segments = cut == n ? 1 : 2;
    std::vector<uint8_t> a = bytes<uint8_t>(mat * batch + 1, rng);
    const std::vector<int8_t> w = bytes<int8_t>(n * k, rng);
    const int64_t first = quant_panel_bytes(k, cut, 8, 64);
    std::vector<char> panels(static_cast<size_t>(first + quant_panel_bytes(k, n - cut, 8, 64) + 1));
    pack_quant_panels(w.data(), 1, k, k, cut, 8, panels.data(), 64);
    if (segments == 2) pack_quant_panels(w.data() + cut * k, 1, k, k, n - cut, 8, panels.data() + first, 64);
    aotc_gemm_bytes_config cfg{};
    const aotc_epilogue_fn epilogues[2] = {store_sums<0>, store_sums<1>};
    cfg.a_ptr = 0, cfg.b_ptr = 1, cfg.n_segments = segments, cfg.epilogues = epilogues;
    cfg.mc = static_cast<int>(pick({1, 8, 27, 64, 97})), cfg.nc = static_cast<int>(pick({32, 64, 256}));
    std::vector<int64_t> sizes(AOTC_GEMM_SIZES, 0);
    sizes[AOTC_GEMM_B0] = b0, sizes[AOTC_GEMM_B1] = b1, sizes[AOTC_GEMM_M] = m, sizes[AOTC_GEMM_N] = n, sizes[AOTC_GEMM_K] = k;
    sizes[AOTC_GEMM_A_B0] = mat * b1, sizes[AOTC_GEMM_A_B1] = mat, sizes[AOTC_GEMM_A_RS] = rs, sizes[AOTC_GEMM_A_CS] = cs;
    sizes.insert(sizes.end(), {0, cut, cut, n});
    const auto split_seed = static_cast<int64_t>(rng() % 1000);
    std::vector<int32_t> want(static_cast<size_t>(batch * m * n), 0);
    for (int64_t z = 0; z < batch; ++z)
      for (int64_t r = 0; r < m; ++r)
        for (int64_t j = 0; j < n; ++j)
          for (int64_t p = 0; p < k; ++p)
            want[static_cast<size_t>((z * m + r) * n + j)] +=
                int32_t{a[static_cast<size_t>(z * mat + r * rs + p * cs)]} * w[static_cast<size_t>(j * k + p)];
    for (const Entry& e : entries_with_tiles("gemm_bytes", aotc_gemm_bytes_tiles_u8_amx_emulated)) {
      if (!runs_here(e.isa)) continue;
      INFO(e.isa << " b " << batch << " m " << m << " n " << n << " k " << k << " rs " << rs << " cs " << cs << " cut " << cut << " mc "
                 << cfg.mc << " nc " << cfg.nc);
      std::vector<int32_t> out(static_cast<size_t>(batch * m * n), 0);
      void* ptr[] = {a.data(), panels.data(), out.data()};
      Scratch scratch(std::max(aotc_gemm_bytes_scratch_bytes(&cfg, k), aotc_bytes_tiles_scratch_bytes(cfg.mc, k)));
      volatile int32_t fault = 0;
      const aotc_kargs args = {ptr, sizes.data(), &cfg, scratch.ptr(), 0, 1, &fault};
      const auto blocks = [](int64_t x, int64_t by) { return (x + by - 1) / by; };
      const int64_t work = batch * blocks(m, cfg.mc) * (blocks(cut, cfg.nc) + (segments == 2 ? blocks(n - cut, cfg.nc) : 0));
      run_parts(e, args, work, work ? split_seed % (work + 1) : 0);
      CHECK((out == want));
    }
  }
}

void store_pixels(const aotc_kargs* args, const void* acc, int64_t ld, int64_t batch, int64_t m0, int64_t rows, int64_t n0, int64_t cols) {
  const int64_t* s = args->size;
  const int64_t plane = s[AOTC_CONV_OD] * s[AOTC_CONV_OH] * s[AOTC_CONV_OW];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      static_cast<int32_t*>(args->ptr[2])[(batch * plane + m0 + i) * s[AOTC_CONV_CO] + n0 + j] +=
          static_cast<const int32_t*>(acc)[i * ld + j];
}

/// The sums of all outputs, by the definition: [image][place][output channel].
std::vector<int32_t> sums_of(const ConvCase& c, const ConvSizes& s, const std::vector<uint8_t>& x, const std::vector<int8_t>& w,
                             int around) {
  std::vector<int32_t> sums, window(static_cast<size_t>(s.k));  // of a group: [channel][tap], as its weights
  for (int64_t z = 0; z < c.n; ++z)
    for (int64_t p = 0; p < s.out_plane; ++p)
      for (int64_t g = 0; g < c.groups; ++g) {
        for (int64_t t = 0; t < s.taps; ++t) {
          const auto o = place_of(p, s.out), tap = place_of(t, c.kernel);
          int64_t at[3];
          bool inside = true;
          for (size_t d = 0; d < 3; ++d) {
            at[d] = o[d] * c.stride[d] - c.pad[d] + tap[d] * c.dilation[d];
            inside = inside && at[d] >= 0 && at[d] < c.in[d];
          }
          const int64_t pixel = ((z * c.in[0] + at[0]) * c.in[1] + at[1]) * c.in[2] + at[2];
          for (int64_t i = 0; i < c.cg; ++i)
            window[static_cast<size_t>(i * s.taps + t)] = inside ? x[static_cast<size_t>(pixel * s.channels + g * c.cg + i)] : around;
        }
        for (int64_t co = g * c.cog; co < (g + 1) * c.cog; ++co) {
          int32_t sum = 0;
          for (int64_t k = 0; k < s.k; ++k) sum += window[static_cast<size_t>(k)] * w[static_cast<size_t>(co * s.k + k)];
          sums.push_back(sum);
        }
      }
  return sums;
}

/// Whether tiles may read x so; line: of taps, as it is stored.
bool serves(const ConvCase& c, int way, int64_t line) {
  const auto all = [](const auto& v, int x, int from) { return std::all_of(v + from, v + 3, [&](int64_t y) { return y == x; }); };
  if (way == AOTC_BYTES_PIXELS) return all(c.kernel, 1, 0) && all(c.stride, 1, 0) && all(c.pad, 0, 0) && all(c.pad_hi, 0, 0);
  if (way == AOTC_BYTES_STRIP) return c.groups == 1 && c.in[0] == 1 && c.kernel[0] == 1 && c.dilation[2] == 1 && line % 64 == 0;
  return true;
}

/// way: of conv_bytes_tiles.
void check_conv(const ConvCase& c, bool depthwise, bool fill_lines, int way, std::mt19937& rng) {
  const auto sizes_of = conv_sizes(c);
  if (!sizes_of) return;
  const ConvSizes s = *sizes_of;
  std::vector<uint8_t> x = bytes<uint8_t>(c.n * s.in_plane * s.channels + 1, rng);
  const std::vector<int8_t> w = bytes<int8_t>(s.co * s.k, rng);
  const int around = static_cast<int>(rng() % 256);
  const int64_t taps_line = c.kernel[2] * c.cg, line = fill_lines ? aotc_bytes_depth(taps_line) : taps_line;
  if (!depthwise && !serves(c, way, line)) return;
  const int64_t stored = s.k / taps_line * line;
  const int64_t matrices = depthwise ? 1 : c.groups, columns = s.co / matrices, each = quant_panel_bytes(stored, columns, 8, 64);
  std::vector<char> panels(static_cast<size_t>(matrices * each));
  for (int64_t g = 0; g < matrices; ++g) {
    std::vector<int8_t> b(static_cast<size_t>(columns * stored));  // [column][(tap, channel)], lines of taps filled up
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t t = 0; t < s.taps; ++t)
        for (int64_t i = 0; i < c.cg; ++i)
          b[static_cast<size_t>(j * stored + t / c.kernel[2] * line + t % c.kernel[2] * c.cg + i)] =
              w[static_cast<size_t>(((g * columns + j) * c.cg + i) * s.taps + t)];
    pack_quant_panels(b.data(), 1, stored, stored, columns, 8, panels.data() + g * each, 64);
  }
  aotc_conv_bytes_config cfg{};
  cfg.x_ptr = 0, cfg.w_ptr = 1, cfg.groups = static_cast<int>(c.groups), cfg.around = around;
  cfg.line = static_cast<int>(line), cfg.way = way;
  for (int d = 0; d < 3; ++d)
    cfg.kernel[d] = c.kernel[d], cfg.stride[d] = c.stride[d], cfg.pad[d] = c.pad[d], cfg.dilation[d] = c.dilation[d];
  cfg.mc = c.mc, cfg.nc = c.nc, cfg.kp = c.kp, cfg.epilogue = store_pixels;
  const std::vector<int64_t> sizes = {c.n, s.channels, c.in[0], c.in[1], c.in[2], s.co, s.out[0], s.out[1], s.out[2]};
  const auto split_seed = static_cast<int64_t>(rng() % 1000);
  const std::vector<int32_t> want = sums_of(c, s, x, w, around);
  const std::vector<Entry> all =
      depthwise ? entries("conv_bytes_depthwise") : entries_with_tiles("conv_bytes", aotc_conv_bytes_tiles_u8_amx_emulated);
  for (const Entry& e : all) {
    if (!runs_here(e.isa)) continue;
    INFO(e.isa << " " << c.str() << " around " << around << " line " << line << " way " << way);
    std::vector<int32_t> out(static_cast<size_t>(c.n * s.out_plane * s.co), 0);
    void* ptr[] = {x.data(), panels.data(), out.data()};
    Scratch scratch(depthwise ? aotc_conv_bytes_depthwise_scratch_bytes(&cfg, s.taps)
                              : std::max(aotc_conv_bytes_scratch_bytes(&cfg, stored), aotc_bytes_tiles_scratch_bytes(cfg.nc, stored)));
    volatile int32_t fault = 0;
    const aotc_kargs args = {ptr, sizes.data(), &cfg, scratch.ptr(), 0, 1, &fault};
    const auto blocks = [](int64_t v, int64_t by) { return (v + by - 1) / by; };
    const int64_t work =
        depthwise ? c.n * s.out[0] * blocks(s.out[1], c.kp) : c.groups * blocks(c.cog, c.mc) * blocks(c.n * s.out_plane, c.nc);
    run_parts(e, args, work, split_seed % (work + 1));
    CHECK((out == want));
  }
}

TEST_CASE("conv_bytes and conv_bytes_depthwise sum bytes exactly", "[conv]") {
  std::mt19937 rng(22);
  const auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (int i = 0; i < 160; ++i) {
    const bool depthwise = i % 2 != 0;
    ConvCase c{};
    c.n = pick({1, 1, 2, 3});
    c.groups = depthwise ? pick({1, 5, 16, 24, 33, 80}) : pick({1, 1, 2, 3});
    c.cg = depthwise ? 1 : pick({1, 3, 4, 16, 33}), c.cog = depthwise ? 1 : pick({1, 7, 32, 40});
    const bool volume = rng() % 4 == 0;
    for (int d = 0; d < 3; ++d) {
      const bool flat = d == 0 && !volume;
      c.in[d] = flat ? 1 : pick({1, 2, 5, 8, 13}), c.kernel[d] = flat ? 1 : static_cast<int>(pick({1, 2, 3, 3, 5}));
      c.stride[d] = flat ? 1 : static_cast<int>(pick({1, 1, 2, 3})), c.dilation[d] = flat ? 1 : static_cast<int>(pick({1, 1, 2}));
      c.pad[d] = flat ? 0 : static_cast<int>(rng() % 4), c.pad_hi[d] = flat ? 0 : static_cast<int>(rng() % 4);
    }
    if (depthwise && rng() % 2)
      c.dilation[2] = 1, c.kernel[2] = static_cast<int>(pick({3, 5})), c.stride[2] = static_cast<int>(pick({1, 2}));
    c.mc = static_cast<int>(pick({32, 64})), c.nc = static_cast<int>(pick({1, 5, 14, 40})), c.kp = static_cast<int>(pick({1, 2, 4}));
    check_conv(c, depthwise, !depthwise && rng() % 2, AOTC_BYTES_COPIES, rng);
  }
}

TEST_CASE("conv_bytes_tiles reads pixels in place and out of strips", "[conv]") {
  std::mt19937 rng(23);
  const auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (int i = 0; i < 120; ++i) {
    const bool strip = i % 3 != 0;
    ConvCase c{};
    c.n = pick({1, 1, 2, 3}), c.groups = strip ? 1 : pick({1, 1, 2});
    c.cg = pick({3, 16, 24, 64, 512}), c.cog = pick({1, 7, 16, 32, 40, 70});
    for (int d = 0; d < 3; ++d) {
      c.in[d] = strip && d == 0 ? 1 : pick({1, 2, 5, 9, 20, 37}), c.kernel[d] = c.stride[d] = c.dilation[d] = 1;
      if (!strip || d == 0) continue;
      c.kernel[d] = static_cast<int>(pick({1, 2, 3, 3, 7})), c.stride[d] = static_cast<int>(pick({1, 1, 2, 3}));
      c.pad[d] = static_cast<int>(rng() % 4), c.pad_hi[d] = static_cast<int>(rng() % 4);
    }
    if (strip && rng() % 2) c.stride[1] = c.stride[2] = 1;
    if (strip) c.dilation[1] = static_cast<int>(pick({1, 1, 2}));
    c.mc = static_cast<int>(pick({32, 64})), c.nc = static_cast<int>(pick({1, 14, 40, 100})), c.kp = 1;
    shorten(c, int64_t{1} << 24);
    check_conv(c, false, true, strip ? AOTC_BYTES_STRIP : AOTC_BYTES_PIXELS, rng);
  }
}

}  // namespace
}  // namespace kernel_test
