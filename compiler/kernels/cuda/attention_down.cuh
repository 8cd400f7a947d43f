// Attention with Hopper's tensor cores over keys and values that are stored in bytes: the warpgroup that copies makes numbers of 16 bits of them, as
// tensor maps would have written them, once for all rows of a tile. Integers come times their row's scale, rounded once.
#pragma once
#include "attention_wgmma.cuh"

// Pairs of T times the scale of a row. Of bf16 the scale is the sum of two, so that the product alone is rounded.
template <class T> struct AttnRowScale {
  float by;
  AOTC_DI explicit AttnRowScale(float scale) : by(scale) {}
  AOTC_DI u32 of(u32 pair) const { return pair_of<T>(pair_low<T>(pair) * by, pair_high<T>(pair) * by); }
};
template <> struct AttnRowScale<bf16> {
  u32 high, low;
  AOTC_DI explicit AttnRowScale(float scale) {
    const float top = static_cast<float>(bf16(scale));
    high = pair_of<bf16>(top, top), low = pair_of<bf16>(scale - top, scale - top);
  }
  AOTC_DI u32 of(u32 pair) const { return pair_fma<bf16>(pair, high, pair_fma<bf16>(pair, low, 0x80008000u)); }
};

template <class Tile, class Problem> struct AttnFiller {
  typedef typename Tile::Element T;
  typedef typename Problem::Stored K;
  static constexpr int threads = 128, named_barrier = 7;
  static constexpr bool scaled = Problem::scaled;

  // One block of keys or of values, whose rows are `step` apart and have `channels` numbers. A thread copies chunks of 16 bytes and makes
  // numbers of the same chunks.
  template <bool Values> struct Side {
    static constexpr int width = Values ? Tile::v_bytes : Tile::e_bytes, per_row = width / 16, chunks = Tile::keys * per_row;
    const K* rows;
    const float* row_scales;
    i64 step, scale_step;
    int channels, end;  // of the keys
    char* bytes;
    float* scales;  // of two blocks, in turns

    AOTC_DI void issue(int block) const {
      const int tid = threadIdx.x & 127, first = block * Tile::keys;
#pragma unroll 1
      for (int c = tid; c < chunks; c += threads) {
        const int row = c / per_row, channel = c % per_row * 16, left = channels - channel < 16 ? channels - channel : 16;
        const bool inside = first + row < end && left > 0;
        copy16_async(bytes + c * 16, inside ? rows + (first + row) * step + channel : rows, inside ? left : 0);
      }
      if constexpr (scaled)
        for (int row = tid; row < Tile::keys; row += threads) {
          const bool inside = first + row < end;
          copy4_async(scales + (block & 1) * Tile::keys + row, inside ? row_scales + (first + row) * scale_step : row_scales, inside ? 4 : 0);
        }
    }
    AOTC_DI void make(int block, char* to) const {
#pragma unroll 1
      for (int c = threadIdx.x & 127; c < chunks; c += threads) {
        const int row = c / per_row, channel = c % per_row * 16;
        const uint4 all = *reinterpret_cast<const uint4*>(bytes + c * 16);
        const u32 w[4] = {all.x, all.y, all.z, all.w};
        const AttnRowScale<T> scale(scaled ? scales[(block & 1) * Tile::keys + row] * (1.0f / Int8::unit<T>) : 1.0f);
        char* const line = to + channel / 64 * Tile::box_bytes + row * 128;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          u32 made[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int s = 2 * h + i / 2;
            if constexpr (scaled) made[i] = scale.of(Int8::pair<T>(w, s, i % 2));
            else made[i] = E4m3::pair<T>(w, s, i % 2);
          }
          *reinterpret_cast<uint4*>(line + ((channel % 64 / 8 + h ^ row & 7) << 4)) = make_uint4(made[0], made[1], made[2], made[3]);
        }
      }
    }
  };

  // The blocks of a tile, by the four warps: keys and values in turns, of each the next one on its way while numbers are made of this one.
  static AOTC_DI void fill(const Problem& p, char* shared, const AttnBarriers<Tile>& barriers, const AttnPlace& at, int head,
                           AttnTurn<Tile::stages>& kt, AttnTurn<Tile::stages>& vt) {
    const int end = static_cast<int>(p.kv_len);
    float* const scales = reinterpret_cast<float*>(shared + Tile::row_scales_at);
    Side<false> keys{p.pk + p.k.base + at.batch * p.k.b + head * p.k.h, nullptr, p.k.s, 0, static_cast<int>(p.head_dim), end, shared + Tile::bytes_at, scales};
    Side<true> values{p.pv + p.v.base + at.batch * p.v.b + head * p.v.h, nullptr, p.v.s, 0, static_cast<int>(p.v_dim), end,
                      shared + Tile::bytes_at + Tile::block_bytes, scales + 2 * Tile::keys};
    if constexpr (scaled) {
      keys.row_scales = p.of_keys(at.batch, head), keys.scale_step = p.ks.s;
      values.row_scales = p.of_values(at.batch, head), values.scale_step = p.vs.s;
    }
    auto next = [&](const auto& side, int block, AttnTurn<Tile::stages>& turn, u32 full, u32 empty, int ring_at, int ring_bytes) {
      copies_wait<1>();
      if constexpr (scaled) named_sync(named_barrier, threads);  // a row's scale came by another thread
      barrier_wait(empty, turn.parity);
      side.make(block, shared + ring_at + turn.stage * ring_bytes);
      products_may_read();
      __syncwarp();
      if ((threadIdx.x & 31) == 0) barrier_arrive(full);
      turn.next();
      if (block > at.first) side.issue(block - 1);
      copies_commit();
    };
    keys.issue(at.blocks - 1);
    copies_commit();
    values.issue(at.blocks - 1);
    copies_commit();
#pragma unroll 1
    for (int block = at.blocks - 1; block >= at.first; --block) {
      next(keys, block, kt, barriers.keys_full(kt.stage), barriers.keys_empty(kt.stage), Tile::keys_at, Tile::keys_bytes);
      next(values, block, vt, barriers.values_full(vt.stage), barriers.values_empty(vt.stage), Tile::values_at, Tile::values_bytes);
    }
    copies_wait<0>();
  }
};
