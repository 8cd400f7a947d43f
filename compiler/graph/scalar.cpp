#include "graph/scalar.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/diagnostic.h"

namespace aotc {
namespace {

template <class T, class Wide>
void widen(const std::byte* src, Wide* dst, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T v;
    std::memcpy(&v, src + i * sizeof(T), sizeof(T));
    dst[i] = static_cast<Wide>(v);
  }
}
template <class T, class Wide>
void narrow(const Wide* src, std::byte* dst, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const T v = static_cast<T>(src[i]);
    std::memcpy(dst + i * sizeof(T), &v, sizeof(T));
  }
}

}  // namespace

float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exp = (h >> 10) & 0x1fu, man = h & 0x3ffu;
  if (exp == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (man << 13));
  if (exp == 0) {
    const float f = static_cast<float>(man) * 0x1p-24f;
    return sign ? -f : f;
  }
  return std::bit_cast<float>(sign | ((exp + 112) << 23) | (man << 13));
}

uint16_t float_to_half(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const float a = std::fabs(f);
  if (std::isnan(f)) return sign | 0x7e00u;
  if (a >= 65520.0f) return sign | 0x7c00u;
  if (a < 0x1p-14f) return sign | static_cast<uint16_t>(std::nearbyintf(a * 0x1p24f));
  const uint32_t m = (u & 0x7fffffffu) - (112u << 23);
  return sign | static_cast<uint16_t>((m + 0xfffu + ((m >> 13) & 1u)) >> 13);
}

uint16_t float_to_bfloat(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;  // without a branch: loops over it are vectors
  return static_cast<uint16_t>(nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/// A float of 8 bits with this many of mantissa and the least exponent of a normal number, its magnitude below what it cannot hold.
static uint8_t to_eight_bits(float magnitude, int mantissa, int least) {
  if (magnitude < std::ldexp(1.0f, least)) return static_cast<uint8_t>(std::nearbyintf(std::ldexp(magnitude, mantissa - least)));
  const uint32_t u = std::bit_cast<uint32_t>(magnitude), drop = static_cast<uint32_t>(23 - mantissa);
  const uint32_t rounded = (u + (1u << (drop - 1)) - 1 + ((u >> drop) & 1u)) >> drop;
  return static_cast<uint8_t>(rounded - (static_cast<uint32_t>(126 + least) << mantissa));
}
static uint8_t sign_bit(float f) { return static_cast<uint8_t>(std::bit_cast<uint32_t>(f) >> 24 & 0x80u); }

float e4m3fn_to_float(uint8_t b) {
  if ((b & 0x7f) == 0x7f) return std::bit_cast<float>((static_cast<uint32_t>(b & 0x80) << 24) | 0x7ff00000u);
  return half_to_float(static_cast<uint16_t>((b & 0x80) << 8 | (b & 0x7f) << 7)) * 256.0f;
}
uint8_t float_to_e4m3fn(float f) {
  constexpr float kLargest = 448;
  return sign_bit(f) | (std::isnan(f) ? 0x7f : to_eight_bits(std::min(std::fabs(f), kLargest), 3, -6));
}
float e5m2_to_float(uint8_t b) { return half_to_float(static_cast<uint16_t>(b << 8)); }
uint8_t float_to_e5m2(float f) {
  constexpr float kTooLarge = 61440;
  const float a = std::fabs(f);
  return sign_bit(f) | (std::isnan(f) ? 0x7f : a >= kTooLarge ? 0x7c : to_eight_bits(a, 2, -14));
}

template <class F>
static void store_bytes(const double* src, std::byte* dst, int64_t count, F&& eight) {
  for (int64_t i = 0; i < count; ++i) dst[i] = std::byte{eight(static_cast<float>(src[i]))};
}
template <class F>
static void store_halves(const double* src, std::byte* dst, int64_t count, F&& half) {
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t h = half(static_cast<float>(src[i]));
    std::memcpy(dst + 2 * i, &h, 2);
  }
}

void load_f64(DType t, const std::byte* src, double* dst, int64_t count) {
  switch (t) {
    case DType::f64: std::memcpy(dst, src, count * sizeof(double)); return;
    case DType::f32: widen<float>(src, dst, count); return;
    case DType::bf16:
    case DType::f16:
      for (int64_t i = 0; i < count; ++i) {
        uint16_t h;
        std::memcpy(&h, src + 2 * i, 2);
        dst[i] = t == DType::bf16 ? bfloat_to_float(h) : half_to_float(h);
      }
      return;
    case DType::f8e4m3fn:
      for (int64_t i = 0; i < count; ++i) dst[i] = e4m3fn_to_float(static_cast<uint8_t>(src[i]));
      return;
    case DType::f8e5m2:
      for (int64_t i = 0; i < count; ++i) dst[i] = e5m2_to_float(static_cast<uint8_t>(src[i]));
      return;
    default: AOTC_CHECK(false, "{} is not a real floating type", dtype_name(t));
  }
}

void store_f64(DType t, const double* src, std::byte* dst, int64_t count) {
  switch (t) {
    case DType::f64: std::memcpy(dst, src, count * sizeof(double)); return;
    case DType::f32: narrow<float>(src, dst, count); return;
    case DType::bf16: return store_halves(src, dst, count, [](float f) { return float_to_bfloat(f); });
    case DType::f16: return store_halves(src, dst, count, [](float f) { return float_to_half(f); });
    case DType::f8e4m3fn: return store_bytes(src, dst, count, float_to_e4m3fn);
    case DType::f8e5m2: return store_bytes(src, dst, count, float_to_e5m2);
    default: AOTC_CHECK(false, "{} is not a real floating type", dtype_name(t));
  }
}

void load_i64(DType t, const std::byte* src, int64_t* dst, int64_t count) {
  switch (t) {
    case DType::boolean:
      for (int64_t i = 0; i < count; ++i) dst[i] = src[i] != std::byte{0};
      return;
    case DType::u8: widen<uint8_t>(src, dst, count); return;
    case DType::i8: widen<int8_t>(src, dst, count); return;
    case DType::i16: widen<int16_t>(src, dst, count); return;
    case DType::i32: widen<int32_t>(src, dst, count); return;
    case DType::i64: std::memcpy(dst, src, count * sizeof(int64_t)); return;
    default: AOTC_CHECK(false, "{} is not an integer type", dtype_name(t));
  }
}

void store_i64(DType t, const int64_t* src, std::byte* dst, int64_t count) {
  switch (t) {
    case DType::boolean:
      for (int64_t i = 0; i < count; ++i) dst[i] = std::byte{src[i] != 0};
      return;
    case DType::u8: narrow<uint8_t>(src, dst, count); return;
    case DType::i8: narrow<int8_t>(src, dst, count); return;
    case DType::i16: narrow<int16_t>(src, dst, count); return;
    case DType::i32: narrow<int32_t>(src, dst, count); return;
    case DType::i64: std::memcpy(dst, src, count * sizeof(int64_t)); return;
    default: AOTC_CHECK(false, "{} is not an integer type", dtype_name(t));
  }
}

double round_to(DType t, double v) {
  std::byte raw[8];
  store_f64(t, &v, raw, 1);
  load_f64(t, raw, &v, 1);
  return v;
}

int64_t wrap_to(DType t, int64_t v) {
  std::byte raw[8];
  store_i64(t, &v, raw, 1);
  load_i64(t, raw, &v, 1);
  return v;
}

int64_t float_to_int(DType t, double v) {
  if (t == DType::boolean) return v != 0;
  int64_t i = INT64_MIN;
  if (v >= -0x1p63 && v < 0x1p63) i = static_cast<int64_t>(v);
  if (t == DType::i32 && (i < INT32_MIN || i > INT32_MAX)) return INT32_MIN;
  return wrap_to(t, i);
}

}  // namespace aotc
