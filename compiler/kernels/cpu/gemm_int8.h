#pragma once
// Products of float32 rows with int8 weights, both multiplied as bytes: aotc_gemm_int8_f32 of aotc/detail/library_abi.h.
//
// Rows are rounded when a unit needs them first and kept over the units that follow with the same rows. Sums are exact, and the same on
// every instruction set: vpdpbusd takes weights 128 higher than they are, which the rows' sums take back; elsewhere vpmaddwd multiplies
// pairs of 16 bits. With a row's centre c and the weights' sum of a column, sum x w = scale * sum q w + c * sum w. The first tile of a
// panel computes the sums of its columns along with its own.
#include "int8_rows.h"

namespace {

#if defined(__AVX512VNNI__)
struct ByteDots {
  static constexpr int kRows = 14, kUnroll = 4;
  struct W {
    Ints v;
  };
  static W load(const char* w) { return {flip_ints(load_ints(w), set_bytes(static_cast<char>(-128)))}; }
  using Quad = Ints;
  static Quad quad(const Int8Elem* x) { return set_ints(load_int(x)); }
  static Ints dot(Ints sum, W w, Quad quad) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w.v), "v"(quad));  // by the intrinsic sums go through memory
    return sum;
  }
  static Ints add_columns(Ints sum, W w) { return dot(sum, w, set_bytes(1)); }
  static constexpr int kAdded = 128;  ///< to each weight
};
#else
struct ByteDots {
  static constexpr int kRows = kLanes == 16 ? 8 : 3, kUnroll = 1;
  struct W {
    Ints even, odd;
  };
  static W load(const char* w) {
    const Ints v = load_ints(w);
    return {shift_signed16(shift_left16(v, 8), 8), shift_signed16(v, 8)};
  }
  struct Quad {
    Ints even, odd;
  };
  static Quad quad(const Int8Elem* x) { return {set_ints(load_int(x)), set_ints(load_int(x + 2))}; }
  static Ints dot(Ints sum, W w, Quad x) { return add_ints(sum, add_ints(multiply_pairs(w.even, x.even), multiply_pairs(w.odd, x.odd))); }
  static Ints add_columns(Ints sum, W w) { return dot(sum, w, {set_ints(0x00010001), set_ints(0x00010001)}); }
  static constexpr int kAdded = 0;
};
#endif
constexpr int kVectors = 2;                        // columns of a register tile
constexpr int kParts = AOTC_QUANT_LANES / kLanes;  // vectors of a run of columns
constexpr int kTilesOfPanel = AOTC_PANEL_N / (kVectors * kLanes);

struct Int8Tile {
  const Int8Elem* a;
  int64_t a_pitch;
  const Int8Row* rows;
  const char* w[kVectors];  // quads are 4 * AOTC_QUANT_LANES bytes apart
  int64_t quads;            // a multiple of 8
  ColumnNumbers scale;
  int64_t columns;  // that scales may be read for
  float* sums;      // of the tile's columns, scaled
  float* c;
  int64_t ldc;
};

/// MR rows times the columns. kSums: the columns' sums, too, for the tiles of further rows.
template <int MR, bool kSums>
__attribute__((noinline)) void int8_tile(const Int8Tile& t) {
  using V = Floats::V;
  constexpr int kUnroll = ByteDots::kUnroll, kStep = 4 * AOTC_QUANT_LANES, kAhead = 2048;
  Ints acc[MR > 0 ? MR : 1][kVectors], all[kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) acc[i][j] = set_ints(t.rows[i].first);
#pragma GCC unroll 2
  for (int j = 0; j < kVectors; ++j) all[j] = set_ints(0);
  // Rows three apart share a base pointer: base, base + pitch, base + 2 * pitch are addressing modes.
  constexpr int kBases = MR > 0 ? (MR + 2) / 3 : 1;
  const Int8Elem* base[kBases];
#pragma GCC unroll 8
  for (int i = 0; i < kBases; ++i) {
    base[i] = t.a + 3 * i * t.a_pitch;
    asm("" : "+r"(base[i]));  // a register each, not lanes of a vector
  }
  const char *w0 = t.w[0], *w1 = t.w[1];
  const int64_t pitch = t.a_pitch;
  for (int64_t q = 0; q < t.quads; q += kUnroll) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) {
      if (kSums) {
        _mm_prefetch(w0 + u * kStep + kAhead, _MM_HINT_T0);
        _mm_prefetch(w1 + u * kStep + kAhead, _MM_HINT_T0);
      }
      const ByteDots::W w[kVectors] = {ByteDots::load(w0 + u * kStep), ByteDots::load(w1 + u * kStep)};
#pragma GCC unroll 16
      for (int i = 0; i < MR; ++i) {
        const ByteDots::Quad x = ByteDots::quad(base[i / 3] + i % 3 * pitch + 4 * u);
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) acc[i][j] = ByteDots::dot(acc[i][j], w[j], x);
      }
      if (kSums)
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) all[j] = ByteDots::add_columns(all[j], w[j]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kBases; ++i) base[i] += 4 * kUnroll;
    w0 += kUnroll * kStep, w1 += kUnroll * kStep;
  }
#pragma GCC unroll 2
  for (int j = 0; j < kVectors; ++j) {
    const V scale = t.scale.from(j * kLanes).load(t.columns - j * kLanes);
    V sums;
    if (kSums) {
      sums = to_floats(add_ints(all[j], set_ints(static_cast<int>(-4 * ByteDots::kAdded * t.quads)))) * scale;
      Floats::store(t.sums + j * kLanes, sums);
    } else {
      sums = Floats::load(t.sums + j * kLanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const V products = to_floats(acc[i][j]) * scale;  // before the row's scale: what is large is not made larger
      Floats::store(t.c + i * t.ldc + j * kLanes,
                    Floats::fma(products, Floats::set1(t.rows[i].scale), sums * Floats::set1(t.rows[i].centre)));
    }
  }
}

using Int8TileFn = void (*)(const Int8Tile&);
struct Int8Tiles {
  Int8TileFn first[ByteDots::kRows], further[ByteDots::kRows];  // by rows less one
  template <int MR>
  constexpr void fill() {
    further[MR - 1] = int8_tile<MR, false>;
    first[MR - 1] = int8_tile < MR < ByteDots::kRows ? MR : MR - 1, true > ;  // the sums take a row's registers
    if constexpr (MR > 1) fill<MR - 1>();
  }
  constexpr Int8Tiles() : first{}, further{} { fill<ByteDots::kRows>(); }
};
inline constexpr Int8Tiles kInt8Tiles{};

struct Int8Run : QuantUnits {
  int64_t blocks, pitch;
  Int8Elem* q;
  Int8Row* scaled;
  float *row, *tile, *sums;
  int64_t kept = -1;  // the rows that q has

  explicit Int8Run(const aotc_kargs* x) : QuantUnits(x) {
    blocks = ceil_div(k, kBlock);
    pitch = int8_pitch<Int8Elem>(k);
    char* at = static_cast<char*>(x->scratch);
    q = reinterpret_cast<Int8Elem*>(at);
    at += cfg->mc * pitch * int64_t{sizeof(Int8Elem)};
    sums = reinterpret_cast<float*>(at);
    tile = sums + AOTC_PANEL_N;
    row = tile + int64_t{1} * cfg->mc * cfg->nc;
    scaled = reinterpret_cast<Int8Row*>(row + blocks * kBlock);
  }

  void round_rows(const Unit& u) {
    for (int64_t r = 0; r < u.rows; ++r)
      scaled[r] = k > 0 ? round_int8_row(float_row(u.batch, u.m0 + r, row, true), k, q + r * pitch) : Int8Row{};
  }

  /// A panel of columns from column j of the segment on, all rows of the unit.
  void panel(const Unit& u, int64_t j, float* c, int64_t ldc) const {
    const int64_t column = size[AOTC_GEMM_SIZES + 2 * u.segment] + j, len = segment_len(u.segment);
    // One more row than there is: the sums of the columns.
    const int64_t tiles = ceil_div(u.rows + 1, int64_t{ByteDots::kRows});
    for (int part = 0; part < kTilesOfPanel; ++part) {
      const int64_t at = part * kVectors * kLanes;
      if (j + at >= len) break;
      Int8Tile t{q, pitch, scaled, {}, blocks * kQuads, scales.from(column + at), len - j - at, sums, c + at, ldc};
      for (int v = 0; v < kVectors; ++v) {
        const int64_t in = part * kVectors + v;
        t.w[v] = u.panels + (j / AOTC_QUANT_LANES + in / kParts) * blocks * kRun + in % kParts * kLanes * 4;
      }
      int64_t r0 = 0;
      for (int64_t i = 0; i < tiles; ++i) {
        const int64_t r1 = (i + 1) * (u.rows + 1) / tiles - 1, n = r1 - r0;
        t.a = q + r0 * pitch, t.rows = scaled + r0, t.c = c + at + r0 * ldc;
        if (n > 0) (i ? kInt8Tiles.further : kInt8Tiles.first)[n - 1](t);
        r0 = r1;
      }
    }
  }

  void run_unit(const Unit& u) {
    if (kept != u.rows_key) round_rows(u);
    kept = u.rows_key;
    const int64_t step = epilogue_columns(u.rows);
    for (int64_t j0 = u.n0; j0 < u.n1; j0 += step) {
      const int64_t j1 = min_of(j0 + step, u.n1);
      for (int64_t j = j0; j < j1; j += AOTC_PANEL_N) panel(u, j, tile + (j - j0), step);
      cfg->epilogues[u.segment](args, tile, step, u.batch, u.m0, u.rows, j0, j1 - j0);
    }
  }

  void run(int64_t begin, int64_t end) {
    kept = held_key(args);
    for (int64_t u = begin; u < end; ++u) run_unit(at(u));
    hold_key(args, kept);
  }
};

}  // namespace
