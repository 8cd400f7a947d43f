// Convolutions of channels-last tensors of every dtype and instruction set against a naive fp64 loop: as implicit products, depthwise, and
// of few channels, by Winograd's minimal filtering; the panels are made by the weights' writer.
#include <algorithm>
#include <limits>
#include <memory>

#include "aotc/detail/conv_few_abi.h"
#include "aotc/detail/conv_tiles_abi.h"
#include "conv_support.h"
#include "plan/weights.h"

extern "C" void aotc_conv_last_tiles_bf16_amx_emulated(const aotc_kargs*, int64_t, int64_t);

namespace kernel_test {
namespace {

const std::vector<Entry> kEntries = entries("conv_last");
const std::vector<Entry> kFew = entries("conv_few");
/// Of AOTC_CONV_LAST alone.
const Entry kTiles[] = {entry("conv_last_tiles", DType::bf16, "amx"), {"avx512", DType::bf16, aotc_conv_last_tiles_bf16_amx_emulated}};

void store_tile(const aotc_kargs* args, const void* acc, int64_t ld, int64_t n, int64_t p0, int64_t rows, int64_t co0, int64_t count) {
  const int64_t* s = args->size;
  const int64_t plane = s[AOTC_CONV_OD] * s[AOTC_CONV_OH] * s[AOTC_CONV_OW];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < count; ++j) {
      const int64_t at = (n * plane + p0 + i) * s[AOTC_CONV_CO] + co0 + j;
      put(args->ptr[2], at, DType::f64, get(acc, i * ld + j, static_cast<DType>(s[AOTC_CONV_SIZES])));
      ++static_cast<int32_t*>(args->ptr[3])[at];
    }
}

using Case = ConvCase;

/// The packed weight, as an artifact holds it.
std::vector<std::byte> packed_weight(Buffer& w, DType dtype, const Case& c, int64_t taps, bool few) {
  aotc::IdVec<aotc::ConstId, aotc::ConstData> constants;
  aotc::ConstData data;
  data.name = "w";
  data.type = {dtype, {w.size}};
  data.data = static_cast<const std::byte*>(w.ptr());
  data.bytes = static_cast<size_t>(w.size * aotc::dtype_bytes(dtype));
  constants.push(data);
  aotc::forms::Panels p;
  p.dtype = dtype, p.col_stride = c.cg * taps;
  p.winograd = c.algo == AOTC_CONV_WINOGRAD ? c.kp : 0;
  p.rows = {p.winograd ? aotc::forms::Panels::Rows{c.cg * taps / 9, c.cg, 9, taps, {}}
                       : aotc::forms::Panels::Rows{c.cg * taps, c.cg, 1, taps, {}}};
  if (few) {  // a matrix for each line of taps, for each group
    p.rows.clear();
    for (int64_t line = 0; line < c.kernel[0] * c.kernel[1]; ++line) {
      aotc::forms::Panels::Rows r{c.cg * c.kernel[2], c.cg * c.kernel[2], 0, 0, {}};
      for (int64_t i = 0; i < r.count; ++i) r.taps.push_back(i % c.cg * taps + line * c.kernel[2] + i / c.cg);
      p.rows.push_back(r);
    }
    for (int64_t g = 0; g < c.groups; ++g)
      for (size_t line = 0; line < p.rows.size(); ++line) p.matrices.push_back({g * c.cog * c.cg * taps, c.cog, line});
  } else if (c.algo == AOTC_CONV_LAST_DEPTHWISE) {
    p.rows = {{c.cg * taps, c.cg, 1, taps, {}}};
    p.matrices = {{0, c.groups * c.cog, 0}};
  } else {
    for (int64_t g = 0; g < c.groups; ++g) p.matrices.push_back({g * c.cog * c.cg * taps, c.cog, 0});
  }
  aotc::plan::WeightTable table(constants);
  table.add(static_cast<aotc::ConstId>(0), p);
  std::vector<std::byte> blob(table.blob_bytes());
  aotc::plan::write_weights(table.weights(), constants, blob, 1);
  return blob;
}

int64_t few_scratch(const aotc_conv_config* c, int64_t k) {
  return aotc_conv_few_scratch_bytes(c, k / (c->kernel[0] * c->kernel[1] * c->kernel[2]));
}

/// infinite: one element of x in so many is, 0: none.
/// The results, in the order of images.
std::vector<double> check(const Entry& e, const Case& c, std::mt19937& rng, int64_t infinite = 0) {
  if (!runs_here(e.isa)) return {};
  const bool tiles = e.fn == kTiles[0].fn || e.fn == kTiles[1].fn;
  const bool few = std::any_of(kFew.begin(), kFew.end(), [&](const Entry& f) { return f.fn == e.fn; });
  INFO(e.isa << (few                    ? ", few channels "
                 : e.fn == kTiles[1].fn ? ", emulated tiles, "
                                        : " ")
             << aotc::dtype_name(e.dtype) << " " << c.str());
  const std::optional<ConvSizes> sizes = conv_sizes(c);
  if (!sizes) return {};
  const ConvSizes& s = *sizes;
  Buffer x(c.n * s.channels * s.in_plane, e.dtype, rng() % 2), w(s.co * s.k, e.dtype);
  w.fill(rng);
  x.fill(rng);
  for (int64_t i = 0; infinite && i < x.size; i += infinite) x.put(i, std::numeric_limits<double>::infinity());
  std::unique_ptr<Scratch> packed;
  if (c.packed) {
    const std::vector<std::byte> panels = packed_weight(w, e.dtype, c, s.taps, few);
    packed = std::make_unique<Scratch>(static_cast<int64_t>(panels.size()));
    std::memcpy(packed->ptr(), panels.data(), panels.size());
  }
  const bool winograd = c.algo == AOTC_CONV_WINOGRAD;
  int64_t work = c.groups * blocks_of(c.cog, c.mc) * blocks_of(c.n * s.out_plane, c.nc);
  if (c.algo == AOTC_CONV_LAST_DEPTHWISE) work = c.n * s.out[0] * blocks_of(s.out[1], c.kp) * blocks_of(s.out[2], c.nc);
  if (winograd) work = blocks_of(c.n * s.out[0] * blocks_of(s.out[1], c.kp) * blocks_of(s.out[2], c.kp), c.nc) * blocks_of(s.co, c.mc);
  const ConvRun run = run_conv(e, c, s, x.ptr(), c.packed ? packed->ptr() : w.ptr(), store_tile, work, rng,
                               few     ? few_scratch
                               : tiles ? aotc_conv_last_tiles_scratch_bytes
                                       : nullptr);
  check_conv(
      c, s, run, x, w, [&](int64_t n, int64_t channel, int64_t place) { return (n * s.in_plane + place) * s.channels + channel; },
      [&](int64_t g, int64_t kk, int64_t j) { return (g * c.cog + j) * s.k + kk; },
      [&](int64_t n, int64_t o, int64_t p) { return (n * s.out_plane + p) * s.co + o; },
      // Minimal filtering sums what the direct sum leaves out: its error is that of the whole patch.
      [&](double mag) { return winograd ? std::max(mag, 0.1 * static_cast<double>(s.k)) : mag; },
      !winograd                ? 4 * epsilon(acc_of(e.dtype))
      : e.dtype == DType::bf16 ? epsilon(DType::bf16)
                               : 16 * epsilon(DType::f32));
  return run.result;
}

TEST_CASE("channels-last conv against fp64", "[conv]") {
  Rng rng(21);
  std::vector<Entry> all = kEntries;
  all.insert(all.end(), std::begin(kTiles), std::end(kTiles));
  for (const Entry& e : all) {
    for (int i = 0; i < 90; ++i) {
      Case c{};
      const int dims = pick_int(rng, {1, 2, 2, 2, 3});
      c.n = pick(rng, {0, 1, 1, 2, 3}), c.groups = pick(rng, {1, 1, 1, 2, 5});
      c.cg = pick(rng, {1, 3, 4, 16, 17}), c.cog = pick(rng, {1, 4, 15, 16, 32, 40, 70});
      for (int d = 0; d < 3; ++d) {
        const bool used = d >= 3 - dims;
        c.in[d] = !used ? 1 : dims == 3 ? pick(rng, {1, 3, 5}) : dims == 2 ? pick(rng, {1, 2, 7, 14, 19}) : pick(rng, {1, 7, 50, 100});
        c.kernel[d] = !used ? 1 : pick_int(rng, {1, 2, 3, 5});
        c.stride[d] = !used ? 1 : pick_int(rng, {1, 1, 2, 3});
        c.pad[d] = !used ? 0 : pick_int(rng, {0, 1, 2});
        c.pad_hi[d] = !used ? 0 : pick_int(rng, {0, 1, 2});
        c.dilation[d] = !used ? 1 : pick_int(rng, {1, 1, 2});
      }
      c.algo = AOTC_CONV_LAST, c.packed = rng() % 4 != 0;
      c.mc = pick_int(rng, {8, 32, 64}), c.nc = pick_int(rng, {1, 14, 32, 64, 192});
      c.kc = pick_int(rng, {2, 16, 128}), c.kp = c.kc * pick_int(rng, {1, 3, 1000});
      check(e, c, rng);
    }
  }
}

TEST_CASE("channels-last conv of few channels, whose copied rows are one short run a line of taps", "[conv]") {
  Rng rng(24);
  std::vector<Entry> all = kEntries;
  all.insert(all.end(), std::begin(kTiles), std::end(kTiles));
  for (const Entry& e : all) {
    for (int64_t cg : {1, 2, 3, 5}) {
      for (int kernel : {3, 5, 7}) {
        Case c{};
        c.n = 1, c.groups = 1, c.cg = cg, c.cog = 24;
        for (int d = 0; d < 3; ++d) {
          c.in[d] = d == 0 ? 1 : 19, c.kernel[d] = d == 0 ? 1 : kernel, c.stride[d] = d == 0 ? 1 : 2, c.dilation[d] = 1;
          c.pad[d] = c.pad_hi[d] = d == 0 ? 0 : kernel / 2;
        }
        c.algo = AOTC_CONV_LAST, c.packed = true, c.mc = 32, c.nc = 64, c.kc = 128, c.kp = 512;
        check(e, c, rng);
      }
    }
  }
}

TEST_CASE("channels-last conv whose windows are read in place from copied lines", "[conv]") {
  Rng rng(25);
  CHECK(kFew.size() == 5);
  for (const Entry& e : kFew) {
    for (int i = 0; i < 150; ++i) {
      Case c{};
      const int dims = pick_int(rng, {1, 2, 2, 2, 3});
      c.n = pick(rng, {0, 1, 1, 2}), c.groups = pick(rng, {1, 1, 3}), c.cg = pick(rng, {1, 2, 3, 4, 7, 20}),
      c.cog = pick(rng, {1, 8, 16, 24, 32, 40, 70});
      for (int d = 0; d < 3; ++d) {
        const bool used = d >= 3 - dims;
        c.in[d] = !used ? 1 : dims == 3 ? pick(rng, {1, 3, 5, 8}) : pick(rng, {1, 2, 7, 19, 40});
        if (d == 2) c.in[d] = pick(rng, {1, 3, 14, 31, 240, 400});
        c.kernel[d] = !used ? 1 : pick_int(rng, {1, 2, 3, 5, 7});
        c.stride[d] = !used ? 1 : pick_int(rng, {1, 1, 2, 3});
        c.pad[d] = !used ? 0 : pick_int(rng, {0, 1, 2, 3});
        c.pad_hi[d] = !used ? 0 : pick_int(rng, {0, 1, 2});
        c.dilation[d] = !used ? 1 : pick_int(rng, {1, 1, 2, 3});
      }
      if (i % 10 == 0) c.kernel[2] = pick_int(rng, {31, 64, 129}), c.kernel[0] = c.kernel[1] = 1;  // more values than are summed at once
      const bool pairs = aotc::dtype_bytes(e.dtype) == 2 && c.cg % 2;
      if (pairs || c.kernel[0] * c.kernel[1] * c.kernel[2] > AOTC_CONV_FEW_LINES) c.dilation[2] = 1;
      c.algo = AOTC_CONV_LAST, c.packed = true, c.kc = c.kp = 64;
      c.mc = pick_int(rng, {32, 64, 96}), c.nc = pick_int(rng, {1, 14, 64, 500});
      shorten(c, int64_t{1} << 23);
      check(e, c, rng);
    }
  }
}

TEST_CASE("channels-last conv in tiles, windows that overlap in place, against fp64", "[conv]") {
  Rng rng(22);
  for (const Entry& e : kTiles)
    for (int i = 0; i < 120; ++i) {
      Case c{};
      c.n = pick(rng, {1, 1, 2, 3}), c.groups = 1, c.cg = pick(rng, {32, 32, 64, 96}), c.cog = pick(rng, {1, 16, 32, 40, 70});
      for (int d = 0; d < 3; ++d) {
        const bool flat = d == 0 && i % 3;
        c.in[d] = flat ? 1 : pick(rng, {1, 3, 7, 8, 14, 30}), c.kernel[d] = flat ? 1 : pick_int(rng, {1, 2, 3, 3, 5});
        if (d == 0) c.in[0] = std::min<int64_t>(c.in[0], 5);
        c.stride[d] = flat ? 1 : pick_int(rng, {1, 1, 2, 3}), c.dilation[d] = flat ? 1 : pick_int(rng, {1, 1, 2});
        c.pad[d] = flat ? 0 : pick_int(rng, {0, 1, 1, 2}), c.pad_hi[d] = flat ? 0 : pick_int(rng, {0, 1, 1, 3});
      }
      c.algo = AOTC_CONV_LAST, c.packed = rng() % 4 != 0;
      c.mc = pick_int(rng, {32, 64}), c.nc = pick_int(rng, {1, 14, 49, 64, 192, 500});
      c.kc = 128, c.kp = 1024;
      shorten(c, int64_t{1} << 23);
      check(e, c, rng);
    }
}

TEST_CASE("channels-last conv in tiles, lines of taps in place, against fp64", "[conv]") {
  Rng rng(26);
  for (const Entry& e : kTiles)
    for (int i = 0; i < 160; ++i) {
      Case c{};
      c.n = pick(rng, {1, 1, 2, 3}), c.groups = 1, c.cg = pick(rng, {1, 3, 3, 4, 7, 24, 40}), c.cog = pick(rng, {1, 16, 32, 40, 70});
      for (int d = 0; d < 3; ++d) {
        const bool flat = d == 0 && i % 3;
        c.in[d] = flat ? 1 : pick(rng, {1, 3, 7, 8, 14, 30}), c.kernel[d] = flat ? 1 : pick_int(rng, {1, 2, 3, 3, 5, 7});
        if (d == 0) c.in[0] = std::min<int64_t>(c.in[0], 5);
        c.stride[d] = flat ? 1 : pick_int(rng, {1, 2, 2, 3}), c.dilation[d] = d == 1 ? pick_int(rng, {1, 1, 2}) : 1;
        c.pad[d] = flat ? 0 : pick_int(rng, {0, 1, 1, 2, 3}), c.pad_hi[d] = flat ? 0 : pick_int(rng, {0, 1, 1, 3});
      }
      c.algo = AOTC_CONV_LAST, c.packed = true;
      c.mc = pick_int(rng, {32, 64}), c.nc = pick_int(rng, {1, 14, 49, 64, 192, 500});
      c.kc = 128, c.kp = 1024;
      c.line_steps = static_cast<int>((c.kernel[2] * c.cg * aotc_conv_lines_together(c.cg, c.kernel[0], c.kernel[1]) + 31) / 32);
      // What is not finite must not reach other windows.
      check(e, c, rng, rng() % 3 ? 0 : pick(rng, {40, 1000}));
    }
}

TEST_CASE("channels-last conv in tiles, a group's taps in place, against fp64", "[conv]") {
  Rng rng(27);
  for (const Entry& e : kTiles)
    for (int i = 0; i < 90; ++i) {
      Case c{};
      c.n = pick(rng, {1, 1, 2}), c.groups = pick(rng, {2, 3, 5}), c.cg = pick(rng, {2, 10, 16, 24, 30}),
      c.cog = pick(rng, {1, 16, 24, 40});
      for (int d = 0; d < 3; ++d) {
        const bool flat = d == 0 && i % 3;
        c.in[d] = flat ? 1 : pick(rng, {1, 3, 7, 14, 20}), c.kernel[d] = flat ? 1 : pick_int(rng, {1, 2, 3, 3, 5});
        if (d == 0) c.in[0] = std::min<int64_t>(c.in[0], 5);
        c.stride[d] = flat ? 1 : pick_int(rng, {1, 1, 2, 3}), c.dilation[d] = d == 1 ? pick_int(rng, {1, 1, 2}) : 1;
        c.pad[d] = flat ? 0 : pick_int(rng, {0, 1, 1, 2}), c.pad_hi[d] = flat ? 0 : pick_int(rng, {0, 1, 1, 3});
      }
      c.algo = AOTC_CONV_LAST, c.packed = true, c.mc = pick_int(rng, {32, 64}), c.nc = pick_int(rng, {1, 14, 49, 64, 192, 500});
      c.kc = 128, c.kp = 1024, c.line_steps = c.kernel[2];
      check(e, c, rng, rng() % 4 ? 0 : 300);
    }
}

TEST_CASE("channels-last conv in tiles, units that are parts of planes, against fp64", "[conv]") {
  Rng rng(28);
  for (const Entry& e : kTiles)
    for (int i = 0; i < 50; ++i) {
      Case c{};
      c.n = pick(rng, {1, 1, 2}), c.groups = 1, c.cg = pick(rng, {1, 1, 8, 16, 32, 40}), c.cog = pick(rng, {8, 16, 24, 40});
      const int64_t side = pick(rng, {6, 9, 12});
      c.in[0] = pick(rng, {2, 3, 4}), c.in[1] = c.in[2] = side, c.kernel[0] = pick_int(rng, {2, 3, 5});
      c.kernel[1] = c.kernel[2] = 3, c.pad[0] = pick_int(rng, {0, 1, 2}), c.pad_hi[0] = pick_int(rng, {0, 1, 3});
      for (int d = 0; d < 3; ++d) c.stride[d] = c.dilation[d] = 1;
      for (int d = 1; d < 3; ++d) c.pad[d] = c.pad_hi[d] = 1;
      c.algo = AOTC_CONV_LAST, c.packed = true, c.mc = pick_int(rng, {32, 64}), c.kc = 128, c.kp = 1024;
      c.nc = static_cast<int>(side * side / pick(rng, {1, 2, 3}));
      if (c.cg % 32) c.line_steps = static_cast<int>((3 * c.cg * aotc_conv_lines_together(c.cg, c.kernel[0], 3) + 31) / 32);
      check(e, c, rng, c.line_steps && i % 2 ? pick(rng, {400, 3000}) : 0);
    }
}

TEST_CASE("channels-last depthwise conv against fp64", "[conv]") {
  Rng rng(22);
  for (const Entry& e : kEntries) {
    for (int i = 0; i < 80; ++i) {
      Case c{};
      c.n = pick(rng, {0, 1, 2}), c.groups = pick(rng, {1, 5, 16, 33, 40, 96}),
      c.cg = c.cog = e.dtype == DType::f64 ? 1 : pick(rng, {1, 1, 2, 4, 8});
      if (c.cg > 1) c.groups = pick(rng, {1, 3, 8, 11});
      c.algo = AOTC_CONV_LAST_DEPTHWISE, c.packed = rng() % 2 != 0, c.kc = 2, c.kp = pick_int(rng, {2, 4, 6, 40});
      for (int d = 0; d < 3; ++d) {
        c.in[d] = d == 0 ? pick(rng, {1, 1, 3}) : pick(rng, {1, 2, 7, 14, 30}), c.kernel[d] = d == 0 ? 1 : pick_int(rng, {1, 3, 5, 7, 9});
        c.stride[d] = d == 0 ? 1 : pick_int(rng, {1, 1, 2, 3}), c.dilation[d] = d == 0 ? 1 : pick_int(rng, {1, 1, 1, 2});
        c.pad[d] = d == 0 ? 0 : pick_int(rng, {0, 1, 3}), c.pad_hi[d] = d == 0 ? 0 : pick_int(rng, {0, 1, 3});
      }
      if (c.kernel[1] * c.kernel[2] == 1) c.kernel[2] = 3;
      if (c.kernel[1] * c.kernel[2] * c.cg > AOTC_CONV_DEPTHWISE_TAPS) c.kernel[1] = 1;
      c.mc = pick_int(rng, {32, 64, 128}), c.nc = pick_int(rng, {1, 8, 13, 64});
      check(e, c, rng);
    }
  }
}

TEST_CASE("conv by minimal filtering against fp64", "[conv]") {
  Rng rng(23);
  for (const Entry& e : kEntries) {
    if (e.dtype != DType::f32 && e.dtype != DType::bf16) continue;
    for (int i = 0; i < 160; ++i) {
      Case c{};
      const bool deep = i % 4 == 0;  // windows of volumes
      c.n = pick(rng, {0, 1, 1, 2}), c.groups = 1, c.cg = pick(rng, {16, 32, 48}), c.cog = pick(rng, {1, 16, 32, 40, 70});
      c.algo = AOTC_CONV_WINOGRAD, c.packed = true;
      for (int d = 0; d < 3; ++d) {
        c.in[d] = d == 0 ? 1 : deep ? pick(rng, {1, 3, 8, 13}) : pick(rng, {1, 2, 3, 4, 7, 8, 13, 17, 40});
        if (d == 0 && deep) c.in[d] = pick(rng, {1, 2, 4});
        c.kernel[d] = d == 0 ? deep ? pick_int(rng, {1, 2, 3, 5}) : 1 : 3;
        c.stride[d] = d == 0 && deep ? pick_int(rng, {1, 1, 2}) : 1, c.dilation[d] = d == 0 && deep ? pick_int(rng, {1, 1, 2}) : 1;
        c.pad[d] = d == 0 && !deep ? 0 : pick_int(rng, {0, 1, 1, 2}), c.pad_hi[d] = d == 0 && !deep ? 0 : pick_int(rng, {0, 1, 1, 3});
      }
      c.kp = e.dtype == DType::bf16 ? 2 : pick_int(rng, {2, 4}), c.mc = pick_int(rng, {32, 64}), c.nc = pick_int(rng, {1, 3, 14, 40}),
      c.kc = pick_int(rng, {16, 64, 512});
      check(e, c, rng);
    }
  }
}

TEST_CASE("channels-last conv whose sums are ordered: the same bits with every instruction set and in any batch", "[conv]") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (unsigned seed = 0; seed < 60; ++seed) {
      Rng rng(seed);
      const int64_t volume = pick(rng, {1, 1, 3});
      Case c{};
      const bool filtered = (dtype == DType::f32 || dtype == DType::bf16) && rng() % 4 == 0;
      c.n = 3, c.groups = filtered ? 1 : pick(rng, {1, 1, 2}), c.cg = filtered ? pick(rng, {16, 32}) : pick(rng, {1, 3, 16, 17}),
      c.cog = pick(rng, {1, 4, 15, 16, 40, 70});
      for (int d = 0; d < 3; ++d) {
        c.in[d] = d == 0 ? volume : pick(rng, {1, 2, 3, 7, 14, 19}), c.kernel[d] = d == 0     ? static_cast<int>(volume)
                                                                                   : filtered ? 3
                                                                                              : pick_int(rng, {1, 3, 3, 5});
        c.stride[d] = d == 0 || filtered ? 1 : pick_int(rng, {1, 1, 2}), c.dilation[d] = 1;
        c.pad[d] = c.pad_hi[d] = d == 0 ? static_cast<int>(volume) / 2 : pick_int(rng, {0, 1});
      }
      c.algo = filtered ? AOTC_CONV_WINOGRAD : AOTC_CONV_LAST, c.packed = filtered || rng() % 2;
      c.mc = 32, c.nc = pick_int(rng, {14, 32, 64}), c.kc = 16, c.kp = filtered ? 2 : pick_int(rng, {16, 4096});
      check_ordered(kEntries, dtype, c, seed, [](const Entry& e, const Case& x, Rng& r) { return check(e, x, r); });
    }
}

}  // namespace
}  // namespace kernel_test
