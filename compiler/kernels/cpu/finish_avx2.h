#pragma once
// finish.h where vectors have eight floats: a tile of 6 rows and 2 vectors leaves four registers.

namespace {

template <class Acc>
inline constexpr bool kFinishes = sizeof(Acc) == 4 && Acc(0.5) != Acc(0);

/// Eight bf16, rounded to nearest even; a NaN stays one.
inline __m128i rounded(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x), half = _mm256_srli_epi32(bits, 16);
  const __m256i up = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), _mm256_and_si256(half, _mm256_set1_epi32(1)));
  const __m256i near = _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16), quiet = _mm256_or_si256(half, _mm256_set1_epi32(0x40));
  const __m256i all = _mm256_blendv_epi8(near, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
  return _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}

/// Stores the first n of eight bf16.
inline void store_rounded(__m256 x, char* to, int64_t n) {
  const __m128i all = rounded(x);
  if (n == 8) return _mm_storeu_si128(reinterpret_cast<__m128i*>(to), all);
  u16 some[8];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(some), all);
  __builtin_memcpy(to, some, static_cast<size_t>(n) * 2);
}

inline __m256i first_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// The first n of eight floats; zeros behind them.
inline __m256 load_floats(const char* p, int64_t n) {
  return n == 8 ? _mm256_loadu_ps(reinterpret_cast<const float*>(p))
                : _mm256_maskload_ps(reinterpret_cast<const float*>(p), first_lanes(n));
}
inline __m256 load_bf16(const char* p, int64_t n) {
  if (n == 8) return load8(reinterpret_cast<const bf16*>(p));
  bf16 some[8] = {};
  __builtin_memcpy(some, p, static_cast<size_t>(n) * 2);
  return load8(some);
}

/// x * min(max(x + 3, 0), 6) / 6 of n vectors.
__attribute__((noinline)) inline void hard_swish(__m256* x, int n) {
  const __m256 six = _mm256_set1_ps(6);
  for (int i = 0; i < n; ++i) {
    const __m256 up = _mm256_max_ps(_mm256_setzero_ps(), _mm256_add_ps(x[i], _mm256_set1_ps(3)));
    x[i] = _mm256_div_ps(_mm256_mul_ps(x[i], _mm256_min_ps(six, up)), six);
  }
}

/// finish_tile of whole vectors where the steps are a line's: row after row, each step a jump that all rows take alike.
template <int MR, int NV>
__attribute__((always_inline)) inline void finish_lines(__m256 (&v)[MR][NV], const TileFinish& t) {
  using Line = Finish::Line;
  const Finish& f = *t.finish;
  const Finish::Step &add_step = f.add(), &store = f.store();
  int32_t flags = f.line.flags;
  const float* column = reinterpret_cast<const float*>(f.column().at) + t.column;
  const char* add = add_step.at + t.row * add_step.pitch + t.column * (flags & Line::kAddF32 ? 4 : 2);
  char* out = store.at + t.row * store.pitch + t.column * (flags & Line::kStoreF32 ? 4 : 2);
  const auto row = [&](__m256(&x)[NV], int32_t steps) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) x[j] = _mm256_add_ps(x[j], _mm256_loadu_ps(column + 8 * j));
    if (steps & Line::kAddF32)
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) x[j] = _mm256_add_ps(x[j], _mm256_loadu_ps(reinterpret_cast<const float*>(add) + 8 * j));
    if (steps & Line::kAddBf16)
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) x[j] = _mm256_add_ps(x[j], load8(reinterpret_cast<const bf16*>(add) + 8 * j));
    if (steps & Line::kAtLeast) {
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j)
        x[j] = _mm256_min_ps(_mm256_broadcast_ss(&f.line.at_most), _mm256_max_ps(_mm256_broadcast_ss(&f.line.at_least), x[j]));
    }
    if (steps & Line::kStoreF32) {
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) _mm256_storeu_ps(reinterpret_cast<float*>(out) + 8 * j, x[j]);
    } else {
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) store_rounded(x[j], out + 16 * j, 8);
    }
    add += add_step.pitch, out += store.pitch;
  };
  constexpr int32_t kLimits = Line::kIs | Line::kAtLeast | Line::kAtMost | Line::kStoreF32;
  if (flags == kLimits) {  // the most common line, without jumps
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) row(v[i], kLimits);
    return;
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    asm("" : "+r"(flags));  // or there is a copy of all rows for every kind of line
    row(v[i], flags);
  }
}

/// Does what `t` says to the sums of MR rows of NV vectors. kLast: not -1 where lines are worth their code.
template <int kLast, int MR, int NV>
__attribute__((always_inline)) inline void finish_tile(__m256 (&v)[MR][NV], const TileFinish& t) {
  if (kLast >= 0 && t.finish->line.flags && t.last == 8) return finish_lines<MR, NV>(v, t);
  const int64_t last = t.last;
  const auto lanes = [&](int j) __attribute__((always_inline)) { return j + 1 < NV ? int64_t{8} : last; };
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
    for (int j = 0; j < NV; ++j) asm("" : "+x"(v[i][j]));
  for (const Finish::Step *s = t.finish->step, *end = s + t.finish->n; s != end; ++s) {
    const int64_t pitch = s->pitch;
    const char* column = s->at + t.column * 4;
    char* rows = s->at + t.row * pitch;
    switch (s->kind) {
      case AOTC_FINISH_ADD_COLUMN:
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) {
          const __m256 x = load_floats(column + 32 * j, lanes(j));
#pragma GCC unroll 16
          for (int i = 0; i < MR; ++i) v[i][j] = _mm256_add_ps(v[i][j], x);
        }
        break;
      case AOTC_FINISH_MUL_COLUMN:
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) {
          const __m256 x = load_floats(column + 32 * j, lanes(j));
#pragma GCC unroll 16
          for (int i = 0; i < MR; ++i) v[i][j] = _mm256_mul_ps(v[i][j], x);
        }
        break;
      case AOTC_FINISH_ADD_F32:
        rows += t.column * 4;
        every([&](__m256 x, int i, int j)
                  __attribute__((always_inline)) { return _mm256_add_ps(x, load_floats(rows + i * pitch + j * 32, lanes(j))); });
        break;
      case AOTC_FINISH_ADD_BF16:
        rows += t.column * 2;
        every([&](__m256 x, int i, int j)
                  __attribute__((always_inline)) { return _mm256_add_ps(x, load_bf16(rows + i * pitch + j * 16, lanes(j))); });
        break;
      case AOTC_FINISH_AT_LEAST:
        every([limit = _mm256_set1_ps(s->limit)](__m256 x, int, int) __attribute__((always_inline)) { return _mm256_max_ps(limit, x); });
        break;
      case AOTC_FINISH_AT_MOST:
        every([limit = _mm256_set1_ps(s->limit)](__m256 x, int, int) __attribute__((always_inline)) { return _mm256_min_ps(limit, x); });
        break;
      case AOTC_FINISH_HARD_SWISH: {
        __m256 sums[MR * NV];
        every([&](__m256 x, int i, int j) __attribute__((always_inline)) { return sums[i * NV + j] = x; });
        hard_swish(sums, MR * NV);
        every([&](__m256, int i, int j) __attribute__((always_inline)) { return sums[i * NV + j]; });
        break;
      }
      case AOTC_FINISH_STORE_F32: rows += t.column * 4;
#pragma GCC unroll 16
        for (int i = 0; i < MR; ++i, rows += pitch)
#pragma GCC unroll 4
          for (int j = 0; j < NV; ++j) {
            float* to = reinterpret_cast<float*>(rows + j * 32);
            if (j + 1 < NV || last == 8)
              _mm256_storeu_ps(to, v[i][j]);
            else
              _mm256_maskstore_ps(to, first_lanes(last), v[i][j]);
          }
        break;
      default: rows += t.column * 2;
#pragma GCC unroll 16
        for (int i = 0; i < MR; ++i, rows += pitch)
#pragma GCC unroll 4
          for (int j = 0; j < NV; ++j) store_rounded(v[i][j], rows + j * 16, lanes(j));
        break;
    }
  }
}

/// Asks for the lines that finish_tile of MR rows and NV vectors will write, for itself alone, so that they are there when it does. CPUs
/// that do not have the instruction take it for one that does nothing.
template <int MR, int NV>
__attribute__((always_inline)) inline void finish_ahead(const TileFinish& t) {
  const Finish::Step& store = t.finish->store();
  const int64_t bytes = store.kind == AOTC_FINISH_STORE_F32 ? 4 : 2;
  const char* at = store.at + t.row * store.pitch + t.column * bytes;
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i, at += store.pitch) asm volatile("prefetchw %0" : : "m"(*at));
}

}  // namespace
