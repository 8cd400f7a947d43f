#pragma once
// The kernels of the precompiled library as data, and the entries that serve the instruction sets of an artifact.
#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "base/target.h"
#include "base/words.h"

namespace aotc::kernels {

/// A row of kernels.def.
struct KernelDesc {
  std::string_view name;      ///< its entries are aotc_<name>_<type>, or aotc_<name> without types
  std::string_view types;     ///< "f32 f64"; "none"
  std::string_view levels;    ///< "avx2 avx512"
  std::string_view stand_in;  ///< the kernel that takes the same arguments where a machine has none of the levels; "": there is none
  std::string_view abi;       ///< its contract is aotc/detail/<abi>_abi.h
  std::string_view order;     ///< of sums: "k", "lanes", or the kernel whose sums are the same on all machines

  constexpr KernelDesc(std::string_view name, std::string_view types, std::string_view levels, std::string_view abi, std::string_view order)
      : name(name), types(types), levels(levels), abi(abi), order(order) {
    constexpr std::string_view kElse = " else ";
    if (const size_t at = levels.find(kElse); at != levels.npos) {
      this->levels = levels.substr(0, at);
      stand_in = levels.substr(at + kElse.size());
    }
  }
  /// "_f32" of "aotc_gemm_f32", where that is an entry of this row.
  std::optional<std::string_view> type_of(std::string_view base) const {
    constexpr std::string_view kBegins = "aotc_";
    if (base.substr(0, kBegins.size()) != kBegins || base.substr(kBegins.size(), name.size()) != name) return std::nullopt;
    const std::string_view type = base.substr(kBegins.size() + name.size());
    const bool is = type.empty() ? types == "none" : type.front() == '_' && has_word(types, type.substr(1));
    return is ? std::optional(type) : std::nullopt;
  }
};
inline constexpr KernelDesc kKernels[] = {
#define AOTC_KERNEL(name, types, levels, unit, header, abi, order, ...) {#name, #types, #levels, #abi, #order},
#define AOTC_KERNEL_PART(...)
#include "kernels/cpu/kernels.def"
#undef AOTC_KERNEL
#undef AOTC_KERNEL_PART
};

/// The row that has the entry "aotc_gemm_f32"; null: there is none.
inline const KernelDesc* find_kernel(std::string_view base) {
  for (const KernelDesc& k : kKernels)
    if (k.type_of(base)) return &k;
  return nullptr;
}

struct LibraryEntry {
  std::string base;
  Isa isa;
};
/// base: "aotc_gemm_f32", "aotc_sort_i64" ...; the entry that serves it where there is `have`, of the last instruction set in the list that
/// is within that: library_entry("aotc_gemm_f32", Isa::avx512_bf16) is of avx512.
inline LibraryEntry library_entry(std::string_view base, FeatureSet have) {
  const KernelDesc* k = find_kernel(base);
  AOTC_CHECK(k, "the kernel library has no {}", base);
  std::optional<Isa> first, best;
  for (const IsaLevel& l : all_levels()) {
    if (!has_word(k->levels, l.name)) continue;
    if (!first) first = l.isa;
    if (have.includes(l.features)) best = l.isa;
  }
  if (!best && !k->stand_in.empty()) return library_entry(std::string("aotc_").append(k->stand_in).append(*k->type_of(base)), have);
  return {std::string(base), best.value_or(*first)};
}
inline LibraryEntry library_entry(std::string_view base, Isa isa) { return library_entry(base, features_of(isa)); }
inline Isa library_isa(std::string_view base, Isa isa) { return library_entry(base, isa).isa; }
/// The name of that entry: "aotc_gemm_f32_avx512".
inline std::string library_symbol(std::string_view base, Isa isa) {
  const LibraryEntry e = library_entry(base, isa);
  return e.base + "_" + std::string(isa_name(e.isa));
}
/// That of the entry that serves `isa` where results have the same bits on all machines.
inline std::string reproducible_symbol(std::string_view base, Isa isa) {
  const KernelDesc* k = find_kernel(base);
  AOTC_CHECK(k, "the kernel library has no {}", base);
  if (k->order == "k") return library_symbol(base, isa);
  if (k->order == "lanes") return library_symbol(base, Isa::avx2);
  return library_symbol(std::string("aotc_").append(k->order).append(*k->type_of(base)), isa);
}

}  // namespace aotc::kernels
