#pragma once
// How a contraction is computed: decisions as data. search/ makes them, the plan derives work, grain and scratch from them, emit/ writes
// them into the config structs of runtime/include/aotc/detail/library_abi.h.
#include <cstdint>
#include <functional>
#include <variant>

#include "loop/loop.h"
#include "sym/expr.h"

namespace aotc::plan {

/// See aotc_gemm_config. The same for every instruction set of an artifact, except that a kernel limits mr and nv to what it has.
struct GemmChoice {
  int mr = 14, nv = 2;
  int mc = 84, nc = 128, kc = 256, kp = 1024;
  bool pack_a = true;
  bool pack_b = true;  ///< a constant B is stored in panel form (where that is possible)
  friend bool operator==(const GemmChoice&, const GemmChoice&) = default;
};
/// See aotc_conv_config.
struct ConvChoice {
  int algo = 0;  ///< AOTC_CONV_*
  int mc = 64, nc = 192, kc = 256, kp = 1024;
  bool pack_w = true;  ///< a constant weight is stored in panel form (AOTC_CONV_GEMM only)
  friend bool operator==(const ConvChoice&, const ConvChoice&) = default;
};
/// See aotc_attn_config.
struct AttnChoice {
  int q_block = 32, kv_block = 128;
  friend bool operator==(const AttnChoice&, const AttnChoice&) = default;
};
/// monostate: kernels that have nothing to choose.
using Choice = std::variant<std::monostate, GemmChoice, ConvChoice, AttnChoice>;

/// `syms`: the symbols with the ranges of the variant. Deterministic: called once per kernel and variant.
using ChooseFn = std::function<Choice(const loop::Kernel& kernel, const SymTable& syms)>;

/// Sound for every shape, tuned for none: what is used where search/ has no opinion.
Choice default_choice(const loop::Kernel& kernel, const SymTable& syms);

}  // namespace aotc::plan
