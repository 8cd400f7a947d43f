#pragma once
// Transposed convolutions by phases of the stride: AOTC_CONV_PHASES of aotc/detail/library_abi.h.
//
// Along a dim, output o meets tap t where (o + pad - t * dilation) is a multiple of the stride. So outputs of one remainder of (o + pad)
// meet the taps of one remainder of t * dilation, and each output phase is an ordinary convolution of stride 1 over its own taps. A work
// unit takes one phase of depth and height and all phases of width, whose finished tiles are interleaved into pieces of output rows.
#include "conv_tile.h"

namespace {

/// One phase along one dim: outputs first + stride * q for q < count, as a convolution of stride 1 over q with its taps turned round.
struct DimPhase {
  int64_t first, count;
  int64_t taps, last_tap, tap_step;  // tap j of the phase is last_tap - j * tap_step of the kernel
  int64_t pad, dilation;

  /// Phase v: the taps t with t * dilation % stride == v.
  DimPhase(const ConvShape& s, int dim, int64_t v) {
    const int64_t step = s.stride[dim];
    first = (v - s.pad[dim]) % step;
    if (first < 0) first += step;
    count = s.out[dim] > first ? ceil_div(s.out[dim] - first, step) : 0;
    int64_t a = step, b = s.dilation[dim] % step;
    while (b) {  // greatest common divisor
      const int64_t r = a % b;
      a = b, b = r;
    }
    tap_step = step / a, dilation = s.dilation[dim] / a;
    int64_t t0 = s.dilation[dim] == 1 ? v : 0;
    while (t0 < min_of(tap_step, s.kernel[dim]) && t0 * s.dilation[dim] % step != v) ++t0;
    const bool any = t0 < min_of(tap_step, s.kernel[dim]);
    taps = any ? (s.kernel[dim] - 1 - t0) / tap_step + 1 : 0;
    last_tap = t0 + (taps - 1) * tap_step;
    pad = any ? (taps - 1) * dilation - (first + s.pad[dim] - t0 * s.dilation[dim]) / step : 0;
  }

  /// Whether both phases read the same inputs, tap by tap.
  bool reads_like(const DimPhase& o) const { return taps == o.taps && pad == o.pad; }
};

template <class Acc>
inline void interleave_plainly(const Acc* in, int64_t ld, int64_t phases, int64_t count, Acc* out) {
  for (int64_t p = 0; p < phases; ++p)
    for (int64_t i = 0; i < count; ++i) out[i * phases + p] = in[p * ld + i];
}
/// out[i * phases + p] = in[p * ld + i]. count may be rounded up to a multiple of 8 on both sides; up to 8 elements beyond are written.
inline void interleave(const double* in, int64_t ld, int64_t phases, int64_t count, double* out) {
  interleave_plainly(in, ld, phases, count, out);
}
inline void interleave(const float* in, int64_t ld, int64_t phases, int64_t count, float* out) {
  if (phases == 1) {
    for (int64_t i = 0; i < count; i += 8) _mm256_storeu_ps(out + i, _mm256_loadu_ps(in + i));
  } else if (phases == 2) {
    for (int64_t i = 0; i < count; i += 8) {
      const __m256 a = _mm256_loadu_ps(in + i), b = _mm256_loadu_ps(in + ld + i);
      const __m256 lo = _mm256_unpacklo_ps(a, b), hi = _mm256_unpackhi_ps(a, b);
      _mm256_storeu_ps(out + 2 * i, _mm256_permute2f128_ps(lo, hi, 0x20));
      _mm256_storeu_ps(out + 2 * i + 8, _mm256_permute2f128_ps(lo, hi, 0x31));
    }
  } else {
    // Pixels in rising order and the last phases of a pixel first: what a store leaves beyond its pixel is overwritten by the next.
    for (int64_t i = 0; i < count; i += 8)
      for (int64_t p = (phases - 1) / 8 * 8; p >= 0; p -= 8) {
        __m256 r[8];
        for (int64_t q = 0; q < 8; ++q) r[q] = _mm256_loadu_ps(in + min_of(p + q, phases - 1) * ld + i);
        transpose8(r);
        for (int64_t q = 0; q < 8; ++q) _mm256_storeu_ps(out + (i + q) * phases + p, r[q]);
      }
  }
}

template <class G>
struct ConvPhases {
  using E = typename G::E;
  using Acc = typename G::Acc;
  using Tile = ConvTile<G>;
  static constexpr int64_t kPanel = AOTC_PANEL_N;

  const aotc_kargs* args;
  const aotc_conv_config* cfg;
  const ConvShape s;
  Tile tile;
  int64_t phases, nc, ld;  // phases along width; ld: a row of a phase's tile
  bool whole;              // the im2col of all phases of a unit is kept
  Acc *cols, *parts, *wide;
  int64_t held = -1;

  explicit ConvPhases(const aotc_kargs* a)
      : args(a),
        cfg(static_cast<const aotc_conv_config*>(a->config)),
        s(a->size, cfg),
        tile{cfg, s, TapMap(s), static_cast<const E*>(a->ptr[cfg->x_ptr]), static_cast<const E*>(a->ptr[cfg->w_ptr])} {
    phases = s.stride[2], nc = cfg->nc + 64, ld = ceil_div(cfg->nc, kPanel) * kPanel;
    int64_t width = 0, most = s.cg;  // rows of the im2col of a unit, at most
    for (int64_t v = 0; v < phases; ++v) {
      const DimPhase p(s, 2, v);
      if (v == 0 || !p.reads_like(DimPhase(s, 2, v - 1))) width += p.taps;
    }
    for (int i = 0; i < 2; ++i) most *= ceil_div(s.kernel[i], DimPhase(s, i, 0).tap_step);
    whole = most * width + phases <= cfg->kp;
    cols = static_cast<Acc*>(a->scratch);
    tile.tile = cols + min_of<int64_t>(s.k + phases + 1, cfg->kp) * nc;
    tile.turned = tile.tile + kPanel * nc;
    parts = tile.turned + nc * 48;
    wide = parts + phases * kPanel * ld;
    tile.wpack = reinterpret_cast<E*>(wide + kPanel * (phases * ld + 16));
  }

  /// The product of phase (d, h, w).
  void enter(const DimPhase& d, const DimPhase& h, const DimPhase& w) {
    ConvShape& p = tile.s;
    p = s;
    p.transposed = false;
    const DimPhase* all[3] = {&d, &h, &w};
    for (int i = 0; i < 3; ++i) {
      p.kernel[i] = all[i]->taps, p.stride[i] = 1, p.pad[i] = all[i]->pad, p.dilation[i] = all[i]->dilation;
      p.out[i] = i == 2 ? ceil_div(s.out[2], phases) : all[i]->count;  // all phases of width have as many pixels
      tile.taps.first[i] = all[i]->last_tap, tile.taps.step[i] = -all[i]->tap_step;
    }
    p.derive();
  }

  /// Elements of the panels of a group's phases before (d, h, 0); d at its end: of all.
  int64_t panels_before(int64_t d, int64_t h) const {
    int64_t rows = 0;
    for (int64_t i = 0; i <= d && i < s.stride[0]; ++i)
      for (int64_t j = 0; j < (i == d ? h : s.stride[1]); ++j)
        for (int64_t v = 0; v < phases; ++v)
          rows += Tile::stored_rows(s.cg * DimPhase(s, 0, i).taps * DimPhase(s, 1, j).taps * DimPhase(s, 2, v).taps);
    return rows * ceil_div(s.cog, kPanel) * kPanel;
  }

  /// The epilogue of `rows` channels, cut into pieces of output rows.
  void finish(const DimPhase& d, const DimPhase& h, int64_t co, int64_t rows, int64_t p0, int64_t p1) {
    const int64_t width = ceil_div(s.out[2], phases), ld_wide = phases * ld + 16;
    for (int64_t r = 0; r < rows; ++r) interleave(parts + r * ld, kPanel * ld, phases, p1 - p0, wide + r * ld_wide);
    for (int64_t p = p0; p < p1;) {
      const int64_t at = p % width, len = min_of(p1 - p, width - at);
      int64_t rest = p / width;
      const int64_t oh = h.first + rest % h.count * s.stride[1];
      rest /= h.count;
      const int64_t od = d.first + rest % d.count * s.stride[0], n = rest / d.count;
      const int64_t from = at * phases, columns = min_of(len * phases, s.out[2] - from);
      cfg->epilogue(args, wide + (p - p0) * phases, ld_wide, n, co, rows, (od * s.out[1] + oh) * s.out[2] + from, columns);
      p += len;
    }
  }

  void unit(int64_t g, int64_t cb, int64_t co_blocks, int64_t vd, int64_t vh, int64_t pb, int64_t px_blocks, int64_t group_elems,
            int64_t phase_elems, int64_t key) {
    const DimPhase d(s, 0, vd), h(s, 1, vh);
    const int64_t pixels = s.n * d.count * h.count * ceil_div(s.out[2], phases);
    typename Tile::Part part{g, 0, 0, 0, 0, nullptr, nullptr, true};
    tile.choose_lanes(pixels, s.k / (s.stride[0] * s.stride[1] * s.stride[2]));
    int64_t c0, c1;
    tile.channels(cb, co_blocks, &c0, &c1);
    tile.block(pixels, pb, px_blocks, &part.p0, &part.p1);
    if (c0 >= c1 || part.p0 >= part.p1) return;
    for (int64_t c = c0; c < c1; c += kPanel) {
      part.c0 = c, part.c1 = min_of(c + kPanel, c1);
      const bool fresh = !whole || held != key;
      const E* panels = cfg->w_packed ? tile.w + g * group_elems + phase_elems : nullptr;
      Acc* next = cols;
      for (int64_t v = 0; v < phases; ++v) {
        const DimPhase w(s, 2, v);
        enter(d, h, w);
        part.panels = panels;
        if (v > 0 && tile.s.k <= cfg->kp && w.reads_like(DimPhase(s, 2, v - 1))) {
          part.fresh = false;
        } else {
          part.cols = next, part.fresh = fresh;
          if (whole) next += (tile.s.k + (tile.s.k & 1)) * ld;
        }
        Acc* out = parts + w.first * kPanel * ld;
        tile.multiply(part, [&](const Acc* acc, int64_t ld_acc, int64_t co, int64_t rows, int64_t p0, int64_t count) {
          for (int64_t r = 0; r < rows; ++r) {
            Acc* to = out + (co - c + r) * ld + p0 - part.p0;
            for (int64_t i = 0; i < count; ++i) to[i] = acc[r * ld_acc + i];
          }
        });
        if (panels) panels += Tile::stored_rows(tile.s.k) * ceil_div(s.cog, kPanel) * kPanel;
      }
      held = key;
      finish(d, h, g * s.cog + c, part.c1 - part.c0, part.p0, part.p1);
    }
  }

  void run(int64_t begin, int64_t end) {
    const int64_t co_blocks = ceil_div(s.cog, cfg->mc);
    int64_t most = s.n;
    for (int i = 0; i < 3; ++i) most *= ceil_div(s.out[i], s.stride[i]);
    const int64_t px_blocks = ceil_div(most, cfg->nc), group_elems = cfg->w_packed ? panels_before(s.stride[0], 0) : 0;
    int64_t of = -1, phase_elems = 0;
    held = held_key(args);
    for (int64_t u = begin; u < end; ++u) {
      int64_t rest = u;
      const int64_t cb = rest % co_blocks;
      rest /= co_blocks;
      const int64_t key = rest, pb = rest % px_blocks;
      rest /= px_blocks;
      const int64_t vh = rest % s.stride[1], vd = rest / s.stride[1] % s.stride[0], g = rest / s.stride[1] / s.stride[0];
      if (cfg->w_packed && of != rest) phase_elems = panels_before(vd, vh), of = rest;
      unit(g, cb, co_blocks, vd, vh, pb, px_blocks, group_elems, phase_elems, key);
    }
    hold_key(args, held);
  }
};

template <class G>
void conv_phases(const aotc_kargs* args, int64_t begin, int64_t end) {
  ConvPhases<G>(args).run(begin, end);
}

}  // namespace
