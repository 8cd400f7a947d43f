// Convolutions of channels-last tensors of every dtype and instruction set against a naive fp64 loop: as implicit products, depthwise, and
// by Winograd's minimal filtering; the panels are made by the weights' writer.
#include <catch2/catch.hpp>
#include <memory>

#include "plan/weights.h"
#include "support.h"

#define OF_ALL(X, isa) X(f32, isa) X(f64, isa) X(f16, isa) X(bf16, isa)
#define ENTRIES(X) OF_ALL(X, avx2) OF_ALL(X, avx512) X(bf16, avx512_bf16)
#define DECLARE(dtype, isa) extern "C" void aotc_conv_last_##dtype##_##isa(const aotc_kargs*, int64_t, int64_t);
ENTRIES(DECLARE)
extern "C" void aotc_conv_last_tiles_bf16_amx(const aotc_kargs*, int64_t, int64_t);
extern "C" void aotc_conv_last_tiles_bf16_amx_emulated(const aotc_kargs*, int64_t, int64_t);

namespace kernel_test {
namespace {

#define ROW(dtype, isa) {#isa, DType::dtype, aotc_conv_last_##dtype##_##isa},
const Entry kEntries[] = {ENTRIES(ROW)};
/// Of AOTC_CONV_LAST alone.
const Entry kTiles[] = {{"amx", DType::bf16, aotc_conv_last_tiles_bf16_amx},
                        {"avx512", DType::bf16, aotc_conv_last_tiles_bf16_amx_emulated}};

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

struct Case {
  int64_t n, cg, cog, groups;
  int64_t in[3];
  int kernel[3], stride[3], pad[3], pad_hi[3], dilation[3];
  bool packed;
  int algo, mc, nc, kc, kp;
};

/// The packed weight, as an artifact holds it.
std::vector<std::byte> packed_weight(Buffer& w, DType dtype, const Case& c, int64_t taps) {
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
  p.rows = {p.winograd ? aotc::forms::Panels::Rows{c.cg, c.cg, 0, 9, {}} : aotc::forms::Panels::Rows{c.cg * taps, c.cg, 1, taps, {}}};
  if (c.algo == AOTC_CONV_LAST_DEPTHWISE) {
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

void check(const Entry& e, const Case& c, std::mt19937& rng) {
  if (!runs_here(e.isa)) return;
  INFO(e.isa << (e.fn == kTiles[1].fn ? ", emulated tiles, " : " ") << aotc::dtype_name(e.dtype) << " n " << c.n << " cg " << c.cg
             << " cog " << c.cog << " groups " << c.groups << " in " << c.in[0] << "x" << c.in[1] << "x" << c.in[2] << " kernel "
             << c.kernel[0] << c.kernel[1] << c.kernel[2] << " stride " << c.stride[0] << c.stride[1] << c.stride[2] << " pad " << c.pad[0]
             << c.pad[1] << c.pad[2] << " dilation " << c.dilation[0] << c.dilation[1] << c.dilation[2] << " packed " << c.packed
             << " algo " << c.algo << " mc " << c.mc << " nc " << c.nc << " kc " << c.kc << " kp " << c.kp);
  const int64_t ch = c.cg * c.groups, co = c.cog * c.groups;
  int64_t out[3], taps = 1;
  for (int i = 0; i < 3; ++i) {
    const int64_t reach = c.dilation[i] * (c.kernel[i] - 1) + 1;
    if (c.in[i] + c.pad[i] + c.pad_hi[i] < reach) return;
    out[i] = (c.in[i] + c.pad[i] + c.pad_hi[i] - reach) / c.stride[i] + 1;
    taps *= c.kernel[i];
  }
  const int64_t in_plane = c.in[0] * c.in[1] * c.in[2], out_plane = out[0] * out[1] * out[2], k = c.cg * taps;
  Buffer x(c.n * ch * in_plane, e.dtype, rng() % 2), w(co * k, e.dtype);
  x.fill(rng);
  w.fill(rng);
  const DType acc = acc_of(e.dtype);
  std::vector<std::byte> panels;
  if (c.packed) panels = packed_weight(w, e.dtype, c, taps);
  std::unique_ptr<Scratch> packed;
  if (c.packed) {
    packed = std::make_unique<Scratch>(static_cast<int64_t>(panels.size()));
    std::memcpy(packed->ptr(), panels.data(), panels.size());
  }
  aotc_conv_config cfg = {};
  cfg.x_ptr = 0, cfg.w_ptr = 1;
  for (int i = 0; i < 3; ++i)
    cfg.kernel[i] = c.kernel[i], cfg.stride[i] = c.stride[i], cfg.pad[i] = c.pad[i], cfg.dilation[i] = c.dilation[i];
  cfg.groups = static_cast<int32_t>(c.groups), cfg.algo = c.algo;
  cfg.mc = c.mc, cfg.nc = c.nc, cfg.kc = c.kc, cfg.kp = c.kp, cfg.w_packed = c.packed, cfg.epilogue = store_tile;
  std::vector<int64_t> size = {c.n, ch, c.in[0], c.in[1], c.in[2], co, out[0], out[1], out[2], static_cast<int64_t>(acc)};
  std::vector<double> result(static_cast<size_t>(c.n * co * out_plane), -77);
  std::vector<int32_t> writes(result.size(), 0);
  void* ptr[] = {x.ptr(), c.packed ? packed->ptr() : w.ptr(), result.data(), writes.data()};
  int64_t scratch_bytes = aotc_conv_scratch_bytes(&cfg, k, aotc::dtype_bytes(acc));
  for (const Entry& tiles : kTiles)
    if (e.fn == tiles.fn) scratch_bytes = aotc_conv_last_tiles_scratch_bytes(&cfg, k);
  Scratch scratch(scratch_bytes);
  volatile int32_t fault = 0;
  aotc_kargs args = {ptr, size.data(), &cfg, scratch.ptr(), 0, 1, &fault};
  auto blocks = [](int64_t a, int64_t by) { return (a + by - 1) / by; };
  int64_t work = c.groups * blocks(c.cog, c.mc) * blocks(c.n * out_plane, c.nc);
  if (c.algo == AOTC_CONV_LAST_DEPTHWISE) work = c.n * out[0] * out[1] * blocks(out[2], c.nc);
  if (c.algo == AOTC_CONV_WINOGRAD) work = blocks(c.n * blocks(out[1], c.kp) * blocks(out[2], c.kp), c.nc) * blocks(co, c.mc);
  const int64_t split = work ? static_cast<int64_t>(rng() % (work + 1)) : 0;
  e.fn(&args, split, work);
  e.fn(&args, 0, split);
  double worst = 0;
  bool once = true;
  for (int64_t n = 0; n < c.n; ++n)
    for (int64_t o = 0; o < co; ++o)
      for (int64_t p = 0; p < out_plane; ++p) {
        double sum = 0, mag = 0;
        for (int64_t kk = 0; kk < k; ++kk) {
          const int64_t t = kk % taps, channel = o / c.cog * c.cg + kk / taps;
          const int64_t tap[3] = {t / (c.kernel[1] * c.kernel[2]), t / c.kernel[2] % c.kernel[1], t % c.kernel[2]};
          const int64_t pos[3] = {p / (out[1] * out[2]), p / out[2] % out[1], p % out[2]};
          int64_t at[3];
          bool inside = true;
          for (int i = 0; i < 3; ++i) {
            at[i] = pos[i] * c.stride[i] - c.pad[i] + tap[i] * c.dilation[i];
            inside = inside && at[i] >= 0 && at[i] < c.in[i];
          }
          if (!inside) continue;
          const double v =
              x.get((n * in_plane + (at[0] * c.in[1] + at[1]) * c.in[2] + at[2]) * ch + channel) * w.get((o * c.cg + kk / taps) * taps + t);
          sum += v;
          mag += std::fabs(v);
        }
        const size_t at = static_cast<size_t>((n * out_plane + p) * co + o);
        once &= writes[at] == 1;
        // Minimal filtering sums what the direct sum leaves out: its error is that of the whole patch.
        const double scale = c.algo == AOTC_CONV_WINOGRAD ? std::max(mag, 0.1 * static_cast<double>(k)) : mag;
        worst = std::max(worst, std::fabs(result[at] - sum) / (scale + 1e-30));
      }
  CHECK(once);
  CHECK(worst <= (c.algo == AOTC_CONV_WINOGRAD ? 16 : 4) * epsilon(acc));
}

using Rng = std::mt19937;
int64_t pick(Rng& rng, std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; }
int pick_int(Rng& rng, std::initializer_list<int64_t> xs) { return static_cast<int>(pick(rng, xs)); }

TEST_CASE("channels-last conv against fp64", "[conv]") {
  Rng rng(21);
  std::vector<Entry> entries(std::begin(kEntries), std::end(kEntries));
  entries.insert(entries.end(), std::begin(kTiles), std::end(kTiles));
  for (const Entry& e : entries) {
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

TEST_CASE("channels-last depthwise conv against fp64", "[conv]") {
  Rng rng(22);
  for (const Entry& e : kEntries) {
    for (int i = 0; i < 80; ++i) {
      Case c{};
      c.n = pick(rng, {0, 1, 2}), c.groups = pick(rng, {1, 5, 16, 33, 40, 96}),
      c.cg = c.cog = e.dtype == DType::f64 ? 1 : pick(rng, {1, 1, 2, 4, 8});
      if (c.cg > 1) c.groups = pick(rng, {1, 3, 8, 11});
      c.algo = AOTC_CONV_LAST_DEPTHWISE, c.packed = rng() % 2 != 0, c.kc = c.kp = 2;
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
    if (e.dtype != DType::f32) continue;
    for (int i = 0; i < 120; ++i) {
      Case c{};
      c.n = pick(rng, {0, 1, 1, 2}), c.groups = 1, c.cg = pick(rng, {16, 32, 48}), c.cog = pick(rng, {1, 16, 32, 40, 70});
      c.algo = AOTC_CONV_WINOGRAD, c.packed = true;
      for (int d = 0; d < 3; ++d) {
        c.in[d] = d == 0 ? 1 : pick(rng, {1, 2, 3, 4, 7, 8, 13, 17, 40}), c.kernel[d] = d == 0 ? 1 : 3;
        c.stride[d] = c.dilation[d] = 1;
        c.pad[d] = d == 0 ? 0 : pick_int(rng, {0, 1, 1, 2}), c.pad_hi[d] = d == 0 ? 0 : pick_int(rng, {0, 1, 1, 3});
      }
      c.kp = pick_int(rng, {2, 4}), c.mc = pick_int(rng, {32, 64}), c.nc = pick_int(rng, {1, 3, 14, 40}),
      c.kc = pick_int(rng, {16, 64, 512});
      check(e, c, rng);
    }
  }
}

}  // namespace
}  // namespace kernel_test
