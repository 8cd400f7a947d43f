#pragma once
// Epilogues as data (aotc/detail/finish_abi.h), carried out on sums in registers.
#include "aotc/detail/library_abi.h"
#include "simd.h"

namespace {

/// A finish whose operands have been found: `at` is that of row 0 and column 0, `pitch` bytes lie between rows.
struct Finish {
  static constexpr int64_t kAheadBytes = 4 << 20;
  struct Step {
    int32_t kind;
    float limit;
    char* at;
    int64_t pitch;
  };
  /// Which steps there are, where they are a column that is added, any of these in this order and a store: done row after row, so that the
  /// sums of the next tile can begin while those of this one are stored.
  struct Line {
    enum : int32_t { kIs = 1, kAddF32 = 2, kAddBf16 = 4, kAtLeast = 8, kAtMost = 16, kStoreF32 = 32 };
    int32_t flags = 0;  ///< 0: the steps are others
    float at_least = -__builtin_inff(), at_most = __builtin_inff();
  };
  int n = 0;
  bool ahead = false;  ///< tiles ask for the lines that they will write: finish_ahead
  Line line;
  Step step[AOTC_FINISH_MAX_STEPS];

  Finish() = default;
  Finish(const aotc_kargs* args, const aotc_finish* f) {
    if (!f) return;
    n = f->n_steps;
    for (int i = 0; i < n; ++i) {
      const aotc_finish_step& s = f->steps[i];
      const bool half = s.kind == AOTC_FINISH_ADD_BF16 || s.kind == AOTC_FINISH_STORE_BF16;
      const bool limits = s.kind == AOTC_FINISH_AT_LEAST || s.kind == AOTC_FINISH_AT_MOST || s.kind == AOTC_FINISH_HARD_SWISH;
      const int64_t bytes = half ? 2 : 4;
      step[i] = {s.kind, s.limit, limits ? nullptr : static_cast<char*>(args->ptr[s.ptr]) + s.base * bytes, s.pitch * bytes};
    }
    line = line_of_steps();
  }
  /// Of `rows` rows altogether. Lines that a core's caches hold are there anyway, and asking for them costs short tiles up to 2 % (Zen 4).
  void store_rows(int64_t rows) { ahead = n > 0 && rows * store().pitch >= kAheadBytes; }
  const Step& column() const { return step[0]; }
  const Step& add() const { return step[line.flags & (Line::kAddF32 | Line::kAddBf16) ? 1 : 0]; }  ///< column() where there is none
  const Step& store() const { return step[n - 1]; }

 private:
  Line line_of_steps() const {
    Line all;
    int i = 0;
    const auto next = [&](int32_t kind) { return i < n && step[i].kind == kind && ++i; };
    if (!next(AOTC_FINISH_ADD_COLUMN)) return {};
    int32_t flags = Line::kIs;
    if (next(AOTC_FINISH_ADD_F32))
      flags |= Line::kAddF32;
    else if (next(AOTC_FINISH_ADD_BF16))
      flags |= Line::kAddBf16;
    if (next(AOTC_FINISH_AT_LEAST)) flags |= Line::kAtLeast, all.at_least = step[i - 1].limit;
    if (next(AOTC_FINISH_AT_MOST)) flags |= Line::kAtMost, all.at_most = step[i - 1].limit;
    if (flags & (Line::kAtLeast | Line::kAtMost)) flags |= Line::kAtLeast | Line::kAtMost;  // one kind of line instead of three
    if (next(AOTC_FINISH_STORE_F32))
      flags |= Line::kStoreF32;
    else if (!next(AOTC_FINISH_STORE_BF16))
      return {};
    if (i == n) all.flags = flags;
    return all;
  }
};

/// Where the sums of a register tile belong: its first row and column; `last` columns of its last vector are wanted.
struct TileFinish {
  const Finish* finish;
  int64_t row, column, last;
};

#if defined(__AVX512F__)
template <class Acc>
inline constexpr bool kFinishes = sizeof(Acc) == 4 && Acc(0.5) != Acc(0);

/// Sixteen bf16, rounded to nearest even by integers; a NaN stays one.
inline __m256i rounded(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x), half = _mm512_srli_epi32(bits, 16);
  const __m512i up = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), _mm512_and_si512(half, _mm512_set1_epi32(1)));
  const __m512i near = _mm512_srli_epi32(_mm512_add_epi32(bits, up), 16), quiet = _mm512_or_si512(half, _mm512_set1_epi32(0x40));
  return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(near, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet));
}

template <int MR, int NV>
__attribute__((always_inline)) inline void store_rounded(const __m512 (&v)[MR][NV], char* to, int64_t pitch, __mmask16 last) {
#if defined(__AVX512BF16__)
  __mmask16 denormals = 0;  // which the instruction takes for zeros
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) denormals |= _mm512_fpclass_ps_mask(v[i][j], 0x20);
  if (__builtin_expect(denormals == 0, 1)) {
    if (NV == 2 && last == 0xffff) {
#pragma GCC unroll 16
      for (int i = 0; i < MR; ++i, to += pitch) _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(v[i][NV - 1], v[i][0]));
      return;
    }
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i, to += pitch)
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) {
        const auto half = (__m256i)_mm512_cvtneps_pbh(v[i][j]);
        if (j + 1 < NV || last == 0xffff)
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(to) + j, half);
        else
          _mm256_mask_storeu_epi16(to + 32 * j, last, half);
      }
    return;
  }
#endif
  __m512 sums[MR][NV];  // in memory
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) sums[i][j] = v[i][j];
#pragma GCC unroll 1
  for (int i = 0; i < MR; ++i, to += pitch)
#pragma GCC unroll 1
    for (int j = 0; j < NV; ++j) _mm256_mask_storeu_epi16(to + 32 * j, j + 1 < NV ? __mmask16{0xffff} : last, rounded(sums[i][j]));
}

/// x * min(max(x + 3, 0), 6) / 6 of n vectors.
__attribute__((noinline)) inline void hard_swish(__m512* x, int n) {
  const __m512 six = _mm512_set1_ps(6);
  for (int i = 0; i < n; ++i) {
    const __m512 up = _mm512_max_ps(_mm512_setzero_ps(), _mm512_add_ps(x[i], _mm512_set1_ps(3)));
    x[i] = _mm512_div_ps(_mm512_mul_ps(x[i], _mm512_min_ps(six, up)), six);
  }
}

/// What finish_line needs of a tile: `column` at its first column, `add` and `out` at its first row and column.
struct LineOfTile {
  const float* column;
  const char* add;
  char* out;
  int64_t add_pitch, out_pitch;
  __m512 at_least, at_most;
};

/// Of a finish that is a line, from (row, column) on.
inline LineOfTile line_at(const Finish& f, int64_t row, int64_t column) {
  const Finish::Step &add = f.add(), &store = f.store();
  return {reinterpret_cast<const float*>(f.column().at) + column,
          add.at + row * add.pitch + column * (f.line.flags & Finish::Line::kAddF32 ? 4 : 2),
          store.at + row * store.pitch + column * (f.line.flags & Finish::Line::kStoreF32 ? 4 : 2),
          add.pitch,
          store.pitch,
          _mm512_set1_ps(f.line.at_least),
          _mm512_set1_ps(f.line.at_most)};
}

/// Finish::Line of a row of NV vectors, with kHalf of the last one's lower half. What is not stored here is left in v.
template <int NV, bool kHalf>
__attribute__((always_inline)) inline void finish_line(__m512 (&v)[NV], int32_t flags, const LineOfTile& t, int64_t row) {
  using Line = Finish::Line;
  const char* add = t.add + row * t.add_pitch;
  char* out = t.out + row * t.out_pitch;
  constexpr int kWhole = NV - kHalf;
#pragma GCC unroll 4
  for (int j = 0; j < kWhole; ++j) v[j] = _mm512_add_ps(v[j], _mm512_loadu_ps(t.column + 16 * j));
  __m256 half = _mm512_castps512_ps256(v[NV - 1]);
  if constexpr (kHalf) half = _mm256_add_ps(half, _mm256_loadu_ps(t.column + 16 * kWhole));
  if (flags & Line::kAddF32) {
#pragma GCC unroll 4
    for (int j = 0; j < kWhole; ++j) v[j] = _mm512_add_ps(v[j], _mm512_loadu_ps(add + j * 64));
    if constexpr (kHalf) half = _mm256_add_ps(half, _mm256_loadu_ps(reinterpret_cast<const float*>(add + kWhole * 64)));
  }
  if (flags & Line::kAddBf16) {
#pragma GCC unroll 4
    for (int j = 0; j < kWhole; ++j) v[j] = _mm512_add_ps(v[j], load_half(reinterpret_cast<const bf16*>(add + j * 32)));
    if constexpr (kHalf) half = _mm256_add_ps(half, load8(reinterpret_cast<const bf16*>(add + kWhole * 32)));
  }
  if (flags & Line::kAtLeast) {
#pragma GCC unroll 4
    for (int j = 0; j < kWhole; ++j) v[j] = _mm512_max_ps(t.at_least, v[j]);
    if constexpr (kHalf) half = _mm256_max_ps(_mm512_castps512_ps256(t.at_least), half);
  }
  if (flags & Line::kAtMost) {
#pragma GCC unroll 4
    for (int j = 0; j < kWhole; ++j) v[j] = _mm512_min_ps(t.at_most, v[j]);
    if constexpr (kHalf) half = _mm256_min_ps(_mm512_castps512_ps256(t.at_most), half);
  }
  if (flags & Line::kStoreF32) {
#pragma GCC unroll 4
    for (int j = 0; j < kWhole; ++j) _mm512_storeu_ps(out + j * 64, v[j]);
    if constexpr (kHalf) _mm256_storeu_ps(reinterpret_cast<float*>(out + kWhole * 64), half);
  }
  if constexpr (kHalf) v[NV - 1] = _mm512_castps256_ps512(half);
}

/// finish_tile where the steps are a line's, and `last` is 16 or with kHalf 8.
template <int MR, int NV, bool kHalf>
__attribute__((always_inline)) inline void finish_lines(__m512 (&v)[MR][NV], const TileFinish& t) {
  const Finish::Line& line = t.finish->line;
  int32_t flags = line.flags;
  constexpr int32_t kLimits = Finish::Line::kIs | Finish::Line::kAtLeast | Finish::Line::kAtMost | Finish::Line::kStoreF32;
  const LineOfTile at = line_at(*t.finish, t.row, t.column);
  if (flags == kLimits) {  // the most common line, without jumps
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) finish_line<NV, kHalf>(v[i], kLimits, at, i);
    return;
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    asm("" : "+r"(flags));  // or there is a copy of all rows for every kind of line
    finish_line<NV, kHalf>(v[i], flags, at, i);
  }
  if (!(flags & Finish::Line::kStoreF32)) store_rounded(v, at.out, at.out_pitch, kHalf ? 0xff : 0xffff);
}

/// Does what `t` says to the sums of MR rows of NV vectors. A step may need three registers beside them, no more.
/// kLast: what t.last is for tiles that are finished by lines; 0 where it may be 8 or 16, -1 where that is not worth its code.
template <int kLast, int MR, int NV>
__attribute__((always_inline)) inline void finish_tile(__m512 (&v)[MR][NV], const TileFinish& t) {
  if (kLast >= 0 && t.finish->line.flags) {
    if (kLast != 8 && t.last == 16) return finish_lines<MR, NV, false>(v, t);
    if (kLast != 16 && t.last == 8) return finish_lines<MR, NV, true>(v, t);
  }
  const __mmask16 all = 0xffff, last = static_cast<__mmask16>((1u << t.last) - 1);
  const auto every = [&](auto f) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) v[i][j] = f(v[i][j], i, j);
  };
    // Values of their own from here on: what the steps need of registers must not be taken from the loop before.
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) asm("" : "+v"(v[i][j]));
  const auto mask = [&](int j) __attribute__((always_inline)) { return j + 1 < NV ? all : last; };
  for (const Finish::Step *s = t.finish->step, *end = s + t.finish->n; s != end; ++s) {
    const int64_t pitch = s->pitch;
    const float* column = reinterpret_cast<const float*>(s->at) + t.column;
    char* rows = s->at + t.row * pitch;
    switch (s->kind) {
      case AOTC_FINISH_ADD_COLUMN:
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) {
          const __m512 x = _mm512_maskz_loadu_ps(mask(j), column + 16 * j);
#pragma GCC unroll 16
          for (int i = 0; i < MR; ++i) v[i][j] = _mm512_add_ps(v[i][j], x);
        }
        break;
      case AOTC_FINISH_MUL_COLUMN:
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) {
          const __m512 x = _mm512_maskz_loadu_ps(mask(j), column + 16 * j);
#pragma GCC unroll 16
          for (int i = 0; i < MR; ++i) v[i][j] = _mm512_mul_ps(v[i][j], x);
        }
        break;
      case AOTC_FINISH_ADD_F32:
        rows += t.column * 4;
        every([&](__m512 x, int i, int j)
                  __attribute__((always_inline)) { return _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask(j), rows + i * pitch + j * 64)); });
        break;
      case AOTC_FINISH_ADD_BF16:
        rows += t.column * 2;
        every([&](__m512 x, int i, int j) __attribute__((always_inline)) {
          const __m256i half = _mm256_maskz_loadu_epi16(mask(j), rows + i * pitch + j * 32);
          return _mm512_add_ps(x, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16)));
        });
        break;
      case AOTC_FINISH_AT_LEAST:
        every([limit = _mm512_set1_ps(s->limit)](__m512 x, int, int) __attribute__((always_inline)) { return _mm512_max_ps(limit, x); });
        break;
      case AOTC_FINISH_AT_MOST:
        every([limit = _mm512_set1_ps(s->limit)](__m512 x, int, int) __attribute__((always_inline)) { return _mm512_min_ps(limit, x); });
        break;
      case AOTC_FINISH_HARD_SWISH: {
        __m512 sums[MR * NV];
        every([&](__m512 x, int i, int j) __attribute__((always_inline)) { return sums[i * NV + j] = x; });
        hard_swish(sums, MR * NV);
        every([&](__m512, int i, int j) __attribute__((always_inline)) { return sums[i * NV + j]; });
        break;
      }
      case AOTC_FINISH_STORE_F32: rows += t.column * 4;
#pragma GCC unroll 16
        for (int i = 0; i < MR; ++i, rows += pitch)
#pragma GCC unroll 4
          for (int j = 0; j < NV; ++j) {
            if (j + 1 < NV || last == all)
              _mm512_storeu_ps(rows + j * 64, v[i][j]);
            else
              _mm512_mask_storeu_ps(rows + j * 64, last, v[i][j]);
          }
        break;
      default: store_rounded(v, rows + t.column * 2, pitch, last); break;
    }
  }
}

/// Asks for the lines that finish_tile of MR rows and NV vectors will write, for itself alone, so that they are there when it does. Every
/// CPU with AVX-512 has the instruction.
template <int MR, int NV>
__attribute__((always_inline)) inline void finish_ahead(const TileFinish& t) {
  const Finish::Step& store = t.finish->store();
  const int64_t bytes = store.kind == AOTC_FINISH_STORE_F32 ? 4 : 2, width = NV * 16 * bytes;
  const char* at = store.at + t.row * store.pitch + t.column * bytes;
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i, at += store.pitch) {
    asm volatile("prefetchw %0" : : "m"(*at));
    if (NV > 1) asm volatile("prefetchw %0" : : "m"(at[width / 2]));
  }
}

/// Stores 32 sums as bf16, those of `some`.
__attribute__((always_inline)) inline void store_pair(void* to, __mmask32 some, __m512 lo, __m512 hi) {
#if defined(__AVX512BF16__)
  // The instruction takes denormals for zeros.
  if (__builtin_expect(_kortestz_mask16_u8(_mm512_fpclass_ps_mask(lo, 0x20), _mm512_fpclass_ps_mask(hi, 0x20)), 1))
    return _mm512_mask_storeu_epi16(to, some, (__m512i)_mm512_cvtne2ps_pbh(hi, lo));
#endif
  _mm512_mask_storeu_epi16(to, some, _mm512_inserti64x4(_mm512_castsi256_si512(rounded(lo)), rounded(hi), 1));
}

/// Finish::Line of rows of at most 32 sums in memory, of which whole vectors can be read. kParts: a sum is that of both; else `others`
/// means nothing.
template <int32_t kFlags, bool kParts>
__attribute__((noinline)) void finish_line_rows(const float* sums, const float* others, int64_t ld, int64_t rows, int64_t cols,
                                                const LineOfTile& t) {
  using Line = Finish::Line;
  const __mmask32 some = cols < 32 ? static_cast<__mmask32>((uint64_t{1} << cols) - 1) : ~__mmask32{0};
  const auto low = static_cast<__mmask16>(some), high = static_cast<__mmask16>(some >> 16);
  const __m512 column0 = _mm512_maskz_loadu_ps(low, t.column), column1 = _mm512_maskz_loadu_ps(high, t.column + 16);
  const __m512 at_least = t.at_least, at_most = t.at_most;
  const char* add = t.add;
  char* out = t.out;
  // Of 32 bf16 the first and the last 16, each above zero bits.
  const __m512i first = _mm512_set_epi32(0x0f000f, 0x0e000e, 0x0d000d, 0x0c000c, 0x0b000b, 0x0a000a, 0x090009, 0x080008, 0x070007, 0x060006,
                                         0x050005, 0x040004, 0x030003, 0x020002, 0x010001, 0);
  const __m512i last = _mm512_add_epi16(first, _mm512_set1_epi16(16));
  for (; rows > 0; --rows, sums += ld, add += t.add_pitch, out += t.out_pitch) {
    __m512 v0 = _mm512_loadu_ps(sums), v1 = _mm512_loadu_ps(sums + 16);
    if constexpr (kParts) {
      v0 = _mm512_add_ps(v0, _mm512_loadu_ps(others)), v1 = _mm512_add_ps(v1, _mm512_loadu_ps(others + 16));
      others += ld;
    }
    v0 = _mm512_add_ps(v0, column0), v1 = _mm512_add_ps(v1, column1);
    if constexpr ((kFlags & Line::kAddF32) != 0) {
      v0 = _mm512_add_ps(v0, _mm512_maskz_loadu_ps(low, add));
      v1 = _mm512_add_ps(v1, _mm512_maskz_loadu_ps(high, add + 64));
    }
    if constexpr ((kFlags & Line::kAddBf16) != 0) {
      const __m512i pairs = _mm512_maskz_loadu_epi16(some, add);
      v0 = _mm512_add_ps(v0, _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, first, pairs)));
      v1 = _mm512_add_ps(v1, _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, last, pairs)));
    }
    if constexpr ((kFlags & Line::kAtLeast) != 0) v0 = _mm512_max_ps(at_least, v0), v1 = _mm512_max_ps(at_least, v1);
    if constexpr ((kFlags & Line::kAtMost) != 0) v0 = _mm512_min_ps(at_most, v0), v1 = _mm512_min_ps(at_most, v1);
    if constexpr ((kFlags & Line::kStoreF32) != 0) {
      _mm512_mask_storeu_ps(out, low, v0);
      _mm512_mask_storeu_ps(out + 64, high, v1);
    } else {
      store_pair(out, some, v0, v1);
    }
  }
}

/// By Finish::Line's flags, kIs aside.
template <bool kParts>
struct LineRows {
  using Fn = void (*)(const float* sums, const float* others, int64_t ld, int64_t rows, int64_t cols, const LineOfTile& t);
  Fn fn[32];
  template <int32_t kFlags>
  constexpr void fill() {
    fn[kFlags / 2] = finish_line_rows<kFlags, kParts>;
    if constexpr (kFlags + 2 < 64) fill<kFlags + 2>();
  }
  constexpr LineRows() : fn{} { fill<0>(); }
};
template <bool kParts>
inline constexpr LineRows<kParts> kLineRows{};

/// Finish::Line of rows of at most 32 sums: finish_line_rows.
template <bool kParts>
inline void finish_lines_of_sums(const Finish& f, const float* sums, const float* others, int64_t ld, int64_t row, int64_t rows,
                                 int64_t column, int64_t cols) {
  const int32_t flags = f.line.at_most == __builtin_inff() ? f.line.flags & ~Finish::Line::kAtMost : f.line.flags;
  kLineRows<kParts>.fn[flags / 2](sums, others, ld, rows, cols, line_at(f, row, column));
}

template <int MR, int NV>
__attribute__((noinline)) void finish_some(const float* sums, int64_t ld, const TileFinish& t) {
  __m512 v[MR][NV];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) v[i][j] = _mm512_loadu_ps(sums + i * ld + 16 * j);
  finish_tile<-1>(v, t);
}

/// What `f` says of rows x cols sums in memory, whose first is that of (row, column). Pre: whole vectors of the sums can be read.
inline void finish_sums(const Finish& f, const float* sums, int64_t ld, int64_t row, int64_t rows, int64_t column, int64_t cols) {
  constexpr int kRows = 4;
  for (int64_t j = 0; j < cols; j += 32, sums += 32, column += 32) {
    const int64_t left = min_of<int64_t>(cols - j, 32);
    if (f.line.flags) {
      finish_lines_of_sums<false>(f, sums, nullptr, ld, row, rows, column, left);
      continue;
    }
    const bool two = left > 16;
    TileFinish t = {&f, row, column, two ? left - 16 : left};
    const float* from = sums;
    for (int64_t i = 0; i < rows;) {
      const int64_t done = rows - i >= kRows ? kRows : 1;
      if (done == kRows)
        two ? finish_some<kRows, 2>(from, ld, t) : finish_some<kRows, 1>(from, ld, t);
      else
        two ? finish_some<1, 2>(from, ld, t) : finish_some<1, 1>(from, ld, t);
      i += done, t.row += done, from += done * ld;
    }
  }
}
#endif

}  // namespace

#if !defined(__AVX512F__)
#include "finish_avx2.h"
#endif
