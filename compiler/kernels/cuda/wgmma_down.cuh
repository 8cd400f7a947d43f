// Epilogues of Hopper's products in the registers that hold the sums, where the operands have changed places (wgmma.cuh: Swap): a lane then has
// neighbours of a column of the output, and a warp 16 columns; the matrices of all four warps of a warpgroup are turned as they go to shared memory,
// from where whole rows of 64 columns go to the output.
#pragma once
#include "wgmma_finish.cuh"

template <class Tile, class Epilogue, bool Fits = Epilogue::in_place_down && Tile::swap> struct WgmmaDown { static constexpr bool fits = false; };
template <class Tile, class Epilogue> struct WgmmaDown<Tile, Epilogue, true> {
  static constexpr bool fits = true;
  // Pieces of one 64 left lines that a block finishes; those of a chunk, of which the warpgroup's turns hold 8 rows of 128 bytes each; of the last one.
  static constexpr int line = Tile::share < Tile::line_pieces ? Tile::share : Tile::line_pieces;
  static constexpr int most = 4 * Tile::turn_bytes / 1024, of_line = (line + most - 1) / most, pieces = (line + of_line - 1) / of_line;
  static constexpr int last = line - (of_line - 1) * pieces, chunks = Tile::share / line * of_line, half = (chunks + 1) / 2;
  static constexpr int runs = (pieces + 1) / 2;  // a lane's runs of a chunk
  static constexpr int loaded = Epilogue::has_tile ? runs * 4 : 0, room = (Tile::left_bits ? 152 : 192) - Tile::blocks * Tile::registers;
  static constexpr int ahead = loaded == 0 || room / loaded >= chunks ? chunks : room / loaded > 1 ? room / loaded : 1;
  static constexpr int slots = ahead < 2 && chunks > 1 ? 2 : ahead;
  static_assert(Tile::share % line == 0 && last > 0, "chunks of whole pieces");
  const Epilogue& e;
  char* const turn;        // of the warp
  const WgmmaLines lines;  // from the tile's first row on
  const int column, n;     // of the warp's first line
  u32 tile[Epilogue::has_tile ? slots : 1][runs][4];
  typename Epilogue::Columns columns[Tile::share / line][2];
  int first = 0;  // of the tile's pieces, where a block has a share of them

  AOTC_DI void of_block(u32 rank) { first = int(rank) * Tile::share; }
  static constexpr int piece_of(int c) { return c / of_line * line + c % of_line * pieces; }
  static constexpr bool is_last(int c) { return c % of_line == of_line - 1; }

  static AOTC_DI int thread() { return threadIdx.x & 127; }
  static AOTC_DI int warp() { return thread() >> 5; }
  AOTC_DI void together() const { named_sync(1 + int(threadIdx.x >> 7), 128); }
  // 16 bytes of the warpgroup's turns.
  AOTC_DI void* unit(int row, int number) const { return turn - warp() * Tile::turn_bytes + row * 128 + ((number ^ row) & 7) * 16; }
  // Of the warp's matrices of pieces p and p + 1, where there are two.
  template <int N> AOTC_DI void* matrix_row(int p) const {
    const int lane = threadIdx.x & 31;
    return unit((p + (p + 1 < N ? lane >> 4 : 0)) * 8 + (lane & 7), warp() * 2 + (lane >> 3 & 1));
  }
  AOTC_DI int row_of(int c) const { return (first + piece_of(c)) % Tile::line_pieces * 8; }
  AOTC_DI int column_of(int c) const { return column - warp() * 16 + (first + piece_of(c)) / Tile::line_pieces * 64; }
  // A lane's run i: its row of the chunk, its eighth of that.
  static AOTC_DI int run_row(int i) { return i * 16 + (thread() >> 3); }
  static AOTC_DI int run_unit() { return threadIdx.x & 7; }
  template <int N> AOTC_DI bool is_inside(int c, int i) const {
    return run_row(i) < N * 8 && lines.has(row_of(c) + run_row(i)) && column_of(c) + run_unit() * 8 < n;
  }

  AOTC_DI void load(int c) {
    if constexpr (Epilogue::has_tile)
#pragma unroll
      for (int i = 0; i < runs; ++i) {
        const bool on = is_last(c) ? is_inside<last>(c, i) : is_inside<pieces>(c, i);
        e.load_tile(tile[c % slots][i], lines.at(row_of(c) + run_row(i)), column_of(c) + run_unit() * 8, on);
      }
    if (c % of_line == 0)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int at = column_of(c) + warp() * 16 + h * 8 + (int(threadIdx.x & 31) >> 2);
        e.load_column(columns[c / of_line][h], lines.at(row_of(c)), at, at < n);
      }
  }
  // sums: of chunk c. first_half, second_half: whether those of the chunks are finished here.
  template <class Sums> AOTC_DI void finish_all(const Sums& sums, bool first_half = true, bool second_half = true) {
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      if (is_last(c)) finish_next<last>(c, sums, c < half ? first_half : second_half);
      else finish_next<pieces>(c, sums, c < half ? first_half : second_half);
    }
  }
  AOTC_DI void finish_all(const float (&acc)[Tile::blocks][Tile::registers], bool first_half = true, bool second_half = true) {
    finish_all(
        [&](int c, auto& sum) {
#pragma unroll
          for (int j = 0; j < int(sizeof sum) / 4; ++j) sum[j] = acc[c / of_line][c % of_line * pieces * 4 + j];
        },
        first_half, second_half);
  }
  template <int N, class Sums> AOTC_DI void finish_next(int c, const Sums& sums, bool here) {
    float sum[N * 4];
    sums(c, sum);
    if (c + slots - 1 >= ahead && c + slots - 1 < chunks) load(c + slots - 1);
    if (here) finish<N>(c, sum);
  }
  template <int N> AOTC_DI void finish(int c, const float (&sum)[N * 4]) {
    const int lane = threadIdx.x & 31;
    u32 halves[(N + 1) / 2][4] = {};
    if constexpr (Epilogue::has_tile) {
      u32(&l)[runs][4] = tile[c % slots];
#pragma unroll
      for (int i = 0; i < runs; ++i)
        if (run_row(i) < N * 8) *static_cast<uint4*>(unit(run_row(i), run_unit())) = make_uint4(l[i][0], l[i][1], l[i][2], l[i][3]);
      together();
#pragma unroll
      for (int p = 0; p < N; p += 2) load_matrices_transposed(halves[p / 2], matrix_row<N>(p));
    }
#pragma unroll
    for (int p = 0; p < N; p += 2) {
      u32 out[4];
#pragma unroll
      for (int h = 0; h < 4; ++h) {
        const int q = p + h / 2 < N ? p + h / 2 : p;  // one piece stands for two
        const float sums[2] = {sum[q * 4 + h % 2 * 2], sum[q * 4 + h % 2 * 2 + 1]};
        out[h] = q < p + h / 2 ? out[h % 2]
                               : e.pair_down(sums, columns[c / of_line][h % 2], halves[p / 2][h], lines.at(row_of(c) + q * 8 + (lane & 3) * 2),
                                             column_of(c) + warp() * 16 + h % 2 * 8 + (lane >> 2));
      }
      store_matrices_transposed(matrix_row<N>(p), out);
    }
    together();
#pragma unroll
    for (int i = 0; i < (N + 1) / 2; ++i) {
      if (!is_inside<N>(c, i)) continue;
      const uint4 v = *static_cast<const uint4*>(unit(run_row(i), run_unit()));
      const u32 words[4] = {v.x, v.y, v.z, v.w};
      e.store_tile(words, lines.at(row_of(c) + run_row(i)), column_of(c) + run_unit() * 8);
    }
    together();
  }
};

// Where a warpgroup leaves sums for another one, once the ring has been read: number x of the thread's pieces.
template <class Tile> AOTC_DI float4& wgmma_left(char* shared, int x) {
  return *reinterpret_cast<float4*>(shared + x * 2048 + (threadIdx.x & 127) * 16);
}
// What a warpgroup does with a tile of warpgroups in turns: all of it; of a block's last tile all but the second half of the sums, which it gives to
// the other one.
enum class WgmmaRole { alone, gives, takes };

// wgmma_in_place() with that.
template <class Tile, class Epilogue, class Multiply>
AOTC_DI void wgmma_down_in_turns(const Epilogue& e, float (&acc)[Tile::blocks][Tile::registers], const Multiply& multiply, float* turn, int row,
                                 int column, int m, int n, char* shared, WgmmaRole role) {
  typedef WgmmaDown<Tile, Epilogue> Down;
  constexpr int kGiven = 7;  // the named barrier of what is given
  constexpr int given = Down::piece_of(Down::half);  // the first piece of it
  Down f{e, reinterpret_cast<char*>(turn), {row, m}, column, n};
  const bool whole_runs = n % 8 == 0 && e.aligned();
  if (whole_runs)
#pragma unroll
    for (int c = 0; c < f.ahead; ++c) f.load(c);
  if (role != WgmmaRole::takes) multiply();
  if (whole_runs) {
    if (role == WgmmaRole::gives) {
#pragma unroll
      for (int x = given; x < Tile::pieces; ++x) wgmma_left<Tile>(shared, x - given) = float4{AOTC_WGMMA_PIECE(acc, x)};
      named_arrive(kGiven, 256);
    } else if (role == WgmmaRole::takes) {
      named_sync(kGiven, 256);
#pragma unroll
      for (int x = given; x < Tile::pieces; ++x) {
        const float4 v = wgmma_left<Tile>(shared, x - given);
        float(&line)[Tile::registers] = acc[x / Tile::line_pieces];
        const int at = x % Tile::line_pieces * 4;
        line[at] = v.x, line[at + 1] = v.y, line[at + 2] = v.z, line[at + 3] = v.w;
      }
    }
    f.finish_all(acc, role != WgmmaRole::takes, role != WgmmaRole::gives);
  } else if (role != WgmmaRole::takes) {
    WgmmaFinish<Tile, Epilogue>{e, turn, row, column, m, n, false}.finish_edges(acc);
  }
}
