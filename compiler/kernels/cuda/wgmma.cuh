// Matrix products with the tensor cores of Hopper (sm_90a), operands copied by tensor maps and a fused epilogue:
//   out(b, i, j) = Epilogue(sum_k A(b, i, k) * B(b, k, j))
// One warp copies stages of 128 bytes of k into a ring; warpgroups multiply them and finish their tiles. A block takes tile after tile, in
// bands of rows, so that the tiles under way at one time share their operands in L2.
//
// The instruction's left operand has 64 lines a warpgroup, its right one up to 256. Without Swap the left lines are the rows of A and the
// right ones the columns of B; with Swap (few rows) they change places.
#pragma once
#include "limits.cuh"
#include "runs.cuh"
#include "wgmma_down.cuh"
#include "wgmma_quant.cuh"

// WarpRows: left lines of a warpgroup; Cols: right lines of a tile; Consumers: warpgroups that multiply. PingPong: each of them has tiles of
// its own, in turns, so that one finishes its tile while the other multiplies; otherwise they share a tile's left lines. Split: blocks of a
// cluster that share k; their sums are added in a fixed order. LeftAlongK, RightAlongK: k is the contiguous index. Early: the operand that
// no step writes (0: left, 1: right, 2: none), which is copied before the step before has ended. Products: 3: of f32 the high and low parts are
// multiplied (gemm.cuh); those of the left operand are made in registers, the right one lies in two parts, Cols lines of highs, then of lows. Apart: it
// is whole in memory, and warps that do not multiply take its stages apart. LeftBits: 8 or 4: the left operand is a weight of so many bits (wgmma_quant.cuh);
// 0: whole elements. Twin: half of a tile's right lines are columns of B, the others the same columns of a second matrix, whose sums a thread has beside those.
template <class T, int WarpRows, int Cols, int Consumers, int Stages, bool PingPong, int Split, bool Swap, bool LeftAlongK, bool RightAlongK,
          int Early, int Products, bool Apart, int LeftBits = 0, bool Twin = false>
struct WgmmaTile {
  typedef T Element;
  static constexpr int warp_rows = WarpRows, cols = Cols, consumers = Consumers, stages = Stages, split = Split, early = Early, products = Products;
  static constexpr bool ping_pong = PingPong, apart = Apart, swap = Swap, left_along_k = LeftAlongK, right_along_k = RightAlongK, twin = Twin;
  static constexpr int deep = 128 / int(sizeof(T));  // elements of k of a stage
  static constexpr int rows = PingPong ? WarpRows : WarpRows * Consumers;
  static constexpr int columns = Twin ? Cols / 2 : Cols;  // right lines that are of the output
  static constexpr int m_tile = Swap ? Cols : rows, n_tile = Swap ? rows : columns;
  static constexpr int blocks = WarpRows / 64, registers = Cols / 2;  // accumulators: [blocks][registers]
  static constexpr int threads = 128 * Consumers + (Consumers > 1 ? 128 : 32);
  static constexpr int left_bits = LeftBits, slab_stages = LeftBits == 4 ? 2 : 1;  // stages that have one copy of the left operand, with the first
  static constexpr int left_bytes = rows * (LeftBits ? 64 : 128), right_bytes = Cols * (Products > 1 ? 256 : 128), whole_bytes = Apart && !RightAlongK ? Cols * 128 : 0;
  static constexpr int stage_bytes = left_bytes + right_bytes + whole_bytes;
  // Of a stage: where the right operand is copied to, and the bytes of its copies.
  static constexpr int right_at = whole_bytes ? left_bytes + right_bytes : left_bytes, right_copied = Apart ? Cols * 128 : right_bytes;
  static constexpr int pieces = blocks * columns / 8, share = pieces / Split;  // of 8 columns: a warpgroup's; those that a block sums up
  static constexpr int line_pieces = columns / 8;                           // of one 64 left lines
  static constexpr int run_pieces = share % 4 == 0 && line_pieces % 4 == 0 ? 4 : share % 2 == 0 && line_pieces % 2 == 0 ? 2 : 1;  // turned into runs at once
  static constexpr int lane_runs = (run_pieces + 1) / 2, turns = share / run_pieces;  // a lane's runs in a turn; turns of a warp in a tile
  static constexpr int turn_bytes = Swap ? 32 * 20 * 4 : 16 * 32 * 4;       // of a warp, for that
  // Blocks that share k: a warp's sums of one share, what all warps get from one block, where they come (from each block), whence they go.
  static constexpr int part_bytes = share * 512, parts_bytes = part_bytes * Consumers * 4, come_at = 0, go_at = Split * parts_bytes;
  static constexpr int band = m_tile > 128 ? 8 : 16;
  // Shared memory: the ring, whose place the sums of other blocks take when it has been read; turns; barriers.
  static constexpr int turns_at = Stages * stage_bytes, barriers_at = turns_at + Consumers * 4 * turn_bytes;
  static constexpr int readers = Products > 1 || LeftBits ? 4 : 1;  // warps of a warpgroup that say that they have read a stage
  static constexpr int shared_bytes = barriers_at + (Apart ? 24 : 16) * Stages + (Split > 1 ? 32 * Consumers : 8);
  // Stages whose early operand is asked for while the step before runs: all where it is most of what is copied, or where a block starts beside
  // one of that step; else it starts when that step ends, and the first stages' other operand must not wait for the early one of them all.
  static constexpr int early_stages = (Swap && Cols <= 128) || 2 * (shared_bytes + 1024) <= (228 << 10) ? Stages : 2;
  static_assert(Split == 1 || go_at + (Split - 1) * parts_bytes <= Stages * stage_bytes, "the ring has no room for sums");
  static_assert(WarpRows % 64 == 0 && Cols % 8 == 0 && pieces % Split == 0 && share % run_pieces == 0,
                "tile shape");
  static_assert(RightAlongK || Apart || Cols % 64 == 0, "64 lines across k go together");
  static_assert(Split == 1 || !PingPong, "blocks that share k have one tile");
  static_assert(Products == 1 || (sizeof(T) == 4 && WarpRows == 64 && (RightAlongK || Apart) && !Swap), "parts of the left operand are made line by line");
  static_assert(!Apart || (Products > 1 && Consumers > 1), "warps beside the one that copies");
  static_assert(!Twin || (!Swap && Split == 1 && sizeof(T) == 2 && RightAlongK && Cols % 32 == 0), "columns of two matrices");
  static_assert(!LeftBits || (Swap && !PingPong && sizeof(T) == 2 && WarpRows == 64 && LeftAlongK && Early == 0 && Products == 1), "weights of few bits");
};

template <class T> struct same_as;
template <class T> struct same_as<const T&> { typedef T type; };

// A tile: where its rows and columns begin, and where its rows end; the columns count from the segment's first one. Of rows in runs (those of
// a tile are of one) b1 is the matrix.
struct WgmmaPlace { int segment, row, m, column, n_begin, n_end, b0, b1; };

template <class Tile, class Problem> AOTC_DI int wgmma_tiles(const Problem& p, int& row_tiles, int& column_tiles) {
  if constexpr (Problem::runs > 0) row_tiles = p.table->all();
  else row_tiles = (p.m() + Tile::m_tile - 1) / Tile::m_tile;
  column_tiles = 0;
#pragma unroll
  for (int s = 0; s < Problem::segments; ++s) column_tiles += (p.n_end(s) - p.n_begin(s) + Tile::n_tile - 1) / Tile::n_tile;
  return row_tiles * column_tiles * p.batch();
}
template <class Tile, class Problem> AOTC_DI WgmmaPlace wgmma_place(const Problem& p, int tile, int row_tiles, int column_tiles) {
  const int of_matrix = row_tiles * column_tiles, z = Problem::batched ? tile / of_matrix : 0, t = tile - z * of_matrix;
  const int band = t / (Tile::band * column_tiles), r = t - band * Tile::band * column_tiles, left = row_tiles - band * Tile::band;
  const int rows = left < Tile::band ? left : Tile::band;
  WgmmaPlace at;
  const int row_tile = band * Tile::band + r % rows;
  at.row = row_tile * Tile::m_tile, at.m = p.m();
  int column = r / rows;
  at.segment = 0, at.n_begin = p.n_begin(0), at.n_end = p.n_end(0);
#pragma unroll
  for (int s = 1; s < Problem::segments; ++s) {
    const int tiles = (at.n_end - at.n_begin + Tile::n_tile - 1) / Tile::n_tile;
    if (at.segment == s - 1 && column >= tiles) column -= tiles, at.segment = s, at.n_begin = p.n_begin(s), at.n_end = p.n_end(s);
  }
  at.column = column * Tile::n_tile;
  p.batch_of(z, at.b0, at.b1);
  if constexpr (Problem::runs > 0) p.table->find(row_tile, Tile::m_tile, at.b1, at.row, at.m);
  return at;
}

// The steps of k that this block has; they begin with a slab.
template <class Tile> AOTC_DI void wgmma_share_of_k(int k, u32 rank, int& first, int& steps) {
  constexpr int each = Tile::split * Tile::slab_stages;
  const int all = (k + Tile::deep - 1) / Tile::deep, part = (all + each - 1) / each * Tile::slab_stages;
  first = Tile::split > 1 ? int(rank) * part : 0;
  const int last = first + part < all ? first + part : all;
  steps = last > first ? last - first : 0;
}

// The copies of one stage; their bytes, by the stage's number among all of k.
template <class Tile> AOTC_DI int wgmma_copied(int stage) {
  return Tile::right_copied + (Tile::slab_stages == 1 || stage % Tile::slab_stages == 0 ? Tile::left_bytes : 0);
}
template <class Tile, class Problem, bool Left>
AOTC_DI void wgmma_copy(const Problem& p, const TensorMap& map, u32 stage, u32 barrier, const WgmmaPlace& at, int k) {
  constexpr bool along = Left ? Tile::left_along_k : Tile::right_along_k, is_a = Left != Tile::swap;
  constexpr int lines = Left ? Tile::rows : Tile::cols, boxes = along || Tile::products > 1 ? 1 : lines / 64;
  const u32 to = Left ? stage : stage + Tile::right_at;
  const int line = is_a ? at.row : at.n_begin + at.column;
  if constexpr (Left && Tile::left_bits != 0) {
    const int number = k / Tile::deep;
    if (number % Tile::slab_stages == 0) p.copy_slabs(to, map, barrier, number / Tile::slab_stages, line / 16);
  } else if constexpr (!Left && Tile::twin) {
    p.copy_b(to, map, barrier, k, line, at.b0, at.b1);
    p.copy_twin(to + Tile::right_bytes / 2, barrier, k, line, at.b0, at.b1);
  } else {
#pragma unroll
    for (int i = 0; i < boxes; ++i) {
      const int x = along ? k : line + i * 64, y = along ? line : k;
      if constexpr (is_a) p.copy_a(to + i * 8192, map, barrier, x, y, at.b0, at.b1);
      else p.copy_b(to + i * 8192, map, barrier, x, y, at.b0, at.b1);
    }
  }
}

// One thread: fills the ring with the stages of all tiles of this block.
template <class Tile, class Problem>
AOTC_DI void wgmma_produce(const Problem& p, const TensorMap& left, const TensorMap& right, u32 ring, u32 full, u32 empty, u32 rank) {
  int row_tiles, column_tiles, k_first, steps, s = 0;
  u32 parity = 1;
  const int tiles = wgmma_tiles<Tile>(p, row_tiles, column_tiles);
  wgmma_share_of_k<Tile>(p.k(), rank, k_first, steps);
  bool waited = false;
  for (int tile = blockIdx.x / Tile::split; tile < tiles; tile += gridDim.x / Tile::split) {
    const WgmmaPlace at = wgmma_place<Tile>(p, tile, row_tiles, column_tiles);
    auto copy_left = [&](int step, int s) { wgmma_copy<Tile, Problem, true>(p, left, ring + s * Tile::stage_bytes, full + 8 * s, at, (k_first + step) * Tile::deep); };
    auto copy_right = [&](int step, int s) { wgmma_copy<Tile, Problem, false>(p, right, ring + s * Tile::stage_bytes, full + 8 * s, at, (k_first + step) * Tile::deep); };
    int step = 0;
    if (!waited) {
      const int n = steps < Tile::stages ? steps : Tile::stages, early = Tile::early == 2 ? 0 : n < Tile::early_stages ? n : Tile::early_stages;
      auto copy_early = [&](int i) {
        barrier_expect(full + 8 * i, wgmma_copied<Tile>(k_first + i));
        if (Tile::early == 0) copy_left(i, i);
        else copy_right(i, i);
      };
      for (int i = 0; i < early; ++i) copy_early(i);
      wait_for_step_before();
      for (int i = 0; i < n; ++i) {
        if (i >= early) copy_early(i);
        if (Tile::early == 0) copy_right(i, i);
        else copy_left(i, i);
      }
      waited = true;
      step = n;
      s = n % Tile::stages;
      if (n == Tile::stages) parity ^= 1;
    }
    for (; step < steps; ++step) {
      barrier_wait(empty + 8 * s, parity);
      barrier_expect(full + 8 * s, wgmma_copied<Tile>(k_first + step));
      copy_left(step, s);
      copy_right(step, s);
      if (++s == Tile::stages) s = 0, parity ^= 1;
    }
  }
}

// The warps beside that one: they take the right operand apart, stage after stage.
template <class Tile, class Problem> AOTC_DI void wgmma_take_apart(const Problem& p, char* shared, u32 full, u32 ready, u32 rank) {
  constexpr int kThreads = 96, chunks = Tile::cols * 8;  // of 16 bytes: 4 of k
  const int thread = int(threadIdx.x & 127) - 32;
  int row_tiles, column_tiles, k_first, steps, s = 0;
  u32 parity = 0;
  const int tiles = wgmma_tiles<Tile>(p, row_tiles, column_tiles);
  wgmma_share_of_k<Tile>(p.k(), rank, k_first, steps);
  for (int tile = blockIdx.x / Tile::split; tile < tiles; tile += gridDim.x / Tile::split)
    for (int step = 0; step < steps; ++step) {
      barrier_wait(full + 8 * s, parity);
      char* const high_at = shared + s * Tile::stage_bytes + Tile::left_bytes;
      const float* const whole = reinterpret_cast<const float*>(shared + s * Tile::stage_bytes + Tile::right_at);
#pragma unroll 2
      for (int c = thread; c < chunks; c += kThreads) {
        const int line = c % Tile::cols, fours = c / Tile::cols;  // neighbouring threads have neighbouring lines
        const int at = Tile::right_along_k ? c * 16 : line * 128 + ((fours ^ (line & 7)) << 4);
        __align__(16) float v[4];
        if constexpr (Tile::right_along_k) {
          *reinterpret_cast<uint4*>(v) = *reinterpret_cast<const uint4*>(whole + c * 4);
        } else {
#pragma unroll
          for (int e = 0; e < 4; ++e) v[e] = whole[(fours * 4 + e) * Tile::cols + line];
        }
        u32 high[4], low[4];
        tf32_split(v, high, low);
        *reinterpret_cast<uint4*>(high_at + at) = make_uint4(high[0], high[1], high[2], high[3]);
        *reinterpret_cast<uint4*>(high_at + Tile::cols * 128 + at) = make_uint4(low[0], low[1], low[2], low[3]);
      }
      products_may_read();
      __syncwarp();
      if ((threadIdx.x & 31) == 0) barrier_arrive(ready + 8 * s);
      if (++s == Tile::stages) s = 0, parity ^= 1;
    }
}

// Products of 8 bits, of `steps` stages from stage s on: the tensor cores keep some 13 bits of their sums, so those of a stage are added up
// by the ordinary units; while the next stage's are computed, where there are registers for two. `issued` is called when all are under way.
template <class Tile, class Mma, class Issued>
AOTC_DI void wgmma_sum_bytes(float (&acc)[Tile::blocks][Tile::registers], const WgmmaRing& ring, int group, int steps, int& s, u32& parity, const Issued& issued) {
  typedef float Sums[Tile::blocks][Tile::registers];
  constexpr bool two = Tile::blocks * Tile::registers <= kWgmmaTwoSets;
  const bool tells = (threadIdx.x & 127) == 0;
  const auto issue = [&](Sums& part) {
    barrier_wait(ring.full + 8 * s, parity);
    const u32 stage = ring.stages + s * Tile::stage_bytes;
    const u64 left = operand_at<true>(stage + (Tile::ping_pong ? 0 : group * Tile::warp_rows * 128)), right = operand_at<true>(stage + Tile::left_bytes);
    products_begin();
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int b = 0; b < Tile::blocks; ++b)
        Mma::multiply(part[b], left + b * kOperandLines + i * kOperandStep<true>, right + i * kOperandStep<true>, i != 0);
    products_commit();
  };
  int last = s;
  const auto next = [&] {
    last = s;
    if (++s == Tile::stages) s = 0, parity ^= 1;
  };
  const auto take = [&](const Sums& part) {  // of the stage that has been read
    if (tells) barrier_arrive(ring.empty + 8 * last);
#pragma unroll
    for (int b = 0; b < Tile::blocks; ++b)
#pragma unroll
      for (int r = 0; r < Tile::registers; ++r) acc[b][r] += part[b][r];
  };
  clear(acc);
  Sums even;
  if constexpr (two) {
    Sums odd;
    int step = 0;
    if (steps > 0) issue(even), next();
    for (; step + 2 < steps; step += 2) {
      issue(odd);
      products_wait<1>();
      take(even), next();
      issue(even);
      products_wait<1>();
      take(odd), next();
    }
    const bool one_more = step + 1 < steps;
    if (one_more) issue(odd);
    issued();
    if (one_more) {
      products_wait<1>();
      take(even), next();
      products_wait<0>();
      take(odd);
    } else if (steps > 0) {
      products_wait<0>();
      take(even);
    }
  } else {
    for (int step = 0; step < steps; ++step) {
      issue(even), next();
      products_wait<0>();
      take(even);
    }
    issued();
  }
}

// A warp's lines of the left operand at one stage, as fragments of its high and low parts.
struct WgmmaParts {
  u32 high[4][4], low[4][4];
  int stage;
};
// left: the stage's left operand, by lines of k, swizzled, or across k, whole lines of Tile::rows. first: the warp's first line.
template <class Tile> AOTC_DI void wgmma_take_parts(WgmmaParts& to, const char* left, int first) {
  const int lane = threadIdx.x & 31;
  const auto load = [&](int i, float (&v)[4]) {
    if constexpr (Tile::left_along_k) {
      const int line = first + (lane & 15);
      u32 raw[4];
      load_matrices(raw, left + line * 128 + (((i * 2 + (lane >> 4)) ^ (line & 7)) << 4));
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = __uint_as_float(raw[e]);
    } else {
      const float* const at = reinterpret_cast<const float*>(left) + (i * 8 + (lane & 3)) * Tile::rows + first + (lane >> 2);
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = at[(e >> 1) * 4 * Tile::rows + (e & 1) * 8];
    }
  };
  bool odd = false;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float v[4];
    load(i, v);
    tf32_parts(v, to.high[i], to.low[i], odd);
  }
  if (__ballot_sync(~0u, odd) == 0) return;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float v[4];
    load(i, v);
    tf32_split(v, to.high[i], to.low[i]);
  }
}

// The tensor cores cut off what an instruction's sum has beyond 24 bits, always towards 0: sums of products come out smaller by this on the average
// (measured: tests/gpu/notes/products.md), and what many products in a row lose adds up, where rounding to nearest mostly cancels out. Sums with bits
// to spare have lost nothing; those of whole numbers, which have lost nothing either, have them below 2^21, and beyond that all are left as they are.
AOTC_DI float wgmma_restored(float sum) {
  constexpr float kLost = 0x1.b0p-24f;
  return (__float_as_uint(sum) & 7u) != 0 && fabsf(sum) < 0x1p21f ? fmaf(sum, kLost, sum) : sum;
}

// Products of f32 in three of TF32, of `steps` stages from stage s on. A warp takes its next lines apart while products are under way; sums of a
// stage are added up by the ordinary units, which round. `issued` is called when all are under way.
template <class Tile, class Mma, class Issued>
AOTC_DI void wgmma_sum_parts(float (&acc)[Tile::blocks][Tile::registers], const WgmmaRing& ring, const char* shared, int group, int steps, int& s,
                             u32& parity, const Issued& issued) {
  const int lane = threadIdx.x & 31, first = (Tile::ping_pong ? 0 : group * 64) + (int(threadIdx.x) >> 5 & 3) * 16;
  const auto take = [&](WgmmaParts& to) {
    barrier_wait(ring.full + 8 * s, parity);
    if (Tile::apart) barrier_wait(ring.ready + 8 * s, parity);
    wgmma_take_parts<Tile>(to, shared + s * Tile::stage_bytes, first);
    to.stage = s;
    if (++s == Tile::stages) s = 0, parity ^= 1;
  };
  float sums[Tile::registers];
  const auto issue = [&](const WgmmaParts& parts) {
    const u64 high = operand_at<true>(ring.stages + parts.stage * Tile::stage_bytes + Tile::left_bytes), low = high + (Tile::cols * 128 >> 4);
    products_begin();
#pragma unroll
    for (int i = 0; i < 4; ++i)
      Mma::multiply(sums, parts.low[i][0], parts.low[i][1], parts.low[i][2], parts.low[i][3], high + i * kOperandStep<true>, i != 0);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      Mma::multiply(sums, parts.high[i][0], parts.high[i][1], parts.high[i][2], parts.high[i][3], low + i * kOperandStep<true>, 1);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      Mma::multiply(sums, parts.high[i][0], parts.high[i][1], parts.high[i][2], parts.high[i][3], high + i * kOperandStep<true>, 1);
    products_commit();
  };
  const auto add = [&](const WgmmaParts& parts) {
    products_wait<0>();
#pragma unroll
    for (int i = 0; i < 4; ++i) products_have_read(parts.high[i]), products_have_read(parts.low[i]);
    if (lane == 0) barrier_arrive(ring.empty + 8 * parts.stage);
#pragma unroll
    for (int r = 0; r < Tile::registers; ++r) acc[0][r] += sums[r];
  };
  clear(acc[0]);
  WgmmaParts a, b;
  int step = 0;
  bool loses = false;
  if (steps > 0) {
    take(a);
    u32 lows = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) lows |= a.low[i / 4][i % 4];
    loses = __ballot_sync(~0u, lows != 0) != 0;
  }
#pragma unroll 1
  for (; step + 2 < steps; step += 2) {
    issue(a), take(b);
    add(a);
    issue(b), take(a);
    add(b);
  }
  const bool one_more = step + 1 < steps;
  if (steps > 0) issue(a);
  if (one_more) take(b);
  else issued();
  if (steps > 0) add(a);
  if (one_more) {
    issue(b);
    issued();
    add(b);
  }
  // Lines that TF32 holds whole, as the first ones of a matrix tell, pick or count: their sums are exact where float32's are.
  if (loses)
#pragma unroll
    for (int r = 0; r < Tile::registers; ++r) acc[0][r] = wgmma_restored(acc[0][r]);
}

// A warpgroup: multiplies and finishes its tiles.
template <class Tile, class Mma, class Problem>
AOTC_DI void wgmma_consume(const Problem& p, u32 ring, u32 full, u32 empty, u32 ready, u32 sums, char* shared, int group, u32 rank) {
  constexpr int kTurns = 8;  // the first of the named barriers by which warpgroups take turns
  const int tid = threadIdx.x & 127, warp = tid >> 5;
  int row_tiles, column_tiles, k_first, steps, s = 0;
  u32 parity = 0;
  const int tiles = wgmma_tiles<Tile>(p, row_tiles, column_tiles), each = gridDim.x / Tile::split;
  wgmma_share_of_k<Tile>(p.k(), rank, k_first, steps);
  if (Problem::runs > 0 && int(blockIdx.x) >= tiles) return;  // the grid is for the most tiles that runs may need
  float* const turn = reinterpret_cast<float*>(shared + Tile::turns_at + (group * 4 + warp) * Tile::turn_bytes);
  const int line = (Tile::ping_pong ? 0 : group * Tile::warp_rows) + warp * 16;
  const WgmmaShare share{shared, ring, sums, rank, group * 4 + warp};
  auto skip = [&](int n) {
    s += n;
    parity ^= s / Tile::stages & 1;
    s %= Tile::stages;
  };
  // A warpgroup may look at a barrier only when it is the next to use it: two phases ahead, the parity reads as done.
  auto take_turn = [&] { if (Tile::ping_pong) named_sync(kTurns + group, 256); };
  auto give_turn = [&] { if (Tile::ping_pong) named_arrive(kTurns + (group + 1) % Tile::consumers, 256); };
  if (Tile::ping_pong) {
    skip(group * steps);
    if (group == Tile::consumers - 1) give_turn();
  }
  wait_for_step_before();
  float acc[Tile::blocks][Tile::registers];
  auto multiply_wide = [&](auto instruction) {  // a template: only one of the ways to multiply has such an instruction
    if (Tile::split > 1) clear(acc);  // a block may have no part of k
    int last = 0;
    take_turn();
    for (int step = 0; step < steps; ++step) {
      barrier_wait(full + 8 * s, parity);
      const u32 stage = ring + s * Tile::stage_bytes;
      const u64 left = operand_at<Tile::left_along_k>(stage + (Tile::ping_pong ? 0 : group * Tile::warp_rows * 128));
      const u64 right = operand_at<Tile::right_along_k>(stage + Tile::left_bytes);
      products_begin();
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int b = 0; b < Tile::blocks; ++b)
          decltype(instruction)::multiply(acc[b], left + b * kOperandLines + i * kOperandStep<Tile::left_along_k>, right + i * kOperandStep<Tile::right_along_k>,
                        Tile::split > 1 || (step | i) != 0);
      products_commit();
      products_wait<1>();  // the step before this one is done: its stage is free
      if (step > 0 && tid == 0) barrier_arrive(empty + 8 * last);
      last = s;
      if (++s == Tile::stages) s = 0, parity ^= 1;
    }
    give_turn();
    products_wait<0>();
    if (steps > 0 && tid == 0) barrier_arrive(empty + 8 * last);
    if (Tile::ping_pong) skip((Tile::consumers - 1) * steps);
  };
  auto multiply = [&](const WgmmaPlace& at) {
    if constexpr (Tile::left_bits != 0) {
      wgmma_sum_slabs<Tile, Mma>(p, acc, WgmmaRing{ring, full, empty, ready}, shared, line, at.n_begin + at.column + line, k_first / Tile::slab_stages, steps,
                                 s, parity);
    } else if constexpr (sizeof(typename Tile::Element) == 1) {
      take_turn();
      wgmma_sum_bytes<Tile, Mma>(acc, WgmmaRing{ring, full, empty, ready}, group, steps, s, parity, give_turn);
      if (Tile::ping_pong) skip((Tile::consumers - 1) * steps);
    } else if constexpr (Tile::products > 1) {
      take_turn();
      wgmma_sum_parts<Tile, Mma>(acc, WgmmaRing{ring, full, empty, ready}, shared, group, steps, s, parity, give_turn);
      if (Tile::ping_pong) skip((Tile::consumers - 1) * steps);
    } else {
      multiply_wide(Mma());
    }
  };
  const int step_of_tiles = Tile::ping_pong ? Tile::consumers * each : each;
  const auto finish = [&](int tile, WgmmaRole role) {
    const WgmmaPlace at = wgmma_place<Tile>(p, tile, row_tiles, column_tiles);
    if (Problem::segments > 1 && role != WgmmaRole::takes) multiply(at);
    p.with_epilogue(at.segment, at.b0, at.b1, [&](const auto& e) {
      typedef typename same_as<decltype(e)>::type Epilogue;
      const int row = at.row + (Tile::swap ? 0 : line), column = at.column + (Tile::swap ? line : 0), n = at.n_end - at.n_begin;
      const auto rest = [&] { if (Problem::segments == 1) multiply(at); };
      if constexpr (WgmmaInPlace<Tile, Epilogue>::fits)
        wgmma_in_place<WgmmaInPlace<Tile, Epilogue>, Tile>(e, acc, rest, turn, row, column, at.m, n, share);
      else if constexpr (WgmmaDown<Tile, Epilogue>::fits && Tile::ping_pong)
        wgmma_down_in_turns<Tile>(e, acc, rest, turn, row, column, at.m, n, shared, role);
      else if constexpr (WgmmaDown<Tile, Epilogue>::fits)
        wgmma_in_place<WgmmaDown<Tile, Epilogue>, Tile>(e, acc, rest, turn, row, column, at.m, n, share);
      else if (role != WgmmaRole::takes)
        wgmma_by_runs<Tile>(e, acc, rest, turn, row, column, at.m, n, share);
    });
  };
  if constexpr (Tile::ping_pong && Tile::swap) {  // the block's last tile is finished by both, the other warpgroup comes to it after its own
    const int first = blockIdx.x, last_tile = first + (tiles - 1 - first) / each * each;
    for (int tile = first + group * each, more = 1; more; tile += step_of_tiles) {
      more = tile < last_tile;
      finish(more ? tile : last_tile, more ? WgmmaRole::alone : tile == last_tile ? WgmmaRole::gives : WgmmaRole::takes);
    }
  } else {
    for (int tile = blockIdx.x / Tile::split + (Tile::ping_pong ? group * each : 0); tile < tiles; tile += step_of_tiles) finish(tile, WgmmaRole::alone);
  }
}

// The whole kernel. left, right: tensor maps of the operands in the roles that they have in the instruction. Mma::multiply(acc, left, right,
// add): one instruction, whose left operand is in registers where there are parts or few bits. Problem: m(), k(), batch(), segments, n_begin(s), n_end(s), batch_of(), copy_a() and copy_b() (x, y: as the operand
// lies in memory: k and the line, or with k across the line and k), copy_twin() of the second matrix, with_epilogue(). Epilogue: sums, how many it
// takes of a place: with two, the second one is the twin's. Loads, what a run of 8 neighbours reads (of
// load_registers registers); load(), finish(), finish_one_by_one(); aligned(), whether the first two may be called. in_place: whether it also
// has pair(), two neighbours of 16 bits out of their sums, Columns and Rows, what it needs for that of a column pair and of a row (of
// column_registers and row_registers), and of one operand that lies as the output does (has_tile) their word; load_columns(), load_rows();
// load_tile() and store_tile() of runs of 8. Dynamic shared memory from a multiple of 1024 on.
// runs: 0, or the number of matrices of rows in runs; then run_ends(), and `table`, which is made here; Split is 1.
template <class Tile, class Mma, class Problem> AOTC_DI void wgmma_product(Problem p, const TensorMap& left, const TensorMap& right) {
  extern __shared__ __align__(1024) char shared[];
  const u32 ring = shared_address(shared), full = ring + Tile::barriers_at, empty = full + 8 * Tile::stages, ready = empty + 8 * Tile::stages;
  const u32 sums = Tile::apart ? ready + 8 * Tile::stages : ready;
  const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0);  // the shuffle says that a warp has one role
  const u32 rank = Tile::split > 1 ? rank_in_cluster() : 0;
  if constexpr (Problem::runs > 0) {
    static_assert(Tile::split == 1, "blocks of a cluster have a tile");
    __shared__ RunTable<Problem::runs> table;
    wait_for_step_before();
    table.template fill<Tile::m_tile>(p.run_ends(), p.m());
    p.table = &table;
  }
  if (threadIdx.x == 128 * Tile::consumers) {
    map_prefetch(left);
    map_prefetch(right);
    for (int s = 0; s < Tile::stages; ++s) {
      barrier_init(full + 8 * s, 1);
      if (Tile::apart) barrier_init(ready + 8 * s, 3);
      barrier_init(empty + 8 * s, Tile::readers * (Tile::ping_pong ? 1 : Tile::consumers));
    }
    if (Tile::split > 1)
      for (int w = 0; w < 4 * Tile::consumers; ++w) {
        barrier_init(sums + 8 * w, 1);
        barrier_expect(sums + 8 * w, (Tile::split - 1) * Tile::part_bytes);
      }
    barriers_are_made();
  }
  __syncthreads();
  next_step_may_start();
  if (group == Tile::consumers) {
    if (Tile::consumers > 1) fewer_registers<40>();
    if ((threadIdx.x & 127) == 0) wgmma_produce<Tile>(p, left, right, ring, full, empty, rank);
    if constexpr (Tile::apart)
      if ((threadIdx.x & 127) >= 32) wgmma_take_apart<Tile>(p, shared, full, ready, rank);
    if (Tile::split > 1) {  // its part in the barriers of wgmma_exchange()
      __syncwarp();
      cluster_arrive();
      cluster_wait();
      cluster_arrive();
    }
  } else {
    if (Tile::consumers > 1) more_registers<232>();
    wgmma_consume<Tile, Mma>(p, ring, full, empty, ready, sums, shared, group, rank);
  }
  if (Tile::split > 1) {
    __syncwarp();
    cluster_wait();
  }
}
