// Matrix products with the tensor cores of Hopper (sm_90a), operands copied by tensor maps and a fused epilogue:
//   out(b, i, j) = Epilogue(sum_k A(b, i, k) * B(b, k, j))
// One warp copies stages of 128 bytes of k into a ring; warpgroups multiply them and finish their tiles. A block takes tile after tile, in
// bands of rows, so that the tiles under way at one time share their operands in L2.
//
// The instruction's left operand has 64 lines a warpgroup, its right one up to 256. Without Swap the left lines are the rows of A and the
// right ones the columns of B; with Swap (few rows) they change places.
#pragma once
#include "hopper.cuh"

// WarpRows: left lines of a warpgroup; Cols: right lines of a tile; Consumers: warpgroups that multiply. PingPong: each of them has tiles of
// its own, in turns, so that one finishes its tile while the other multiplies; otherwise they share a tile's left lines. Split: blocks of a
// cluster that share k; their sums are added in a fixed order. LeftAlongK, RightAlongK: k is the contiguous index. Early: the operand that
// no step writes (0: left, 1: right, 2: none), which is copied before the step before has ended.
template <class T, int WarpRows, int Cols, int Consumers, int Stages, bool PingPong, int Split, bool Swap, bool LeftAlongK, bool RightAlongK,
          int Early>
struct WgmmaTile {
  typedef T Element;
  static constexpr int warp_rows = WarpRows, cols = Cols, consumers = Consumers, stages = Stages, split = Split, early = Early;
  static constexpr bool ping_pong = PingPong, swap = Swap, left_along_k = LeftAlongK, right_along_k = RightAlongK;
  static constexpr int deep = 128 / int(sizeof(T));  // elements of k of a stage
  static constexpr int rows = PingPong ? WarpRows : WarpRows * Consumers;
  static constexpr int m_tile = Swap ? Cols : rows, n_tile = Swap ? rows : Cols;
  static constexpr int blocks = WarpRows / 64, registers = Cols / 2;  // accumulators: [blocks][registers]
  static constexpr int threads = 128 * Consumers + (Consumers > 1 ? 128 : 32);
  static constexpr int left_bytes = rows * 128, right_bytes = Cols * 128, stage_bytes = left_bytes + right_bytes;
  static constexpr int pieces = blocks * Cols / 8, share = pieces / Split;  // of 8 columns: a warpgroup's; those that a block sums up
  static constexpr int line_pieces = Cols / 8;                              // of one 64 left lines
  static constexpr int run_pieces = share < 4 || line_pieces < 4 ? (share < line_pieces ? share : line_pieces) : 4;  // turned into runs at once
  static constexpr int lane_runs = (run_pieces + 1) / 2, turns = share / run_pieces;  // a lane's runs in a turn; turns of a warp in a tile
  static constexpr int turn_bytes = Swap ? 32 * 20 * 4 : 16 * 32 * 4;       // of a warp, for that
  static constexpr int sums_bytes = Split > 1 ? Split * share * Consumers * 2048 : 0;
  static constexpr int band = m_tile > 128 ? 8 : 16;
  // Shared memory: the ring, sums, turns, barriers.
  static constexpr int sums_at = Stages * stage_bytes, turns_at = sums_at + sums_bytes, barriers_at = turns_at + Consumers * 4 * turn_bytes;
  static constexpr int shared_bytes = barriers_at + 16 * Stages + 8;
  static_assert(WarpRows % 64 == 0 && Cols % 8 == 0 && pieces % Split == 0 && share % run_pieces == 0 && line_pieces % run_pieces == 0 && (run_pieces & (run_pieces - 1)) == 0,
                "tile shape");
  static_assert(RightAlongK || Cols % 64 == 0, "64 lines across k go together");
  static_assert(Split == 1 || !PingPong, "blocks that share k have one tile");
};

template <class T> struct same_as;
template <class T> struct same_as<const T&> { typedef T type; };

// Neighbours in a row of the output, moved 16 bytes at once.
template <class T> struct alignas(sizeof(T) * 8 < 16 ? sizeof(T) * 8 : 16) Run8 { T v[8]; };
// The same, and one element, as they come from memory: nothing waits for them before run_of() and one_of(). Read where `on`; what they hold
// goes through the instruction, since a copy of what is under way would wait for it.
template <class T> struct RunWords { u32 w[sizeof(T) * 2]; };
template <class T> struct OneWord { u32 w[sizeof(T) <= 4 ? 1 : 2]; };
template <class T> AOTC_DI void load_run(RunWords<T>& to, const T* from, bool on) {
  const u32* const p = reinterpret_cast<const u32*>(from);
  if constexpr (sizeof(T) == 1) {
    load_2_words(to.w[0], to.w[1], p, on);
  } else {
#pragma unroll
    for (int i = 0; i < int(sizeof(T)) * 2; i += 4) load_4_words(to.w[i], to.w[i + 1], to.w[i + 2], to.w[i + 3], p + i, on);
  }
}
template <class T> AOTC_DI void load_one(OneWord<T>& to, const T* from, bool on) {
  if constexpr (sizeof(T) == 1) load_byte(to.w[0], from, on);
  else if constexpr (sizeof(T) == 2) load_half(to.w[0], from, on);
  else if constexpr (sizeof(T) == 4) load_word(to.w[0], from, on);
  else load_2_words(to.w[0], to.w[1], from, on);
}
template <class T> AOTC_DI Run8<T> run_of(const RunWords<T>& words) {
  Run8<T> r;
  memcpy(&r, &words, sizeof r);
  return r;
}
template <class T> AOTC_DI T one_of(const OneWord<T>& word) {
  T r;
  memcpy(&r, &word, sizeof r);
  return r;
}

// A tile: where its rows and columns begin; the columns count from the segment's first one.
struct WgmmaPlace { int segment, row, column, n_begin, n_end, b0, b1; };

template <class Tile, class Problem> AOTC_DI int wgmma_tiles(const Problem& p, int& row_tiles, int& column_tiles) {
  row_tiles = (p.m() + Tile::m_tile - 1) / Tile::m_tile;
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
  at.row = (band * Tile::band + r % rows) * Tile::m_tile;
  int column = r / rows;
  at.segment = 0, at.n_begin = p.n_begin(0), at.n_end = p.n_end(0);
#pragma unroll
  for (int s = 1; s < Problem::segments; ++s) {
    const int tiles = (at.n_end - at.n_begin + Tile::n_tile - 1) / Tile::n_tile;
    if (at.segment == s - 1 && column >= tiles) column -= tiles, at.segment = s, at.n_begin = p.n_begin(s), at.n_end = p.n_end(s);
  }
  at.column = column * Tile::n_tile;
  p.batch_of(z, at.b0, at.b1);
  return at;
}

// The steps of k that this block has.
template <class Tile> AOTC_DI void wgmma_share_of_k(int k, u32 rank, int& first, int& steps) {
  const int all = (k + Tile::deep - 1) / Tile::deep, part = (all + Tile::split - 1) / Tile::split;
  first = Tile::split > 1 ? int(rank) * part : 0;
  const int last = first + part < all ? first + part : all;
  steps = last > first ? last - first : 0;
}

// Where 16 bytes of a turn's line stand: so that neither the writes nor the reads of a warp meet in a bank.
AOTC_DI float* wgmma_chunk(float* turn, int line, int chunk) {
  return turn + line * 32 + ((chunk ^ ((line & 3) * 2 + (line >> 2 & 1))) & 7) * 4;
}
// Through a warp's `turn`, pieces of 8 columns of the instruction's result (rows r, r + 8; columns 2q, 2q + 1 of lane 4r + q) become runs of 8
// neighbours of one row of the output. First one piece is written there,
template <class Tile> AOTC_DI void wgmma_to_turn(float* turn, int piece, float v0, float v1, float v2, float v3) {
  const int lane = threadIdx.x & 31, r = lane >> 2, q = lane & 3;
  if constexpr (Tile::swap) {
    float* const at = turn + (piece * 8 + q * 2) * 20 + r;
    at[0] = v0, at[20] = v1, at[8] = v2, at[28] = v3;
  } else {
    *reinterpret_cast<float2*>(wgmma_chunk(turn, r, piece * 2 + (q >> 1)) + (q & 1) * 2) = make_float2(v0, v1);
    *reinterpret_cast<float2*>(wgmma_chunk(turn, r + 8, piece * 2 + (q >> 1)) + (q & 1) * 2) = make_float2(v2, v3);
  }
}
// then each lane takes its runs of them: number t = lane, lane + 32 .. Their place in the output, from the first element of piece 0 on.
struct WgmmaRun { int line, piece, row, column; };
template <class Tile> AOTC_DI WgmmaRun wgmma_run(int t) {
  constexpr int Pieces = Tile::run_pieces;
  if constexpr (Tile::swap) {
    const int line = t % (Pieces * 8), half = t / (Pieces * 8);
    return {line, half, line, half * 8};
  } else {
    const int x = t / Pieces, piece = t % Pieces, line = (x & 8) | (x >> 1 & 3) | (x & 1) << 2;
    return {line, piece, line, piece * 8};
  }
}
template <class Tile> AOTC_DI void wgmma_from_turn(float* turn, const WgmmaRun& at, float (&run)[8]) {
#pragma unroll
  for (int i = 0; i < 2; ++i)
    *reinterpret_cast<float4*>(run + i * 4) =
        *reinterpret_cast<const float4*>(Tile::swap ? turn + at.line * 20 + at.piece * 8 + i * 4 : wgmma_chunk(turn, at.line, at.piece * 2 + i));
}

// What piece x of a warpgroup's accumulators holds.
#define AOTC_WGMMA_PIECE(acc, x) \
  acc[(x) / (Tile::cols / 8)][(x) % (Tile::cols / 8) * 4], acc[(x) / (Tile::cols / 8)][(x) % (Tile::cols / 8) * 4 + 1], \
      acc[(x) / (Tile::cols / 8)][(x) % (Tile::cols / 8) * 4 + 2], acc[(x) / (Tile::cols / 8)][(x) % (Tile::cols / 8) * 4 + 3]

// The copies of one stage.
template <class Tile, class Problem, bool Left>
AOTC_DI void wgmma_copy(const Problem& p, const TensorMap& map, u32 stage, u32 barrier, const WgmmaPlace& at, int k) {
  constexpr bool along = Left ? Tile::left_along_k : Tile::right_along_k, is_a = Left != Tile::swap;
  constexpr int lines = Left ? Tile::rows : Tile::cols, boxes = along ? 1 : lines / 64;
  const u32 to = Left ? stage : stage + Tile::left_bytes;
  const int line = is_a ? at.row : at.n_begin + at.column;
#pragma unroll
  for (int i = 0; i < boxes; ++i) {
    const int x = along ? k : line + i * 64, y = along ? line : k;
    if (is_a) p.copy_a(to + i * 8192, map, barrier, x, y, at.b0, at.b1);
    else p.copy_b(to + i * 8192, map, barrier, x, y, at.b0, at.b1);
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
      const int n = Tile::early == 2 ? 0 : steps < Tile::stages ? steps : Tile::stages;
      for (int i = 0; i < n; ++i) {
        barrier_expect(full + 8 * i, Tile::stage_bytes);
        if (Tile::early == 0) copy_left(i, i);
        else copy_right(i, i);
      }
      wait_for_step_before();
      for (int i = 0; i < n; ++i) {
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
      barrier_expect(full + 8 * s, Tile::stage_bytes);
      copy_left(step, s);
      copy_right(step, s);
      if (++s == Tile::stages) s = 0, parity ^= 1;
    }
  }
}

// How many turns ahead a tile's epilogue reads: what 32 registers hold, so that the reads of several are under way together.
template <class Tile, class Epilogue> constexpr int wgmma_ahead() {
  int n = 1;
  while (n < 2 && Tile::turns % (n * 2) == 0 && n * 2 * Tile::lane_runs * Epilogue::load_registers <= 32) n *= 2;
  return n;
}

// The epilogue of one tile as a warp computes it: row and column are the output's at the first of the warp's lines; x counts pieces.
template <class Tile, class Epilogue> struct WgmmaFinish {
  static constexpr int ahead = wgmma_ahead<Tile, Epilogue>();
  static constexpr int down = Tile::blocks * 64 - 48, across = Tile::cols;  // the last row of the warp's lines, their columns
  const Epilogue& e;
  float* const turn;
  const int row, column, m, n;
  const bool aligned;
  typename Epilogue::Loads loads[ahead][Tile::lane_runs];

  // Whether all of the tile is inside: then there is no branch, so that nothing waits for the reads of a later turn.
  AOTC_DI bool is_whole() const { return aligned && row + (Tile::swap ? across : down) <= m && column + (Tile::swap ? down : across) <= n; }
  AOTC_DI int row_of(int x, const WgmmaRun& run) const {
    return row + run.row + (Tile::swap ? x % Tile::line_pieces * 8 : x / Tile::line_pieces * 64);
  }
  AOTC_DI int column_of(int x, const WgmmaRun& run) const {
    return column + run.column + (Tile::swap ? x / Tile::line_pieces * 64 : x % Tile::line_pieces * 8);
  }
  // A lane's run r of a turn; every lane has one but where a turn has one piece.
  static AOTC_DI WgmmaRun run_at(int r) { return wgmma_run<Tile>(r * 32 + (threadIdx.x & 31)); }
  static AOTC_DI bool has(int r) { return Tile::run_pieces > 1 || (threadIdx.x & 31) < 16; }

  // The reads of a turn of a whole tile, and what follows when its sums stand in the turn.
  AOTC_DI void load(int slot, int x, bool on) {
#pragma unroll
    for (int r = 0; r < Tile::lane_runs; ++r) e.load(loads[slot][r], row_of(x, run_at(r)), column_of(x, run_at(r)), on && has(r));
  }
  AOTC_DI void finish(int slot, int x) {
    __syncwarp();
    float runs[Tile::lane_runs][8];
#pragma unroll
    for (int r = 0; r < Tile::lane_runs; ++r)
      if (has(r)) wgmma_from_turn<Tile>(turn, run_at(r), runs[r]);
    __syncwarp();
#pragma unroll
    for (int r = 0; r < Tile::lane_runs; ++r)
      if (has(r)) e.finish(runs[r], loads[slot][r], row_of(x, run_at(r)), column_of(x, run_at(r)));
  }
  // The same for a tile that is not inside, or not aligned.
  AOTC_DI void finish_edge(int x) {
    __syncwarp();
#pragma unroll 1
    for (int r = 0; r < Tile::lane_runs; ++r) {
      const WgmmaRun at = run_at(r);
      const int to_row = row_of(x, at), to_column = column_of(x, at);
      if (!has(r) || to_row >= m) continue;
      float run[8];
      wgmma_from_turn<Tile>(turn, at, run);
      if (aligned && to_column + 8 <= n) {
        e.load(loads[0][0], to_row, to_column, true);
        e.finish(run, loads[0][0], to_row, to_column);
      } else {
        e.finish_one_by_one(run, to_row, to_column, n);
      }
    }
    __syncwarp();
  }
  // All of a warpgroup's sums.
  AOTC_DI void finish_edges(const float (&acc)[Tile::blocks][Tile::registers]) {
    constexpr int Runs = Tile::run_pieces;
#pragma unroll 1
    for (int x = 0; x < Tile::pieces; x += Runs) {
#pragma unroll
      for (int first = 0; first < Tile::pieces; first += Runs)
        if (x == first)
#pragma unroll
          for (int y = 0; y < Runs; ++y) wgmma_to_turn<Tile>(turn, y, AOTC_WGMMA_PIECE(acc, first + y));
      finish_edge(x);
    }
  }
};

// The same where the epilogue is computed in the registers that hold the sums: each lane finishes pairs of neighbours, and what they become
// goes through the warp's turn, which then holds 16 rows of 128 bytes, to runs of 8. An operand that lies as the output does comes the same
// way; it is read some chunks (of 64 columns) ahead. For whole runs of aligned tensors.
// Lines: which row of the output a line of the warp is, and whether that is one.
struct WgmmaLines {
  int row, m;
  AOTC_DI int at(int line) const { return row + line; }
  AOTC_DI bool has(int line) const { return row + line < m; }
};
template <class Tile, class Epilogue, class Lines = WgmmaLines,
          bool Fits = Epilogue::in_place && !Tile::swap && Tile::split == 1 && Tile::cols % 32 == 0>
struct WgmmaInPlace { static constexpr bool fits = false; };
template <class Tile, class Epilogue, class Lines> struct WgmmaInPlace<Tile, Epilogue, Lines, true> {
  static constexpr bool fits = true;
  static constexpr int pieces = Tile::cols % 64 == 0 ? 8 : 4;  // of a chunk
  static constexpr int of_line = Tile::line_pieces / pieces, chunks = Tile::blocks * of_line, runs = pieces / 2;
  static constexpr int loaded = (Epilogue::has_tile ? runs * 4 : 0) + pieces * Epilogue::column_registers + 2 * Epilogue::row_registers;
  static constexpr int room = 176 - Tile::blocks * Tile::registers;  // registers
  static constexpr int ahead = loaded == 0 || room / loaded >= chunks ? chunks : room / loaded > 1 ? room / loaded : 1;
  struct Loads {
    u32 tile[runs][4];
    typename Epilogue::Columns columns[pieces];
    typename Epilogue::Rows rows[2];
  };
  const Epilogue& e;
  char* const turn;
  const Lines lines;
  const int column, n;
  Loads loads[ahead];

  AOTC_DI void* unit(int line, int number) const { return turn + line * 128 + ((number ^ line) & 7) * 16; }
  static AOTC_DI int first_line(int c) { return c / of_line * 64; }
  AOTC_DI int column_of(int c) const { return column + c % of_line * pieces * 8; }
  static AOTC_DI int run_line(int i) { return (i * 32 + int(threadIdx.x & 31)) / pieces; }
  static AOTC_DI int run_unit() { return int(threadIdx.x & 31) % pieces; }
  AOTC_DI bool is_inside(int c, int i) const { return lines.has(first_line(c) + run_line(i)) && column_of(c) + run_unit() * 8 < n; }

  AOTC_DI void load(int c) {
    Loads& l = loads[c % ahead];
    const int lane = threadIdx.x & 31;
    if constexpr (Epilogue::has_tile)
#pragma unroll
      for (int i = 0; i < runs; ++i)
        e.load_tile(l.tile[i], lines.at(first_line(c) + run_line(i)), column_of(c) + run_unit() * 8, is_inside(c, i));
    if constexpr (Epilogue::column_registers > 0)
#pragma unroll
      for (int p = 0; p < pieces; ++p)
        e.load_columns(l.columns[p], lines.at(first_line(c)), column_of(c) + p * 8 + (lane & 3) * 2, column_of(c) + p * 8 < n);
    if constexpr (Epilogue::row_registers > 0)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int line = first_line(c) + h * 8 + (lane >> 2);
        e.load_rows(l.rows[h], lines.at(line), column_of(c), lines.has(line));
      }
  }
  AOTC_DI void finish_all(const float (&acc)[Tile::blocks][Tile::registers]) {
#pragma unroll
    for (int c = 0; c < chunks; ++c) finish(c, acc[c / of_line]);
  }
  // acc: of the chunk's 64 lines.
  AOTC_DI void finish(int c, const float (&acc)[Tile::registers]) {
    Loads& l = loads[c % ahead];
    const int lane = threadIdx.x & 31;
    if constexpr (Epilogue::has_tile) {
#pragma unroll
      for (int i = 0; i < runs; ++i)
        *static_cast<uint4*>(unit(run_line(i), run_unit())) = make_uint4(l.tile[i][0], l.tile[i][1], l.tile[i][2], l.tile[i][3]);
      __syncwarp();
    }
#pragma unroll
    for (int p = 0; p < pieces; p += 2) {
      void* const at = unit(lane & 15, p + (lane >> 4));
      u32 tile[4] = {}, out[4];
      if constexpr (Epilogue::has_tile) load_matrices(tile, at);
#pragma unroll
      for (int h = 0; h < 4; ++h) {
        const int first = ((c % of_line * pieces + p + h / 2) * 2 + h % 2) * 2;
        const float sums[2] = {acc[first], acc[first + 1]};
        out[h] = e.pair(sums, l.columns[p + h / 2], l.rows[h % 2], tile[h], lines.at(first_line(c) + h % 2 * 8 + (lane >> 2)),
                        column_of(c) + (p + h / 2) * 8 + (lane & 3) * 2);
      }
      store_matrices(at, out);
    }
    if (c + ahead < chunks) load(c + ahead);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < runs; ++i) {
      const uint4 v = *static_cast<const uint4*>(unit(run_line(i), run_unit()));
      const u32 words[4] = {v.x, v.y, v.z, v.w};
      if (is_inside(c, i)) e.store_tile(words, lines.at(first_line(c) + run_line(i)), column_of(c) + run_unit() * 8);
    }
    __syncwarp();
  }
};

// A tile of a warpgroup, its epilogue computed by runs. multiply() fills acc; what the epilogue reads is asked for before. sums, shared, rank:
// for blocks that share k.
template <class Tile, class Epilogue, class Multiply>
AOTC_DI void wgmma_by_runs(const Epilogue& e, float (&acc)[Tile::blocks][Tile::registers], const Multiply& multiply, float* turn, int row,
                           int column, int m, int n, u32 ring, u32 sums, char* shared, u32 rank) {
  typedef WgmmaFinish<Tile, Epilogue> Finish;
  Finish f{e, turn, row, column, m, n, e.aligned()};
  constexpr int Runs = Tile::run_pieces, Ahead = Finish::ahead;
  const int x_first = Tile::split > 1 ? int(rank) * Tile::share : 0;
  const bool whole = f.is_whole();
#pragma unroll
  for (int i = 0; i < Ahead; ++i) f.load(i, x_first + i * Runs, whole);
  multiply();
  if constexpr (Tile::split > 1) {
    cluster_wait();  // the barriers of the others are made
#pragma unroll
    for (int x = 0; x < Tile::pieces; ++x)
      push_to_block(ring + Tile::sums_at + ((rank * Tile::share + x % Tile::share) * (128 * Tile::consumers) + threadIdx.x) * 16, sums,
                    x / Tile::share, AOTC_WGMMA_PIECE(acc, x));
    barrier_wait(sums, 0);
  }
  // Brings the sums of piece x of this block's share, and of those that go with it, to the turn. In a loop that is not unrolled, so that
  // the epilogue is there only `Step` times: each turn takes other registers.
  auto to_turn = [&](int x, auto step, int i) {
    constexpr int Step = decltype(step)::value;
    if constexpr (Tile::split > 1) {
      const float4* const come = reinterpret_cast<const float4*>(shared + Tile::sums_at) + threadIdx.x;
#pragma unroll
      for (int y = 0; y < Runs; ++y) {
        const int piece = x + i * Runs + y;
        float4 sum = come[piece * (128 * Tile::consumers)];
#pragma unroll
        for (int c = 1; c < Tile::split; ++c) {
          const float4 part = come[(c * Tile::share + piece) * (128 * Tile::consumers)];
          sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
        }
        wgmma_to_turn<Tile>(turn, y, sum.x, sum.y, sum.z, sum.w);
      }
    } else {
#pragma unroll
      for (int first = 0; first < Tile::pieces; first += Step * Runs)
        if (x == first)
#pragma unroll
          for (int y = 0; y < Runs; ++y) wgmma_to_turn<Tile>(turn, y, AOTC_WGMMA_PIECE(acc, first + i * Runs + y));
    }
  };
  if (whole) {
#pragma unroll 1
    for (int x = 0; x < Tile::share; x += Ahead * Runs)
#pragma unroll
      for (int i = 0; i < Ahead; ++i) {
        to_turn(x, constant<Ahead>(), i);
        f.finish(i, x_first + x + i * Runs);
        f.load(i, x_first + x + (i + Ahead) * Runs, x + (i + Ahead) * Runs < Tile::share);
      }
  } else {
#pragma unroll 1
    for (int x = 0; x < Tile::share; x += Runs) {
      to_turn(x, constant<1>(), 0);
      f.finish_edge(x_first + x);
    }
  }
}
// The same in place.
template <class Tile, class Epilogue, class Multiply>
AOTC_DI void wgmma_in_place(const Epilogue& e, float (&acc)[Tile::blocks][Tile::registers], const Multiply& multiply, float* turn, int row,
                            int column, int m, int n) {
  WgmmaInPlace<Tile, Epilogue> f{e, reinterpret_cast<char*>(turn), {row, m}, column, n};
  const bool whole_runs = n % 8 == 0 && e.aligned();
  if (whole_runs)
#pragma unroll
    for (int c = 0; c < f.ahead; ++c) f.load(c);
  multiply();
  if (whole_runs) f.finish_all(acc);
  else WgmmaFinish<Tile, Epilogue>{e, turn, row, column, m, n, false}.finish_edges(acc);
}

// A warpgroup: multiplies and finishes its tiles.
template <class Tile, class Mma, class Problem>
AOTC_DI void wgmma_consume(const Problem& p, u32 ring, u32 full, u32 empty, u32 sums, char* shared, int group, u32 rank) {
  constexpr int kTurns = 8;  // the first of the named barriers by which warpgroups take turns
  const int tid = threadIdx.x & 127, warp = tid >> 5;
  int row_tiles, column_tiles, k_first, steps, s = 0;
  u32 parity = 0;
  const int tiles = wgmma_tiles<Tile>(p, row_tiles, column_tiles), each = gridDim.x / Tile::split;
  wgmma_share_of_k<Tile>(p.k(), rank, k_first, steps);
  float* const turn = reinterpret_cast<float*>(shared + Tile::turns_at + (group * 4 + warp) * Tile::turn_bytes);
  const int line = (Tile::ping_pong ? 0 : group * Tile::warp_rows) + warp * 16;
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
  auto multiply = [&] {
    if (Tile::split > 1)  // a block may have no part of k
#pragma unroll
      for (int i = 0; i < Tile::blocks; ++i)
#pragma unroll
        for (int r = 0; r < Tile::registers; ++r) acc[i][r] = 0.0f;
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
          Mma::multiply(acc[b], left + b * kOperandLines + i * kOperandStep<Tile::left_along_k>, right + i * kOperandStep<Tile::right_along_k>,
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
  const int step_of_tiles = Tile::ping_pong ? Tile::consumers * each : each;
  for (int tile = blockIdx.x / Tile::split + (Tile::ping_pong ? group * each : 0); tile < tiles; tile += step_of_tiles) {
    const WgmmaPlace at = wgmma_place<Tile>(p, tile, row_tiles, column_tiles);
    if (Problem::segments > 1) multiply();
    p.with_epilogue(at.segment, at.b0, at.b1, [&](const auto& e) {
      typedef typename same_as<decltype(e)>::type Epilogue;
      const int row = at.row + (Tile::swap ? 0 : line), column = at.column + (Tile::swap ? line : 0), n = at.n_end - at.n_begin;
      const auto rest = [&] { if (Problem::segments == 1) multiply(); };
      if constexpr (WgmmaInPlace<Tile, Epilogue>::fits) wgmma_in_place<Tile>(e, acc, rest, turn, row, column, p.m(), n);
      else wgmma_by_runs<Tile>(e, acc, rest, turn, row, column, p.m(), n, ring, sums, shared, rank);
    });
  }
}

// The whole kernel. left, right: tensor maps of the operands in the roles that they have in the instruction. Mma::multiply(acc, left, right,
// add): one instruction. Problem: m(), k(), batch(), segments, n_begin(s), n_end(s), batch_of(), copy_a() and copy_b() (x, y: as the operand
// lies in memory: k and the line, or with k across the line and k), with_epilogue(). Epilogue: Loads, what a run of 8 neighbours reads (of
// load_registers registers); load(), finish(), finish_one_by_one(); aligned(), whether the first two may be called. in_place: whether it also
// has pair(), two neighbours of 16 bits out of their sums, Columns and Rows, what it needs for that of a column pair and of a row (of
// column_registers and row_registers), and of one operand that lies as the output does (has_tile) their word; load_columns(), load_rows();
// load_tile() and store_tile() of runs of 8. Dynamic shared memory from a multiple of 1024 on.
template <class Tile, class Mma, class Problem> AOTC_DI void wgmma_product(const Problem& p, const TensorMap& left, const TensorMap& right) {
  extern __shared__ __align__(1024) char shared[];
  const u32 ring = shared_address(shared), full = ring + Tile::barriers_at, empty = full + 8 * Tile::stages, sums = empty + 8 * Tile::stages;
  const int group = __shfl_sync(~0u, threadIdx.x >> 7, 0);  // the shuffle says that a warp has one role
  const u32 rank = Tile::split > 1 ? rank_in_cluster() : 0;
  if (threadIdx.x == 128 * Tile::consumers) {
    map_prefetch(left);
    map_prefetch(right);
    for (int s = 0; s < Tile::stages; ++s) {
      barrier_init(full + 8 * s, 1);
      barrier_init(empty + 8 * s, Tile::ping_pong ? 1 : Tile::consumers);
    }
    if (Tile::split > 1) {
      barrier_init(sums, 1);
      barrier_expect(sums, Tile::sums_bytes);
    }
    barriers_are_made();
  }
  __syncthreads();
  if (Tile::split > 1) cluster_arrive();
  next_step_may_start();
  if (group == Tile::consumers) {
    if (Tile::consumers > 1) fewer_registers<40>();
    if ((threadIdx.x & 127) == 0) wgmma_produce<Tile>(p, left, right, ring, full, empty, rank);
    if (Tile::split > 1) {
      __syncwarp();
      cluster_wait();
    }
  } else {
    if (Tile::consumers > 1) more_registers<232>();
    wgmma_consume<Tile, Mma>(p, ring, full, empty, sums, shared, group, rank);
  }
}
