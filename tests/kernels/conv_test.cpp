// Convolutions of every dtype and instruction set against a naive fp64 loop: 1 to 3 dims, stride, dilation, asymmetric padding, groups,
// depthwise, transposed, packed and natural weights, small and merged images.
#include <memory>

#include "conv_support.h"
#include "kernels/cpu/pack.h"

namespace kernel_test {
namespace {

const std::vector<Entry> kEntries = entries("conv");

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

using Case = ConvCase;

/// The results, in the order of images.
std::vector<double> check(const Entry& e, const Case& c, std::mt19937& rng) {
  if (!runs_here(e.isa)) return {};
  INFO(e.isa << " " << aotc::dtype_name(e.dtype) << " " << c.str());
  const std::optional<ConvSizes> sizes = conv_sizes(c);
  if (!sizes) return {};
  const ConvSizes& s = *sizes;
  Buffer x(c.n * s.channels * s.in_plane, e.dtype, rng() % 2), w(s.co * s.k, e.dtype);
  w.fill(rng);
  x.fill(rng);
  auto weight_at = [&](int64_t g, int64_t kk, int64_t j) {
    const int64_t cc = kk / s.taps, t = kk % s.taps;
    return c.transposed ? ((g * c.cg + cc) * c.cog + j) * s.taps + t : (g * c.cog + j) * s.k + kk;
  };
  std::unique_ptr<Scratch> panels;
  if (c.packed) {
    // The rows of each matrix of a group: all, or those of a phase.
    std::vector<std::vector<int64_t>> matrices(1);
    if (c.algo == AOTC_CONV_PHASES) {
      matrices.resize(static_cast<size_t>(c.stride[0] * c.stride[1] * c.stride[2]));
      for (int64_t kk = 0; kk < c.cg; ++kk)
        for (int64_t t = s.taps - 1; t >= 0; --t) {
          const auto tap = place_of(t, c.kernel);
          int64_t phase = 0;
          for (size_t i = 0; i < 3; ++i) phase = phase * c.stride[i] + tap[i] * c.dilation[i] % c.stride[i];
          matrices[static_cast<size_t>(phase)].push_back(kk * s.taps + t);
        }
    } else {
      for (int64_t kk = 0; kk < s.k; ++kk) matrices[0].push_back(kk);
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
  int64_t work = c.algo == AOTC_CONV_DIRECT ? c.n * s.co : c.groups * blocks_of(c.cog, c.mc) * blocks_of(c.n * s.out_plane, c.nc);
  if (c.algo == AOTC_CONV_PHASES) {
    int64_t pixels = c.n;
    for (int i = 0; i < 3; ++i) pixels *= blocks_of(s.out[i], c.stride[i]);
    work = c.groups * blocks_of(c.cog, c.mc) * c.stride[0] * c.stride[1] * blocks_of(pixels, c.nc);
  }
  const ConvRun run = run_conv(e, c, s, x.ptr(), c.packed ? panels->ptr() : w.ptr(), store_tile, work, rng);
  check_conv(
      c, s, run, x, w, [&](int64_t n, int64_t channel, int64_t place) { return (n * s.channels + channel) * s.in_plane + place; },
      weight_at, [&](int64_t n, int64_t o, int64_t p) { return (n * s.co + o) * s.out_plane + p; }, [](double mag) { return mag; },
      4 * epsilon(acc_of(e.dtype)));
  return run.result;
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

TEST_CASE("conv of a kernel of many rows against fp64", "[conv]") {
  std::mt19937 rng(12);
  for (const Entry& e : kEntries) {
    if (!aotc::is_float(e.dtype)) continue;
    for (int size : {7, 9}) {  // planned copies of rows, and more rows than a plan takes
      for (int stride : {1, 2, 3}) {
        Case c{};
        c.n = 2, c.groups = 1, c.cg = 2, c.cog = 5, c.mc = 8, c.nc = 64, c.kc = 64, c.kp = 64 * 1000;
        c.algo = AOTC_CONV_GEMM, c.packed = true;
        for (int d = 0; d < 3; ++d)
          c.in[d] = 8 + 3 * d, c.kernel[d] = size, c.stride[d] = stride, c.pad[d] = c.pad_hi[d] = size / 2, c.dilation[d] = 1;
        check(e, c, rng);
      }
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
        // Rows of one pixel: more pieces times taps than a gather's tables have room for.
        c.n = 37, c.in[2] = kernel, c.pad[2] = c.pad_hi[2] = 0;
        check(e, c, rng);
        std::swap(c.in[1], c.in[2]), std::swap(c.kernel[1], c.kernel[2]), std::swap(c.stride[1], c.stride[2]);
        check(e, c, rng);
      }
  }
}

TEST_CASE("conv whose sums are ordered: the same bits with every instruction set and in any batch", "[conv]") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (unsigned seed = 0; seed < 60; ++seed) {
      std::mt19937 rng(seed);
      auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
      Case c{};
      c.n = 3, c.groups = pick({1, 1, 2}), c.cg = pick({1, 3, 17}), c.cog = pick({1, 2, 3, 4, 6, 15, 40});
      c.algo = static_cast<int>(pick({AOTC_CONV_GEMM, AOTC_CONV_GEMM, AOTC_CONV_DIRECT}));
      c.packed = c.algo == AOTC_CONV_GEMM && rng() % 2;
      for (int d = 0; d < 3; ++d) {
        c.in[d] = d == 0 ? 1 : pick({1, 2, 7, 9, 14, 19, 28}), c.kernel[d] = d == 0 ? 1 : static_cast<int>(pick({1, 3, 3, 5}));
        c.stride[d] = d == 0 ? 1 : static_cast<int>(pick({1, 1, 2})), c.dilation[d] = 1;
        c.pad[d] = c.pad_hi[d] = d == 0 ? 0 : static_cast<int>(pick({0, 1}));
      }
      c.mc = static_cast<int>(pick({8, 32})), c.nc = static_cast<int>(pick({32, 64, 192})), c.kc = 16,
      c.kp = static_cast<int>(pick({16, 4096}));
      if (c.algo == AOTC_CONV_DIRECT) c.nc = 4096, c.kp = 6144, c.mc = 1, c.kc = 2;
      check_ordered(kEntries, dtype, c, seed, check);
    }
}

}  // namespace
}  // namespace kernel_test
