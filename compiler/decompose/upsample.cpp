// Resizing of images and volumes, one dim after the other, and the grids of affine maps.
#include <algorithm>
#include <cmath>

#include "decompose/families.h"
#include "decompose/resize.h"

namespace aotc::decompose {
namespace {

/// The size that a scale gives: that of the element count times it, cut off.
Expr scaled(const ResizeAxis& a) {
  if (const auto n = a.in.as_const()) return static_cast<int64_t>(static_cast<double>(*n) * a.scale);
  for (int64_t den = 1; den <= (1 << 20); den *= 2)
    if (const double num = a.scale * static_cast<double>(den); num == std::floor(num) && num < 1e9)
      return floordiv(a.in * static_cast<int64_t>(num), den);
  return a.out;
}

/// A condition on sizes as a value of rank 0.
T sizes_equal(Builder& b, const Expr& x, const Expr& y) { return scalar_of(b, x, DType::i64) == scalar_of(b, y, DType::i64); }

/// Input elements per output element.
T ratio(Builder& b, const ResizeAxis& a, DType t) {
  if (a.scale > 0) return {b, full(b, t, {}, 1.0 / a.scale)};
  return scalar_of(b, a.in, t) / scalar_of(b, a.out, t);
}

/// The place in the input of each output element, in elements.
T source(Rule& r, const ResizeAxis& a, bool align, bool clamp, DType t) {
  const T i = iota(r.b, {a.out}, 0, t);
  if (align) {
    if (r.b.syms().proves_le(a.out, 1)) return i * 0.0;
    return i * (scalar_of(r.b, a.in - 1, t) / maximum(scalar_of(r.b, a.out - 1, t), 1.0));
  }
  const T at = (i + 0.5) * ratio(r.b, a, t) - 0.5;
  return clamp ? maximum(at, 0.0) : at;
}

/// Keys' cubic kernel with a = -0.75: weight of the tap at distance d.
T cubic_near(const T& d) { return ((d * 1.25 - 2.25) * d) * d + 1.0; }
T cubic_far(const T& d) { return ((d * -0.75 + 3.75) * d - 6.0) * d + 3.0; }

}  // namespace

std::vector<ResizeAxis> resize_axes(Rule& r, const std::vector<Expr>& in, const std::vector<Expr>& result, int k) {
  static constexpr std::string_view kScales[] = {"scales_d", "scales_h", "scales_w"};
  const size_t rank = static_cast<size_t>(k) + 2;
  if (in.size() != rank || result.size() != rank) throw r.fault(fmt::format("an image of {} dimensions", in.size()));
  std::vector<double> factors;
  if (r.has("scale_factors") && !r.none("scale_factors")) factors = r.numbers("scale_factors");
  std::vector<Expr> sizes;
  if (r.has("output_size") && !r.none("output_size")) sizes = r.syms("output_size");
  std::vector<ResizeAxis> axes;
  for (int i = 0; i < k; ++i) {
    const size_t s = static_cast<size_t>(i);
    ResizeAxis a{2 + i, in[2 + s], result[2 + s]};
    const std::string_view name = k == 1 ? "scales" : kScales[3 - k + i];
    if (s < factors.size())
      a.scale = factors[s];
    else if (!r.none(name))
      a.scale = r.number(name);
    if (s < sizes.size()) r.agree(sizes[s], a.out, "argument 'output_size'");
    if (s < factors.size()) r.agree(r.b.syms().simplify(scaled(a)), a.out, "argument 'scale_factors'");
    axes.push_back(a);
  }
  return axes;
}

T along_axis(const T& v, const ResizeAxis& a, int rank) {
  std::vector<Expr> d(static_cast<size_t>(rank), Expr(1));
  d[static_cast<size_t>(a.dim)] = v.dim(0);
  return v.reshape(d);
}

std::optional<int64_t> nearest_repeats(Rule& r, const ResizeAxis& a, bool by_size) {
  if (r.b.syms().proves_eq(a.in, a.out) && (by_size || a.scale == 0 || a.scale == 1.0)) return 1;
  const std::optional<int64_t> in = a.in.as_const(), out = a.out.as_const();
  if (!in || !out || *in <= 0 || *out % *in != 0) return std::nullopt;
  const int64_t by = *out / *in;
  return a.scale == 0 || a.scale == static_cast<double>(by) || (by_size && by == 2) ? std::optional(by) : std::nullopt;
}

T nearest_index(Rule& r, const ResizeAxis& a, bool exact, bool by_size) {
  const SymTable& s = r.b.syms();
  const T i = iota(r.b, {a.out}, 0, DType::f32);
  T at = floor((exact ? i + 0.5 : i) * ratio(r.b, a, DType::f32)).to(DType::i64);
  if (by_size && a.scale > 0) {
    const T index = iota(r.b, {a.out}, 0);
    if (!s.proves_ne(a.out, a.in * 2)) at = where(sizes_equal(r.b, a.out, a.in * 2), binary(Op::div_floor, index, 2.0), at);
    if (!s.proves_ne(a.out, a.in)) at = where(sizes_equal(r.b, a.out, a.in), index, at);
  }
  return minimum(at, scalar_of(r.b, a.in - 1, DType::i64));
}

/// Where the size stays the image is copied, whatever the scale.
bool linear_keeps(Rule& r, const ResizeAxis& a) { return r.b.syms().proves_eq(a.in, a.out); }

std::vector<ResizeTap> linear_taps(Rule& r, const ResizeAxis& a, bool align, DType t) {
  T at = source(r, a, align, true, t);
  if (a.scale > 0 && !align && !r.b.syms().proves_ne(a.in, a.out)) at = where(sizes_equal(r.b, a.in, a.out), iota(r.b, {a.out}, 0, t), at);
  const T top = scalar_of(r.b, a.in - 1, DType::i64);
  const T i0 = minimum(at.to(DType::i64), top), i1 = minimum(i0 + 1.0, top);
  const T w = at - i0.to(t);
  return {{i0, 1.0 - w}, {i1, w}};
}

std::vector<ResizeTap> cubic_taps(Rule& r, const ResizeAxis& a, bool align, DType t) {
  const T at = source(r, a, align, false, t);
  const T base = floor(at), f = at - base;
  const T w[4] = {cubic_far(f + 1.0), cubic_near(f), cubic_near(1.0 - f), cubic_far(2.0 - f)};
  const T top = scalar_of(r.b, a.in - 1, DType::i64);
  std::vector<ResizeTap> taps;
  for (int i = 0; i < 4; ++i) {
    const T index = minimum(maximum(base.to(DType::i64) + static_cast<double>(i - 1), 0.0), top);
    taps.push_back({index, w[i]});
  }
  return taps;
}

namespace {

std::vector<ResizeAxis> axes(Rule& r, const T& x, int k) { return resize_axes(r, x.dims(), r.meta_result().dims, k); }

T take(const T& x, const ResizeAxis& a, const T& index) { return {x.b(), x.b().index(x, {index}, {a.dim}, a.dim)}; }

/// Images (but neither rows nor volumes) go by their sizes where these are equal or doubled, whatever the scale.
template <int k, bool exact>
void nearest(Rule& r) {
  constexpr bool kBySize = k == 2 && !exact;
  T x = tensor(r, r.has("self") ? "self" : "input");
  for (const ResizeAxis& a : axes(r, x, k)) {
    const std::optional<int64_t> by = nearest_repeats(r, a, kBySize);
    if (by == 1) continue;
    if (by) {
      // A whole multiple repeats each element.
      T y = x.unsqueeze(a.dim + 1);
      std::vector<Expr> dims = y.dims(), to = x.dims();
      dims[static_cast<size_t>(a.dim) + 1] = *by;
      to[static_cast<size_t>(a.dim)] = a.out;
      x = y.expand(dims).reshape(to);
      continue;
    }
    x = take(x, a, nearest_index(r, a, exact, kBySize));
  }
  r.set(x);
}

T apply(const T& x, const ResizeAxis& a, const std::vector<ResizeTap>& taps) {
  std::optional<T> sum;
  for (const ResizeTap& tap : taps) {
    const T term = take(x, a, tap.index) * along_axis(tap.weight, a, x.rank());
    sum = sum ? *sum + term : term;
  }
  return *sum;
}

/// uint8 images, in fixed point: columns first, each pass rounded.
template <typename Pass>
void bytes(Rule& r, T x, const Pass& pass) {
  std::vector<ResizeAxis> all = axes(r, x, 2);
  std::reverse(all.begin(), all.end());
  for (const ResizeAxis& a : all)
    if (!linear_keeps(r, a)) x = pass(x, a);
  r.set(x);
}

template <int k>
void linear(Rule& r) {
  const T in = tensor(r, r.has("self") ? "self" : "input");
  const bool align = r.boolean("align_corners");
  if (k == 2 && in.dtype() == DType::u8)
    return bytes(r, in, [&](const T& x, const ResizeAxis& a) { return bytes_by_taps(x, a, linear_taps(r, a, align, DType::f64)); });
  T x = is_float(in.dtype()) ? in.up() : in.to(DType::f32);
  const std::vector<ResizeAxis> all = axes(r, x, k);
  const bool kept = std::any_of(all.begin(), all.end(), [&](const ResizeAxis& a) { return linear_keeps(r, a); });
  if (kept && is_float(in.dtype())) x = where(unary(Op::isinf, x), std::nan(""), x);  // PyTorch adds it once more, times zero
  for (const ResizeAxis& a : all)
    if (!linear_keeps(r, a)) x = apply(x, a, linear_taps(r, a, align, x.dtype()));
  r.set((is_float(in.dtype()) ? x : unary(Op::round, x)).to(in.dtype()));
}

void bicubic(Rule& r) {
  const T in = tensor(r, r.has("self") ? "self" : "input");
  const bool align = r.boolean("align_corners");
  if (in.dtype() == DType::u8)
    return bytes(r, in, [&](const T& x, const ResizeAxis& a) { return bytes_by_taps(x, a, cubic_taps(r, a, align, DType::f64)); });
  if (!is_float(in.dtype())) r.refuse("bicubic resizing of integers other than uint8");
  T x = in.up();
  for (const ResizeAxis& a : axes(r, x, 2)) x = apply(x, a, cubic_taps(r, a, align, x.dtype()));
  r.set(x.to(in.dtype()));
}

T triangle_filter(const T& d) { return maximum(1.0 - abs(d), 0.0); }
T cubic_filter(const T& d) {
  const double a = -0.5;  // Pillow's, unlike that of plain bicubic resizing
  const T x = abs(d);
  const T near = (x * (a + 2) - (a + 3)) * x * x + 1.0, far = (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return where(x < 1.0, near, where(x < 2.0, far, 0.0));
}

/// The most elements of the input that a filter covers which reaches `radius` of what is larger, an element of the input or of the output.
Expr most_taps(const ResizeAxis& a, int radius, bool align) {
  if (!align && a.scale > 0) return static_cast<int64_t>(std::ceil(2 * radius * std::max(1.0 / a.scale, 1.0))) + 1;
  const int64_t corner = align ? 1 : 0;
  return max(ceildiv((a.in - corner) * (2 * radius), max(a.out - corner, 1)), 2 * radius) + 1;
}

/// The elements of the input that a filter of `support` to either side covers: [lo, hi) per output element, and where its middle is.
struct FilterReach {
  T center, lo, hi;
  FilterReach(const T& at, const T& step, const T& support, const T& n)
      : center(step * (at + 0.5)),
        lo(maximum(unary(Op::trunc, center - support + 0.5), 0.0)),
        hi(minimum(unary(Op::trunc, center + support + 0.5), n)) {}
};

/// The factors of one axis, which add up to 1 along dim 0; zero where `covered` is false.
T filter_factors(T (*filter)(const T&), const T& from, const FilterReach& reach, const T& covered, const T& wide) {
  const T raw = where(covered, filter((from - reach.center + 0.5) / wide), 0.0);
  const T total = raw.sum({0}, true);
  return where(total != 0.0, raw / total, 0.0);
}

/// One axis of antialiased resizing: [taps, out] each, factors in float64.
struct AxisFilter {
  T factors, index, covered;  ///< covered: whether the filter covers the element; what it does not cover counts for nothing
};

/// Whether the axis may turn out to have the size that it had. PyTorch passes over those, whatever the scale.
bool may_keep(const ResizeAxis& a) { return !(a.in.as_const() && a.out.as_const()); }

AxisFilter axis_filter(Rule& r, T (*filter)(const T&), int radius, bool align, const ResizeAxis& a) {
  const T n = scalar_of(r.b, a.in, DType::f64), m = scalar_of(r.b, a.out, DType::f64);
  T step = align ? where(m > 1.0, (n - 1.0) / maximum(m - 1.0, 1.0), 0.0) : ratio(r.b, a, DType::f64);
  if (may_keep(a)) step = where(n == m, 1.0, step);
  const T wide = maximum(step, 1.0);
  T support = wide * radius;
  if (may_keep(a)) support = where(n == m, 0.5, support);  // the element itself and nothing else
  const std::vector<Expr> grid = {r.b.syms().simplify(most_taps(a, radius, align)), a.out};
  const FilterReach reach(iota(r.b, grid, 1, DType::f64), step, support, n);
  const T from = reach.lo + iota(r.b, grid, 0, DType::f64), covered = from < reach.hi;
  return {filter_factors(filter, from, reach, covered, wide), maximum(minimum(from, n - 1.0), 0.0).to(DType::i64), covered};
}

T filtered(const T& x, const ResizeAxis& a, const AxisFilter& f) {
  const T factors = f.factors.to(x.dtype());
  std::vector<Expr> along(static_cast<size_t>(x.rank()) + 1, Expr(1));
  along[static_cast<size_t>(a.dim)] = factors.dim(0), along[static_cast<size_t>(a.dim) + 1] = a.out;
  const T taken(x.b(), x.b().index(x, {f.index}, {a.dim}, a.dim));
  return where(f.covered.reshape(along), taken * factors.reshape(along), 0.0).sum({a.dim}, false);
}

/// Resizing with a filter as wide as the reduction, one dim after the other.
template <T (*filter)(const T&), int radius>
void antialiased(Rule& r) {
  const T in = tensor(r, r.has("self") ? "self" : "input");
  const bool align = r.boolean("align_corners");
  const auto plan = [&](const ResizeAxis& a) { return axis_filter(r, filter, radius, align, a); };
  if (in.dtype() == DType::u8)
    return bytes(r, in, [&](const T& x, const ResizeAxis& a) {
      const AxisFilter f = plan(a);
      return bytes_by_grid(x, a, f.index, f.factors);
    });
  if (!is_float(in.dtype())) r.refuse("antialiased resizing of integers other than uint8");
  T x = in.up();
  for (const ResizeAxis& a : axes(r, x, 2))
    if (!(a.in == a.out)) x = filtered(x, a, plan(a));  // see may_keep
  r.set(x.to(in.dtype()));
}

/// The sampling grid of an affine map: base coordinates times theta transposed.
void affine_grid(Rule& r) {
  const T theta = tensor(r, "theta");
  const TensorType t = r.meta_result();
  const int k = t.rank() - 2;
  const bool align = r.boolean("align_corners");
  const std::vector<Expr> size = r.syms("size");
  for (size_t i = 2; i < size.size() && i < t.dims.size(); ++i) r.agree(size[i], t.dims[i - 1], "argument 'size'");
  const T m = theta.up();
  std::vector<Expr> lines(t.dims.begin() + 1, t.dims.end() - 1);
  std::optional<T> sum;
  for (int i = 0; i < k; ++i) {
    // Coordinate i of theta's columns runs along the last listed dim first.
    const int d = k - 1 - i;
    std::vector<Expr> line(static_cast<size_t>(k), Expr(1));
    const Expr n = lines[static_cast<size_t>(d)];
    line[static_cast<size_t>(d)] = n;
    const T j = iota(r.b, line, d, m.dtype()), size = scalar_of(r.b, n, m.dtype());
    T c = align ? j * 2.0 / maximum(size - 1.0, 1.0) - 1.0 : (j * 2.0 + 1.0) / size - 1.0;
    if (align && n.is(1)) c = c.like(0);
    std::vector<Expr> column = {theta.dim(0)};
    column.insert(column.end(), static_cast<size_t>(k), Expr(1));
    column.push_back(k);
    const T term = c.unsqueeze(-1).unsqueeze(0) * m.select(2, i).reshape(column);
    sum = sum ? *sum + term : term;
  }
  std::vector<Expr> column = {theta.dim(0)};
  column.insert(column.end(), static_cast<size_t>(k), Expr(1));
  column.push_back(k);
  r.set((*sum + m.select(2, k).reshape(column)).to(t.dtype));
}

constexpr RuleRow kRows[] = {
    {"aten.upsample_nearest1d.default aten.upsample_nearest1d.vec", nearest<1, false>},
    {"aten.upsample_nearest2d.default aten.upsample_nearest2d.vec", nearest<2, false>},
    {"aten.upsample_nearest3d.default aten.upsample_nearest3d.vec", nearest<3, false>},
    {"aten._upsample_nearest_exact1d.default aten._upsample_nearest_exact1d.vec", nearest<1, true>},
    {"aten._upsample_nearest_exact2d.default aten._upsample_nearest_exact2d.vec", nearest<2, true>},
    {"aten._upsample_nearest_exact3d.default aten._upsample_nearest_exact3d.vec", nearest<3, true>},
    {"aten.upsample_linear1d.default aten.upsample_linear1d.vec", linear<1>},
    {"aten.upsample_bilinear2d.default aten.upsample_bilinear2d.vec", linear<2>},
    {"aten.upsample_trilinear3d.default aten.upsample_trilinear3d.vec", linear<3>},
    {"aten.upsample_bicubic2d.default aten.upsample_bicubic2d.vec", bicubic},
    {"aten._upsample_bilinear2d_aa.default aten._upsample_bilinear2d_aa.vec", antialiased<triangle_filter, 1>},
    {"aten._upsample_bicubic2d_aa.default aten._upsample_bicubic2d_aa.vec", antialiased<cubic_filter, 2>},
    {"aten.affine_grid_generator.default", affine_grid},
};
}  // namespace

RuleTable upsample_rules() { return kRows; }

}  // namespace aotc::decompose
