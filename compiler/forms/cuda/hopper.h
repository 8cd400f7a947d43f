#pragma once
// What the forms that use Hopper's own instructions have in common: limits of a block, strides that tensor maps take.
#include "forms/cuda/common.h"

namespace aotc::forms::cuda {

inline constexpr int64_t kSharedBytes = 227 << 10;  ///< the most of one block, and
inline constexpr int64_t kSharedOfProcessor = 228 << 10,
                         kSharedOfDriver = 1 << 10;  ///< of all blocks of a processor, with what each takes beside
inline constexpr int64_t kMapAlign = 16;

inline bool takes_stride(const Expr& elements, DType t, const SymTable& syms) {
  return syms.interval(elements).min >= 1 && syms.proves_divisible(elements * static_cast<int64_t>(dtype_bytes(t)), kMapAlign);
}
inline bool takes_offset(const Expr& elements, DType t, const SymTable& syms) {
  return syms.proves_divisible(elements * static_cast<int64_t>(dtype_bytes(t)), kMapAlign);
}

}  // namespace aotc::forms::cuda
