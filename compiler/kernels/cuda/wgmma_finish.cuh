// What becomes of the sums of Hopper's products (wgmma.cuh, whose WgmmaTile is the Tile here): blocks that share k hand them to each other,
// epilogues are computed by runs of neighbours or where the sums are.
#pragma once
#include "hopper.cuh"

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

// A place's second sum: the twin's.
template <class Tile> constexpr int wgmma_second(int piece) { return piece + Tile::line_pieces; }

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
          bool Fits = Epilogue::in_place && !Tile::swap && Tile::run_pieces >= 2>
struct WgmmaInPlace { static constexpr bool fits = false; };
template <class Tile, class Epilogue, class Lines> struct WgmmaInPlace<Tile, Epilogue, Lines, true> {
  static constexpr bool fits = true;
  // Pieces of a chunk, of a line's last one where there is another, smaller one: 16 rows of 128 bytes where there is so much.
  static constexpr bool even = Tile::split > 1;  // all chunks are alike
  static constexpr int pieces = even ? (Tile::line_pieces % 8 == 0 && Tile::share % 8 == 0 ? 8 : Tile::run_pieces) : Tile::line_pieces >= 8 ? 8 : Tile::line_pieces >= 4 ? 4 : 2;
  static constexpr int tail = even ? 0 : Tile::line_pieces % pieces;
  static constexpr int of_line = Tile::line_pieces / pieces + (tail > 0), chunks = Tile::split > 1 ? Tile::share / pieces : Tile::blocks * of_line;
  static constexpr int runs = pieces / 2;  // a lane's runs of a chunk
  static constexpr int loaded = (Epilogue::has_tile ? runs * 4 : 0) + pieces * Epilogue::column_registers + 2 * Epilogue::row_registers;
  static constexpr int room = 192 - Tile::blocks * Tile::registers;  // registers
  static constexpr int ahead = loaded == 0 || room / loaded >= chunks ? chunks : room / loaded > 1 ? room / loaded : 1;
  static constexpr int slots = ahead < 2 && chunks > 1 ? 2 : ahead;  // after the products there is room for two
  struct Loads {
    u32 tile[runs][4];
    typename Epilogue::Columns columns[pieces];
    typename Epilogue::Rows rows[2];
  };
  const Epilogue& e;
  char* const turn;
  const Lines lines;
  const int column, n;
  Loads loads[slots];
  int first = 0;  // of the tile's chunks, where a block has a share of them

  AOTC_DI void of_block(u32 rank) { first = int(rank) * chunks; }
  static constexpr int piece_of(int c) { return c * pieces; }
  AOTC_DI void* unit(int line, int number) const { return turn + line * 128 + ((number ^ line) & 7) * 16; }
  AOTC_DI int first_line(int c) const { return (first + c) / of_line * 64; }
  AOTC_DI int column_of(int c) const { return column + (first + c) % of_line * pieces * 8; }
  static constexpr bool is_tail(int c) { return tail > 0 && c % of_line == of_line - 1; }
  // Of a chunk of N pieces, which lie as a power of two of them would: where a lane's run i stands.
  template <int N> static constexpr int wide = N > 4 ? 8 : N > 2 ? 4 : 2;
  template <int N> static AOTC_DI int run_line(int i) { return (i * 32 + int(threadIdx.x & 31)) / wide<N>; }
  template <int N> static AOTC_DI int run_unit() { return int(threadIdx.x & 31) % wide<N>; }
  template <int N> AOTC_DI bool is_inside(int c, int i) const {
    return lines.has(first_line(c) + run_line<N>(i)) && column_of(c) + run_unit<N>() * 8 < n && (wide<N> == N || run_unit<N>() < N);
  }

  AOTC_DI void load(int c) {
    if (is_tail(c)) load_chunk<(tail > 0 ? tail : pieces)>(c);
    else load_chunk<pieces>(c);
  }
  template <int N> AOTC_DI void load_chunk(int c) {
    Loads& l = loads[c % slots];
    const int lane = threadIdx.x & 31;
    if constexpr (Epilogue::has_tile)
#pragma unroll
      for (int i = 0; i < wide<N> / 2; ++i)
        e.load_tile(l.tile[i], lines.at(first_line(c) + run_line<N>(i)), column_of(c) + run_unit<N>() * 8, is_inside<N>(c, i));
    if constexpr (Epilogue::column_registers > 0)
#pragma unroll
      for (int p = 0; p < N; ++p)
        e.load_columns(l.columns[p], lines.at(first_line(c)), column_of(c) + p * 8 + (lane & 3) * 2, column_of(c) + p * 8 < n);
    if constexpr (Epilogue::row_registers > 0)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int line = first_line(c) + h * 8 + (lane >> 2);
        e.load_rows(l.rows[h], lines.at(line), column_of(c), lines.has(line));
      }
  }
  // sums: of chunk c.
  template <class Sums> AOTC_DI void finish_all(const Sums& sums) {
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      if (is_tail(c)) finish_next<(tail > 0 ? tail : pieces)>(c, sums);
      else finish_next<pieces>(c, sums);
    }
  }
  AOTC_DI void finish_all(const float (&acc)[Tile::blocks][Tile::registers]) {
    finish_all([&](int c, auto& sum, int second) {
#pragma unroll
      for (int j = 0; j < int(sizeof sum) / 4; ++j) {
        const int piece = c % of_line * pieces + j / 4;
        sum[j] = acc[c / of_line][(second ? wgmma_second<Tile>(piece) : piece) * 4 + j % 4];
      }
    });
  }
  template <int N, class Sums> AOTC_DI void finish_next(int c, const Sums& sums) {
    float sum[Epilogue::sums][N * 4];
#pragma unroll
    for (int s = 0; s < Epilogue::sums; ++s) sums(c, sum[s], s);
    if (c + slots - 1 >= ahead && c + slots - 1 < chunks) load(c + slots - 1);
    finish<N>(c, sum);
  }
  template <int N> AOTC_DI void finish(int c, const float (&sum)[Epilogue::sums][N * 4]) {
    const Loads& l = loads[c % slots];
    const int lane = threadIdx.x & 31;
    if constexpr (Epilogue::has_tile) {
#pragma unroll
      for (int i = 0; i < wide<N> / 2; ++i)
        *static_cast<uint4*>(unit(run_line<N>(i), run_unit<N>())) = make_uint4(l.tile[i][0], l.tile[i][1], l.tile[i][2], l.tile[i][3]);
      __syncwarp();
    }
    u32 tile[N / 2][4] = {};  // all are read before the first is written: the compiler keeps the order of what goes to shared memory
    if constexpr (Epilogue::has_tile)
#pragma unroll
      for (int p = 0; p < N; p += 2) load_matrices(tile[p / 2], unit(lane & 15, p + (lane >> 4)));
#pragma unroll
    for (int p = 0; p < N; p += 2) {
      u32 out[4];
#pragma unroll
      for (int h = 0; h < 4; ++h) {
        float sums[Epilogue::sums][2];
#pragma unroll
        for (int s = 0; s < Epilogue::sums; ++s) sums[s][0] = sum[s][p * 4 + h * 2], sums[s][1] = sum[s][p * 4 + h * 2 + 1];
        out[h] = e.pair(sums, l.columns[p + h / 2], l.rows[h % 2], tile[p / 2][h], lines.at(first_line(c) + h % 2 * 8 + (lane >> 2)),
                        column_of(c) + (p + h / 2) * 8 + (lane & 3) * 2);
      }
      store_matrices(unit(lane & 15, p + (lane >> 4)), out);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < wide<N> / 2; ++i) {
      const uint4 v = *static_cast<const uint4*>(unit(run_line<N>(i), run_unit<N>()));
      const u32 words[4] = {v.x, v.y, v.z, v.w};
      if (is_inside<N>(c, i)) e.store_tile(words, lines.at(first_line(c) + run_line<N>(i)), column_of(c) + run_unit<N>() * 8);
    }
    __syncwarp();
  }
};

// The epilogue of a tile by a warp, each pair of sums where it is: of twins whose runs are not whole or not aligned.
template <class Tile, class Epilogue>
AOTC_DI void wgmma_one_by_one(const Epilogue& e, const float (&acc)[Tile::blocks][Tile::registers], int row, int column, int m, int n) {
  const int lane = threadIdx.x & 31;
#pragma unroll 1
  for (int x = 0; x < Tile::pieces; ++x) {
    float sums[2][4];
#pragma unroll
    for (int y = 0; y < Tile::pieces; ++y)
      if (x == y)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int piece = y % Tile::line_pieces;
          sums[0][i] = acc[y / Tile::line_pieces][piece * 4 + i], sums[1][i] = acc[y / Tile::line_pieces][wgmma_second<Tile>(piece) * 4 + i];
        }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = row + x / Tile::line_pieces * 64 + i / 2 * 8 + (lane >> 2), j = column + x % Tile::line_pieces * 8 + (lane & 3) * 2 + i % 2;
      if (at < m && j < n) e(sums[0][i], sums[1][i], at, j);
    }
  }
}

// A warp's part in what blocks that share k hand each other: each has one share of the tile's pieces to finish, and gets the others' sums of it.
// warp: of all that multiply. Everything that was copied to the ring has been read by this warp.
struct WgmmaShare {
  char* shared;
  u32 ring, sums;  // sums: the warps' barriers
  u32 rank;
  int warp;
};
template <class Tile> AOTC_DI void wgmma_exchange(const float (&acc)[Tile::blocks][Tile::registers], const WgmmaShare& s) {
  const int lane = threadIdx.x & 31, part = s.warp * Tile::part_bytes;
  __syncwarp();
  cluster_arrive();
  cluster_wait();  // every block has read its ring, and its barriers are made
#pragma unroll
  for (int owner = 0; owner < Tile::split; ++owner) {
    const int slot = owner - (owner > int(s.rank));
    const int at = owner == int(s.rank) ? Tile::come_at + int(s.rank) * Tile::parts_bytes : Tile::go_at + slot * Tile::parts_bytes;
    float4* const to = reinterpret_cast<float4*>(s.shared + at + part) + lane;
#pragma unroll
    for (int x = 0; x < Tile::share; ++x) to[x * 32] = float4{AOTC_WGMMA_PIECE(acc, owner * Tile::share + x)};
  }
  products_may_read();
  __syncwarp();
  if (lane < Tile::split && lane != int(s.rank))
    copy_to_block(lane, s.ring + Tile::come_at + s.rank * Tile::parts_bytes + part,
                  s.ring + Tile::go_at + (lane - (lane > int(s.rank))) * Tile::parts_bytes + part, Tile::part_bytes, s.sums + 8 * s.warp);
  barrier_wait(s.sums + 8 * s.warp, 0);
  __syncwarp();
  cluster_arrive();  // what others sent has come; wgmma_product() waits until they have got theirs
}
// The sums of a piece of this block's share, added in the order of the blocks.
template <class Tile> AOTC_DI float4 wgmma_whole_sum(const WgmmaShare& s, int piece) {
  const float4* const come =
      reinterpret_cast<const float4*>(s.shared + Tile::come_at + s.warp * Tile::part_bytes + piece * 512) + (threadIdx.x & 31);
  float4 sum = come[0];
#pragma unroll
  for (int c = 1; c < Tile::split; ++c) {
    const float4 other = come[c * Tile::parts_bytes / 16];
    sum.x += other.x, sum.y += other.y, sum.z += other.z, sum.w += other.w;
  }
  return sum;
}
template <class Tile> AOTC_DI void wgmma_sum_to_turn(const WgmmaShare& s, float* turn, int y, int piece) {
  const float4 sum = wgmma_whole_sum<Tile>(s, piece);
  wgmma_to_turn<Tile>(turn, y, sum.x, sum.y, sum.z, sum.w);
}

// A tile of a warpgroup, its epilogue computed by runs. multiply() fills acc; what the epilogue reads is asked for before.
template <class Tile, class Epilogue, class Multiply>
AOTC_DI void wgmma_by_runs(const Epilogue& e, float (&acc)[Tile::blocks][Tile::registers], const Multiply& multiply, float* turn, int row,
                           int column, int m, int n, const WgmmaShare& share) {
  typedef WgmmaFinish<Tile, Epilogue> Finish;
  Finish f{e, turn, row, column, m, n, e.aligned()};
  constexpr int Runs = Tile::run_pieces, Ahead = Finish::ahead;
  const int x_first = Tile::split > 1 ? int(share.rank) * Tile::share : 0;
  const bool whole = f.is_whole();
#pragma unroll
  for (int i = 0; i < Ahead; ++i) f.load(i, x_first + i * Runs, whole);
  multiply();
  if constexpr (Tile::split > 1) wgmma_exchange<Tile>(acc, share);
  // Brings the sums of piece x of this block's share, and of those that go with it, to the turn. In a loop that is not unrolled, so that
  // the epilogue is there only `Step` times: each turn takes other registers.
  auto to_turn = [&](int x, auto step, int i) {
    constexpr int Step = decltype(step)::value;
    if constexpr (Tile::split > 1) {
#pragma unroll
      for (int y = 0; y < Runs; ++y) wgmma_sum_to_turn<Tile>(share, turn, y, x + i * Runs + y);
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
// The same in place: InPlace is a WgmmaInPlace or WgmmaDown.
template <class InPlace, class Tile, class Epilogue, class Multiply>
AOTC_DI void wgmma_in_place(const Epilogue& e, float (&acc)[Tile::blocks][Tile::registers], const Multiply& multiply, float* turn, int row,
                            int column, int m, int n, const WgmmaShare& share) {
  InPlace f{e, reinterpret_cast<char*>(turn), {row, m}, column, n};
  if constexpr (Tile::split > 1) f.of_block(share.rank);
  const bool whole_runs = n % 8 == 0 && e.aligned();
  if (whole_runs)
#pragma unroll
    for (int c = 0; c < f.ahead; ++c) f.load(c);
  multiply();
  if constexpr (Epilogue::sums > 1) {
    if (whole_runs) f.finish_all(acc);
    else wgmma_one_by_one<Tile>(e, acc, row, column, m, n);
  } else if constexpr (Tile::split > 1) {
    wgmma_exchange<Tile>(acc, share);
    if (whole_runs) {
      f.finish_all([&](int c, auto& sum, auto...) {
#pragma unroll
        for (int p = 0; p < int(sizeof sum) / 16; ++p) {
          const float4 v = wgmma_whole_sum<Tile>(share, InPlace::piece_of(c) + p);
          sum[p * 4] = v.x, sum[p * 4 + 1] = v.y, sum[p * 4 + 2] = v.z, sum[p * 4 + 3] = v.w;
        }
      });
    } else {
      WgmmaFinish<Tile, Epilogue> edges{e, turn, row, column, m, n, false};
#pragma unroll 1
      for (int x = 0; x < Tile::share; x += Tile::run_pieces) {
#pragma unroll
        for (int y = 0; y < Tile::run_pieces; ++y) wgmma_sum_to_turn<Tile>(share, turn, y, x + y);
        edges.finish_edge(int(share.rank) * Tile::share + x);
      }
    }
  } else {
    if (whole_runs) f.finish_all(acc);
    else WgmmaFinish<Tile, Epilogue>{e, turn, row, column, m, n, false}.finish_edges(acc);
  }
}
