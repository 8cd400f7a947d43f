// Gradients of resizing and of padding by reflection or repetition: each element of the result's gradient is added to the elements that it
// was made of, one dim after the other, the last first.
#include "decompose/families.h"
#include "decompose/indexing.h"
#include "decompose/resize.h"

namespace aotc::decompose {
namespace {

T zeros_with(const T& g, int dim, const Expr& size) {
  std::vector<Expr> dims = g.dims();
  dims[static_cast<size_t>(dim)] = size;
  return {g.b(), full(g.b(), g.dtype(), dims, 0.0)};
}

std::vector<ResizeAxis> axes(Rule& r, const T& g, int k) {
  std::vector<ResizeAxis> a = resize_axes(r, r.syms("input_size"), g.dims(), k);
  return {a.rbegin(), a.rend()};
}

/// Unlike resizing itself, its gradient goes by the sizes in rows and volumes too.
template <int k, bool exact>
void nearest(Rule& r) {
  const T g0 = tensor(r, "grad_output");
  T g = g0.up();
  for (const ResizeAxis& a : axes(r, g, k)) {
    const std::optional<int64_t> by = nearest_repeats(r, a, !exact);
    if (by == 1) continue;
    if (by) {
      std::vector<Expr> dims = g.dims();
      dims[static_cast<size_t>(a.dim)] = a.in;
      dims.insert(dims.begin() + a.dim + 1, Expr(*by));
      g = g.reshape(dims).sum({a.dim + 1}, false);
      continue;
    }
    g = add_at(zeros_with(g, a.dim, a.in), g, nearest_index(r, a, exact, !exact), a.dim);
  }
  r.set(g.to(g0.dtype()));
}

T spread(const T& g, const ResizeAxis& a, const std::vector<ResizeTap>& taps) {
  T sum = zeros_with(g, a.dim, a.in);
  for (const ResizeTap& tap : taps) sum = add_at(sum, g * along_axis(tap.weight, a, g.rank()), tap.index, a.dim);
  return sum;
}

template <int k>
void linear(Rule& r) {
  const T g0 = tensor(r, "grad_output");
  const bool align = r.boolean("align_corners");
  T g = g0.up();
  for (const ResizeAxis& a : axes(r, g, k))
    if (!linear_keeps(r, a)) g = spread(g, a, linear_taps(r, a, align, g.dtype()));
  r.set(g.to(g0.dtype()));
}

void bicubic(Rule& r) {
  const T g0 = tensor(r, "grad_output");
  T g = g0.up();
  for (const ResizeAxis& a : axes(r, g, 2)) g = spread(g, a, cubic_taps(r, a, r.boolean("align_corners"), g.dtype()));
  r.set(g.to(g0.dtype()));
}

template <PadMode mode>
void pad(Rule& r) {
  const T g0 = tensor(r, "grad_output");
  const std::vector<Expr> in = tensor(r, "self").dims();
  T g = g0.up();
  for (const PadAmount& a : pad_amounts(r, g.rank(), "padding")) {
    const Expr n = in[static_cast<size_t>(a.dim)];
    if (!a.lo.is(0) || !a.hi.is(0)) g = add_at(zeros_with(g, a.dim, n), g, pad_index(r, a, n, mode), a.dim);
  }
  r.set(g.to(g0.dtype()));
}

constexpr RuleRow kRows[] = {
    {"aten.upsample_nearest1d_backward.default", nearest<1, false>},
    {"aten.upsample_nearest2d_backward.default", nearest<2, false>},
    {"aten.upsample_nearest3d_backward.default", nearest<3, false>},
    {"aten._upsample_nearest_exact1d_backward.default", nearest<1, true>},
    {"aten._upsample_nearest_exact2d_backward.default", nearest<2, true>},
    {"aten._upsample_nearest_exact3d_backward.default", nearest<3, true>},
    {"aten.upsample_linear1d_backward.default", linear<1>},
    {"aten.upsample_bilinear2d_backward.default", linear<2>},
    {"aten.upsample_trilinear3d_backward.default", linear<3>},
    {"aten.upsample_bicubic2d_backward.default", bicubic},
    {"aten.reflection_pad1d_backward.default aten.reflection_pad2d_backward.default aten.reflection_pad3d_backward.default",
     pad<PadMode::reflect>},
    {"aten.replication_pad1d_backward.default aten.replication_pad2d_backward.default aten.replication_pad3d_backward.default",
     pad<PadMode::replicate>},
};
}  // namespace

RuleTable backward_resize_rules() { return kRows; }

}  // namespace aotc::decompose
