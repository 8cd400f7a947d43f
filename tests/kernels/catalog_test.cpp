// The names of the library's entries for each instruction set of an artifact.
#include "kernels/cpu/catalog.h"

#include <catch2/catch.hpp>

namespace aotc::kernels {

TEST_CASE("an entry is that of the best instruction set it exists for, and tiles have stand-ins below amx") {
  constexpr Isa kAll[] = {Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx};
  const struct {
    const char* base;
    const char* names[4];
  } kRows[] = {
      {"aotc_gemm_f32", {"aotc_gemm_f32_avx2", "aotc_gemm_f32_avx512", "aotc_gemm_f32_avx512", "aotc_gemm_f32_avx512"}},
      {"aotc_gemm_bf16", {"aotc_gemm_bf16_avx2", "aotc_gemm_bf16_avx512", "aotc_gemm_bf16_avx512_bf16", "aotc_gemm_bf16_avx512_bf16"}},
      {"aotc_gemm_tiles_bf16", {"aotc_gemm_bf16_avx2", "aotc_gemm_bf16_avx512", "aotc_gemm_bf16_avx512_bf16", "aotc_gemm_tiles_bf16_amx"}},
      {"aotc_conv_last_tiles_bf16",
       {"aotc_conv_last_bf16_avx2", "aotc_conv_last_bf16_avx512", "aotc_conv_last_bf16_avx512_bf16", "aotc_conv_last_tiles_bf16_amx"}},
      {"aotc_attention_bf16",
       {"aotc_attention_bf16_avx2", "aotc_attention_bf16_avx512", "aotc_attention_bf16_avx512", "aotc_attention_bf16_avx512"}},
      {"aotc_attention_tiles_bf16",
       {"aotc_attention_bf16_avx2", "aotc_attention_bf16_avx512", "aotc_attention_bf16_avx512", "aotc_attention_tiles_bf16_amx"}},
      {"aotc_sort_i64", {"aotc_sort_i64_avx2", "aotc_sort_i64_avx2", "aotc_sort_i64_avx2", "aotc_sort_i64_avx2"}},
  };
  for (const auto& row : kRows)
    for (Isa isa : kAll) CHECK(library_symbol(row.base, isa) == row.names[static_cast<int>(isa)]);
}

}  // namespace aotc::kernels
