// Pooling: windows, then a reduction over the kernel dims.
#include <algorithm>
#include <limits>

#include "decompose/families.h"
#include "decompose/pooling.h"

namespace aotc::decompose {

Ints trailing(const T& x, int k) {
  Ints d;
  for (int i = x.rank() - k; i < x.rank(); ++i) d.push_back(i);
  return d;
}

std::vector<Expr> last(const std::vector<Expr>& dims, int k) { return {dims.end() - k, dims.end()}; }

T along(const T& v, int i, int k) {
  std::vector<Expr> d(static_cast<size_t>(k), Expr(1));
  d[static_cast<size_t>(i)] = v.dim(0);
  return v.reshape(d);
}

PoolWindows pool_windows(Rule& r, int k) {
  PoolWindows w;
  w.kernel = r.spatial("kernel_size", k);
  w.stride = r.none("stride") || r.integers("stride").empty() ? w.kernel : r.spatial("stride", k);
  w.padding = r.spatial("padding", k, 0);
  w.dilation = r.has("dilation") ? r.spatial("dilation", k) : Ints(static_cast<size_t>(k), 1);
  return w;
}

std::vector<Expr> pool_sizes(Rule& r, const std::vector<Expr>& in, const PoolWindows& w) {
  const bool ceil_mode = r.boolean_or("ceil_mode", false);
  std::vector<Expr> out;
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    if (w.kernel[i] < 1 || w.stride[i] < 1 || w.dilation[i] < 1 || w.padding[i] < 0)
      throw r.fault("a window, stride, padding or dilation out of range");
    const Expr end = in[i] + 2 * w.padding[i] - w.dilation[i] * (w.kernel[i] - 1) - 1;
    Expr n = floordiv(end + (ceil_mode ? w.stride[i] - 1 : 0), w.stride[i]) + 1;
    if (ceil_mode) n = n - min(max((n - 1) * w.stride[i] - (in[i] + w.padding[i]) + 1, 0), 1);
    out.push_back(r.b.syms().simplify(n));
  }
  return out;
}

T pool_divisor(Rule& r, const PoolWindows& w, const std::vector<Expr>& in, const std::vector<Expr>& out, DType t) {
  if (r.has("divisor_override") && !r.none("divisor_override")) return {r.b, full(r.b, t, {}, r.number("divisor_override"))};
  const bool with_pad = r.boolean("count_include_pad");
  const bool padded = std::any_of(w.padding.begin(), w.padding.end(), [](int64_t p) { return p != 0; });
  const int k = static_cast<int>(w.kernel.size());
  double taps = 1;
  for (int64_t s : w.kernel) taps *= static_cast<double>(s);
  if (!r.boolean("ceil_mode") && (with_pad || !padded)) return {r.b, full(r.b, t, {}, taps)};
  // The window's part inside the (padded) input, per output place.
  T n = T(r.b, full(r.b, DType::i64, {}, 1.0));
  for (int i = 0; i < k; ++i) {
    const size_t s = static_cast<size_t>(i);
    std::vector<Expr> line(static_cast<size_t>(k), Expr(1));
    line[s] = out[s];
    const T from = iota(r.b, line, i) * static_cast<double>(w.stride[s]) - static_cast<double>(w.padding[s]);
    const T end = minimum(from + static_cast<double>(w.kernel[s]), scalar_of(r.b, in[s] + w.padding[s], DType::i64));
    n = n * (with_pad ? end - from : minimum(end, scalar_of(r.b, in[s], DType::i64)) - maximum(from, 0.0));
  }
  return n.to(t);
}

AdaptiveRange adaptive_range(Builder& b, const Expr& in, const Expr& out) {
  const T index = iota(b, {out}, 0), size = scalar_of(b, in, DType::i64), many = scalar_of(b, out, DType::i64);
  const T first = binary(Op::div_floor, index * size, many);
  const T end = binary(Op::div_floor, (index + 1.0) * size + (many - 1.0), many);
  return {first, end - first};
}

Adaptive adaptive_windows(Rule& r, const T& x0, const std::vector<Expr>& out, double fill) {
  const int k = static_cast<int>(out.size());
  SymTable& syms = r.b.syms();
  Adaptive a{x0, {}, {}, {}};
  // Each dim i in turn becomes [Oi, Ki] in place.
  for (int i = 0; i < k; ++i) {
    const int at = a.windows.rank() - (k - i);
    const Expr in = a.windows.dim(at), o = syms.simplify(out[static_cast<size_t>(i)]);
    const AdaptiveRange range = adaptive_range(r.b, in, o);
    a.first.push_back(range.first);
    a.length.push_back(range.length);
    const std::optional<int64_t> oc = o.as_const();
    std::vector<Expr> dims = a.windows.dims();
    dims[static_cast<size_t>(at)] = o;
    if (oc && *oc > 0 && syms.proves_divisible(in, *oc)) {
      const Expr step = syms.simplify(floordiv(in, *oc));
      dims.insert(dims.begin() + at + 1, step);
      a.windows = a.windows.reshape(dims);
      a.uniform.push_back(1);
      continue;
    }
    a.uniform.push_back(0);
    // The longest window; shorter ones are filled up.
    Expr longest = syms.simplify(floordiv(in + o - 1, o) + 1);
    if (auto ic = in.as_const(); ic && oc) {
      int64_t most = 0;
      for (int64_t j = 0; j < *oc; ++j) most = std::max(most, ((j + 1) * *ic + *oc - 1) / *oc - j * *ic / *oc);
      longest = most;
    }
    const T tap = iota(r.b, {o, longest}, 1);
    const T place = minimum(range.first.unsqueeze(1) + tap, scalar_of(r.b, in - 1, DType::i64));
    T w(r.b, r.b.index(a.windows, {place}, {at}, at));
    std::vector<Expr> mask_dims(static_cast<size_t>(w.rank()), Expr(1));
    mask_dims[static_cast<size_t>(at)] = o;
    mask_dims[static_cast<size_t>(at) + 1] = longest;
    a.windows = where((tap < range.length.unsqueeze(1)).reshape(mask_dims), w, fill);
  }
  // [.., O1, K1, O2, K2] → [.., O1, O2, K1, K2]
  const int lead = a.windows.rank() - 2 * k;
  Ints perm;
  for (int i = 0; i < lead; ++i) perm.push_back(i);
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < k; ++i) perm.push_back(lead + 2 * i + half);
  a.windows = a.windows.permute(perm);
  return a;
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Row-major position in the input of the window element that `within` names, per output element.
T position_of(const T& within, const std::vector<Expr>& in, const Ints& kernel, const Ints& stride, const Ints& padding,
              const Ints& dilation) {
  const int k = static_cast<int>(kernel.size());
  T flat = within.like(0);
  T rest = within;
  Expr scale = 1;
  for (int i = k - 1; i >= 0; --i) {
    const size_t s = static_cast<size_t>(i);
    const T tap = i == 0 ? rest : binary(Op::remainder, rest, static_cast<double>(kernel[s]));
    rest = i == 0 ? rest : binary(Op::div_floor, rest, static_cast<double>(kernel[s]));
    const T o = iota(within.b(), within.dims(), within.rank() - k + i);
    const T at = o * static_cast<double>(stride[s]) + tap * static_cast<double>(dilation[s]) - static_cast<double>(padding[s]);
    flat = flat + at * scalar_of(within.b(), scale, DType::i64);
    scale = scale * in[s];
  }
  return flat;
}

/// The archive's sizes of a pool's result.
std::vector<Expr> pooled(Rule& r, const T& x, const PoolWindows& w) {
  const int k = static_cast<int>(w.kernel.size());
  const TensorType t = r.meta_result();
  if (x.rank() < k || t.rank() != x.rank()) throw r.fault(fmt::format("a pool of {} dimensions of {}", k, x.rank()));
  return r.agree(pool_sizes(r, last(x.dims(), k), w), last(t.dims, k), "the pool");
}

/// Row-major place of each element among the last k dims.
T place_within(const T& w, int k) {
  T place = iota(w.b(), w.dims(), w.rank() - k);
  for (int d = w.rank() - k + 1; d < w.rank(); ++d) place = place * scalar_of(w.b(), w.dim(d), DType::i64) + iota(w.b(), w.dims(), d);
  return place;
}

/// The element of each window that pooling takes: the last NaN, else the first of the greatest.
T greatest_place(const T& windows, int k) {
  const Ints over = trailing(windows, k);
  const T first = windows.reduce(ReduceKind::argmax, over, false);
  if (!is_float(windows.dtype())) return first;
  const T nan = where(unary(Op::isnan, windows), place_within(windows, k), -1.0).reduce(ReduceKind::max, over, false);
  return where(nan >= 0.0, nan, first);
}

template <int k>
void max_pool(Rule& r) {
  const T x0 = tensor(r, "self");
  const PoolWindows p = pool_windows(r, k);
  const TensorType t = r.meta_result();
  const T x = is_float(x0.dtype()) ? x0 : x0.to(DType::i64);
  const T w(r.b, r.b.window(x, p.kernel, p.stride, p.padding, p.dilation, pooled(r, x, p), -kInfinity));
  const T top = w.reduce(ReduceKind::max, trailing(w, k), false);
  r.set(0, top.to(t.dtype));
  if (!r.wants(1)) return;
  T place = greatest_place(w, k);
  // Where padding is as great as anything, the first place of the window that is inside.
  if (is_float(x.dtype()) && std::any_of(p.padding.begin(), p.padding.end(), [](int64_t n) { return n != 0; })) {
    T inside = place.like(0);
    for (int i = 0; i < k; ++i) {
      const size_t s = static_cast<size_t>(i);
      const double step = static_cast<double>(p.dilation[s]);
      const T outside = maximum(
          static_cast<double>(p.padding[s]) - iota(r.b, place.dims(), place.rank() - k + i) * static_cast<double>(p.stride[s]), 0.0);
      inside = inside * static_cast<double>(p.kernel[s]) + binary(Op::div_floor, outside + (step - 1.0), step);
    }
    place = where(top == -kInfinity, inside, place);
  }
  r.set(1, position_of(place, last(x.dims(), k), p.kernel, p.stride, p.padding, p.dilation));
}

template <int k>
void avg_pool(Rule& r) {
  const T x0 = tensor(r, "self");
  const PoolWindows p = pool_windows(r, k);
  const TensorType t = r.meta_result();
  const T x = is_float(x0.dtype()) ? x0.up() : x0.to(DType::i64);
  const T w(r.b, r.b.window(x, p.kernel, p.stride, p.padding, p.dilation, pooled(r, x, p), 0.0));
  const T sum = w.sum(trailing(w, k), false), n = pool_divisor(r, p, last(x.dims(), k), last(t.dims, k), sum.dtype());
  r.set((is_float(sum.dtype()) ? sum / n : binary(Op::div_trunc, sum, n)).to(t.dtype));
}

/// The archive's sizes in the last k dims, as argument 'output_size' has them.
std::vector<Expr> output_size(Rule& r, int k) {
  const TensorType t = r.meta_result();
  const std::vector<Expr> own = r.syms("output_size");
  if (t.rank() < k || own.size() != static_cast<size_t>(k)) throw r.fault(fmt::format("{} sizes for {} dimensions", own.size(), k));
  return r.agree(own, last(t.dims, k), "argument 'output_size'");
}

template <int k>
void adaptive_avg_pool(Rule& r) {
  const T x = tensor(r, "self").up();
  const TensorType t = r.meta_result();
  const std::vector<Expr> size = output_size(r, k);
  if (t.elems().is(0)) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  const Adaptive a = adaptive_windows(r, x, size, 0.0);
  const T sum = a.windows.sum(trailing(a.windows, k), false);
  T n(r.b, full(r.b, sum.dtype(), {}, 1.0));
  for (int i = 0; i < k; ++i) {
    const size_t s = static_cast<size_t>(i);
    n = n * (a.uniform[s] ? scalar_of(r.b, a.windows.dim(i - k), sum.dtype()) : along(a.length[s], i, k).to(sum.dtype()));
  }
  r.set((sum / n).to(t.dtype));
}

template <int k>
void adaptive_max_pool(Rule& r) {
  const T x = tensor(r, "self");
  const std::vector<Expr> size = output_size(r, k);
  if (const TensorType t = r.meta_result(); t.elems().is(0)) {
    for (size_t i : {0, 1})
      if (r.wants(i)) r.set(i, full(r.b, r.meta_result(i).dtype, t.dims, 0.0));
    return;
  }
  const Adaptive a = adaptive_windows(r, x, size, -kInfinity);
  r.set(0, a.windows.reduce(ReduceKind::max, trailing(a.windows, k), false));
  if (!r.wants(1)) return;
  T rest = greatest_place(a.windows, k);
  T flat = rest.like(0);
  Expr scale = 1;
  for (int i = k - 1; i >= 0; --i) {
    const size_t s = static_cast<size_t>(i);
    const T size = scalar_of(r.b, a.windows.dim(i - k), DType::i64);
    const T tap = i == 0 ? rest : binary(Op::remainder, rest, size);
    if (i > 0) rest = binary(Op::div_floor, rest, size);
    flat = flat + (tap + along(a.first[s], i, k)) * scalar_of(r.b, scale, DType::i64);
    scale = scale * x.dim(i - k);
  }
  r.set(1, flat);
}

/// The largest element of windows whose places along each dim are drawn: from the k-th sample of a channel, of the last dim from the first
/// one of 2, of the first dim from the first one of 3.
template <int k>
void fractional_max_pool(Rule& r) {
  const T x0 = tensor(r, "self");
  const bool batched = x0.rank() == k + 2;
  const T x = batched ? x0 : x0.unsqueeze(0), samples = tensor(r, "random_samples").to(x.dtype()).up();
  const Ints kernel = r.spatial("kernel_size", k);
  const std::vector<Expr> size = output_size(r, k);
  if (const TensorType t = r.meta_result(); t.elems().is(0)) {
    for (size_t i : {0, 1})
      if (r.wants(i)) r.set(i, full(r.b, r.meta_result(i).dtype, t.dims, 0.0));
    return;
  }
  const std::vector<Expr> lead = {x.dim(0), x.dim(1)};
  std::vector<Expr> places = lead, flat = lead;  // [N, C, out.., taps..]
  places.insert(places.end(), size.begin(), size.end());
  for (int64_t taps : kernel) places.emplace_back(taps);
  std::optional<T> at;
  for (int i = 0; i < k; ++i) {
    const size_t s = static_cast<size_t>(i);
    const T u = samples.select(-1, k == 2 ? 1 - i : i).unsqueeze(-1);
    const T last = scalar_of(r.b, x.dim(2 + i) - kernel[s], DType::i64);
    const T step = last.to(u.dtype()) / maximum(scalar_of(r.b, size[s] - 1, u.dtype()), 1.0);
    const T n = iota(r.b, {size[s]}, 0);
    const auto whole = [](const T& v) { return unary(Op::trunc, v).to(DType::i64); };
    const T from = where(n == scalar_of(r.b, size[s] - 1, DType::i64), last, whole((n.to(u.dtype()) + u) * step) - whole(u * step));
    std::vector<Expr> own = lead, tap(places.size(), Expr(1));
    own.insert(own.end(), static_cast<size_t>(2 * k), Expr(1));
    own[2 + s] = size[s];
    tap[2 + s + k] = kernel[s];
    const T place = from.expand({lead[0], lead[1], size[s]}).reshape(own) + iota(r.b, tap, 2 + i + k);
    at = at ? *at * scalar_of(r.b, x.dim(2 + i), DType::i64) + place : place;
  }
  Expr windows = product(size), taps = 1;
  for (int64_t t : kernel) taps *= t;
  const T places_of = at->expand(places).reshape({lead[0], lead[1], windows * taps});
  flat.push_back(product(last(x.dims(), k)));
  const T picked = T(r.b, r.b.gather(x.reshape(flat), places_of, 2)).reshape({lead[0], lead[1], windows, taps});
  const TensorType t = r.meta_result();
  r.set(0, picked.reduce(ReduceKind::max, {3}, false).reshape(t.dims));
  if (!r.wants(1)) return;
  const T best = picked.reduce(ReduceKind::argmax, {3}, true);
  r.set(1, T(r.b, r.b.gather(places_of.reshape({lead[0], lead[1], windows, taps}), best, 3)).reshape(t.dims));
}

/// Values put back where max pooling took them from.
template <int k>
void max_unpool(Rule& r) {
  const T x = tensor(r, "self"), at = tensor(r, "indices");
  const TensorType t = r.meta_result();
  output_size(r, k);
  std::vector<Expr> lead(x.dims().begin(), x.dims().end() - k), flat_in = lead, flat_out = lead;
  flat_in.push_back(product(last(x.dims(), k)));
  flat_out.push_back(product(last(t.dims, k)));
  const T zero(r.b, full(r.b, t.dtype, flat_out, 0.0));
  const int64_t d = static_cast<int64_t>(lead.size());
  const T y(r.b, r.b.make1(Op::scatter, {zero, at.reshape(flat_in), x.reshape(flat_in)}, {{Attr::dim, d}}));
  r.set(y.reshape(t.dims));
}

constexpr RuleRow kRows[] = {
    {"aten.max_pool1d.default aten.max_pool1d_with_indices.default", max_pool<1>},
    {"aten.max_pool2d.default aten.max_pool2d_with_indices.default", max_pool<2>},
    {"aten.max_pool3d.default aten.max_pool3d_with_indices.default", max_pool<3>},
    {"aten.avg_pool1d.default", avg_pool<1>},
    {"aten.avg_pool2d.default", avg_pool<2>},
    {"aten.avg_pool3d.default", avg_pool<3>},
    {"aten.adaptive_avg_pool1d.default", adaptive_avg_pool<1>},
    {"aten.adaptive_avg_pool2d.default aten._adaptive_avg_pool2d.default", adaptive_avg_pool<2>},
    {"aten.adaptive_avg_pool3d.default aten._adaptive_avg_pool3d.default", adaptive_avg_pool<3>},
    {"aten.adaptive_max_pool1d.default", adaptive_max_pool<1>},
    {"aten.adaptive_max_pool2d.default", adaptive_max_pool<2>},
    {"aten.adaptive_max_pool3d.default", adaptive_max_pool<3>},
    {"aten.fractional_max_pool2d.default", fractional_max_pool<2>},
    {"aten.fractional_max_pool3d.default", fractional_max_pool<3>},
    {"aten.max_unpool2d.default", max_unpool<2>},
    {"aten.max_unpool3d.default", max_unpool<3>},
};
}  // namespace

RuleTable pool_rules() { return kRows; }

}  // namespace aotc::decompose
