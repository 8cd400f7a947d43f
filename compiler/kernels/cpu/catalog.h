#pragma once
// Which entries the precompiled library has: the linkable name of a library kernel for an instruction set of an artifact.
#include <string>
#include <string_view>

#include "base/target.h"

namespace aotc::kernels {

/// base: "aotc_gemm_f32", "aotc_sort_i64" ...; the best instruction set not above `isa` that the kernel exists for:
/// library_isa("aotc_gemm_f32", Isa::avx512_bf16) is avx512.
inline Isa library_isa(std::string_view base, Isa isa) {
  auto starts = [&](std::string_view s) { return base.substr(0, s.size()) == s; };
  auto ends = [&](std::string_view s) { return base.size() >= s.size() && base.substr(base.size() - s.size()) == s; };
  const bool contraction = starts("aotc_gemm_") || starts("aotc_conv_") || starts("aotc_attention_") || starts("aotc_recurrence_");
  const bool dot = ends("_bf16") && !starts("aotc_attention_") && !starts("aotc_recurrence_");
  return isa == Isa::avx2 || !contraction ? Isa::avx2 : isa == Isa::avx512 || !dot ? Isa::avx512 : Isa::avx512_bf16;
}
/// The name of that entry: "aotc_gemm_f32_avx512".
inline std::string library_symbol(std::string_view base, Isa isa) {
  return std::string(base) + "_" + std::string(isa_name(library_isa(base, isa)));
}

}  // namespace aotc::kernels
