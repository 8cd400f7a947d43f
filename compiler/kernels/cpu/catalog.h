#pragma once
// Which entries the precompiled library has: the linkable name of a library kernel for an instruction set of an artifact.
#include <algorithm>
#include <string>
#include <string_view>

#include "base/target.h"

namespace aotc::kernels {

/// The entries whose names begin and end so exist for all instruction sets from `from` to `best`; below `from`, those that begin with
/// `stand_in` instead take the same arguments.
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
/// base: "aotc_gemm_f32", "aotc_sort_i64" ...; the entry that serves it on `isa`, of the best instruction set not above that:
/// library_entry("aotc_gemm_f32", Isa::avx512_bf16) is of avx512.
inline LibraryEntry library_entry(std::string_view base, Isa isa) {
  for (const CatalogRow& row : kCatalog) {
    if (base.substr(0, row.begins.size()) != row.begins) continue;
    if (base.size() < row.ends.size() || base.substr(base.size() - row.ends.size()) != row.ends) continue;
    if (isa < row.from) return library_entry(std::string(row.stand_in).append(base.substr(row.begins.size())), isa);
    return {std::string(base), std::min(isa, row.best)};
  }
  return {std::string(base), Isa::avx2};
}
inline Isa library_isa(std::string_view base, Isa isa) { return library_entry(base, isa).isa; }
/// The name of that entry: "aotc_gemm_f32_avx512".
inline std::string library_symbol(std::string_view base, Isa isa) {
  const LibraryEntry e = library_entry(base, isa);
  return e.base + "_" + std::string(isa_name(e.isa));
}

}  // namespace aotc::kernels
