#pragma once
// Elements of host tensors: widening to f64 / int64, and rounding back to an element type.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"

namespace aotc {

float half_to_float(uint16_t h);
uint16_t float_to_half(float f);  ///< round to nearest even
inline float bfloat_to_float(uint16_t h) {
  const uint32_t u = static_cast<uint32_t>(h) << 16;
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
uint16_t float_to_bfloat(float f);  ///< round to nearest even

/// 8-bit floats, as PyTorch converts them: to nearest even; e4m3fn has no infinity and takes its largest number, 448, for what is larger;
/// e5m2 takes infinity.
float e4m3fn_to_float(uint8_t b);
uint8_t float_to_e4m3fn(float f);
float e5m2_to_float(uint8_t b);
uint8_t float_to_e5m2(float f);

/// What a float mask adds to a score hides it from here down: its exponent is 0 beside any score that is not hidden.
inline constexpr double kHiddenScore = -1e30;

/// Bulk moves between elements of type t and f64 (real floating types) or int64 (integers and bool). Stores round to nearest even
/// (smaller types by way of f32) and wrap integers; a bool is stored as value != 0.
void load_f64(DType t, const std::byte* src, double* dst, int64_t count);
void store_f64(DType t, const double* src, std::byte* dst, int64_t count);
void load_i64(DType t, const std::byte* src, int64_t* dst, int64_t count);
void store_i64(DType t, const int64_t* src, std::byte* dst, int64_t count);

double round_to(DType t, double v);       ///< v as an element of floating type t
int64_t wrap_to(DType t, int64_t v);      ///< v as an element of integer or bool type t
int64_t float_to_int(DType t, double v);  ///< conversion by truncation; NaN and what does not fit give what x86 gives PyTorch's casts

}  // namespace aotc
