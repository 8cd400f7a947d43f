// The names of the library's entries for each instruction set of an artifact.
#include "kernels/cpu/catalog.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "entries.h"
#include "forms/cpu/forms.h"

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
      {"aotc_gemm_held_bf16", {"aotc_gemm_bf16_avx2", "aotc_gemm_bf16_avx512", "aotc_gemm_bf16_avx512_bf16", "aotc_gemm_held_bf16_amx"}},
      {"aotc_gemm_parts_f32", {"aotc_gemm_f32_avx2", "aotc_gemm_f32_avx512", "aotc_gemm_f32_avx512", "aotc_gemm_parts_f32_amx"}},
      {"aotc_gemm_unpack_parts_f32",
       {"aotc_gemm_unpack_f32_avx2", "aotc_gemm_unpack_f32_avx512", "aotc_gemm_unpack_f32_avx512", "aotc_gemm_unpack_parts_f32_amx"}},
      {"aotc_gemm_bf16w_parts_f32",
       {"aotc_gemm_bf16w_f32_avx2", "aotc_gemm_bf16w_f32_avx512", "aotc_gemm_bf16w_f32_avx512", "aotc_gemm_bf16w_parts_f32_amx"}},
      {"aotc_gemm_int8_tiles_f32",
       {"aotc_gemm_int8_f32_avx2", "aotc_gemm_int8_f32_avx512", "aotc_gemm_int8_f32_avx512_bf16", "aotc_gemm_int8_tiles_f32_amx"}},
      {"aotc_conv_last_tiles_bf16",
       {"aotc_conv_last_bf16_avx2", "aotc_conv_last_bf16_avx512", "aotc_conv_last_bf16_avx512_bf16", "aotc_conv_last_tiles_bf16_amx"}},
      {"aotc_attention_bf16",
       {"aotc_attention_bf16_avx2", "aotc_attention_bf16_avx512", "aotc_attention_bf16_avx512", "aotc_attention_bf16_avx512"}},
      {"aotc_attention_tiles_bf16",
       {"aotc_attention_bf16_avx2", "aotc_attention_bf16_avx512", "aotc_attention_bf16_avx512", "aotc_attention_tiles_bf16_amx"}},
      {"aotc_recurrence_panels_bf16",
       {"aotc_recurrence_panels_bf16_avx2", "aotc_recurrence_panels_bf16_avx512", "aotc_recurrence_panels_bf16_avx512_bf16",
        "aotc_recurrence_panels_bf16_avx512_bf16"}},
      {"aotc_recurrence_tiles_bf16",
       {"aotc_recurrence_panels_bf16_avx2", "aotc_recurrence_panels_bf16_avx512", "aotc_recurrence_panels_bf16_avx512_bf16",
        "aotc_recurrence_tiles_bf16_amx"}},
      {"aotc_recurrence_tiles_bf16w_f32",
       {"aotc_recurrence_panels_bf16w_f32_avx2", "aotc_recurrence_panels_bf16w_f32_avx512", "aotc_recurrence_panels_bf16w_f32_avx512_bf16",
        "aotc_recurrence_tiles_bf16w_f32_amx"}},
      {"aotc_sort_i64", {"aotc_sort_i64_avx2", "aotc_sort_i64_avx2", "aotc_sort_i64_avx2", "aotc_sort_i64_avx2"}},
  };
  for (const auto& row : kRows)
    for (Isa isa : kAll) CHECK(library_symbol(row.base, isa) == row.names[static_cast<int>(isa)]);
}

TEST_CASE("where results have the same bits on all machines, an entry is one that has them") {
  CHECK(reproducible_symbol("aotc_gemm_f32", Isa::avx512) == "aotc_gemm_f32_avx512");
  CHECK(reproducible_symbol("aotc_attention_bf16", Isa::amx) == "aotc_attention_bf16_avx512");
  CHECK(reproducible_symbol("aotc_recurrence_panels_bf16", Isa::amx) == "aotc_recurrence_panels_same_bf16_avx512");
  CHECK(reproducible_symbol("aotc_recurrence_f64", Isa::avx2) == "aotc_recurrence_same_f64_avx2");
  CHECK(reproducible_symbol("aotc_fourier_f32", Isa::avx512) == "aotc_fourier_f32_avx2");
  for (const KernelDesc& k : kKernels) {
    if (k.order == "k" || k.order == "lanes") continue;
    const KernelDesc* same =
        find_kernel(fmt::format("aotc_{}{}", k.order, k.types == "none" ? "" : "_" + std::string(k.types.substr(0, k.types.find(' ')))));
    INFO(k.name);
    REQUIRE(same);
    CHECK(same->order == "k");
    CHECK(same->abi == k.abi);
  }
}

TEST_CASE("an entry is found by features, also of a machine whose set is none of the library's") {
  const auto with = [](std::string_view base, FeatureSet have) { return isa_name(library_entry(base, have).isa); };
  const FeatureSet small = features_of(Isa::avx2) | FeatureSet{Feature::AVX_VNNI};
  CHECK(with("aotc_gemm_f32", small) == "avx2");
  CHECK(with("aotc_gemm_bytes_u8", small) == "avx2");
  // AVX-512 BF16 and tiles, without what is between them in the list.
  const FeatureSet odd = features_of(Isa::avx2) | FeatureSet{Feature::AMX_TILES, Feature::OS_AMX, Feature::AVX512_BF16};
  CHECK(library_entry("aotc_gemm_tiles_bf16", odd).base == "aotc_gemm_bf16");
  CHECK(with("aotc_gemm_tiles_bf16", odd) == "avx2");
}

TEST_CASE("the library has the entries of the table and no others") {
  std::set<std::string> listed, built;
  for (const KernelDesc& k : kKernels)
    for (const IsaLevel& level : all_levels()) {
      if (!has_word(k.levels, level.name)) continue;
      const auto list = [&](const std::string& type) { listed.insert(fmt::format("aotc_{}{}_{}", k.name, type, level.name)); };
      if (k.types == "none") list("");
#define AOTC_X(name, value, text, bytes)                                                                          \
  if (const std::string_view type = forms::cpu::symbol_dtype(static_cast<DType>(value)); has_word(k.types, type)) \
    list("_" + std::string(type));
      AOTC_DTYPE_LIST(AOTC_X)
#undef AOTC_X
    }
  for (size_t i = 0; i < kernel_test::kLibrarySize; ++i) built.insert(kernel_test::kLibrary[i].name);
  CHECK(listed == built);
}

TEST_CASE("every row of the table serves machines with its levels, or has a kernel that stands in on all others") {
  for (const KernelDesc& k : kKernels) {
    INFO(k.name << " " << k.types);
    const std::string type = k.types == "none" ? "" : "_" + std::string(k.types.substr(0, k.types.find(' ')));
    CHECK(library_entry(fmt::format("aotc_{}{}", k.name, type), Isa::avx2).isa == Isa::avx2);
  }
}

TEST_CASE("every entry of the library is the one that the catalog names for its instruction set and those above it up to the next one") {
  constexpr Isa kAll[] = {Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx};
  std::set<std::string> names;
  for (size_t i = 0; i < kernel_test::kLibrarySize; ++i) names.insert(kernel_test::kLibrary[i].name);
  for (const std::string& name : names)
    for (const Isa isa : kAll) {
      const std::string suffix = "_" + std::string(isa_name(isa));
      if (name.size() <= suffix.size() || name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0) continue;
      const std::string base = name.substr(0, name.size() - suffix.size());
      if (base.find("_avx512") != std::string::npos) continue;  // avx512_bf16 ends so, too
      INFO(name);
      Isa best = isa;  // of this algorithm and type
      for (const Isa above : kAll) {
        if (above < isa) continue;
        if (names.count(base + "_" + std::string(isa_name(above)))) best = above;
        CHECK(library_symbol(base, above) == base + "_" + std::string(isa_name(best)));
      }
    }
}

}  // namespace aotc::kernels
