#include "compare.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace aotc::cli {
namespace {

template <class T>
T at(const HostTensor& t, int64_t i) {
  T v;
  std::memcpy(&v, t.bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return v;
}

double half_to_double(uint16_t h) {
  const int exponent = (h >> 10) & 31, mantissa = h & 1023;
  const double sign = h & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}

double bf16_to_double(uint16_t h) {
  const uint32_t bits = static_cast<uint32_t>(h) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

double e4m3fn_to_double(uint8_t b) {  // of half as it lies, 1 / 256 of it
  if ((b & 0x7f) == 0x7f) return std::nan("");
  return half_to_double(static_cast<uint16_t>((b & 0x80) << 8 | (b & 0x7f) << 7)) * 256;
}

int64_t scalars(const HostTensor& t) { return t.elems() * (is_complex(t.dtype) ? 2 : 1); }

}  // namespace

double element(const HostTensor& t, int64_t i) {
  switch (t.dtype) {
    case DType::boolean: return at<uint8_t>(t, i) != 0;
    case DType::u8: return at<uint8_t>(t, i);
    case DType::i8: return at<int8_t>(t, i);
    case DType::i16: return at<int16_t>(t, i);
    case DType::i32: return at<int32_t>(t, i);
    case DType::i64: return static_cast<double>(at<int64_t>(t, i));
    case DType::f8e4m3fn: return e4m3fn_to_double(at<uint8_t>(t, i));
    case DType::f8e5m2: return half_to_double(static_cast<uint16_t>(at<uint8_t>(t, i) << 8));
    case DType::f16: return half_to_double(at<uint16_t>(t, i));
    case DType::bf16: return bf16_to_double(at<uint16_t>(t, i));
    case DType::f32:
    case DType::c64: return at<float>(t, i);
    case DType::f64:
    case DType::c128: return at<double>(t, i);
  }
  return 0;
}

Difference compare(const HostTensor& a, const HostTensor& truth) {
  Difference d;
  d.same_shape = a.dims == truth.dims && is_complex(a.dtype) == is_complex(truth.dtype);
  if (!d.same_shape) return d;
  const int64_t n = scalars(a);
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double t = std::fabs(element(truth, i));
    if (std::isfinite(t) && t > largest) largest = t;
  }
  double sum = 0, norm = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = element(a, i), t = element(truth, i);
    if ((std::isnan(x) && std::isnan(t)) || x == t) {
      if (std::isfinite(t)) norm += t * t;
      continue;
    }
    const double e = std::fabs(x - t);
    if (!std::isfinite(e)) {
      d.l2 = d.max_abs = d.max_rel = std::numeric_limits<double>::infinity();
      return d;
    }
    sum += e * e;
    norm += t * t;
    d.max_abs = std::max(d.max_abs, e);
    if (std::fabs(t) > 1e-3 * largest) d.max_rel = std::max(d.max_rel, e / std::fabs(t));
  }
  d.l2 = sum == 0 ? 0 : std::sqrt(sum) / (norm > 0 ? std::sqrt(norm) : 1.0);
  return d;
}

double epsilon(DType t) {
  switch (t) {
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    case DType::f8e4m3fn: return 0x1p-3;
    case DType::f8e5m2: return 0x1p-2;
    case DType::f32:
    case DType::c64: return 0x1p-21;
    case DType::f64:
    case DType::c128: return 0x1p-50;
    default: return 0;
  }
}

}  // namespace aotc::cli
