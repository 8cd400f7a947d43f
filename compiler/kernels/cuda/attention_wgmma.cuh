// Attention with Hopper's tensor cores (sm_90a): what attention.cuh computes, for 16-bit types. A warpgroup has 64 rows; blocks of keys and
// values come by tensor maps; scores stay in registers, where they become the left operand of their product with the values. While that
// product is under way, the scores of the next block are, too.
#pragma once
#include "attention.cuh"
#include "hopper.cuh"

// E, V: channels of keys and of values. Keys: of a block. Positions, Heads: the 64 rows of a warpgroup are this many positions of each of
// this many query heads, which have one key head. With one consumer a block has one tile, and its first thread copies; with more of them
// a warpgroup of its own copies for all tiles of the block. K: what keys and values are stored as; bytes become T on their way (attention_down.cuh).
template <class T, int E, int V, int Keys, int Consumers, int Stages, int Positions, int Heads, class K = T> struct AttnWgmmaTile {
  typedef T Element;
  typedef K Stored;
  static constexpr bool of_bytes = sizeof(K) == 1;
  static constexpr int keys = Keys, consumers = Consumers, stages = Stages, positions = Positions, heads = Heads;
  static constexpr int e_steps = (E + 15) / 16, e_boxes = (E + 63) / 64, v_boxes = (V + 63) / 64, columns = (V + 7) / 8 * 8;
  static constexpr int threads = Consumers > 1 ? 128 * (Consumers + 1) : 128;
  static constexpr int sums = columns / 2, scores = Keys / 2;  // registers
  static constexpr int box_bytes = Keys * 128, query_bytes = e_boxes * 8192, keys_bytes = e_boxes * box_bytes, values_bytes = v_boxes * box_bytes;
  static constexpr int row_bytes = e_boxes * Positions * Heads * 128;  // of the queries that one warpgroup's copies bring
  // Shared memory: queries, rings of keys and of values, a warpgroup's results on their way out (of a block of one tile where the queries
  // were), barriers.
  static constexpr int keys_at = Consumers * query_bytes, values_at = keys_at + Stages * keys_bytes, end_of_rings = values_at + Stages * values_bytes;
  static constexpr int results_at = Consumers > 1 ? end_of_rings : 0, results_bytes = Consumers > 1 ? Consumers * 8192 : 0;
  static constexpr int barriers_at = end_of_rings + results_bytes, bytes_at = barriers_at + 16 + 32 * Stages;
  // Bytes on their way: of a block of keys and of one of values; then the scales of two of each.
  static constexpr int e_bytes = e_steps * 16, v_bytes = (V + 15) / 16 * 16, block_bytes = Keys * (e_bytes > v_bytes ? e_bytes : v_bytes);
  static constexpr int row_scales_at = bytes_at + 2 * block_bytes, shared_bytes = bytes_at + (of_bytes ? 2 * block_bytes + 16 * Keys : 0);
  static constexpr int copying_registers = of_bytes ? 40 : Consumers == 3 ? 32 : 24, registers = of_bytes ? 232 : Consumers == 3 ? 160 : 240;
  static_assert(!of_bytes || Consumers == 2, "a warpgroup that copies, and registers for what it does");
  static_assert(Keys % 16 == 0 && Keys <= 256 && Positions * Heads <= 64 && (Heads == 1 || Consumers == 1), "tile shape");
};

enum class AttnMask { none, of_keys, of_rows };  // of_keys: the same for all rows of a batch element

// Barriers of a block, by their addresses.
template <class Tile> struct AttnBarriers {
  u32 first;
  AOTC_DI u32 queries_full() const { return first; }
  AOTC_DI u32 queries_empty() const { return first + 8; }
  AOTC_DI u32 keys_full(int s) const { return first + 16 + 8 * s; }
  AOTC_DI u32 keys_empty(int s) const { return first + 16 + 8 * (Tile::stages + s); }
  AOTC_DI u32 values_full(int s) const { return first + 16 + 8 * (2 * Tile::stages + s); }
  AOTC_DI u32 values_empty(int s) const { return first + 16 + 8 * (3 * Tile::stages + s); }
  AOTC_DI void make() const {
    constexpr int filled = Tile::of_bytes ? 4 : 1;  // by the warps that copy, or by a copy
    barrier_init(queries_full(), 1), barrier_init(queries_empty(), Tile::consumers);
    for (int s = 0; s < Tile::stages; ++s) {
      barrier_init(keys_full(s), filled), barrier_init(keys_empty(s), Tile::consumers);
      barrier_init(values_full(s), filled), barrier_init(values_empty(s), Tile::consumers);
    }
    barriers_are_made();
  }
};
template <int Stages> struct AttnTurn {
  int stage = 0;
  u32 parity;
  AOTC_DI void next() {
    if (++stage == Stages) stage = 0, parity ^= 1;
  }
};

// Warpgroups issue their products in turns, so that one has its exponents while others multiply. Each of them takes as many turns as the
// others; named barriers 1 .. Groups, of the warpgroup whose turn it is and the one before.
template <int Groups> struct AttnOrder {
  int group;
  AOTC_DI void start() const { if (group == Groups - 1) pass(); }
  AOTC_DI void take() const { named_sync(1 + group, 256); }
  AOTC_DI void pass() const { named_arrive(1 + (group + 1 == Groups ? 0 : group + 1), 256); }
};
struct AttnNoOrder {
  int group;
  AOTC_DI void start() const {}
  AOTC_DI void take() const {}
  AOTC_DI void pass() const {}
};

struct AttnNoFiller {};  // tensor maps fill the rings

// A tile of rows: its first position and query head, and which blocks of keys it sees: [first, blocks), at least one.
struct AttnPlace { int position, head, batch, first, blocks; AttnSeen seen; };
template <class Tile, class Problem> AOTC_DI int attn_tiles(const Problem& p) {
  const int of_head = (static_cast<int>(p.q_len) + Tile::positions * Tile::consumers - 1) / (Tile::positions * Tile::consumers);
  return of_head * static_cast<int>(p.heads / Tile::heads * p.batch);
}
// Causal: tiles of many keys come first. By all lanes of a warp, after the step before.
template <class Tile, bool Causal, class Problem> AOTC_DI AttnPlace attn_place(const Problem& p, int tile) {
  constexpr int Span = Tile::positions * Tile::consumers;
  const int of_head = (static_cast<int>(p.q_len) + Span - 1) / Span, groups = static_cast<int>(p.heads) / Tile::heads;
  const int all = groups * static_cast<int>(p.batch), group = Causal ? tile % all : tile / of_head;
  AttnPlace at;
  at.position = (Causal ? of_head - 1 - tile / all : tile % of_head) * Span;
  at.head = group % groups * Tile::heads;
  at.batch = group / groups;
  const int reach = Causal ? at.position + Span : static_cast<int>(p.kv_len), limit = reach < p.kv_len ? reach : static_cast<int>(p.kv_len);
  at.first = 0, at.blocks = (limit + Tile::keys - 1) / Tile::keys;
  at.seen.whole = false;
  if (p.pfrom != nullptr) {
    const int heads = p.from.h || p.end.h ? Tile::heads : 1, left = static_cast<int>(p.q_len) - at.position, lines = left < Span ? left : Span;
    at.seen = p.seen_by_lanes(heads * lines, [&](i64 r) { return p.seen_at(at.batch, at.head + r / lines, at.position + r % lines); });
    const int shown = static_cast<int>((at.seen.end + Tile::keys - 1) / Tile::keys), begin = static_cast<int>(at.seen.begin) / Tile::keys;
    at.blocks = shown < 1 ? 1 : shown < at.blocks ? shown : at.blocks;
    at.first = begin < at.blocks ? begin : at.blocks - 1;
  }
  return at;
}

template <class Tile, class Problem>
AOTC_DI void attn_copy_queries(const Problem& p, const TensorMap& map, u32 to, u32 barrier, const AttnPlace& at) {
  barrier_expect(barrier, Tile::consumers * Tile::row_bytes);
#pragma unroll
  for (int w = 0; w < Tile::consumers; ++w)
#pragma unroll
    for (int c = 0; c < Tile::e_boxes; ++c)
      copy_box(to + w * Tile::query_bytes + c * 8192, map, barrier, c * 64, at.position + w * Tile::positions, at.head, at.batch);
}
// A block of keys or of values.
template <class Tile, int Boxes> AOTC_DI void attn_copy_block(const TensorMap& map, u32 to, u32 barrier, int block, int head, int batch) {
  barrier_expect(barrier, Boxes * Tile::box_bytes);
#pragma unroll
  for (int c = 0; c < Boxes; ++c) copy_box(to + c * Tile::box_bytes, map, barrier, c * 64, block * Tile::keys, head, batch);
}

// What a mask that is the same for all rows says of a block: bool: bit i of a word: whether key i of its 32 is seen; otherwise what is added
// to the lane's key of them, a float. Nothing of keys beyond the last.
template <class Tile, class M> struct AttnKeys {
  static constexpr int words = (Tile::keys + 31) / 32;
  u32 word[words];
  AOTC_DI void load(const M* mask, i64 step, int first, int end) {
#pragma unroll
    for (int i = 0; i < words; ++i) {
      const int at = first + i * 32 + (threadIdx.x & 31);
      if constexpr (same<M, bool>::value) word[i] = __ballot_sync(~0u, at >= end || mask[at * step]);
      else word[i] = __float_as_uint(at < end ? static_cast<float>(mask[at * step]) : 0.0f);
    }
  }
  AOTC_DI void apply(float (&s)[Tile::scores], float scale, bool fills) const {
    const int quad = threadIdx.x & 3;
    if constexpr (same<M, bool>::value) {
      u32 all = ~0u;
#pragma unroll
      for (int i = 0; i < words; ++i) all &= word[i];
      if (all == ~0u) return;
#pragma unroll
      for (int i = 0; i < Tile::scores; ++i)
        if (!(word[i / 16] >> (quad * 2) & (1u << (i / 4 % 4 * 8 + (i & 1))))) s[i] = lowest<float>();
    } else {
#pragma unroll
      for (int i = 0; i < Tile::scores; i += 4)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float by = __uint_as_float(__shfl_sync(~0u, word[i / 16], i / 4 % 4 * 8 + quad * 2 + e));
          s[i + e] = with_added(s[i + e] * scale, by, fills), s[i + 2 + e] = with_added(s[i + 2 + e] * scale, by, fills);
        }
    }
  }
};

// A warpgroup's tile of rows. QK::multiply(s, left, right, add), PV::multiply(o, p0, p1, p2, p3, right, add): one instruction each.
template <class Tile, class QK, class PV, bool Causal, AttnMask Kind, class T, class M> struct AttnRows {
  typedef AttnProblem<T, float, M, typename Tile::Stored> Problem;
  // Scores that no mask is added to are scaled with their exponent.
  static constexpr bool raw = Kind == AttnMask::none || same<M, bool>::value;
  const Problem& p;
  float s[Tile::scores], o[Tile::sums], m[2], l[2];
  u32 weights[Tile::keys / 4];
  int position[2], end;  // of the thread's two rows; of the keys
  int from[2], to[2];    // the keys that a row's mask shows, where seen.whole
  AttnSeen seen;         // of the tile
  const M* mask[2];

  // Row r of the warpgroup: 16 a warp, of which a thread has rows lane / 4 and 8 below that.
  static AOTC_DI int own_row(int h) { return (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7) + h * 8; }
  static AOTC_DI int position_of(int row) { return Tile::heads > 1 ? row % Tile::positions : row; }
  static AOTC_DI int head_of(int row) { return Tile::heads > 1 ? row / Tile::positions : 0; }
  static AOTC_DI bool exists(const Problem& p, int row, int first) {
    return (Tile::positions * Tile::heads == 64 || row < Tile::positions * Tile::heads) && first + position_of(row) < p.q_len;
  }

  AOTC_DI void start(const AttnPlace& at, int first) {
    end = static_cast<int>(p.kv_len);
    seen = at.seen;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = exists(p, own_row(h), first) ? own_row(h) : 0;
      position[h] = first + position_of(row);
      m[h] = lowest<float>(), l[h] = 0.0f;
      if constexpr (Kind == AttnMask::of_rows) {
        const i64 last = p.q_len - 1, line = position[h] < last ? position[h] : last;
        mask[h] = p.pm + p.m.base + at.batch * p.m.b + (at.head + head_of(row)) * p.m.h + line * p.m.s;
      } else if constexpr (Kind == AttnMask::of_keys) {
        mask[h] = p.pm + p.m.base + at.batch * p.m.b;
      }
      if (!seen.whole) continue;
      const i64 last = p.q_len - 1;
      const AttnSeen own = p.seen_at(at.batch, at.head + head_of(row), position[h] < last ? position[h] : last);
      from[h] = static_cast<int>(own.begin), to[h] = static_cast<int>(own.end);
    }
#pragma unroll
    for (int i = 0; i < Tile::sums; ++i) o[i] = 0.0f;
  }
  AOTC_DI void multiply_keys(u32 queries, u32 keys) {
#pragma unroll
    for (int k = 0; k < Tile::e_steps; ++k)
      QK::multiply(s, operand_along_k(queries + k / 4 * 8192) + k % 4 * 2, operand_along_k(keys + k / 4 * Tile::box_bytes) + k % 4 * 2, k > 0);
    products_commit();
  }
  AOTC_DI void multiply_values(u32 values) {
    const u64 right = operand_across_k(values, Tile::box_bytes);
#pragma unroll
    for (int k = 0; k < Tile::keys / 16; ++k)
      PV::multiply(o, weights[k * 4], weights[k * 4 + 1], weights[k * 4 + 2], weights[k * 4 + 3], right + k * kOperandStep<false>, 1);
    products_commit();
  }
  AOTC_DI void load_mask(AttnKeys<Tile, M>& of_keys, int block) const {
    if constexpr (Kind == AttnMask::of_keys)
      if (!seen.whole) of_keys.load(mask[0], p.m.e, block * Tile::keys, end);
  }
  // Limited: some of the block's keys may be beyond what a row sees.
  template <bool Limited> AOTC_DI void apply_mask(const AttnKeys<Tile, M>& of_keys, int block) {
    const int first = block * Tile::keys, column = first + (threadIdx.x & 3) * 2;
    if constexpr (Kind != AttnMask::none)
      if (seen.whole) {
        if (!Causal && first >= seen.inner_begin && first + Tile::keys <= seen.inner_end) return;
        int limit[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) limit[h] = Causal && position[h] + 1 < to[h] ? position[h] + 1 : to[h];
#pragma unroll
        for (int i = 0; i < Tile::scores; ++i) {
          const int at = column + i / 4 * 8 + (i & 1), h = i >> 1 & 1;
          if (at >= limit[h] || at < from[h]) s[i] = lowest<float>();
        }
        return;
      }
    if constexpr (Kind == AttnMask::of_keys) of_keys.apply(s, p.scale, p.fills);
    if constexpr (Kind == AttnMask::of_rows) {
#pragma unroll
      for (int i = 0; i < Tile::scores; ++i) {
        const int at = column + i / 4 * 8 + (i & 1);
        if (at < end) s[i] = masked(raw ? s[i] : s[i] * p.scale, mask[i >> 1 & 1], at * p.m.e, p.fills);
      }
    }
    if (!Limited) return;
    int limit[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) limit[h] = Causal && position[h] + 1 < end ? position[h] + 1 : end;
#pragma unroll
    for (int i = 0; i < Tile::scores; ++i)
      if (column + i / 4 * 8 + (i & 1) >= limit[i >> 1 & 1]) s[i] = lowest<float>();
  }
  AOTC_DI float highest_score(int h) const {
    float top = m[h];
#pragma unroll
    for (int i = 2 * h; i < Tile::scores; i += 4) top = larger(top, larger(s[i], s[i + 1]));
    top = larger(top, shuffle_xor(top, 1));
    return larger(top, shuffle_xor(top, 2));
  }
  // Scores of row h become weights by base 2, in one multiply-add each; down: what older sums are multiplied with. The rounding of what is
  // subtracted is the same for all weights of a block, and sums that come down take it with them. Where it would leave the range of a weight,
  // scores lie further apart than weights reach, and a power of two, which rounds nothing, tells which of them are equal.
  AOTC_DI void exponents(int h, float top, float& down) {
    constexpr float kTooFar = 0x1p28f;
    const float of_score = (raw ? p.scale : 1.0f) * kLog2e, limit = subtracted(top);
    const float power = __uint_as_float((__float_as_uint(of_score) + 0x00400000u) & 0x7f800000u);
    const float factor = fabsf(limit * of_score) < kTooFar ? of_score : power, base = __fmul_rn(limit, factor);
    down = exp2_fast(__fmul_rn(m[h], factor) - base);
    m[h] = top;
    float sum = 0.0f;
#pragma unroll
    for (int i = 2 * h; i < Tile::scores; i += 4)
#pragma unroll
      for (int e = 0; e < 2; ++e) s[i + e] = exp2_fast(s[i + e] * factor - base), sum += s[i + e];
    l[h] = l[h] * down + sum;
  }
  AOTC_DI void exponents(float (&down)[2]) {
    if constexpr (Tile::columns > 64) {  // the maximum of the second row is found while the first has its exponents
#pragma unroll
      for (int h = 0; h < 2; ++h) exponents(h, highest_score(h), down[h]);
    } else {
      const float top[2] = {highest_score(0), highest_score(1)};
#pragma unroll
      for (int h = 0; h < 2; ++h) exponents(h, top[h], down[h]);
    }
  }
  AOTC_DI void to_weights() {
#pragma unroll
    for (int i = 0; i < Tile::keys / 4; ++i) weights[i] = packed<T>(s[2 * i], s[2 * i + 1]);
  }
  AOTC_DI void scale_down(const float (&down)[2]) {
#pragma unroll
    for (int i = 0; i < Tile::sums; ++i) o[i] *= down[i >> 1 & 1];
  }

  // All blocks of the tile from the last to the first. Done: queries(), keys(block), values(block): nothing reads those of that block any more. Turns:
  // take() and pass() around the products of a block.
  template <class Done, class Turns>
  AOTC_DI void run(const AttnPlace& at, int first, u32 queries, u32 ring_of_keys, u32 ring_of_values, const AttnBarriers<Tile>& full,
                   AttnTurn<Tile::stages>& kt, AttnTurn<Tile::stages>& vt, const Done& done, const Turns& turns) {
    start(at, first);
    AttnKeys<Tile, M> of_keys;
    float down[2];
    auto finish_keys = [&](int block) {
      done.keys(block, kt.stage);
      if (block == at.first) done.queries();
      kt.next();
    };
    int block = at.blocks - 1;
    barrier_wait(full.keys_full(kt.stage), kt.parity);
    turns.take();
    products_begin();
    multiply_keys(queries, ring_of_keys + kt.stage * Tile::keys_bytes);
    turns.pass();
    load_mask(of_keys, block);
    products_wait<0>();
    finish_keys(block);
    if (Causal || (block + 1) * Tile::keys > end) apply_mask<true>(of_keys, block);
    else apply_mask<false>(of_keys, block);
    exponents(down);
    to_weights();
    auto next_block = [&](auto limited) {
      barrier_wait(full.keys_full(kt.stage), kt.parity);
      turns.take();
      products_begin();
      multiply_keys(queries, ring_of_keys + kt.stage * Tile::keys_bytes);
      barrier_wait(full.values_full(vt.stage), vt.parity);
      products_begin();
      multiply_values(ring_of_values + vt.stage * Tile::values_bytes);
      turns.pass();
      load_mask(of_keys, block - 1);
      products_wait<1>();  // the scores; the product with the last block's values goes on
      finish_keys(block - 1);
      apply_mask<decltype(limited)::value != 0>(of_keys, block - 1);
      exponents(down);
      products_wait<0>();
      done.values(block, vt.stage);
      vt.next();
      scale_down(down);
      to_weights();
    };
    if (Causal)  // first the blocks of which the warpgroup's first row does not see all
      for (; block > at.first && block * Tile::keys > first + 1; --block) next_block(constant<1>());
    for (; block > at.first; --block) next_block(constant<0>());
    barrier_wait(full.values_full(vt.stage), vt.parity);
    products_begin();
    multiply_values(ring_of_values + vt.stage * Tile::values_bytes);
    products_wait<0>();
    done.values(at.first, vt.stage);
    vt.next();
  }

  // Divided by their sums and through 2 KB a warp to memory, 16 bytes a lane.
  AOTC_DI void store(const AttnPlace& at, int first, char* results) {
    const int lane = threadIdx.x & 31, quad = lane & 3, warp_row = (threadIdx.x >> 5 & 3) * 16;
    float by[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = l[h] + shuffle_xor(l[h], 1);
      sum += shuffle_xor(sum, 2);
      const int row = exists(p, own_row(h), first) ? own_row(h) : 0, last = static_cast<int>(p.q_len) - 1, line = first + position_of(row);
      by[h] = p.share_of(at.batch, at.head + head_of(row), line < last ? line : last, raw ? m[h] * p.scale : m[h], sum);
    }
#pragma unroll
    for (int c = 0; c < Tile::v_boxes; ++c) {
      __syncwarp();
#pragma unroll
      for (int j = 0; j < 8 && c * 64 + j * 8 < Tile::columns; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int row = own_row(h);
          const float* const x = &o[(c * 8 + j) * 4 + h * 2];
          *reinterpret_cast<u32*>(results + row * 128 + ((j ^ (row & 7)) << 4) + quad * 4) = packed<T>(x[0] * by[h], x[1] * by[h]);
        }
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = warp_row + i * 4 + (lane >> 3), chunk = lane & 7, channel = c * 64 + chunk * 8;
        if (!exists(p, row, first) || channel >= p.v_dim) continue;
        const Wide<T, 8> w = *reinterpret_cast<const Wide<T, 8>*>(results + row * 128 + ((chunk ^ (row & 7)) << 4));
        T* const to = p.po + p.o.base + at.batch * p.o.b + (at.head + head_of(row)) * p.o.h + (first + position_of(row)) * p.o.s + channel * p.o.e;
        if (p.o.e == 1 && channel + 8 <= p.v_dim && aligned16(to)) {
          store_wide<false>(to, w);
        } else {
#pragma unroll
          for (int e = 0; e < 8; ++e)
            if (channel + e < p.v_dim) to[e * p.o.e] = w.v[e];
        }
      }
    }
  }
};

// The whole kernel; the maps see channels, positions, heads and batch (bytes have none: Filler fills the rings, attention_down.cuh). Dynamic shared memory from a multiple of 1024 on.
template <class Tile, class QK, class PV, bool Causal, AttnMask Kind, class Filler, class T, class M, class K>
AOTC_DI void attention_wgmma(const AttnProblem<T, float, M, K>& p, const TensorMap& map_q, const TensorMap& map_k, const TensorMap& map_v) {
  extern __shared__ __align__(1024) char shared[];
  const u32 base = shared_address(shared), ring_of_keys = base + Tile::keys_at, ring_of_values = base + Tile::values_at;
  const AttnBarriers<Tile> barriers{base + Tile::barriers_at};
  const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0), in_head = static_cast<int>(p.heads / p.kv_heads);
  const bool leads = (threadIdx.x & 127) == 0;
  auto copy_keys = [&](const AttnPlace& at, int block, int s) {
    attn_copy_block<Tile, Tile::e_boxes>(map_k, ring_of_keys + s * Tile::keys_bytes, barriers.keys_full(s), block, at.head / in_head, at.batch);
  };
  auto copy_values = [&](const AttnPlace& at, int block, int s) {
    attn_copy_block<Tile, Tile::v_boxes>(map_v, ring_of_values + s * Tile::values_bytes, barriers.values_full(s), block, at.head / in_head, at.batch);
  };
  if (threadIdx.x == 0) map_prefetch(map_q), map_prefetch(map_k), map_prefetch(map_v), barriers.make();
  __syncthreads();
  next_step_may_start();
  typedef AttnRows<Tile, QK, PV, Causal, Kind, T, M> Rows;
  AttnTurn<Tile::stages> kt{0, 0}, vt{0, 0};
  if constexpr (Tile::consumers == 1) {
    if (p.pfrom != nullptr) wait_for_step_before();
    const AttnPlace at = attn_place<Tile, Causal>(p, blockIdx.x);
    if (p.pfrom == nullptr) wait_for_step_before();
    if (leads) {
      attn_copy_queries<Tile>(p, map_q, base, barriers.queries_full(), at);
      for (int i = 0; i < Tile::stages && i < at.blocks - at.first; ++i) copy_keys(at, at.blocks - 1 - i, i), copy_values(at, at.blocks - 1 - i, i);
    }
    struct Refill {
      decltype(copy_keys)& copy_keys_;
      decltype(copy_values)& copy_values_;
      const AttnPlace& at;
      bool leads;
      AOTC_DI void queries() const {}
      AOTC_DI void keys(int block, int s) const { if (leads && block - at.first >= Tile::stages) copy_keys_(at, block - Tile::stages, s); }
      AOTC_DI void values(int block, int s) const { if (leads && block - at.first >= Tile::stages) copy_values_(at, block - Tile::stages, s); }
    };
    barrier_wait(barriers.queries_full(), 0);
    Rows rows{p};
    rows.run(at, at.position, base, ring_of_keys, ring_of_values, barriers, kt, vt, Refill{copy_keys, copy_values, at, leads},
             AttnNoOrder{group});
    rows.store(at, at.position, shared + Tile::results_at);
  } else {
    const int tiles = attn_tiles<Tile>(p), rounds = (tiles + gridDim.x - 1) / gridDim.x;
    // Causal: every other round in reverse, so that the sums of the blocks come out even.
    auto tile_of = [&](int round) {
      return round * static_cast<int>(gridDim.x) + static_cast<int>(Causal && (round & 1) ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    };
    if (group == Tile::consumers) {
      fewer_registers<Tile::copying_registers>();
      if constexpr (Tile::of_bytes) {
        wait_for_step_before();
        kt.parity = vt.parity = 1;
        u32 parity = 1;
        for (int round = 0; round < rounds; ++round) {
          if (tile_of(round) >= tiles) continue;
          const AttnPlace at = attn_place<Tile, Causal>(p, tile_of(round));
          if (leads) {
            barrier_wait(barriers.queries_empty(), parity);
            attn_copy_queries<Tile>(p, map_q, base, barriers.queries_full(), at);
          }
          parity ^= 1;
          Filler::fill(p, shared, barriers, at, at.head / in_head, kt, vt);
        }
      } else if ((threadIdx.x & 127) < 32) {
        wait_for_step_before();
        kt.parity = vt.parity = 1;
        u32 parity = 1;
        for (int round = 0; round < rounds; ++round) {
          if (tile_of(round) >= tiles) continue;
          const AttnPlace at = attn_place<Tile, Causal>(p, tile_of(round));
          if (!leads) continue;
          barrier_wait(barriers.queries_empty(), parity);
          parity ^= 1;
          attn_copy_queries<Tile>(p, map_q, base, barriers.queries_full(), at);
          for (int block = at.blocks - 1; block >= at.first; --block) {
            barrier_wait(barriers.keys_empty(kt.stage), kt.parity);
            copy_keys(at, block, kt.stage);
            kt.next();
            barrier_wait(barriers.values_empty(vt.stage), vt.parity);
            copy_values(at, block, vt.stage);
            vt.next();
          }
        }
      }
    } else {
      more_registers<Tile::registers>();
      struct Release {
        const AttnBarriers<Tile>& barriers;
        bool leads;
        AOTC_DI void queries() const { if (leads) barrier_arrive(barriers.queries_empty()); }
        AOTC_DI void keys(int, int s) const { if (leads) barrier_arrive(barriers.keys_empty(s)); }
        AOTC_DI void values(int, int s) const { if (leads) barrier_arrive(barriers.values_empty(s)); }
      };
      // Two warpgroups with the same work, or with much of it for the tensor cores, fall into turns by themselves.
      constexpr bool kInTurns = Tile::consumers > 2 || (Causal && Tile::columns <= 64);
      const typename choose<kInTurns, AttnOrder<Tile::consumers>, AttnNoOrder>::type turns{group};
      wait_for_step_before();
      turns.start();
      u32 parity = 0;
      for (int round = 0; round < rounds; ++round) {
        if (tile_of(round) >= tiles) continue;
        const AttnPlace at = attn_place<Tile, Causal>(p, tile_of(round));
        const int first = at.position + group * Tile::positions;
        barrier_wait(barriers.queries_full(), parity);
        parity ^= 1;
        Rows rows{p};
        rows.run(at, first, base + group * Tile::query_bytes, ring_of_keys, ring_of_values, barriers, kt, vt, Release{barriers, leads},
                 turns);
        rows.store(at, first, shared + Tile::results_at + group * 8192);
      }
    }
  }
}
