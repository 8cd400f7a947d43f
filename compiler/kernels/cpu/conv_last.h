#pragma once
// Convolutions of channels-last tensors: AOTC_CONV_LAST of aotc/detail/library_abi.h, an implicit matrix product with channels as lanes.
//
// A work unit is nc pixels (images merged) x mc output channels of one group. The pixels' rows of the im2col matrix are copied once, in
// runs of whole channels, and kept over the units of the same pixels; the register tiles read them in place, without the taps that lie
// outside of the image for all of a tile's pixels (planes of depth, lines of height).
#include "conv_last_rows.h"

namespace {

template <class G>
struct ConvLast : ConvLastRows<G> {
  using Base = ConvLastRows<G>;
  using Base::args, Base::cfg, Base::W, Base::s, Base::kPanel, Base::stored_rows;
  using typename Base::Acc;
  using typename Base::E;
  using typename Base::P;
  using typename Base::Row;
  using typename Base::Unit;

  int64_t kp, ld;  // of rows
  Row* rows;       // im2col: nc x kp
  Acc* tile;
  E* wpack;
  Finish finish_in_tiles;  // instead of the epilogue
  bool skips = false;      // some tiles have less than all of k inside

  static constexpr int64_t kMostTiles = 32, kLeastK = 128;  // of a unit; of k that is worth looking at

  /// Of k what some pixels find inside of an image, never nothing: [from, to), and that `apart` on, `count` times in all.
  struct Inside {
    int64_t from, to, apart, count;
    int64_t end() const { return to + (count - 1) * apart; }
  };

  explicit ConvLast(const aotc_kargs* a) : Base(a) {
    if (kFinishes<Acc> && s.k > 0) finish_in_tiles = Finish(a, cfg->finish);
    kp = min_of<int64_t>(s.k + (s.k & 1), cfg->kp), ld = kp + 16;  // rows apart in the cache
    tile = static_cast<Acc*>(a->scratch);
    Acc* rest = tile + (int64_t{cfg->nc} + 16) * (cfg->mc + kPanel);
    rows = reinterpret_cast<Row*>(rest);
    wpack = reinterpret_cast<E*>(rest + (int64_t{cfg->nc} + 1) * ld);
    for (int i = 0; i < 2; ++i)
      skips = skips || s.pad[i] > 0 || (s.out[i] - 1) * s.stride[i] - s.pad[i] + (s.kernel[i] - 1) * s.dilation[i] >= s.in[i];
    skips = skips && s.k >= kLeastK && (P::kGroup == 1 || s.kernel[2] * s.cg % 2 == 0);  // runs begin with a pair
  }

  Inside inside(int64_t p, int64_t n) const {
    int64_t lo[2] = {s.kernel[0], s.kernel[1]}, hi[2] = {0, 0}, at;
    for (int64_t row = p / s.out[2]; row <= (p + n - 1) / s.out[2]; ++row) {
      const int64_t o[2] = {row / s.out[1] % s.out[0], row % s.out[1]};
      for (int i = 0; i < 2; ++i)
        for (int64_t t = 0; t < s.kernel[i]; ++t)
          if (s.source(i, o[i], t, &at)) lo[i] = min_of(lo[i], t), hi[i] = max_of(hi[i], t + 1);
    }
    if (lo[0] >= hi[0] || lo[1] >= hi[1]) return {0, s.k, 0, 1};
    const int64_t line = s.kernel[2] * s.cg, plane = s.kernel[1] * line;
    if (hi[1] - lo[1] == s.kernel[1]) return {lo[0] * plane, hi[0] * plane, 0, 1};
    if (cfg->ordered) return {lo[0] * plane + lo[1] * line, (hi[0] - 1) * plane + hi[1] * line, 0, 1};  // each run is a sum of its own
    return {lo[0] * plane + lo[1] * line, lo[0] * plane + hi[1] * line, plane, hi[0] - lo[0]};
  }

  void unit(const Unit& u, bool fresh) {
    const int64_t g = u.g, p0 = u.p0, p1 = u.p1, c0 = u.c0, c1 = u.c1;
    const bool whole = s.k <= cfg->kp;
    const int64_t count = p1 - p0, tiles = ceil_div(count, kMaxMr), panels = ceil_div(c1 - c0, kPanel);
    const int64_t group = whole ? min_of<int64_t>(panels, max_of<int64_t>(1, 4096 / (count * kPanel))) : panels, ldc = group * kPanel;
    constexpr int64_t b_stride = kPanel * sizeof(E) * P::kGroup;
    const E* panels_of_g = cfg->w_packed ? this->stored_panels(g) : nullptr;
    const int64_t share = cfg->w_packed ? b_stride / tiles : 0;  // of the next weights that a tile prefetches a step
    for (int64_t i = 0; s.k == 0 && i < count * ldc; ++i) tile[i] = 0;
    const bool some = skips && tiles <= kMostTiles;
    Inside part[kMostTiles];
    for (int64_t t = 0; some && t < tiles; ++t) part[t] = inside(p0 + t * count / tiles, (t + 1) * count / tiles - t * count / tiles);
    for (int64_t ks = 0; ks < s.k || ks == 0; ks += cfg->kp) {
      const int64_t klen = min_of<int64_t>(cfg->kp, s.k - ks);
      if (!cfg->w_packed) this->pack_weights(g, c0, c1, ks, ks + klen, wpack);
      if (fresh) this->gather_rows(g, p0, p1, ks, klen, rows, ld);
      for (int64_t q0 = 0; q0 < panels; q0 += group) {
        const int64_t q1 = min_of(q0 + group, panels);
        for (int64_t q = q0; q < q1; ++q) {
          const int64_t c = c0 + q * kPanel, width = min_of(kPanel, c1 - c), vecs = ceil_div(width, W);
          const E* wp = cfg->w_packed ? panels_of_g + c * stored_rows(s.k) + ks * kPanel : wpack + q * kPanel * stored_rows(klen);
          Acc* out = tile + (q - q0) * kPanel;
          for (int64_t k0 = 0; k0 < klen; k0 += cfg->kc) {
            const int64_t kn = min_of<int64_t>(cfg->kc, klen - k0), steps = ceil_div(kn, P::kGroup);
            const char* b = reinterpret_cast<const char*>(wp + k0 * kPanel);
            for (int64_t v = 0; v < vecs; v += kMaxNv) {
              RowTiles each(count, tiles);
              for (int64_t t = 0; t < tiles; ++t) {
                const auto [r0, r] = each.next();
                const int64_t nv = min_of<int64_t>(kMaxNv, vecs - v);
                const int64_t last = min_of<int64_t>(W, width - (v + nv - 1) * W);
                const TileFinish fin = {&finish_in_tiles, p0 + r0, g * s.cog + c + v * W, last};
                const Inside in = some ? part[t] : Inside{0, s.k, 0, 1};
                for (int64_t i = 0; i < in.count; ++i) {
                  const int64_t from = max_of(in.from + i * in.apart, ks + k0), to = min_of(in.to + i * in.apart, ks + k0 + kn);
                  if (from >= to) continue;
                  const char* at = b + (v * W * P::kBytesB + (from - ks - k0) / P::kGroup * kPanel * sizeof(E)) * P::kGroup;
                  micro_of<P, true>(r, nv, last, cfg->ordered)(
                      ceil_div(to - from, P::kGroup), reinterpret_cast<const char*>(rows + r0 * ld + from - ks), ld * sizeof(Row), at,
                      b_stride, out + r0 * ldc + v * W, ldc, from == in.from, b + (share ? steps * b_stride : 0) + t * share * steps, share,
                      finish_in_tiles.n && to == in.end() ? &fin : nullptr);
                }
              }
            }
          }
        }
        if (ks + klen >= s.k && !finish_in_tiles.n)
          this->finish(tile, ldc, g, p0, p1, c0 + q0 * kPanel, min_of(c0 + q1 * kPanel, c1) - c0 - q0 * kPanel);
      }
    }
  }

  void run(int64_t begin, int64_t end) {
    int64_t held = held_key(args);  // whose pixels are in rows
    for (int64_t i = begin; i < end; ++i) {
      const Unit u = this->at(i);
      if (u.empty()) continue;
      unit(u, s.k > cfg->kp || held != u.key);
      held = u.key;
    }
    hold_key(args, held);
  }
};

}  // namespace
