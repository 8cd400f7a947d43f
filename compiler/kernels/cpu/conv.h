#pragma once
// Convolutions: aotc_conv_* of aotc/detail/library_abi.h. Here the implicit matrix product.
//
// A work unit is mc output channels x nc pixels (images merged) of one group. The pixels' im2col is gathered once and kept over the units
// of the same pixels.
#include "conv_direct.h"
#include "conv_phases.h"
#include "conv_tile.h"

namespace {

template <class G>
void conv_product(const aotc_kargs* args, int64_t begin, int64_t end) {
  using Tile = ConvTile<G>;
  const auto* cfg = static_cast<const aotc_conv_config*>(args->config);
  const ConvShape s(args->size, cfg);
  Tile t{cfg, s, TapMap(s), static_cast<const typename G::E*>(args->ptr[cfg->x_ptr]),
         static_cast<const typename G::E*>(args->ptr[cfg->w_ptr])};
  const int64_t pixels = s.n * s.out_plane, co_blocks = ceil_div(s.cog, cfg->mc), px_blocks = ceil_div(pixels, cfg->nc);
  t.choose_lanes(pixels, s.k);
  const int64_t kp = min_of<int64_t>(s.k + (s.k & 1), cfg->kp), nc = cfg->nc + 64;
  auto* cols = static_cast<typename G::Acc*>(args->scratch);
  t.tile = cols + kp * nc;
  t.turned = t.tile + (cfg->mc + 32) * nc;
  t.wpack = reinterpret_cast<typename G::E*>(t.turned + nc * 48);
  int64_t held = held_key(args);  // whose pixels are in cols
  for (int64_t u = begin; u < end; ++u) {
    const int64_t cb = u % co_blocks, pb = u / co_blocks % px_blocks, g = u / co_blocks / px_blocks, key = g * px_blocks + pb;
    typename Tile::Part part{g, 0, 0, 0, 0, nullptr, cols, s.k > cfg->kp || held != key};
    t.channels(cb, co_blocks, &part.c0, &part.c1);
    t.block(pixels, pb, px_blocks, &part.p0, &part.p1);
    if (part.c0 >= part.c1 || part.p0 >= part.p1) continue;
    if (cfg->w_packed) part.panels = t.w + g * ceil_div(s.cog, Tile::kPanel) * Tile::kPanel * Tile::stored_rows(s.k);
    held = key;
    t.multiply(part, [&](const typename G::Acc* acc, int64_t ld, int64_t c, int64_t rows, int64_t p0, int64_t count) {
      while (count > 0) {  // cut at image borders
        const int64_t n = p0 / s.out_plane, at = p0 % s.out_plane, len = min_of(count, s.out_plane - at);
        cfg->epilogue(args, acc, ld, n, g * s.cog + c, rows, at, len);
        acc += len, p0 += len, count -= len;
      }
    });
  }
  hold_key(args, held);
}

template <class G>
void conv(const aotc_kargs* args, int64_t begin, int64_t end) {
  switch (static_cast<const aotc_conv_config*>(args->config)->algo) {
    case AOTC_CONV_DIRECT: return conv_direct<typename G::E, typename G::Acc>(args, begin, end);
    case AOTC_CONV_PHASES: return conv_phases<G>(args, begin, end);
    default: return conv_product<G>(args, begin, end);
  }
}

}  // namespace
