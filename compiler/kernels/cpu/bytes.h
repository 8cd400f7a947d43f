#pragma once
// Unsigned bytes times signed ones, summed in 32 bits: rows of bytes, register tiles over the weights' form of gemm_quant
// (aotc/detail/bytes_abi.h). Sums are exact, and so the same on every instruction set: vpdpbusd sums four products, elsewhere vpmaddwd
// multiplies pairs of 16 bits, for vpmaddubsw saturates.
#include "byte_rows.h"
#include "ints.h"

namespace {

constexpr int kByteVectors = 2;                                     // columns of a register tile
constexpr int64_t kByteQuad = 4 * AOTC_QUANT_LANES;                 // weights of a quad of k of one run of columns
constexpr int kByteTiles = AOTC_PANEL_N / (kByteVectors * kLanes);  // of a panel
constexpr int kRunParts = AOTC_QUANT_LANES / kLanes;                // vectors of a run

#if defined(__AVX512VNNI__)
struct ByteProducts {
  using Elem = uint8_t;
  static constexpr int kRows = 14;
  static constexpr bool kInPlace = true;
  using W = Ints;
  struct Quad {
    Ints v;
  };
  static W load(const char* w) { return load_ints(w); }
  static Quad quad(const Elem* x) { return {set_ints(load_int(x))}; }
  static Ints dot(Ints sum, W w, Quad x) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x.v), "v"(w));  // by the intrinsic sums go through memory
    return sum;
  }
};
#else
struct ByteProducts {
  using Elem = int16_t;  // of each four 0 2 1 3
  static constexpr int kRows = kLanes == 16 ? 8 : 3;
  static constexpr bool kInPlace = false;
  struct W {
    Ints even, odd;
  };
  struct Quad {
    Ints even, odd;
  };
  static W load(const char* w) {
    const Ints v = load_ints(w);
    return {shift_signed16(shift_left16(v, 8), 8), shift_signed16(v, 8)};
  }
  static Quad quad(const Elem* x) { return {set_ints(load_int(x)), set_ints(load_int(x + 2))}; }
  static Ints dot(Ints sum, W w, Quad x) { return add_ints(sum, add_ints(multiply_pairs(w.even, x.even), multiply_pairs(w.odd, x.odd))); }
};
#endif
using ByteElem = ByteProducts::Elem;
/// Which of a row's two forms the tiles read.
[[maybe_unused]] inline const uint8_t* pick_elems(const uint8_t* bytes, const int16_t*, const uint8_t*) { return bytes; }
[[maybe_unused]] inline const int16_t* pick_elems(const uint8_t*, const int16_t* widened, const int16_t*) { return widened; }
inline const ByteElem* byte_elems(const uint8_t* bytes, const int16_t* widened) {
  return pick_elems(bytes, widened, static_cast<const ByteElem*>(nullptr));
}

inline void store_ints(void* p, Ints v) { __builtin_memcpy(p, &v, sizeof v); }

/// A row of whole quads as elements.
inline void widen_row(int16_t* to, const uint8_t* from, int64_t k) {
  for (int64_t i = 0; i < k; i += 8) {  // copied rows have room for whole lines
    const __m128i v = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm_shufflehi_epi16(_mm_shufflelo_epi16(v, 0xd8), 0xd8));
  }
}

struct ByteTile {
  const ByteElem* a;
  int64_t a_pitch;  // elements
  const char* w[kByteVectors];
  int64_t quads;
  int32_t* c;
  int64_t ldc;
};

/// MR rows times the columns. kAhead: the weights are prefetched, for the tiles that follow have them in a cache then.
template <int MR, bool kFirst>
__attribute__((noinline)) void byte_tile(const ByteTile& t) {
  constexpr int kAhead = 2048;
  Ints acc[MR][kByteVectors];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kByteVectors; ++j) acc[i][j] = set_ints(0);
  // Rows three apart share a base pointer: base, base + pitch, base + 2 * pitch are addressing modes.
  constexpr int kBases = (MR + 2) / 3;
  const ByteElem* base[kBases];
#pragma GCC unroll 8
  for (int i = 0; i < kBases; ++i) {
    base[i] = t.a + 3 * i * t.a_pitch;
    asm("" : "+r"(base[i]));  // a register each, not lanes of a vector
  }
  const char *w0 = t.w[0], *w1 = t.w[1];
  const int64_t pitch = t.a_pitch;
  for (int64_t q = 0; q < t.quads; ++q) {
    if (kFirst) {
      _mm_prefetch(w0 + kAhead, _MM_HINT_T0);
      _mm_prefetch(w1 + kAhead, _MM_HINT_T0);
    }
    const ByteProducts::W w[kByteVectors] = {ByteProducts::load(w0), ByteProducts::load(w1)};
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const ByteProducts::Quad x = ByteProducts::quad(base[i / 3] + i % 3 * pitch);
#pragma GCC unroll 2
      for (int j = 0; j < kByteVectors; ++j) acc[i][j] = ByteProducts::dot(acc[i][j], w[j], x);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kBases; ++i) base[i] += 4;
    w0 += kByteQuad, w1 += kByteQuad;
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kByteVectors; ++j) store_ints(t.c + i * t.ldc + j * kLanes, acc[i][j]);
}

using ByteTileFn = void (*)(const ByteTile&);
struct ByteTileTable {
  ByteTileFn first[ByteProducts::kRows], further[ByteProducts::kRows];  // by rows less one
  template <int MR>
  constexpr void fill() {
    first[MR - 1] = byte_tile<MR, true>;
    further[MR - 1] = byte_tile<MR, false>;
    if constexpr (MR > 1) fill<MR - 1>();
  }
  constexpr ByteTileTable() : first{}, further{} { fill<ByteProducts::kRows>(); }
};
inline constexpr ByteTileTable kByteTileTable{};

/// Rows times a panel of columns, of which `columns` are wanted, into c; its weights are two runs of columns.
inline void byte_panel(const ByteElem* a, int64_t a_pitch, int64_t rows, int64_t k, const char* panel, int64_t columns, int32_t* c,
                       int64_t ldc) {
  const int64_t tiles = ceil_div(rows, int64_t{ByteProducts::kRows}), run = byte_run(k);
  for (int part = 0; part < kByteTiles && part * kByteVectors * kLanes < columns; ++part) {
    ByteTile t{a, a_pitch, {}, ceil_div(k, int64_t{4}), c + part * kByteVectors * kLanes, ldc};
    for (int v = 0; v < kByteVectors; ++v) {
      const int64_t in = part * kByteVectors + v;
      t.w[v] = panel + in / kRunParts * run + in % kRunParts * kLanes * 4;
    }
    int32_t* const c0 = t.c;
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t r0 = i * rows / tiles, r1 = (i + 1) * rows / tiles;
      t.a = a + r0 * a_pitch, t.c = c0 + r0 * ldc;
      (i ? kByteTileTable.further : kByteTileTable.first)[r1 - r0 - 1](t);
    }
  }
}

/// Panels whose sums are finished at once.
inline int64_t byte_panels_at_once(int64_t rows) { return max_of<int64_t>(1, AOTC_BYTES_SUMS / (rows * AOTC_PANEL_N)); }

}  // namespace
