#include "forms/slabs.h"

namespace aotc::forms {

std::optional<Panels> slabs_of(const loop::MatmulKernel& k) {
  const auto& q = k.b_quantised;
  if (!q || q->bits > 8) return std::nullopt;
  const auto columns = k.n.as_const(), depth = k.k.as_const();
  if (!columns || !depth || *columns < 1 || *depth < 1) return std::nullopt;
  Panels p;
  p.dtype = k.params[q->values].dtype;
  p.bits = q->bits;
  p.slabs = true;
  p.step = slab_rows(q->bits);
  p.col_stride = *depth;
  p.rows = {{*depth, *depth, 0, 1, {}}};
  p.matrices = {{0, *columns, 0}};
  return p;
}

}  // namespace aotc::forms
