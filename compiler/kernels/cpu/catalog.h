#pragma once
// Which entries the precompiled library has: the linkable name of a library kernel for an instruction set of an artifact.
#include <optional>
#include <string>
#include <string_view>

#include "base/target.h"

namespace aotc::kernels {

/// The entries whose names begin and end so exist for all instruction sets in the list from `from` to `best`; where `from` is lacking,
/// those that begin with `stand_in` instead take the same arguments.
struct CatalogRow {
  std::string_view begins, ends;
  Isa best, from = Isa::avx2;
  std::string_view stand_in = {};
};
/// The first row that matches a name holds.
inline constexpr CatalogRow kCatalog[] = {
    {"aotc_gemm_tiles_", "", Isa::amx, Isa::amx, "aotc_gemm_"},
    {"aotc_gemm_held_", "", Isa::amx, Isa::amx, "aotc_gemm_"},
    {"aotc_gemm_parts_", "", Isa::amx, Isa::amx, "aotc_gemm_"},
    {"aotc_conv_last_tiles_", "", Isa::amx, Isa::amx, "aotc_conv_last_"},
    {"aotc_attention_tiles_", "", Isa::amx, Isa::amx, "aotc_attention_"},
    {"aotc_gemm_int8_tiles_", "", Isa::amx, Isa::amx, "aotc_gemm_int8_"},
    {"aotc_gemm_bytes_tiles_", "", Isa::amx, Isa::amx, "aotc_gemm_bytes_"},
    {"aotc_conv_bytes_tiles_", "", Isa::amx, Isa::amx, "aotc_conv_bytes_"},
    {"aotc_recurrence_tiles_", "", Isa::amx, Isa::amx, "aotc_recurrence_panels_"},
    {"aotc_gemm_quant_", "", Isa::avx512_bf16},
    {"aotc_gemm_int8_", "", Isa::avx512_bf16},
    {"aotc_gemm_bytes_", "", Isa::avx512_bf16},
    {"aotc_conv_bytes_", "", Isa::avx512_bf16},
    {"aotc_gemm_", "_bf16", Isa::avx512_bf16},
    {"aotc_recurrence_panels_", "_bf16", Isa::avx512_bf16},
    {"aotc_recurrence_panels_bf16w_", "", Isa::avx512_bf16},
    {"aotc_conv_", "_bf16", Isa::avx512_bf16},
    {"aotc_gemm_", "", Isa::avx512},
    {"aotc_conv_", "", Isa::avx512},
    {"aotc_attention_", "", Isa::avx512},
    {"aotc_recurrence_", "", Isa::avx512},
    {"aotc_fourier_", "", Isa::avx512},
    {"aotc_cholesky_", "", Isa::avx512},
    {"aotc_lu_", "", Isa::avx512},
    {"aotc_qr_", "", Isa::avx512},
    {"aotc_svd_", "", Isa::avx512},
    {"aotc_add_rows_", "", Isa::avx512},
    {"aotc_solve_triangular_", "", Isa::avx512},
    {"", "", Isa::avx2},
};

struct LibraryEntry {
  std::string base;
  Isa isa;
};
/// base: "aotc_gemm_f32", "aotc_sort_i64" ...; the entry that serves it where there is `have`, of the last instruction set in the list that
/// is within that: library_entry("aotc_gemm_f32", Isa::avx512_bf16) is of avx512.
inline LibraryEntry library_entry(std::string_view base, FeatureSet have) {
  for (const CatalogRow& row : kCatalog) {
    if (base.substr(0, row.begins.size()) != row.begins) continue;
    if (base.size() < row.ends.size() || base.substr(base.size() - row.ends.size()) != row.ends) continue;
    std::optional<Isa> best;
    for (const IsaLevel& l : all_levels())
      if (l.isa >= row.from && l.isa <= row.best && have.includes(l.features)) best = l.isa;
    if (!best && !row.stand_in.empty()) return library_entry(std::string(row.stand_in).append(base.substr(row.begins.size())), have);
    return {std::string(base), best.value_or(row.from)};
  }
  return {std::string(base), Isa::avx2};
}
inline LibraryEntry library_entry(std::string_view base, Isa isa) { return library_entry(base, features_of(isa)); }
inline Isa library_isa(std::string_view base, Isa isa) { return library_entry(base, isa).isa; }
/// The name of that entry: "aotc_gemm_f32_avx512".
inline std::string library_symbol(std::string_view base, Isa isa) {
  const LibraryEntry e = library_entry(base, isa);
  return e.base + "_" + std::string(isa_name(e.isa));
}

}  // namespace aotc::kernels
