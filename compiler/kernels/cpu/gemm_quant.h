#pragma once
// Products of float32 rows with weights of few bits: aotc_gemm_quant_f32 of aotc/detail/library_abi.h.
//
// A block of AOTC_QUANT_BLOCK values of a row becomes integers of 24 bits with one scale, cut into digits that integer dot products take:
// three signed bytes where there is vpdpbusd, else two of 12 bits for vpmaddwd. Sums of a block are exact; what is rounded is the row (at
// 2^-24 of a block's largest value) and the sum over blocks, as in a product of floats. Weights are read once for each register tile of
// rows and never written out as floats: one row goes at the speed of memory.
//
// A work unit is an mc x nc block; the digits of its rows are kept over the units that follow with the same rows.
#include "quant_units.h"

namespace {

#if defined(__AVX512VNNI__)
/// vpdpbusd: unsigned weights, signed bytes of the row. Signed weights are read 128 higher, which `first` takes back.
struct Dots {
  static constexpr int kDigits = 3, kBits = 8, kRows = 6;
  static constexpr float kLargest = 127 * 65536;  // with room for what rounding adds
  struct Block {
    int8_t digit[kDigits][kBlock];
    int32_t first[kDigits];  ///< where the sums begin
    float scale, sum;        ///< sum: of the block's values as they are cut
  };
  struct Weights {
    Ints v;
  };
  template <bool kSigned>
  static Weights prepare(Ints v) {
    return {kSigned ? flip_ints(v, set_bytes(static_cast<char>(-128))) : v};
  }
  static Ints dot(Ints sum, Weights w, const Block& x, int d, int quad) {
    return _mm512_dpbusd_epi32(sum, w.v, set_ints(load_int(x.digit[d] + 4 * quad)));
  }
  static void put(Block& x, int d, int i, int digit) { x.digit[d][i] = static_cast<int8_t>(digit); }
  static constexpr int kOffset = 128;  ///< of signed weights
};
#else
/// Pairs of 16-bit numbers: the even and the odd values of k apart.
struct Dots {
  static constexpr int kDigits = 2, kBits = 12, kRows = kLanes == 16 ? 4 : 2;
  static constexpr float kLargest = 2047 * 4096;
  struct Block {
    int16_t digit[kDigits][kBlock];  ///< of each quad 0 2 1 3
    int32_t first[kDigits];
    float scale, sum;
  };
  struct Weights {
    Ints even, odd;
  };
  template <bool kSigned>
  static Weights prepare(Ints v) {
    if (kSigned) return {shift_signed16(shift_left16(v, 8), 8), shift_signed16(v, 8)};
    return {and_ints(v, set_ints(0x00ff00ff)), shift_right16(v, 8)};
  }
  static Ints dot(Ints sum, Weights w, const Block& x, int d, int quad) {
    const int16_t* q = x.digit[d] + 4 * quad;
    sum = in_order(add_ints(sum, multiply_pairs(w.even, set_ints(load_int(q)))));
    return in_order(add_ints(sum, multiply_pairs(w.odd, set_ints(load_int(q + 2)))));
  }
  /// Else compilers multiply all of a block first and keep the products in memory, to add them as a tree.
  static Ints in_order(Ints sum) {
    asm("" : "+v"(sum));
    return sum;
  }
  static void put(Block& x, int d, int i, int digit) {
    x.digit[d][(i & ~3) + ((i & 1) << 1) + ((i & 2) >> 1)] = static_cast<int16_t>(digit);
  }
  static constexpr int kOffset = 0;
};
#endif
static_assert(sizeof(Dots::Block) <= AOTC_QUANT_BLOCK_BYTES);

/// Cuts the block of x. Values below 2^-103 * 2^-23 of a block are lost; one with an infinity or a NaN is all NaN.
inline void cut(const float* x, bool is_signed, Dots::Block* out) {
  Floats::V tops = Floats::set1(0x1p-103f), checks = Floats::zero();
  for (int i = 0; i < kBlock; i += kLanes) {
    const Floats::V v = Floats::load(x + i);
    tops = Floats::max(Floats::max(v, -v), tops);
    checks = Floats::fma(v, Floats::zero(), checks);
  }
  float top = 0, check = 0;
  for (int i = 0; i < kLanes; ++i) top = max_of(top, tops[i]), check += checks[i];
  const float inverse = Dots::kLargest / top;
  int32_t all[kBlock], sums[Dots::kDigits] = {};
  for (int i = 0; i < kBlock; ++i) all[i] = static_cast<int32_t>(__builtin_rintf(x[i] * inverse));
  int64_t sum = 0;
  for (int i = 0; i < kBlock; ++i) sum += all[i];
  for (int d = Dots::kDigits; d-- > 0;)
    for (int i = 0; i < kBlock; ++i) {
      const int digit = d == 0 ? all[i] : static_cast<int>(static_cast<u32>(all[i]) << (32 - Dots::kBits)) >> (32 - Dots::kBits);
      all[i] = (all[i] - digit) >> Dots::kBits;
      Dots::put(*out, d, i, digit);
      sums[d] += digit;
    }
  for (int d = 0; d < Dots::kDigits; ++d) out->first[d] = is_signed ? -Dots::kOffset * sums[d] : 0;
  out->scale = top / Dots::kLargest + check;
  out->sum = static_cast<float>(sum) * out->scale;
}

struct QuantRows {
  const Dots::Block* a;
  int64_t a_stride;  // blocks from row to row
  const char* w;     // one run of AOTC_QUANT_LANES columns
  ColumnNumbers scale, offset;
  int64_t group_stride;  // of scales and offsets
  int64_t columns;       // that they may be read for
  int64_t blocks, per_group;
  float* c;
  int64_t ldc;
};

/// MR rows times the run. kBits 8: signed bytes [quads][lanes][4]; 4: unsigned nibbles, the low ones are the first half of the quads. A row
/// alone takes all of the run's vectors at once, so that each of its numbers is read once.
template <int MR, int kBits>
__attribute__((noinline)) void quant_tile(const QuantRows& t) {
  using V = Floats::V;
  constexpr int64_t kBytes = kRun * kBits / 8, kAhead = 4096;
  constexpr int kVectors = AOTC_QUANT_LANES / kLanes, NV = MR == 1 ? kVectors : 1;
  for (int first = 0; first < kVectors; first += NV) {
    V total[NV][MR];
    for (int j = 0; j < NV; ++j)
      for (int i = 0; i < MR; ++i) total[j][i] = Floats::zero();
    const char* w = t.w + first * kLanes * 4;
    const int64_t columns = t.columns - first * kLanes;
    ColumnNumbers scale = t.scale.from(first * kLanes), offset = (t.offset.at ? t.offset : t.scale).from(first * kLanes);
    for (int64_t b0 = 0; b0 < t.blocks; b0 += t.per_group, scale = scale.from(t.group_stride), offset = offset.from(t.group_stride)) {
      V s[NV], o[NV];
      _mm_prefetch(scale.from(4 * AOTC_QUANT_LANES).at, _MM_HINT_T0);
      if (t.offset.at) _mm_prefetch(offset.from(4 * AOTC_QUANT_LANES).at, _MM_HINT_T0);
#pragma GCC unroll 2
      for (int j = 0; j < NV; ++j) {
        s[j] = scale.from(j * kLanes).load(columns - j * kLanes);
        o[j] = t.offset.at ? offset.from(j * kLanes).load(columns - j * kLanes) : Floats::zero();
      }
      const int64_t b1 = min_of(b0 + t.per_group, t.blocks);
      for (int64_t b = b0; b < b1; ++b, w += kBytes) {
        for (int64_t i = 0; i < kBytes; i += 64) _mm_prefetch(w + kAhead + i, _MM_HINT_T0);
        Ints sum[NV][MR][Dots::kDigits];
#pragma GCC unroll 2
        for (int j = 0; j < NV; ++j)
#pragma GCC unroll 8
          for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
            for (int d = 0; d < Dots::kDigits; ++d) sum[j][i][d] = set_ints(t.a[i * t.a_stride + b].first[d]);
#pragma GCC unroll 8
        for (int q = 0; q < kQuads; ++q) {
#pragma GCC unroll 2
          for (int j = 0; j < NV; ++j) {
            const char* of = w + j * kLanes * 4;
            Dots::Weights v;
            if constexpr (kBits == 8) {
              v = Dots::prepare<true>(load_ints(of + q * 4 * AOTC_QUANT_LANES));
            } else {
              const Ints both = load_ints(of + q % (kQuads / 2) * 4 * AOTC_QUANT_LANES);
              v = Dots::prepare<false>(and_ints(q < kQuads / 2 ? both : shift_right16(both, 4), set_bytes(15)));
            }
#pragma GCC unroll 8
            for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
              for (int d = 0; d < Dots::kDigits; ++d) sum[j][i][d] = Dots::dot(sum[j][i][d], v, t.a[i * t.a_stride + b], d, q);
          }
        }
#pragma GCC unroll 2
        for (int j = 0; j < NV; ++j)
#pragma GCC unroll 8
          for (int i = 0; i < MR; ++i) {
            const Dots::Block& x = t.a[i * t.a_stride + b];
            // The two last digits together fit 32 bits.
            constexpr int d = Dots::kDigits;
            const Ints* of = sum[j][i];
            const Ints low = d == 3 ? add_ints(shift_left32(of[1], Dots::kBits), of[d - 1]) : of[d - 1];
            const V whole = Floats::fma(to_floats(of[0]), Floats::set1(d == 3 ? 0x1p16f : 0x1p12f), to_floats(low));
            total[j][i] = Floats::fma(whole * Floats::set1(x.scale), s[j], total[j][i]);
            if (t.offset.at) total[j][i] = Floats::fma(Floats::set1(x.sum), o[j], total[j][i]);
          }
      }
    }
    for (int j = 0; j < NV; ++j)
      for (int i = 0; i < MR; ++i) Floats::store(t.c + i * t.ldc + (first + j) * kLanes, total[j][i]);
  }
}

using QuantTileFn = void (*)(const QuantRows&);
template <int kBits>
struct QuantTiles {
  QuantTileFn fn[Dots::kRows];
  template <int MR>
  constexpr void fill() {
    fn[MR - 1] = quant_tile<MR, kBits>;
    if constexpr (MR > 1) fill<MR - 1>();
  }
  constexpr QuantTiles() : fn{} { fill<Dots::kRows>(); }
};
template <int kBits>
inline constexpr QuantTiles<kBits> kQuantTiles{};

struct QuantRun : QuantUnits {
  int64_t blocks, per_group;
  Dots::Block* cut_rows;
  float *row, *tile;
  int64_t kept = -1;  // the rows that cut_rows has

  explicit QuantRun(const aotc_kargs* x) : QuantUnits(x) {
    blocks = ceil_div(k, kBlock);
    per_group = ceil_div(cfg->group, kBlock);
    cut_rows = static_cast<Dots::Block*>(x->scratch);
    char* rest = static_cast<char*>(x->scratch) + (cfg->mc * blocks * AOTC_QUANT_BLOCK_BYTES + 63) / 64 * 64;
    row = reinterpret_cast<float*>(rest);
    tile = row + blocks * kBlock;
  }

  void cut_block(int64_t batch, int64_t m0, int64_t rows) {
    for (int64_t i = k; i < blocks * kBlock; ++i) row[i] = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const float* x = float_row(batch, m0 + r, row, k % kBlock == 0);
      for (int64_t b = 0; b < blocks; ++b) cut(x + b * kBlock, bits == 8, &cut_rows[r * blocks + b]);
    }
  }

  /// Columns [j, j + AOTC_QUANT_LANES) of the segment, all rows of the unit.
  void columns(int64_t segment, const char* panels, int64_t j, int64_t rows, float* c, int64_t ldc) const {
    const int64_t column = size[AOTC_GEMM_SIZES + 2 * segment] + j;
    const QuantTileFn* fn = bits == 8 ? kQuantTiles<8>.fn : kQuantTiles<4>.fn;
    const int64_t tiles = ceil_div(rows, int64_t{Dots::kRows});
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t r0 = t * rows / tiles, r1 = (t + 1) * rows / tiles;
      fn[r1 - r0 - 1]({cut_rows + r0 * blocks, blocks, panels + j / AOTC_QUANT_LANES * blocks * kRun * bits / 8, scales.from(column),
                       offsets.at ? offsets.from(column) : offsets, size[AOTC_GEMM_N], segment_len(segment) - j, blocks, per_group,
                       c + r0 * ldc, ldc});
    }
  }

  void run_unit(const Unit& u) {
    if (kept != u.rows_key) cut_block(u.batch, u.m0, u.rows);
    kept = u.rows_key;
    // The epilogue runs on tiles that are in L1.
    const int64_t step = epilogue_columns(u.rows);
    for (int64_t j0 = u.n0; j0 < u.n1; j0 += step) {
      const int64_t j1 = min_of(j0 + step, u.n1);
      for (int64_t j = j0; j < j1; j += AOTC_QUANT_LANES) columns(u.segment, u.panels, j, u.rows, tile + (j - j0), step);
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
