#include "forms/weight_form.h"

#include "aotc/detail/library_abi.h"
#include "forms/slabs.h"

namespace aotc::forms {

bool has_panel_form(DType t) { return t == DType::f32 || t == DType::f64 || t == DType::f16 || t == DType::bf16; }

int64_t Panels::stored_rows(const Matrix& m) const {
  if (column_groups) {
    const Rows& r = rows[m.rows];
    return r.count / r.inner * ((r.inner + column_groups - 1) / column_groups * column_groups);
  }
  const int64_t n = rows[m.rows].count * (winograd ? (winograd + 2) * (winograd + 2) : 1);
  if (bits) return line ? n / line * ((line + step - 1) / step * step) : (n + step - 1) / step * step;
  return dtype == DType::bf16 ? (n + 1) / 2 * 2 : n;
}

int64_t Panels::elems() const {
  int64_t n = 0;
  for (const Matrix& m : matrices) n += (m.cols + unit_columns() - 1) / unit_columns() * unit_columns() * stored_rows(m);
  return n * parts;
}

int64_t Panels::unit_columns() const { return column_groups ? 1 : slabs ? kSlabColumns : int64_t{AOTC_PANEL_N}; }

int64_t Panels::bytes() const { return bits ? elems() * bits / 8 : elems() * dtype_bytes(dtype); }

}  // namespace aotc::forms
