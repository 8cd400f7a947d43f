// Convolutions.
#include "decompose/families.h"
#include "decompose/tensor.h"

namespace aotc::decompose {
namespace {

struct Geometry {
  Ints stride, padding, padding_hi, dilation, output_padding;
  int64_t groups = 1;
  bool transposed = false;
};

/// One convolution with its bias; x may lack the batch dim.
void emit(Rule& r, const T& x0, const T& w, const std::optional<T>& bias, const Geometry& g) {
  const int k = w.rank() - 2;
  const TensorType out = r.meta_result();
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
  T y(r.b, r.b.make1(g.transposed ? Op::conv_transpose : Op::conv, {x, w.to(x.dtype())}, attrs, &t));
  if (bias) {
    std::vector<Expr> channel(static_cast<size_t>(k) + 2, Expr(1));
    channel[1] = bias->dim(0);
    y = (y + bias->to(y.dtype()).reshape(channel)).to(out.dtype);
  }
  r.set(batched ? y : y.squeeze(0));
}

void conv(Rule& r) {
  const T x = tensor(r, "input"), w = tensor(r, "weight");
  const int k = w.rank() - 2;
  Geometry g;
  g.stride = r.spatial("stride", k);
  g.dilation = r.spatial("dilation", k);
  g.groups = r.integer("groups");
  g.transposed = r.boolean_or("transposed", false);
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
  emit(r, x, w, opt_tensor(r, "bias"), g);
}

void conv_transpose(Rule& r) {
  const T x = tensor(r, "input"), w = tensor(r, "weight");
  const int k = w.rank() - 2;
  Geometry g;
  g.transposed = true;
  g.stride = r.spatial("stride", k);
  g.dilation = r.spatial("dilation", k);
  g.padding = g.padding_hi = r.spatial("padding", k, 0);
  g.output_padding = r.spatial("output_padding", k, 0);
  g.groups = r.integer("groups");
  emit(r, x, w, opt_tensor(r, "bias"), g);
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

/// Sum of patches back into an image: the transposed convolution with unit kernels.
void col2im(Rule& r) {
  const T x0 = tensor(r, "self");
  const T x = x0.rank() == 2 ? x0.unsqueeze(0) : x0;
  const Ints size = r.integers("output_size"), kernel = r.spatial("kernel_size", 2), dilation = r.spatial("dilation", 2),
             padding = r.spatial("padding", 2, 0), stride = r.spatial("stride", 2);
  const int64_t taps = kernel[0] * kernel[1];
  Ints blocks(2), extra(2);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t reach = dilation[i] * (kernel[i] - 1) + 1;
    blocks[i] = (size[i] + 2 * padding[i] - reach) / stride[i] + 1;
    extra[i] = size[i] + 2 * padding[i] - reach - (blocks[i] - 1) * stride[i];
  }
  const int64_t channels = r.constant(x.dim(1), "the number of channels") / taps;
  // Each channel is a group whose `taps` inputs each write their own place of the kernel.
  const T image = x.reshape({x.dim(0), Expr(channels * taps), Expr(blocks[0]), Expr(blocks[1])});
  const std::vector<Expr> square = {Expr(taps), Expr(taps)};
  const T eye = (iota(r.b, square, 0) == iota(r.b, square, 1)).to(x.dtype());
  const T w = eye.reshape({1, taps, 1, kernel[0], kernel[1]})
                  .expand({channels, taps, 1, kernel[0], kernel[1]})
                  .reshape({channels * taps, 1, kernel[0], kernel[1]});
  Geometry g;
  g.transposed = true;
  g.stride = stride;
  g.dilation = dilation;
  g.padding = g.padding_hi = padding;
  g.output_padding = extra;
  g.groups = channels;
  TensorType t{x.dtype(), {x.dim(0), Expr(channels), Expr(size[0]), Expr(size[1])}};
  const T y(r.b, r.b.make1(Op::conv_transpose, {image, w},
                           {{Attr::stride, g.stride},
                            {Attr::padding, g.padding},
                            {Attr::padding_hi, g.padding_hi},
                            {Attr::dilation, g.dilation},
                            {Attr::output_padding, g.output_padding},
                            {Attr::groups, g.groups}},
                           &t));
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
    {"aten.conv1d.default", conv},
    {"aten.conv2d.default", conv},
    {"aten.conv3d.default", conv},
    {"aten.conv1d.padding", conv},
    {"aten.conv2d.padding", conv},
    {"aten.conv3d.padding", conv},
    {"aten.convolution.default", conv},
    {"aten._convolution.default", conv},
    {"aten._convolution_mode.default", conv},
    {"aten.conv_transpose1d.default", conv_transpose},
    {"aten.conv_transpose2d.input", conv_transpose},
    {"aten.conv_transpose3d.input", conv_transpose},
    {"aten.im2col.default", im2col},
    {"aten.col2im.default", col2im},
    {"aten.conv_tbc.default", conv_tbc},
};
}  // namespace

RuleTable conv_rules() { return kRows; }

}  // namespace aotc::decompose
