// Weights of few bits as the left operand of tensor-core products (mma.sync m16n8k16, wgmma m64k16), stored in slabs (forms/weight_form.h):
//   columns of the weight in strips of 16, k in slabs of 64 bytes a column: 64 numbers of 8 bits or 128 of 4. Slab q of strip c is at
//   ((c * slabs of k) + q) * 1024: 64 bytes for each column, of these 16 for each lane t of a quad. n is filled up to 16, k to a slab, with zeros.
//   Slice s of a slab, lane t, number jj of 4: k = 16 s + 2 t + (jj & 1) + 8 (jj >> 1) of the slab. 8 bits: byte 4 s + jj of the 16. 4 bits: of
//   word s / 2 the bits from 4 p on (jj even) and 4 p + 16 on (jj odd), p = 2 (s % 2) + (jj >> 1).
// So a lane reads its part of two columns, g = lane / 4 and g + 8, and has the registers of all slices. A weight is number * scale + offset, rounded
// once to T where scales are of T.
#pragma once
#include "device.cuh"

constexpr int slab_column_bytes = 64, slab_bytes = 16 * slab_column_bytes;

// Two T in a word.
template <class T> AOTC_DI u32 pair_fma(u32 a, u32 b, u32 c);
template <> AOTC_DI u32 pair_fma<bf16>(u32 a, u32 b, u32 c) { return bf16_fma_pair(a, b, c); }
template <> AOTC_DI u32 pair_fma<f16>(u32 a, u32 b, u32 c) { return f16_fma_pair(a, b, c); }
template <class T> AOTC_DI u32 pair_of(float low, float high);
template <> AOTC_DI u32 pair_of<bf16>(float low, float high) { return bf16_pair(low, high); }
template <> AOTC_DI u32 pair_of<f16>(float low, float high) { return f16_pair(low, high); }
template <class T> AOTC_DI float pair_low(u32 v);
template <> AOTC_DI float pair_low<bf16>(u32 v) { return __uint_as_float(v << 16); }
template <> AOTC_DI float pair_low<f16>(u32 v) { return f16_value(static_cast<u16>(v)); }
template <class T> AOTC_DI float pair_high(u32 v);
template <> AOTC_DI float pair_high<bf16>(u32 v) { return __uint_as_float(v & 0xffff0000u); }
template <> AOTC_DI float pair_high<f16>(u32 v) { return f16_value(static_cast<u16>(v >> 16)); }

// Numbers 2 h and 2 h + 1 of slice s of a lane's 16 bytes, each times unit<T>, as T, which holds them exactly. bf16's own bits 0 to 255 are that many
// times 2^-133, numbers below the normal ones included, so that no instruction is needed to make them floats but the one that multiplies. Weights
// come times made<T>, a power of two that keeps scale / unit within bf16; whoever sums products divides the sum by it.
struct Int4 {
  static constexpr int deep = 128;
  template <class T> static constexpr float unit = same<T, bf16>::value ? 0x1p-133f : 1.0f;
  template <class T> static constexpr float made = same<T, bf16>::value ? 0x1p-40f : 1.0f;
  template <class T> static AOTC_DI u32 pair(const u32 (&w)[4], int s, int h) {
    const u32 v = w[s >> 1] >> (4 * (2 * (s & 1) + h)) & 0x000f000fu;
    if constexpr (same<T, bf16>::value) return v;
    else return pair_fma<T>(v | 0x64006400u, 0x3c003c00u, 0xe400e400u);  // (1024 + i) - 1024
  }
};
struct Int8 {
  static constexpr int deep = 64;
  template <class T> static constexpr float unit = same<T, bf16>::value ? 0x1p-6f : 1.0f;
  template <class T> static constexpr float made = 1.0f;
  template <class T> static AOTC_DI u32 pair(const u32 (&w)[4], int s, int h) {
    const u32 bytes = w[s] ^ 0x80808080u;  // i + 128
    if constexpr (same<T, bf16>::value) return pair_fma<T>(__byte_perm(bytes, 0, h ? 0x4342 : 0x4140), 0x7f007f00u, 0xc000c000u);  // - 2
    else return pair_fma<T>(__byte_perm(bytes, 0x64646464u, h ? 0x4342 : 0x4140), 0x3c003c00u, 0xe480e480u);  // (1024 + 128 + i) - 1152
  }
};
struct E4m3 {
  static constexpr int deep = 64;
  template <class T> static constexpr float unit = 1.0f;
  template <class T> static constexpr float made = 1.0f;
  template <class T> static AOTC_DI u32 pair(const u32 (&w)[4], int s, int h) {
    const u32 v = f16_pair_of_e4m3(h ? w[s] >> 16 : w[s] & 0xffffu);
    if constexpr (same<T, f16>::value) return v;
    else return pair_of<T>(pair_low<f16>(v), pair_high<f16>(v));
  }
};

// A column's scale and offset, ready for pairs of a format. They are taken out of words: of 16 bits, number `half` of two.
template <class T, class Format, class Scale> struct SlabScale {
  static constexpr float made = Format::template made<T>, of_unit = made / Format::template unit<T>;
  u32 scale = 0, offset = 0x80008000u;  // of none, the zero that keeps a product's sign
  static AOTC_DI u32 times(u32 pair, float by) { return by == 1.0f ? pair : pair_fma<T>(pair, pair_of<T>(by, by), 0x80008000u); }
  static AOTC_DI u32 both(u32 word, int half) { return __byte_perm(word, 0, half ? 0x3232 : 0x1010); }
  AOTC_DI void take(u32 word, int half) { scale = times(both(word, half), of_unit); }
  AOTC_DI void take_offset(u32 word, int half) { offset = times(both(word, half), made); }
  AOTC_DI u32 of(u32 pair) const { return pair_fma<T>(pair, scale, offset); }
};
template <class T, class Format> struct SlabScale<T, Format, float> {
  static constexpr float made = Format::template made<T>, of_unit = made / Format::template unit<T>;
  float scale = 0, offset = -0.0f;
  AOTC_DI void take(u32 word, int) { scale = __uint_as_float(word) * of_unit; }
  AOTC_DI void take_offset(u32 word, int) { offset = __uint_as_float(word) * made; }
  AOTC_DI u32 of(u32 pair) const { return pair_of<T>(pair_low<T>(pair) * scale + offset, pair_high<T>(pair) * scale + offset); }
};

// The registers of slice s out of the 16 bytes of columns g and g + 8, with their scales.
template <class T, class Format, class Scale>
AOTC_DI void slab_slice(u32 (&a)[4], const u32 (&w)[2][4], int s, const SlabScale<T, Format, Scale>& low,
                       const SlabScale<T, Format, Scale>& high) {
  a[0] = low.of(Format::template pair<T>(w[0], s, 0));
  a[1] = high.of(Format::template pair<T>(w[1], s, 0));
  a[2] = low.of(Format::template pair<T>(w[0], s, 1));
  a[3] = high.of(Format::template pair<T>(w[1], s, 1));
}
