#pragma once
// What the forms of recurrent layers weigh.
#include <algorithm>

#include "aotc/detail/library_abi.h"
#include "forms/cpu/library.h"
#include "forms/library_attrs.h"

namespace aotc::forms::cpu {

struct RecurrentStep {
  DType dtype;  ///< of the state's weight, as it is multiplied
  bool halves;  ///< 16-bit floats
  double steps, weight_bytes, macs;
  int64_t batch, panels;
};
/// At the sizes worth tuning for.
inline RecurrentStep recurrent_step(const loop::LibraryKernel& k, const SymTable& syms) {
  const auto size = [&](size_t i) { return std::max<int64_t>(1, syms.hint(k.sizes[i])); };
  const DType t = recurrence_weight(k);
  const int64_t weight = size(3) * size(2) * aotc_recurrence_gates(recurrence_cell(k));
  return {t,
          dtype_bytes(t) == 2,
          static_cast<double>(size(0)),
          static_cast<double>(weight * dtype_bytes(t)),
          static_cast<double>(weight * size(1)),
          size(1),
          (size(2) + AOTC_PANEL_N - 1) / AOTC_PANEL_N};
}

/// How entries are named whose states are of one type, weights of another.
inline std::string recurrence_symbol(std::string_view form, const loop::LibraryKernel& k) {
  const DType t = k.params.begin()->dtype, w = recurrence_weight(k);
  return w == t ? entry_of(form, t) : entry_of(fmt::format("{}_{}w", form, symbol_dtype(w)), t);
}

}  // namespace aotc::forms::cpu
