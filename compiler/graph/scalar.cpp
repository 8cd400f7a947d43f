#include "graph/scalar.h"

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
    default: AOTC_CHECK(false, "{} is not a real floating type", dtype_name(t));
  }
}

void store_f64(DType t, const double* src, std::byte* dst, int64_t count) {
  switch (t) {
    case DType::f64: std::memcpy(dst, src, count * sizeof(double)); return;
    case DType::f32: narrow<float>(src, dst, count); return;
    case DType::bf16: return store_halves(src, dst, count, [](float f) { return float_to_bfloat(f); });
    case DType::f16: return store_halves(src, dst, count, [](float f) { return float_to_half(f); });
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
