#pragma once
// Element types as the compiler sees them; the values are those of the C ABI (runtime/include/aotc/dtype.h).
#include <cstdint>
#include <optional>
#include <string_view>

#include "aotc/dtype.h"

namespace aotc {

enum class DType : uint32_t {
  boolean = AOTC_DTYPE_BOOL,
  u8 = AOTC_DTYPE_U8,
  i8 = AOTC_DTYPE_I8,
  i16 = AOTC_DTYPE_I16,
  i32 = AOTC_DTYPE_I32,
  i64 = AOTC_DTYPE_I64,
  f16 = AOTC_DTYPE_F16,
  bf16 = AOTC_DTYPE_BF16,
  f32 = AOTC_DTYPE_F32,
  f64 = AOTC_DTYPE_F64,
  c64 = AOTC_DTYPE_C64,
  c128 = AOTC_DTYPE_C128,
  f8e4m3fn = AOTC_DTYPE_F8E4M3FN,
  f8e5m2 = AOTC_DTYPE_F8E5M2,
};

constexpr int64_t dtype_bytes(DType t) {
  switch (t) {
#define AOTC_X(name, value, text, bytes) \
  case static_cast<DType>(value): return bytes;
    AOTC_DTYPE_LIST(AOTC_X)
#undef AOTC_X
  }
  return 0;
}

/// "float32", "int64", "bool" ...: the names of PyTorch, also used in IR text and JSON.
constexpr std::string_view dtype_name(DType t) {
  switch (t) {
#define AOTC_X(name, value, text, bytes) \
  case static_cast<DType>(value): return text;
    AOTC_DTYPE_LIST(AOTC_X)
#undef AOTC_X
  }
  return "?";
}

constexpr std::optional<DType> parse_dtype(std::string_view s) {
#define AOTC_X(name, value, text, bytes) \
  if (s == text) return static_cast<DType>(value);
  AOTC_DTYPE_LIST(AOTC_X)
#undef AOTC_X
  return std::nullopt;
}

constexpr bool is_bool(DType t) { return t == DType::boolean; }
constexpr bool is_int(DType t) { return t >= DType::u8 && t <= DType::i64; }  ///< integers without bool
constexpr bool is_float8(DType t) {
  return t == DType::f8e4m3fn || t == DType::f8e5m2;
}  ///< types of storage: what they hold is moved, cast, multiplied
constexpr bool is_float(DType t) { return (t >= DType::f16 && t <= DType::f64) || is_float8(t); }  ///< real floating types
constexpr bool is_complex(DType t) { return t == DType::c64 || t == DType::c128; }
constexpr bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }  ///< 16-bit floats
/// The type in which arithmetic on t is done (smaller floats compute in f32, as PyTorch's CPU kernels do).
constexpr DType compute_type(DType t) { return is_half(t) || is_float8(t) ? DType::f32 : t; }

}  // namespace aotc
