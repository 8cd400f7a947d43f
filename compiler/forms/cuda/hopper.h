#pragma once
// What the forms that use Hopper's own instructions have in common: limits of a block, strides that tensor maps take.
#include "base/uarch.h"
#include "forms/cuda/common.h"

namespace aotc::forms::cuda {

/// The most bytes of shared memory of each of so many blocks of a processor; how many blocks of so many bytes one has.
inline int64_t shared_of(int64_t blocks) {
  const GpuCosts& u = uarch_of_sm(90).gpu;
  return u.shared_of_processor / blocks - u.shared_of_driver;
}
inline int64_t blocks_with(int64_t bytes) {
  const GpuCosts& u = uarch_of_sm(90).gpu;
  return u.shared_of_processor / (bytes + u.shared_of_driver);
}
inline constexpr int64_t kMapAlign = 16;

inline bool takes_stride(const Expr& elements, DType t, const SymTable& syms) {
  return syms.interval(elements).min >= 1 && syms.proves_divisible(elements * static_cast<int64_t>(dtype_bytes(t)), kMapAlign);
}
inline bool takes_offset(const Expr& elements, DType t, const SymTable& syms) {
  return syms.proves_divisible(elements * static_cast<int64_t>(dtype_bytes(t)), kMapAlign);
}
/// Whether lines of an operand of a product are read in pieces of 16 bytes along k.
inline Fit takes_along_k(const loop::MatmulKernel& k, const loop::Operand& o, const char* name, const SymTable& syms) {
  const bool is_a = &o == &k.a;
  const Expr &along = is_a ? o.col_stride : o.row_stride, &lines = is_a ? o.row_stride : o.col_stride;
  if (!along.is(1)) return refuse("operand {}: k must be the contiguous index", name);
  const bool one = is_a && k.m.is(1);
  if (k.runs && !is_a && !takes_offset(k.runs->stride, k.in, syms))
    return refuse("operand {}: matrices must be a multiple of 16 bytes apart", name);
  if ((!one && !takes_stride(lines, k.in, syms)) || !takes_offset(o.base, k.in, syms))
    return refuse("operand {}: rows must be a multiple of 16 bytes apart", name);
  for (const Expr& stride : o.batch_strides)
    if (!takes_offset(stride, k.in, syms)) return refuse("operand {}: matrices must be a multiple of 16 bytes apart", name);
  return Fit::yes();
}

}  // namespace aotc::forms::cuda
