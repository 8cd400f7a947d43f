// Convolutions.
#include <algorithm>
#include <optional>

#include "decompose/complex.h"
#include "decompose/families.h"
#include "decompose/linalg.h"
#include "decompose/tensor.h"

namespace aotc::decompose {
namespace {

struct Geometry {
  Ints stride, padding, padding_hi, dilation, output_padding;
  int64_t groups = 1;
  std::optional<Expr> symbolic_groups;
  bool transposed = false;
};

void read_groups(Rule& r, Geometry& g) {
  const Expr groups = r.sym("groups");
  if (groups.is_const())
    g.groups = r.integer("groups");
  else
    g.symbolic_groups = groups;
}

/// With the geometry's zeros around it; negative padding cuts.
T padded(T x, const Geometry& g) {
  std::vector<Expr> lo(2, Expr(0)), hi = lo;
  for (size_t i = 0; i < g.padding.size(); ++i) {
    const int64_t cut_lo = std::max<int64_t>(-g.padding[i], 0), cut_hi = std::max<int64_t>(-g.padding_hi[i], 0);
    const int d = static_cast<int>(i) + 2;
    if (cut_lo + cut_hi > 0) x = x.slice(d, cut_lo, x.dim(d) - cut_lo - cut_hi);
    lo.emplace_back(g.padding[i] + cut_lo);
    hi.emplace_back(g.padding_hi[i] + cut_hi);
  }
  return {x.b(), x.b().pad(x, lo, hi, 0.0)};
}

/// The sums of a convolution whose groups are as many as a size says (filters of each image's own, the batch in the channels): products
/// over what each place reads, a batch of them. A channel a group is a sum of taps.
T by_symbolic_groups(Rule& r, const T& x0, const T& w, const Geometry& g, const Expr& groups, const TensorType& result) {
  const size_t k = g.stride.size();
  const Expr per_group = w.dim(1);
  const bool by_window = g.padding == g.padding_hi && std::all_of(g.padding.begin(), g.padding.end(), [](int64_t p) { return p >= 0; });
  const T x = by_window ? x0 : padded(x0, g);
  r.b.require(ShapeGuard::Kind::eq, groups * per_group, x.dim(1), "channels by groups");
  r.b.require(ShapeGuard::Kind::divisible, w.dim(0), groups, "filters by groups");
  Ints taps;
  std::vector<Expr> places(result.dims.begin() + 2, result.dims.end());
  for (size_t i = 0; i < k; ++i) taps.push_back(r.constant(w.dim(static_cast<int>(i) + 2), "the kernel size of a convolution"));
  const Ints padding = by_window ? g.padding : Ints(k, 0);
  const T read(r.b, r.b.window(x, taps, g.stride, padding, g.dilation, places, 0.0));  // [N, C, places.., taps..]
  if (per_group.is(1) && r.b.syms().proves_eq(w.dim(0), x.dim(1))) {
    std::vector<Expr> of_channel = {1, w.dim(0)};
    of_channel.insert(of_channel.end(), k, Expr(1));
    of_channel.insert(of_channel.end(), taps.begin(), taps.end());
    Ints over;
    for (size_t i = 0; i < k; ++i) over.push_back(static_cast<int64_t>(2 + k + i));
    return (read.up() * w.up().reshape(of_channel)).sum(over, false).to(result.dtype);
  }
  const Expr rows = r.b.syms().simplify(floordiv(w.dim(0), groups)), n = x.dim(0),
             columns = per_group * product({taps.begin(), taps.end()});
  std::vector<Expr> split = {n, groups, per_group}, whole = {groups, rows, n};
  split.insert(split.end(), places.begin(), places.end());
  split.insert(split.end(), taps.begin(), taps.end());
  whole.insert(whole.end(), places.begin(), places.end());
  Ints order = {1, 2}, back = {2, 0, 1};  // [groups, channels, taps.., N, places..], [N, groups, rows, places..]
  for (size_t i = 0; i < k; ++i) order.push_back(static_cast<int64_t>(3 + k + i));
  order.push_back(0);
  for (size_t i = 0; i < k; ++i) order.push_back(static_cast<int64_t>(3 + i)), back.push_back(static_cast<int64_t>(3 + i));
  const T right = read.reshape(split).permute(order).reshape({groups, columns, n * product(places)});
  const T y = matmul(w.to(x.dtype()).reshape({groups, rows, columns}), right, result.dtype);
  return y.reshape(whole).permute(back).reshape(result.dims);
}

/// The same of a transposed convolution: that of the input with zeros between its elements and of turned filters, whose channels of input
/// and output change places in each group.
T by_symbolic_groups_transposed(Rule& r, const T& x0, const T& w, const Geometry& g, const Expr& groups, const TensorType& result) {
  const size_t k = g.stride.size();
  r.b.require(ShapeGuard::Kind::divisible, x0.dim(1), groups, "channels by groups");
  std::vector<Expr> apart(x0.dims().begin(), x0.dims().begin() + 2), none(2, Expr(0)), gaps = none, dense = apart;
  Geometry direct{.stride = Ints(k, 1), .dilation = g.dilation};
  Ints turned;
  for (size_t i = 0; i < k; ++i) {
    const int d = static_cast<int>(i) + 2;
    const Expr size = x0.dim(d);
    apart.insert(apart.end(), {size, 1});
    none.insert(none.end(), {0, 0});
    gaps.insert(gaps.end(), {0, g.stride[i] - 1});
    dense.push_back(size * g.stride[i]);
    turned.push_back(d);
    const int64_t reach = g.dilation[i] * (r.constant(w.dim(d), "the kernel size of a convolution") - 1) - g.padding[i];
    direct.padding.push_back(reach);
    direct.padding_hi.push_back(reach + g.output_padding[i] - (g.stride[i] - 1));  // the last gap is beyond the input
  }
  const T x = T(r.b, r.b.pad(x0.reshape(apart), none, gaps, 0.0)).reshape(dense);
  std::vector<Expr> split = {groups, floordiv(w.dim(0), groups), w.dim(1)}, filters = {groups * w.dim(1), split[1]};
  split.insert(split.end(), w.dims().begin() + 2, w.dims().end());
  filters.insert(filters.end(), w.dims().begin() + 2, w.dims().end());
  Ints swapped = {0, 2, 1};
  for (size_t i = 0; i < k; ++i) swapped.push_back(static_cast<int64_t>(3 + i));
  const T weight = T(r.b, r.b.flip(w, turned)).reshape(split).permute(swapped).reshape(filters);
  return by_symbolic_groups(r, x, weight, direct, groups, result);
}

/// One convolution with its bias; x may lack the batch dim.
T convolved(Rule& r, const T& x0, const T& w, const std::optional<T>& bias, const Geometry& g, const TensorType& out) {
  const int k = w.rank() - 2;
  for (int i = 0; i < k; ++i) r.constant(w.dim(2 + i), "the kernel size of a convolution");
  const bool batched = x0.rank() == k + 2;
  const T x = batched ? x0 : x0.unsqueeze(0);
  TensorType t{bias ? compute_type(out.dtype) : out.dtype, out.dims};
  if (!batched) t.dims.insert(t.dims.begin(), Expr(1));
  std::map<Attr, AttrValue> attrs = {{Attr::stride, g.stride},
                                     {Attr::padding, g.padding},
                                     {Attr::padding_hi, g.padding_hi},
                                     {Attr::dilation, g.dilation},
                                     {Attr::groups, g.groups}};
  if (g.transposed) attrs[Attr::output_padding] = g.output_padding;
  const auto symbolic = g.transposed ? by_symbolic_groups_transposed : by_symbolic_groups;
  T y = g.symbolic_groups ? symbolic(r, x, w, g, *g.symbolic_groups, t)
                          : T(r.b, r.b.make1(g.transposed ? Op::conv_transpose : Op::conv, {x, w.to(x.dtype())}, attrs, &t));
  if (bias) {
    std::vector<Expr> channel(static_cast<size_t>(k) + 2, Expr(1));
    channel[1] = bias->dim(0);
    y = (y + bias->to(y.dtype()).reshape(channel)).to(out.dtype);
  }
  return batched ? y : y.squeeze(0);
}

/// Of a filter with k spatial dims.
Geometry geometry(Rule& r, const T& w, int k) {
  Geometry g;
  g.stride = r.spatial("stride", k);
  g.dilation = r.spatial("dilation", k);
  g.transposed = r.boolean_or("transposed", false);
  read_groups(r, g);
  if (g.transposed) g.output_padding = r.spatial("output_padding", k, 0);
  if (std::holds_alternative<std::string>(r.arg("padding"))) {
    const std::string how = r.text("padding");
    if (how != "same" && how != "valid") r.refuse(fmt::format("padding='{}' is not supported", how));
    for (int i = 0; i < k; ++i) {
      const size_t s = static_cast<size_t>(i);
      const int64_t total = how == "same" ? g.dilation[s] * (r.constant(w.dim(i + 2), "the kernel size") - 1) : 0;
      g.padding.push_back(total / 2);
      g.padding_hi.push_back(total - total / 2);
    }
  } else {
    g.padding = g.padding_hi = r.spatial("padding", k, 0);
  }
  return g;
}
Geometry geometry_transposed(Rule& r, const T&, int k) {
  Geometry g;
  g.transposed = true;
  g.stride = r.spatial("stride", k);
  g.dilation = r.spatial("dilation", k);
  g.padding = g.padding_hi = r.spatial("padding", k, 0);
  g.output_padding = r.spatial("output_padding", k, 0);
  read_groups(r, g);
  return g;
}

template <auto of_filter>
void conv(Rule& r) {
  const T x = tensor(r, "input"), w = tensor(r, "weight");
  r.set(convolved(r, x, w, opt_tensor(r, "bias"), of_filter(r, w, w.rank() - 2), r.meta_result()));
}

/// Of complex numbers, as four real ones, or two where one operand is real.
template <auto of_filter>
void complex_conv(Rule& r) {
  TensorType out = r.meta_result();
  out.dims.pop_back();
  const auto parts = [&](std::string_view name) {
    const T t = tensor(r, name);
    return complex_arg(r, name) ? std::vector<T>{t.select(-1, 0), t.select(-1, 1)} : std::vector<T>{t.to(out.dtype)};
  };
  const std::vector<T> x = parts("input"), w = parts("weight");
  const Geometry g = of_filter(r, w[0], w[0].rank() - 2);
  const auto of = [&](const T& a, const T& b) { return convolved(r, a, b, std::nullopt, g, out); };
  const bool both = x.size() > 1 && w.size() > 1;
  T re = of(x[0], w[0]), im = x.size() > 1 ? of(x[1], w[0]) : of(x[0], w[1]);
  if (both) re = re - of(x[1], w[1]), im = im + of(x[0], w[1]);
  if (!r.none("bias")) {
    std::vector<Expr> channel(static_cast<size_t>(w[0].rank()) - 1, Expr(1));
    const std::vector<T> bias = parts("bias");
    channel[0] = bias[0].dim(0);
    re = re + bias[0].reshape(channel);
    if (bias.size() > 1) im = im + bias[1].reshape(channel);
  }
  r.set(join({re, im}));
}

/// Patches of an image as columns.
void im2col(Rule& r) {
  const T x0 = tensor(r, "self");
  const T x = x0.rank() == 3 ? x0.unsqueeze(0) : x0;
  const Ints kernel = r.spatial("kernel_size", 2), dilation = r.spatial("dilation", 2), padding = r.spatial("padding", 2, 0),
             stride = r.spatial("stride", 2);
  std::vector<Expr> out;
  for (int i = 0; i < 2; ++i) {
    const size_t s = static_cast<size_t>(i);
    out.push_back(floordiv(x.dim(2 + i) + 2 * padding[s] - dilation[s] * (kernel[s] - 1) - 1, stride[s]) + 1);
  }
  const T w(r.b, r.b.window(x, kernel, stride, padding, dilation, out, 0.0));
  const T columns = w.permute({0, 1, 4, 5, 2, 3}).reshape({x.dim(0), x.dim(1) * (kernel[0] * kernel[1]), out[0] * out[1]});
  r.set(x0.rank() == 3 ? columns.squeeze(0) : columns);
}

/// [.., B, .., K]: dim d holds blocks, the last dim the taps that each block adds to elements `stride` apart and `dilation` between the
/// taps. Gives the sums in dim d, of `size` elements, the first `padding` left out.
T overlapped(const T& x, int d, int64_t stride, int64_t dilation, int64_t padding, const Expr& size) {
  Builder& b = x.b();
  const int64_t taps = *x.dim(-1).as_const(), group = dilation == 1 ? std::min(stride, taps) : 1;  // taps of a group do not overlap
  const Expr blocks = x.dim(d), total = dilation * (taps - 1) + blocks * stride;
  Ints beside;  // the taps next to the blocks
  for (int i = 0; i < x.rank() - 1; ++i) {
    beside.push_back(i);
    if (i == d) beside.push_back(x.rank() - 1);
  }
  const auto zeros_after = [&](const T& v, int dim, const Expr& before, const Expr& to) {
    std::vector<Expr> lo(static_cast<size_t>(v.rank()), Expr(0)), hi = lo;
    lo[static_cast<size_t>(dim)] = before;
    hi[static_cast<size_t>(dim)] = b.syms().simplify(to - before - v.dim(dim));
    return T(b, b.pad(v, lo, hi, 0.0));
  };
  std::optional<T> sum;
  for (int64_t k = 0; k < taps; k += group) {
    const T part = zeros_after(x.slice(-1, k, std::min(group, taps - k)).permute(beside), d + 1, 0, stride);
    std::vector<Expr> line(x.dims().begin(), x.dims().end() - 1);
    line[static_cast<size_t>(d)] = blocks * stride;
    const T placed = zeros_after(part.reshape(line), d, k * dilation, total);
    sum = sum ? *sum + placed : placed;
  }
  return sum->slice(d, padding, size);
}

/// Sum of patches back into an image.
void col2im(Rule& r) {
  const T x0 = tensor(r, "self");
  const T x = (x0.rank() == 2 ? x0.unsqueeze(0) : x0).up();
  const std::vector<Expr> size = r.syms("output_size");
  const Ints kernel = r.spatial("kernel_size", 2), dilation = r.spatial("dilation", 2), padding = r.spatial("padding", 2, 0),
             stride = r.spatial("stride", 2);
  std::vector<Expr> blocks;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t reach = dilation[i] * (kernel[i] - 1) + 1;
    blocks.push_back(r.b.syms().simplify(floordiv(size[i] + 2 * padding[i] - reach, stride[i]) + 1));
  }
  r.agree(blocks[0] * blocks[1], x.dim(2), "the blocks");
  r.b.require(ShapeGuard::Kind::divisible, x.dim(1), kernel[0] * kernel[1], "channels by the kernel's elements");
  const Expr channels = floordiv(x.dim(1), kernel[0] * kernel[1]);
  const T taps = x.reshape({x.dim(0), channels, kernel[0], kernel[1], blocks[0], blocks[1]}).permute({0, 1, 4, 5, 2, 3});
  const T rows = overlapped(taps, 3, stride[1], dilation[1], padding[1], size[1]);  // [N, C, B0, size1, K0]
  const T y = overlapped(rows, 2, stride[0], dilation[0], padding[0], size[0]).to(x0.dtype());
  r.set(x0.rank() == 2 ? y.squeeze(0) : y);
}

/// Time, batch, channels.
void conv_tbc(Rule& r) {
  const T x = tensor(r, "self").permute({1, 2, 0}), w = tensor(r, "weight").permute({2, 1, 0});
  const Ints pad = {r.integer("pad")};
  const T y(
      r.b,
      r.b.make1(
          Op::conv, {x, w},
          {{Attr::stride, Ints{1}}, {Attr::padding, pad}, {Attr::padding_hi, pad}, {Attr::dilation, Ints{1}}, {Attr::groups, int64_t{1}}}));
  r.set(y.permute({2, 0, 1}) + tensor(r, "bias"));
}

constexpr RuleRow kRows[] = {
    {"aten.conv1d.default aten.conv2d.default aten.conv3d.default aten.conv1d.padding aten.conv2d.padding aten.conv3d.padding "
     "aten.convolution.default aten._convolution.default aten._convolution_mode.default",
     conv<geometry>},
    {"aten.conv_transpose1d.default aten.conv_transpose2d.input aten.conv_transpose3d.input", conv<geometry_transposed>},
    {"aten.im2col.default", im2col},
    {"aten.col2im.default", col2im},
    {"aten.conv_tbc.default", conv_tbc},
};
constexpr RuleRow kComplexRows[] = {
    {"aten.conv1d.default aten.conv2d.default aten.conv3d.default aten.conv1d.padding aten.conv2d.padding aten.conv3d.padding "
     "aten.convolution.default aten._convolution.default",
     complex_conv<geometry>},
    {"aten.conv_transpose1d.default aten.conv_transpose2d.input aten.conv_transpose3d.input", complex_conv<geometry_transposed>},
};
}  // namespace

RuleTable conv_rules() { return kRows; }
RuleTable complex_conv_rules() { return kComplexRows; }

}  // namespace aotc::decompose
