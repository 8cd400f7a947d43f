#pragma once
// Which entries the precompiled library has: the linkable name of a library kernel for an instruction set of an artifact.
#include <string>
#include <string_view>

#include "base/target.h"

namespace aotc::kernels {

/// base: "aotc_gemm_f32", "aotc_sort_i64" ...; the name with the best instruction set not above `isa` that the kernel exists for:
/// library_symbol("aotc_gemm_f32", Isa::amx) is "aotc_gemm_f32_avx512".
inline std::string library_symbol(std::string_view base, Isa isa) {
  auto starts = [&](std::string_view s) { return base.substr(0, s.size()) == s; };
  auto ends = [&](std::string_view s) { return base.size() >= s.size() && base.substr(base.size() - s.size()) == s; };
  const bool contraction = starts("aotc_gemm_") || starts("aotc_conv_") || starts("aotc_attention_") || starts("aotc_recurrence_");
  const bool dot = ends("_bf16") && !starts("aotc_attention_") && !starts("aotc_recurrence_");
  const char* name = isa == Isa::avx2 || !contraction ? "avx2" : isa == Isa::avx512 || !dot ? "avx512" : "avx512_bf16";
  return std::string(base) + "_" + name;
}

}  // namespace aotc::kernels
