#pragma once
// Element types between LibTorch and aotc. Only for the files that include LibTorch.
#include <c10/core/ScalarType.h>

#include <optional>

#include "base/dtype.h"

namespace aotc::import {

struct TorchDType {
  DType ours;
  c10::ScalarType torch;
};
inline constexpr TorchDType kTorchDTypes[] = {
    {DType::boolean, c10::ScalarType::Bool},
    {DType::u8, c10::ScalarType::Byte},
    {DType::i8, c10::ScalarType::Char},
    {DType::i16, c10::ScalarType::Short},
    {DType::i32, c10::ScalarType::Int},
    {DType::i64, c10::ScalarType::Long},
    {DType::f16, c10::ScalarType::Half},
    {DType::bf16, c10::ScalarType::BFloat16},
    {DType::f32, c10::ScalarType::Float},
    {DType::f64, c10::ScalarType::Double},
    {DType::c64, c10::ScalarType::ComplexFloat},
    {DType::c128, c10::ScalarType::ComplexDouble},
    {DType::f8e4m3fn, c10::ScalarType::Float8_e4m3fn},
    {DType::f8e5m2, c10::ScalarType::Float8_e5m2},
};
inline std::optional<DType> from_torch(c10::ScalarType t) {
  for (const TorchDType& d : kTorchDTypes)
    if (d.torch == t) return d.ours;
  return std::nullopt;
}
inline c10::ScalarType to_torch(DType t) {
  for (const TorchDType& d : kTorchDTypes)
    if (d.ours == t) return d.torch;
  return c10::ScalarType::Undefined;
}

}  // namespace aotc::import
