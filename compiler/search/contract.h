#pragma once
// A contraction as the search sees it: concrete sizes, everything else that the speed of a kernel depends on.
#include <array>
#include <optional>
#include <string>

#include "base/target.h"
#include "loop/loop.h"
#include "sym/expr.h"

namespace aotc::search {

struct GemmContract {
  DType dtype = DType::f32;
  int64_t batch = 1, m = 1, n = 1, k = 1;  ///< n: of the widest segment
  int64_t segments = 1;
  bool b_constant = false;
  bool a_rows_contiguous = true, b_rows_contiguous = true;
};
struct ConvContract {
  DType dtype = DType::f32;
  int64_t n = 1, c = 1, co = 1, groups = 1;
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1};
  bool transposed = false, w_constant = true;
  int64_t depth() const { return c / groups * kernel[0] * kernel[1] * kernel[2]; }
  int64_t pixels() const { return n * out[0] * out[1] * out[2]; }
};
struct AttnContract {
  DType dtype = DType::f32;
  int64_t batch = 1, heads = 1, kv_heads = 1, q_len = 1, kv_len = 1, e = 1, ev = 1;
  bool masked = false, causal = false;
};

/// At the sizes worth tuning for: each symbol at its `tune` size or hint (SymTable::hint).
GemmContract contract_of(const loop::MatmulKernel& k, const SymTable& syms);
ConvContract contract_of(const loop::ConvKernel& k, const SymTable& syms);
AttnContract contract_of(const loop::AttentionKernel& k, const SymTable& syms);

/// "gemm f32 b1 m32 n4096 k4096 packed": stable text, the key of the tuning database.
std::string key_of(const GemmContract& c);
std::string key_of(const ConvContract& c);
std::string key_of(const AttnContract& c);

}  // namespace aotc::search
