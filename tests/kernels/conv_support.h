#pragma once
// What the tests of convolutions share: a case, its sizes, its call in two parts, and the naive fp64 loop that it is held to. Layouts are
// the callers': where elements of x, w and the result stand.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <optional>

#include "lanes.h"
#include "support.h"

namespace kernel_test {

struct ConvCase {
  int64_t n, cg, cog, groups;
  int64_t in[3];
  int kernel[3], stride[3], pad[3], pad_hi[3], dilation[3];
  bool transposed, packed;
  int algo, mc, nc, kc, kp;
  int line_steps = 0;
  bool ordered = false;

  std::string str() const {
    std::string s =
        "n " + std::to_string(n) + " cg " + std::to_string(cg) + " cog " + std::to_string(cog) + " groups " + std::to_string(groups);
    const auto three = [&](const char* what, const auto& v) {
      s += std::string(" ") + what;
      for (int i = 0; i < 3; ++i) s += (i ? "x" : " ") + std::to_string(v[i]);
    };
    three("in", in), three("kernel", kernel), three("stride", stride), three("pad", pad), three("pad_hi", pad_hi);
    three("dilation", dilation);
    for (const auto& [what, v] : {std::pair{"transposed", int{transposed}},
                                  {"packed", int{packed}},
                                  {"algo", algo},
                                  {"mc", mc},
                                  {"nc", nc},
                                  {"kc", kc},
                                  {"kp", kp},
                                  {"line_steps", line_steps},
                                  {"ordered", int{ordered}}})
      s += std::string(" ") + what + " " + std::to_string(v);
    return s;
  }
};

struct ConvSizes {
  int64_t channels, co, taps, k, in_plane, out_plane;
  int64_t out[3];
};
/// Nothing where the window does not fit.
inline std::optional<ConvSizes> conv_sizes(const ConvCase& c) {
  ConvSizes s{c.cg * c.groups, c.cog * c.groups, 1, 0, 1, 1, {}};
  for (int i = 0; i < 3; ++i) {
    const int64_t reach = c.dilation[i] * (c.kernel[i] - 1) + 1;
    if (!c.transposed && c.in[i] + c.pad[i] + c.pad_hi[i] < reach) return std::nullopt;
    s.out[i] = c.transposed ? (c.in[i] - 1) * c.stride[i] - c.pad[i] - c.pad_hi[i] + reach
                            : (c.in[i] + c.pad[i] + c.pad_hi[i] - reach) / c.stride[i] + 1;
    if (s.out[i] <= 0) return std::nullopt;
    s.taps *= c.kernel[i], s.in_plane *= c.in[i], s.out_plane *= s.out[i];
  }
  s.k = c.cg * s.taps;
  return s;
}

/// Halves the longest side of a drawn case's input while it takes more than `most` multiplications, as long as its window fits.
inline void shorten(ConvCase& c, int64_t most) {
  for (std::optional<ConvSizes> s = conv_sizes(c); s && c.n * s->out_plane * s->co * s->k > most;) {
    ConvCase shorter = c;
    *std::max_element(shorter.in, shorter.in + 3) /= 2;
    s = conv_sizes(shorter);
    if (s) c = shorter;
  }
}

/// Three coordinates of a place that is counted in row-major order.
template <class T>
std::array<int64_t, 3> place_of(int64_t i, const T (&dims)[3]) {
  return {i / (dims[1] * dims[2]), i / dims[2] % dims[1], i % dims[2]};
}

/// The results in fp64, in the order of the epilogue, and how often each was written.
struct ConvRun {
  std::vector<double> result;
  std::vector<int32_t> writes;
};
/// Calls the entry for `work` units in two parts, the later one first. The epilogue finds results and writes at ptr[2] and ptr[3], the
/// sums' type behind the sizes. scratch_bytes: of entries that say theirs apart, for sums of k terms.
inline ConvRun run_conv(const Entry& e, const ConvCase& c, const ConvSizes& s, void* x, void* w, aotc_epilogue_fn epilogue, int64_t work,
                        std::mt19937& rng, int64_t (*scratch_bytes)(const aotc_conv_config*, int64_t k) = nullptr) {
  const DType acc = acc_of(e.dtype);
  aotc_conv_config cfg = {};
  cfg.x_ptr = 0, cfg.w_ptr = 1;
  for (int i = 0; i < 3; ++i)
    cfg.kernel[i] = c.kernel[i], cfg.stride[i] = c.stride[i], cfg.pad[i] = c.pad[i], cfg.dilation[i] = c.dilation[i];
  cfg.groups = static_cast<int32_t>(c.groups), cfg.transposed = c.transposed, cfg.algo = c.algo;
  cfg.mc = c.mc, cfg.nc = c.nc, cfg.kc = c.kc, cfg.kp = c.kp, cfg.w_packed = c.packed, cfg.epilogue = epilogue,
  cfg.line_steps = c.line_steps, cfg.ordered = c.ordered;
  std::vector<int64_t> size = {c.n, s.channels, c.in[0], c.in[1], c.in[2], s.co, s.out[0], s.out[1], s.out[2], static_cast<int64_t>(acc)};
  ConvRun r{std::vector<double>(static_cast<size_t>(c.n * s.co * s.out_plane), -77), {}};
  r.writes.resize(r.result.size());
  void* ptr[] = {x, w, r.result.data(), r.writes.data()};
  Scratch scratch(scratch_bytes ? scratch_bytes(&cfg, s.k) : aotc_conv_scratch_bytes(&cfg, s.k, aotc::dtype_bytes(acc)));
  volatile int32_t fault = 0;
  aotc_kargs args = {ptr, size.data(), &cfg, scratch.ptr(), 0, 1, &fault};
  const int64_t split = work ? static_cast<int64_t>(rng() % static_cast<uint64_t>(work + 1)) : 0;
  run_parts(e, args, work, split);
  return r;
}

/// The window of one output place: its taps that lie in the image, in order, and the places that they read.
struct Tap {
  int64_t tap, place;
};
inline std::vector<Tap> taps_inside(const ConvCase& c, const ConvSizes& s, int64_t p) {
  std::vector<Tap> inside;
  const auto pos = place_of(p, s.out);
  for (int64_t t = 0; t < s.taps; ++t) {
    const auto tap = place_of(t, c.kernel);
    int64_t at[3];
    bool in = true;
    for (size_t i = 0; i < 3; ++i) {
      const int64_t q = pos[i] + c.pad[i] - tap[i] * c.dilation[i];  // of a transposed convolution
      at[i] = c.transposed ? q / c.stride[i] : pos[i] * c.stride[i] - c.pad[i] + tap[i] * c.dilation[i];
      in = in && (c.transposed ? q >= 0 && q % c.stride[i] == 0 : at[i] >= 0) && at[i] < c.in[i];
    }
    if (in) inside.push_back({t, (at[0] * c.in[1] + at[1]) * c.in[2] + at[2]});
  }
  return inside;
}

/// Every result written once and near the naive sum. x_at(n, channel, place), w_at(group, k of the group, output channel of the group),
/// out_at(n, output channel, place) give indices; scale(magnitude): what errors are relative to.
template <class X, class W, class Out, class Scale>
void check_conv(const ConvCase& c, const ConvSizes& s, const ConvRun& run, Buffer& x, Buffer& w, X x_at, W w_at, Out out_at, Scale scale,
                double tolerance) {
  const std::vector<double> xs = values_of(x);
  const int64_t blocks = (c.cog + kLanes - 1) / kLanes;
  std::vector<Lanes> ws(static_cast<size_t>(c.groups * blocks * s.k), Lanes{});  // [group][block of output channels][k]
  for (int64_t g = 0; g < c.groups; ++g)
    for (int64_t j = 0; j < c.cog; ++j)
      for (int64_t kk = 0; kk < s.k; ++kk)
        ws[static_cast<size_t>((g * blocks + j / kLanes) * s.k + kk)][j % kLanes] = w.get(w_at(g, kk, j));
  double worst = 0;
  bool once = true, finite = true;
  std::vector<std::pair<int64_t, double>> terms;  // (k, element of x)
  for (int64_t p = 0; p < s.out_plane; ++p) {
    const std::vector<Tap> inside = taps_inside(c, s, p);
    for (int64_t n = 0; n < c.n; ++n)
      for (int64_t g = 0; g < c.groups; ++g) {
        terms.clear();
        for (int64_t i = 0; i < c.cg; ++i)
          for (const Tap& t : inside) terms.emplace_back(i * s.taps + t.tap, xs[static_cast<size_t>(x_at(n, g * c.cg + i, t.place))]);
        for (int64_t b = 0; b < blocks; ++b) {
          Lanes sum = {}, mag = {};
          const Lanes* panel = &ws[static_cast<size_t>((g * blocks + b) * s.k)];
          for (const auto& [kk, v] : terms) {
            const Lanes t = v * panel[kk];
            sum += t;
            mag += t < 0 ? -t : t;
          }
          for (int64_t j = b * kLanes; j < std::min(c.cog, (b + 1) * kLanes); ++j) {
            const auto at = static_cast<size_t>(out_at(n, g * c.cog + j, p));
            const double want = sum[j % kLanes];
            once &= run.writes[at] == 1;
            finite &= std::isfinite(run.result[at]) == std::isfinite(want);
            if (!std::isfinite(want)) continue;
            worst = std::max(worst, std::fabs(run.result[at] - want) / (scale(mag[j % kLanes]) + 1e-30));
          }
        }
      }
  }
  CHECK(once);
  CHECK(finite);
  CHECK(worst <= tolerance);
}

/// Of a case of several images: the bits of each are the same with every instruction set (but for products of pairs of bf16), in blocks of
/// other sizes, and without the images behind it. results: of a case, by an entry, from a seed.
template <class Results>
void check_ordered(const std::vector<Entry>& entries, DType dtype, ConvCase c, unsigned seed, const Results& results) {
  c.ordered = true;
  std::vector<double> first;
  const int64_t images = c.n;
  for (const Entry& e : entries) {
    if (e.dtype != dtype || std::string_view(e.isa) == "avx512_bf16") continue;
    for (const int64_t n : {images, int64_t{1}})
      for (const int nc : {c.nc, c.nc * 3}) {
        ConvCase other = c;
        other.n = n, other.nc = nc;
        std::mt19937 rng(seed);
        const std::vector<double> got = results(e, other, rng);
        if (got.empty()) continue;
        if (first.empty()) first = got;
        INFO(e.isa << " " << aotc::dtype_name(dtype) << " " << other.str());
        CHECK(std::equal(got.begin(), got.end(), first.begin()));
      }
  }
}

inline int64_t blocks_of(int64_t a, int64_t by) { return (a + by - 1) / by; }

using Rng = std::mt19937;
inline int64_t pick(Rng& rng, std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; }
inline int pick_int(Rng& rng, std::initializer_list<int64_t> xs) { return static_cast<int>(pick(rng, xs)); }

}  // namespace kernel_test
