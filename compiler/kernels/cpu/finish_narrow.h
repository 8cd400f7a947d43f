#pragma once
// Finish::Line of sums in memory that are 16 columns wide: two rows at a time.
#include "finish.h"

namespace {

/// Sixteen bf16 of each.
inline __m512i halves_of(__m512 lo, __m512 hi) {
#if defined(__AVX512BF16__)
  // The instruction takes denormals for zeros.
  if (__builtin_expect(_kortestz_mask16_u8(_mm512_fpclass_ps_mask(lo, 0x20), _mm512_fpclass_ps_mask(hi, 0x20)), 1))
    return (__m512i)_mm512_cvtne2ps_pbh(hi, lo);
#endif
  return _mm512_inserti64x4(_mm512_castsi256_si512(rounded(lo)), rounded(hi), 1);
}

/// Rows of 16 sums to bf16, with a column and limits.
template <int32_t kFlags>
__attribute__((noinline)) void finish_narrow_rows(const float* sums, int64_t ld, int64_t rows, const LineOfTile& t) {
  using Line = Finish::Line;
  const __m512 column = _mm512_loadu_ps(t.column), at_least = t.at_least, at_most = t.at_most;
  char* out = t.out;
  for (int64_t left = rows; left > 0; left -= 2, sums += 2 * ld, out += 2 * t.out_pitch) {
    const int64_t second = left > 1;  // or the last row twice
    __m512 v0 = _mm512_add_ps(_mm512_loadu_ps(sums), column), v1 = _mm512_add_ps(_mm512_loadu_ps(sums + second * ld), column);
    if constexpr ((kFlags & Line::kAtLeast) != 0) v0 = _mm512_max_ps(at_least, v0), v1 = _mm512_max_ps(at_least, v1);
    if constexpr ((kFlags & Line::kAtMost) != 0) v0 = _mm512_min_ps(at_most, v0), v1 = _mm512_min_ps(at_most, v1);
    const __m512i both = halves_of(v0, v1);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_castsi512_si256(both));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + second * t.out_pitch), _mm512_extracti64x4_epi64(both, 1));
  }
}

/// finish_sums of 16 columns, if `f` is such a line; false: nothing was done.
inline bool finish_narrow(const Finish& f, const float* sums, int64_t ld, int64_t row, int64_t rows, int64_t column) {
  using Line = Finish::Line;
  constexpr int32_t kLimits = Line::kAtLeast | Line::kAtMost;
  const int32_t flags = f.line.at_most == __builtin_inff() ? f.line.flags & ~Line::kAtMost : f.line.flags;
  if (!(flags & Line::kIs) || (flags & ~(Line::kIs | kLimits))) return false;
  constexpr decltype(&finish_narrow_rows<0>) kRows[] = {finish_narrow_rows<0>, finish_narrow_rows<Line::kAtLeast>,
                                                        finish_narrow_rows<Line::kAtMost>, finish_narrow_rows<kLimits>};
  static_assert(Line::kAtMost == 2 * Line::kAtLeast);
  kRows[(flags & kLimits) / Line::kAtLeast](sums, ld, rows, line_at(f, row, column));
  return true;
}

}  // namespace
