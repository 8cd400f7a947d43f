#pragma once
// Blocks of memory whose rows become columns on their way through registers.
#include "vec_memory.h"

namespace {

// Column c of the first and of the second of two rows once blocks of d columns of the one and the other have changed places.
constexpr int turned_low(int c, int d) { return c & d ? AOTC_L + c - d : c; }
constexpr int turned_high(int c, int d) { return c & d ? AOTC_L + c : c + d; }
#define AOTC_TURNED(BITS)                                                   \
  typedef uint##BITS##_t u##BITS##l AOTC_VEC(AOTC_L* BITS / 8);             \
  template <int D>                                                          \
  AOTC_I void turn_pairs(u##BITS##l* x) {                                   \
    _Pragma("GCC unroll 16") for (int i = 0; i < AOTC_L; ++i) {             \
      if (i & D) continue;                                                  \
      const u##BITS##l a = x[i], b = x[i + D];                              \
      x[i] = __builtin_shufflevector(a, b, AOTC_LANES(turned_low, D));      \
      x[i + D] = __builtin_shufflevector(a, b, AOTC_LANES(turned_high, D)); \
    }                                                                       \
  }
AOTC_TURNED(32)
AOTC_TURNED(16)
AOTC_TURNED(8)
#undef AOTC_TURNED
template <class V>
AOTC_I void turn_square(V* x) {
#if AOTC_L == 16
  turn_pairs<8>(x);
#endif
  turn_pairs<4>(x), turn_pairs<2>(x), turn_pairs<1>(x);
}
/// The first n elements, the others zero.
template <class V, class T>
AOTC_I V ld_first(const T* p, int64_t n) {
  V x = {};
#if AOTC_L == 16 && !defined(__clang__)
  const auto m = static_cast<uint16_t>((1u << n) - 1);
  if constexpr (sizeof(T) == 4)
    x = (V)__builtin_ia32_loaddqusi512_mask((const int*)p, (i32v)x, m);
  else if constexpr (sizeof(T) == 2)
    x = (V)__builtin_ia32_loaddquhi256_mask((const short*)p, (i16q)x, m);
  else
    x = (V)__builtin_ia32_loaddquqi128_mask((const char*)p, (c16)x, m);
#else
  __builtin_memcpy(&x, p, sizeof(T) * static_cast<uint64_t>(n));
#endif
  return x;
}
#if AOTC_L == 16 && !defined(__clang__)
/// out[q * AOTC_L + l] = x[l][q] of four rows: pairs of two rows, then pairs of those. Lanes beyond the fourth are zero.
template <class V, class T>
AOTC_I void turn_four(const V* x, T* out) {
  const V low = {0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29}, high = low + 2;
  const i64h even = {0, 8, 2, 10, 4, 12, 6, 14}, odd = even + 1;
  const i64h a = (i64h)__builtin_shuffle(x[0], x[1], low), b = (i64h)__builtin_shuffle(x[0], x[1], high),
             c = (i64h)__builtin_shuffle(x[2], x[3], low), d = (i64h)__builtin_shuffle(x[2], x[3], high);
  const i64h point[4] = {__builtin_shuffle(a, c, even), __builtin_shuffle(a, c, odd), __builtin_shuffle(b, d, even),
                         __builtin_shuffle(b, d, odd)};
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const i64h p = point[i], none = {},
               rows[4] = {
                   __builtin_shuffle(p, none, i64h{0, 1, 8, 8, 8, 8, 8, 8}), __builtin_shuffle(p, none, i64h{2, 3, 8, 8, 8, 8, 8, 8}),
                   __builtin_shuffle(p, none, i64h{4, 5, 8, 8, 8, 8, 8, 8}), __builtin_shuffle(p, none, i64h{6, 7, 8, 8, 8, 8, 8, 8})};
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) __builtin_memcpy(out + (4 * j + i) * AOTC_L, &rows[j], sizeof(i64h));
  }
}
#endif
template <class V, class T>
AOTC_I void turn_by(const T* p, int64_t stride, int64_t points, int lanes, T* out) {
  for (int64_t q = 0; q < points; q += AOTC_L) {
    V x[AOTC_L];
    const int64_t n = points - q < AOTC_L ? points - q : AOTC_L;
#if AOTC_L == 16 && !defined(__clang__)
    if constexpr (sizeof(T) == 4)
      if (lanes <= 4) {
#pragma GCC unroll 4
        for (int l = 0; l < 4; ++l) x[l] = l < lanes ? ld_first<V>(p + l * stride + q, n) : V{};
        turn_four(x, out + q * AOTC_L);
        continue;
      }
#endif
    if (lanes == AOTC_L && n == AOTC_L) {
#pragma GCC unroll 16
      for (int l = 0; l < AOTC_L; ++l) __builtin_memcpy(&x[l], p + l * stride + q, sizeof(V));
    } else {
#pragma GCC unroll 16
      for (int l = 0; l < AOTC_L; ++l) x[l] = l < lanes ? ld_first<V>(p + l * stride + q, n) : V{};
    }
    turn_square(x);
    __builtin_memcpy(out + q * AOTC_L, x, sizeof x);
  }
}
AOTC_I int live(full) { return AOTC_L; }
AOTC_I int live(part w) { return w.n; }
/// out[q * AOTC_L + l] = p[l * stride + q] of live lanes l and q < points, which whole vectors of them are made of.
template <class T, class W>
AOTC_I void turn(const T* p, int64_t stride, int64_t points, W w, T* out) {
  if constexpr (sizeof(T) == 8)
    for (int64_t q = 0; q < points; ++q)
      for (int l = 0; l < live(w); ++l) out[q * AOTC_L + l] = p[l * stride + q];
  else if constexpr (sizeof(T) == 4)
    turn_by<u32l>(p, stride, points, live(w), out);
  else if constexpr (sizeof(T) == 2)
    turn_by<u16l>(p, stride, points, live(w), out);
  else
    turn_by<u8l>(p, stride, points, live(w), out);
}
/// p[l * stride + q] = x[q * AOTC_L + l] of live lanes l and q < points. x has room for whole vectors of points.
template <class T, class W>
AOTC_I void turn_out(const T* x, int64_t points, W w, T* p, int64_t stride) {
  for (int64_t q = 0; q < points; q += AOTC_L) {
    T rows[AOTC_L * AOTC_L];
    if (q + AOTC_L <= points) {
      turn(x + q * AOTC_L, AOTC_L, AOTC_L, full(), rows);
      for (int l = 0; l < live(w); ++l) __builtin_memcpy(p + l * stride + q, rows + l * AOTC_L, sizeof(T) * AOTC_L);
    } else {
      for (int l = 0; l < live(w); ++l)
        for (int64_t i = q; i < points; ++i) p[l * stride + i] = x[i * AOTC_L + l];
    }
  }
}

}  // namespace
