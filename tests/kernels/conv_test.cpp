// Convolutions of every dtype and instruction set against a naive fp64 loop: 1 to 3 dims, stride, dilation, asymmetric padding, groups,
// depthwise, transposed, packed and natural weights, small and merged images.
#include <catch2/catch.hpp>
#include <memory>

#include "kernels/cpu/pack.h"
#include "support.h"

#define OF_ALL(X, isa) X(f32, isa) X(f64, isa) X(f16, isa) X(bf16, isa) X(u8, isa) X(i8, isa) X(i16, isa) X(i32, isa) X(i64, isa)
#define ENTRIES(X) OF_ALL(X, avx2) OF_ALL(X, avx512) X(bf16, avx512_bf16)
#define DECLARE(dtype, isa) extern "C" void aotc_conv_##dtype##_##isa(const aotc_kargs*, int64_t, int64_t);
ENTRIES(DECLARE)

namespace kernel_test {
namespace {

#define ROW(dtype, isa) {#isa, DType::dtype, aotc_conv_##dtype##_##isa},
const Entry kEntries[] = {ENTRIES(ROW)};

void store_tile(const aotc_kargs* args, const void* acc, int64_t ld, int64_t n, int64_t co0, int64_t rows, int64_t p0, int64_t count) {
  const int64_t* s = args->size;
  const int64_t plane = s[AOTC_CONV_OD] * s[AOTC_CONV_OH] * s[AOTC_CONV_OW];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < count; ++j) {
      const int64_t at = (n * s[AOTC_CONV_CO] + co0 + i) * plane + p0 + j;
      put(args->ptr[2], at, DType::f64, get(acc, i * ld + j, static_cast<DType>(s[AOTC_CONV_SIZES])));
      ++static_cast<int32_t*>(args->ptr[3])[at];
    }
}

struct Case {
  int64_t n, cg, cog, groups;
  int64_t in[3];
  int kernel[3], stride[3], pad[3], pad_hi[3], dilation[3];
  bool transposed, packed;
  int algo, mc, nc, kc, kp;
};

void check(const Entry& e, const Case& c, std::mt19937& rng) {
  if (!runs_here(e.isa)) return;
  INFO(e.isa << " " << aotc::dtype_name(e.dtype) << " n " << c.n << " cg " << c.cg << " cog " << c.cog << " groups " << c.groups << " in "
             << c.in[0] << "x" << c.in[1] << "x" << c.in[2] << " kernel " << c.kernel[0] << c.kernel[1] << c.kernel[2] << " stride "
             << c.stride[0] << c.stride[1] << c.stride[2] << " pad " << c.pad[0] << c.pad[1] << c.pad[2] << " dilation " << c.dilation[0]
             << c.dilation[1] << c.dilation[2] << " transposed " << c.transposed << " packed " << c.packed << " algo " << c.algo << " mc "
             << c.mc << " nc " << c.nc << " kc " << c.kc << " kp " << c.kp);
  const int64_t ch = c.cg * c.groups, co = c.cog * c.groups;
  int64_t out[3], taps = 1;
  for (int i = 0; i < 3; ++i) {
    const int64_t reach = c.dilation[i] * (c.kernel[i] - 1) + 1;
    out[i] = c.transposed ? (c.in[i] - 1) * c.stride[i] - c.pad[i] - c.pad_hi[i] + reach
                          : (c.in[i] + c.pad[i] + c.pad_hi[i] - reach) / c.stride[i] + 1;
    if (out[i] <= 0 || (!c.transposed && c.in[i] + c.pad[i] + c.pad_hi[i] < reach)) return;
    taps *= c.kernel[i];
  }
  const int64_t in_plane = c.in[0] * c.in[1] * c.in[2], out_plane = out[0] * out[1] * out[2], k = c.cg * taps;
  Buffer x(c.n * ch * in_plane, e.dtype, rng() % 2), w(co * k, e.dtype);
  x.fill(rng);
  w.fill(rng);
  const DType acc = acc_of(e.dtype);
  auto weight_at = [&](int64_t g, int64_t kk, int64_t j) {
    const int64_t cc = kk / taps, t = kk % taps;
    return c.transposed ? ((g * c.cg + cc) * c.cog + j) * taps + t : (g * c.cog + j) * k + kk;
  };
  std::unique_ptr<Scratch> panels;
  if (c.packed) {
    // The rows of each matrix of a group: all, or those of a phase.
    std::vector<std::vector<int64_t>> matrices(1);
    if (c.algo == AOTC_CONV_PHASES) {
      matrices.resize(static_cast<size_t>(c.stride[0] * c.stride[1] * c.stride[2]));
      for (int64_t kk = 0; kk < c.cg; ++kk)
        for (int64_t t = taps - 1; t >= 0; --t) {
          const int64_t tap[3] = {t / (c.kernel[1] * c.kernel[2]), t / c.kernel[2] % c.kernel[1], t % c.kernel[2]};
          int64_t phase = 0;
          for (int i = 0; i < 3; ++i) phase = phase * c.stride[i] + tap[i] * c.dilation[i] % c.stride[i];
          matrices[static_cast<size_t>(phase)].push_back(kk * taps + t);
        }
    } else {
      for (int64_t kk = 0; kk < k; ++kk) matrices[0].push_back(kk);
    }
    const int64_t eb = aotc::dtype_bytes(e.dtype);
    int64_t bytes = 0;
    for (const auto& m : matrices) bytes += aotc::kernels::panel_bytes(static_cast<int64_t>(m.size()), c.cog, e.dtype) * c.groups;
    panels = std::make_unique<Scratch>(bytes);
    char* at = static_cast<char*>(panels->ptr());
    for (int64_t g = 0; g < c.groups; ++g)
      for (const auto& m : matrices) {
        const auto rows = static_cast<int64_t>(m.size());
        std::vector<char> b(static_cast<size_t>(rows * c.cog * eb));
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < c.cog; ++j)
            std::memcpy(b.data() + (i * c.cog + j) * eb, static_cast<char*>(w.ptr()) + weight_at(g, m[static_cast<size_t>(i)], j) * eb,
                        static_cast<size_t>(eb));
        aotc::kernels::pack_panels(b.data(), c.cog, 1, rows, c.cog, e.dtype, at);
        at += aotc::kernels::panel_bytes(rows, c.cog, e.dtype);
      }
  }
  aotc_conv_config cfg = {};
  cfg.x_ptr = 0, cfg.w_ptr = 1;
  for (int i = 0; i < 3; ++i)
    cfg.kernel[i] = c.kernel[i], cfg.stride[i] = c.stride[i], cfg.pad[i] = c.pad[i], cfg.dilation[i] = c.dilation[i];
  cfg.groups = static_cast<int32_t>(c.groups), cfg.transposed = c.transposed, cfg.algo = c.algo;
  cfg.mc = c.mc, cfg.nc = c.nc, cfg.kc = c.kc, cfg.kp = c.kp, cfg.w_packed = c.packed, cfg.epilogue = store_tile;
  std::vector<int64_t> size = {c.n, ch, c.in[0], c.in[1], c.in[2], co, out[0], out[1], out[2], static_cast<int64_t>(acc)};
  std::vector<double> result(static_cast<size_t>(c.n * co * out_plane), -77);
  std::vector<int32_t> writes(result.size(), 0);
  void* ptr[] = {x.ptr(), c.packed ? panels->ptr() : w.ptr(), result.data(), writes.data()};
  Scratch scratch(aotc_conv_scratch_bytes(&cfg, k, aotc::dtype_bytes(acc)));
  volatile int32_t fault = 0;
  aotc_kargs args = {ptr, size.data(), &cfg, scratch.ptr(), 0, 1, &fault};
  auto blocks = [](int64_t a, int64_t by) { return (a + by - 1) / by; };
  int64_t work = c.algo == AOTC_CONV_DIRECT ? c.n * co : c.groups * blocks(c.cog, c.mc) * blocks(c.n * out_plane, c.nc);
  if (c.algo == AOTC_CONV_PHASES) {
    int64_t pixels = c.n;
    for (int i = 0; i < 3; ++i) pixels *= blocks(out[i], c.stride[i]);
    work = c.groups * blocks(c.cog, c.mc) * c.stride[0] * c.stride[1] * blocks(pixels, c.nc);
  }
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
          const int64_t t = kk % taps, g = o / c.cog;
          const int64_t tap[3] = {t / (c.kernel[1] * c.kernel[2]), t / c.kernel[2] % c.kernel[1], t % c.kernel[2]};
          const int64_t pos[3] = {p / (out[1] * out[2]), p / out[2] % out[1], p % out[2]};
          int64_t at[3];
          bool inside = true;
          for (int i = 0; i < 3; ++i) {
            if (c.transposed) {
              const int64_t q = pos[i] + c.pad[i] - tap[i] * c.dilation[i];
              inside = inside && q >= 0 && q % c.stride[i] == 0 && q / c.stride[i] < c.in[i];
              at[i] = q / c.stride[i];
            } else {
              at[i] = pos[i] * c.stride[i] - c.pad[i] + tap[i] * c.dilation[i];
              inside = inside && at[i] >= 0 && at[i] < c.in[i];
            }
          }
          if (!inside) continue;
          const double v = x.get((n * ch + g * c.cg + kk / taps) * in_plane + (at[0] * c.in[1] + at[1]) * c.in[2] + at[2]) *
                           w.get(weight_at(g, kk, o % c.cog));
          sum += v;
          mag += std::fabs(v);
        }
        const size_t at = static_cast<size_t>((n * co + o) * out_plane + p);
        once &= writes[at] == 1;
        worst = std::max(worst, std::fabs(result[at] - sum) / (mag + 1e-30));
      }
  CHECK(once);
  CHECK(worst <= 4 * epsilon(acc));
}

TEST_CASE("conv against fp64", "[conv]") {
  std::mt19937 rng(11);
  auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (const Entry& e : kEntries) {
    for (int i = 0; i < 80; ++i) {
      Case c{};
      const int dims = static_cast<int>(pick({1, 2, 2, 2, 3}));
      c.n = pick({0, 1, 1, 2, 3});
      c.groups = pick({1, 1, 1, 2, 5});
      c.cg = pick({1, 3, 4, 17});
      c.cog = pick({1, 4, 15, 16, 32, 40});
      const bool pointwise = rng() % 4 == 0;
      for (int d = 0; d < 3; ++d) {
        const bool used = d >= 3 - dims;
        c.in[d] = !used ? 1 : dims == 3 ? pick({1, 3, 5}) : dims == 2 ? pick({1, 2, 7, 14, 19}) : pick({1, 7, 50, 100});
        c.kernel[d] = !used || pointwise ? 1 : static_cast<int>(pick({1, 2, 3, 5}));
        c.stride[d] = !used || (pointwise && rng() % 2) ? 1 : static_cast<int>(pick({1, 1, 2, 3}));
        c.pad[d] = !used || pointwise ? 0 : static_cast<int>(pick({0, 1, 2}));
        c.pad_hi[d] = !used || pointwise ? 0 : static_cast<int>(pick({0, 1, 2}));
        c.dilation[d] = !used ? 1 : static_cast<int>(pick({1, 1, 2}));
      }
      c.transposed = rng() % 4 == 0;
      c.algo = rng() % 4 == 0 || !aotc::is_float(e.dtype) ? AOTC_CONV_DIRECT : AOTC_CONV_GEMM;
      c.packed = c.algo == AOTC_CONV_GEMM && rng() % 4 != 0;
      c.mc = static_cast<int>(pick({8, 32, 64}));
      c.nc = static_cast<int>(pick({32, 64, 192}));
      c.kc = static_cast<int>(pick({2, 16, 128}));
      c.kp = c.kc * static_cast<int>(pick({1, 3, 1000}));
      if (c.algo == AOTC_CONV_DIRECT) c.nc = static_cast<int>(pick({32, 200, 4096})), c.kp = static_cast<int>(pick({64, 512, 6144}));
      check(e, c, rng);
    }
  }
}

TEST_CASE("transposed conv by phases against fp64", "[conv]") {
  std::mt19937 rng(13);
  auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (const Entry& e : kEntries) {
    if (!aotc::is_float(e.dtype)) continue;
    for (int i = 0; i < 100; ++i) {
      Case c{};
      const int dims = static_cast<int>(pick({1, 2, 2, 3}));
      c.n = pick({0, 1, 1, 2, 3});
      c.groups = pick({1, 1, 1, 2, 5});
      c.cg = pick({1, 3, 4, 17});
      c.cog = pick({1, 4, 16, 32, 40, 70});
      for (int d = 0; d < 3; ++d) {
        const bool used = d >= 3 - dims;
        c.in[d] = !used ? 1 : dims == 3 ? pick({1, 3, 5}) : dims == 2 ? pick({1, 2, 7, 14}) : pick({1, 7, 50});
        c.kernel[d] = !used ? 1 : static_cast<int>(dims == 3 ? pick({1, 2, 3}) : pick({1, 2, 3, 4, 5, 8}));
        c.stride[d] = !used ? 1
                            : static_cast<int>(dims == 1   ? pick({1, 2, 3, 4, 5, 8, 11})
                                               : dims == 2 ? pick({1, 2, 2, 3, 4})
                                                           : pick({1, 2, 3}));
        c.pad[d] = !used ? 0 : static_cast<int>(pick({0, 1, 2, 3}));
        c.pad_hi[d] = !used ? 0 : static_cast<int>(pick({-3, -1, 0, 1, 2}));  // less than nothing: output_padding
        c.dilation[d] = !used ? 1 : static_cast<int>(pick({1, 1, 2, 3, 4}));
      }
      double macs = static_cast<double>(c.n * c.groups * c.cg * c.cog);  // the naive loop's, about
      for (int d = 0; d < 3; ++d) macs *= static_cast<double>(c.in[d] * c.stride[d] * c.kernel[d]);
      if (macs > 2e6) {
        --i;
        continue;
      }
      c.transposed = true, c.algo = AOTC_CONV_PHASES;
      c.packed = rng() % 4 != 0;
      c.mc = static_cast<int>(pick({8, 32, 64}));
      c.nc = static_cast<int>(pick({32, 64, 192}));
      c.kc = static_cast<int>(pick({2, 16, 128}));
      c.kp = c.kc * static_cast<int>(pick({1, 3, 1000}));
      check(e, c, rng);
    }
  }
}

TEST_CASE("depthwise conv against fp64", "[conv]") {
  std::mt19937 rng(12);
  auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (const Entry& e : kEntries) {
    for (int i = 0; i < 60; ++i) {
      Case c{};
      c.n = pick({1, 2}), c.groups = pick({1, 4, 9}), c.cg = pick({1, 1, 2}), c.cog = pick({1, 1, 3});
      c.algo = AOTC_CONV_DIRECT, c.kc = 2, c.mc = 1;
      for (int d = 0; d < 3; ++d) {
        c.in[d] = d == 0 ? pick({1, 1, 3}) : pick({1, 2, 7, 14, 40}), c.kernel[d] = d == 0 ? 1 : static_cast<int>(pick({1, 3, 5, 7}));
        c.stride[d] = d == 0 ? 1 : static_cast<int>(pick({1, 1, 2, 3})), c.dilation[d] = d == 0 ? 1 : static_cast<int>(pick({1, 1, 2}));
        c.pad[d] = d == 0 ? 0 : static_cast<int>(pick({0, 1, 3})), c.pad_hi[d] = d == 0 ? 0 : static_cast<int>(pick({0, 1, 3}));
      }
      if (rng() % 4 == 0) c.kernel[1] = 4, c.stride[1] = 4, c.dilation[1] = static_cast<int>(pick({1, 2, 4}));
      if (rng() % 4 == 0) c.in[1] = pick({6, 9, 11, 28}), c.in[2] = pick({12, 16, 28, 70});  // tiles of rows
      c.nc = static_cast<int>(pick({32, 200, 4096})), c.kp = static_cast<int>(pick({64, 512, 6144}));
      check(e, c, rng);
    }
  }
}

TEST_CASE("conv with kernels longer than a row of taps against fp64", "[conv]") {
  std::mt19937 rng(14);
  for (const Entry& e : kEntries) {
    if (!aotc::is_float(e.dtype)) continue;
    for (int kernel : {16, 31, 127, 128, 129})
      for (int stride : {1, 2, 5}) {
        Case c{};
        c.n = 2, c.groups = 2, c.cg = 3, c.cog = 20, c.packed = stride < 5;
        for (int d = 0; d < 3; ++d) c.in[d] = c.kernel[d] = c.stride[d] = c.dilation[d] = 1;
        c.in[2] = 70, c.kernel[2] = kernel, c.stride[2] = stride, c.pad[2] = kernel / 2, c.pad_hi[2] = kernel / 2 - 1;
        c.algo = AOTC_CONV_GEMM, c.mc = 32, c.nc = 64, c.kc = 128, c.kp = 1024;
        check(e, c, rng);
      }
  }
}

}  // namespace
}  // namespace kernel_test
