#pragma once
// Epilogues as data (aotc/detail/finish_abi.h), carried out on sums in registers.
#include "aotc/detail/library_abi.h"
#include "simd.h"

namespace {

/// A finish whose operands have been found: `at` is that of row 0 and column 0, `pitch` bytes lie between rows.
struct Finish {
  struct Step {
    int32_t kind;
    float limit;
    char* at;
    int64_t pitch;
  };
  int n = 0;
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

/// Does what `t` says to the sums of MR rows of NV vectors. A step may need three registers beside them, no more.
template <int MR, int NV>
__attribute__((always_inline)) inline void finish_tile(__m512 (&v)[MR][NV], const TileFinish& t) {
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
#else
template <class Acc>
inline constexpr bool kFinishes = false;
#endif

}  // namespace
