// Keys and values that attention reads as bytes (aotc build --kv-cache): int8, which a float32 of their row multiplies, or e4m3fn as they are.
#pragma once
#include "slabs.cuh"

// AttnBytes<T, K>: four bytes of K as pairs of T, which holds them exactly, each times `unit`: of bytes 0 and 2, and of bytes 1 and 3.
template <class T, class K> struct AttnBytes;
template <class T> struct AttnBytes<T, i8> {
  static constexpr float unit = Int8::unit<T>;
  static AOTC_DI u32 pair(u32 offset) {  // of i + 128, as Int8 has it
    if constexpr (same<T, bf16>::value) return pair_fma<T>(offset, 0x7f007f00u, 0xc000c000u);
    else return pair_fma<T>(offset | 0x64006400u, 0x3c003c00u, 0xe480e480u);
  }
  static AOTC_DI void pairs(u32 w, u32 (&to)[2]) {
    to[0] = pair((w ^ 0x80808080u) & 0x00ff00ffu), to[1] = pair((w >> 8 ^ 0x00808080u) & 0x00ff00ffu);
  }
};
template <class T> struct AttnBytes<T, e4m3fn> {
  static constexpr float unit = 1.0f;
  static AOTC_DI void pairs(u32 w, u32 (&to)[2]) {
    const u32 low = f16_pair_of_e4m3(w & 0xffffu), high = f16_pair_of_e4m3(w >> 16);
    if constexpr (same<T, f16>::value) to[0] = __byte_perm(low, high, 0x5410), to[1] = __byte_perm(low, high, 0x7632);
    else to[0] = pair_of<T>(pair_low<f16>(low), pair_low<f16>(high)), to[1] = pair_of<T>(pair_high<f16>(low), pair_high<f16>(high));
  }
};

struct AttnView { i64 base, b, h, s, e; };  // strides of batch, head, position, channel; of a mask: batch, head, query, key

// What rows of keys and of values are multiplied by, where they are of K.
template <class K> struct AttnScales {
  static constexpr bool scaled = false;
};
template <> struct AttnScales<i8> {
  static constexpr bool scaled = true;
  const float *pks, *pvs;
  AttnView ks, vs;
  AOTC_DI const float* of_keys(i64 b, i64 head) const { return pks + ks.base + b * ks.b + head * ks.h; }
  AOTC_DI const float* of_values(i64 b, i64 head) const { return pvs + vs.base + b * vs.b + head * vs.h; }
};
