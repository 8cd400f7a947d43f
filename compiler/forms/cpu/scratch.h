#pragma once
// Scratch of the library's kernels as expressions of their sizes, so that a run asks for what its shapes need. The formulas themselves are
// those of library_abi.h. Bytes per thread.
#include "aotc/detail/library_abi.h"
#include "base/dtype.h"
#include "sym/expr.h"

namespace aotc::forms::cpu {

/// k: the contracted dim. has_a, has_b: operands that a prologue computes.
Expr gemm_scratch(const aotc_gemm_config& c, const Expr& k, int64_t acc_bytes, bool has_a, bool has_b);
/// What gemm needs beyond that of a B of these elements.
inline int64_t widened_bytes(bool packed, DType b) { return packed && dtype_bytes(b) == 2 ? AOTC_GEMM_WIDENED_BYTES : 0; }
/// depth: elements of one output's sum.
Expr conv_scratch(const aotc_conv_config& c, const Expr& depth, int64_t acc_bytes);
/// e, ev: sizes of the heads of q and k, and of v.
Expr attention_scratch(const aotc_attn_config& c, const Expr& e, const Expr& ev, int64_t acc_bytes);
Expr attention_tiles_scratch(const aotc_attn_config& c, const Expr& e, const Expr& ev);
Expr recurrence_scratch(int cell, const Expr& hidden, const Expr& width, int64_t acc_bytes);

}  // namespace aotc::forms::cpu
