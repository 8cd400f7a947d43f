#pragma once
// Weights of few bits as floats, without an instruction that converts.
//
// A value's bits go into the mantissa of a float of kAbove: the float is kAbove + value. (kAbove + value) * scale + (offset - kAbove *
// scale) is rounded once where the difference is exact: of bf16 scales, for bytes without offsets, and for numbers below 16 with bf16
// offsets that are zero or at least a 1024th of the scale (of smaller ones it is rounded at 2^-20 of the scale). Else kAbove is subtracted
// first.
#include "quant_units.h"

namespace {

template <int kBits>
struct NearFloats {
  using V = Floats::V;
  static constexpr float kAbove = kBits == 8 ? 32768 + 128 : 16;
  static constexpr int kFloat = kBits == 8 ? 0x47008000 : 0x41800000;  ///< what bits are flipped in: of bytes, the highest is a sign
  static constexpr int kMask = kBits == 8 ? 0xff00 : 0x780000;

#if defined(__AVX512F__)
  /// Four numbers of each column, all that a quad has (bytes) or those in the lower or higher bits of its bytes.
  static Ints four(Ints quad, int) { return quad; }
  /// Number i of them.
  static V get(Ints four, int i, int high) {
    const int left = kBits == 8 ? 8 - 8 * i : 19 - 8 * i - 4 * high;
    const Ints at = left > 0 ? shift_left32(four, left) : left < 0 ? shift_right32(four, -left) : four;
    constexpr int kFlipped = 0x6a;  // (a & b) ^ c
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(at, set_ints(kMask), set_ints(kFloat), kFlipped));
  }
#else
  static Ints four(Ints quad, int high) {
    if (kBits == 8) return quad;
    return high ? and_ints(shift_right32(quad, 1), set_bytes(0x78)) : shift_left32(and_ints(quad, set_bytes(15)), 3);
  }
  static V get(Ints four, int i, int) {
    constexpr int kAt = kBits == 8 ? 8 : 16;  // bits below the byte's
    constexpr int kNone = static_cast<int>(0x80808080u ^ 0x80u << kAt);
    const auto from = [&](int column) { return kNone | (4 * column + i) << kAt; };
    // A shuffle: shifts take the ports of multiply-adds.
    const Ints at = _mm256_shuffle_epi8(four, _mm256_setr_epi32(from(0), from(1), from(2), from(3), from(0), from(1), from(2), from(3)));
    return _mm256_castsi256_ps(flip_ints(at, set_ints(kFloat)));
  }
#endif
};

}  // namespace
