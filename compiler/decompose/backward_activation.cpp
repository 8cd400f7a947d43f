// Gradients of activation functions and of dropout. 16-bit floats compute in float32 and round once, as PyTorch's kernels do.
#include <cmath>
#include <limits>

#include "decompose/families.h"
#include "decompose/tensor.h"

namespace aotc::decompose {
namespace {

/// g: the gradient of the result; x: what the operator keeps of the forward run (its input, or its result).
using Fn = T (*)(Rule&, const T& g, const T& x);

T kept(Rule& r) {
  for (const std::string_view name : {"self", "output", "self_or_result"})
    if (r.has(name)) return tensor(r, name);
  r.refuse("neither the input nor the result of the forward operator is given");
}

template <Fn f>
void gradient(Rule& r) {
  const TensorType out = r.meta_result();
  const DType t = compute_type(out.dtype);
  const T g = tensor(r, r.has("grad_output") ? "grad_output" : "grad_out");
  r.set(f(r, g.to(t), kept(r).to(t)).to(out.dtype));
}

T sigmoid_(Rule&, const T& g, const T& y) { return g * (1.0 - y) * y; }
T tanh_(Rule&, const T& g, const T& y) { return g * (1.0 - y * y); }

T gelu(Rule& r, const T& g, const T& x) {
  const std::string how = r.text_or("approximate", "none");
  if (how == "tanh") {
    const double k = std::sqrt(2.0 / M_PI), c = 0.044715;
    const T t = tanh((x + x * x * x * c) * k);
    const T slope = (x * x * (3.0 * c) + 1.0) * k;
    return g * ((t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * slope);
  }
  if (how != "none") r.refuse(fmt::format("approximate='{}' is not supported", how));
  const T cdf = (unary(Op::erf, x * M_SQRT1_2) + 1.0) * 0.5;
  const T pdf = exp(x * x * -0.5) * (0.5 * M_2_SQRTPI * M_SQRT1_2);
  return g * (cdf + x * pdf);
}

T silu(Rule&, const T& g, const T& x) {
  const T s = sigmoid(x);
  return g * s * (x * (1.0 - s) + 1.0);
}

T mish(Rule&, const T& g, const T& x) {
  const T t = tanh(maximum(x, 0.0) + unary(Op::log1p, exp(-abs(x))));
  return g * (t + x * sigmoid(x) * (1.0 - t * t));
}

T softplus(Rule& r, const T& g, const T& x) {
  const T z = x * r.number("beta");
  return where(z > r.number("threshold"), g, g * sigmoid(z));
}

T log_sigmoid(Rule&, const T& g, const T& x) { return g * sigmoid(-x); }

T logit(Rule& r, const T& g, const T& x) {
  const double eps = r.number_or("eps", 0.0);
  const double outside = r.none("eps") ? std::numeric_limits<double>::quiet_NaN() : 0.0;
  return where((x >= eps) & (x <= 1.0 - eps), g / (x * (1.0 - x)), outside);
}

/// PyTorch's sixth is one of float32, whatever the type.
T hard_sigmoid(Rule&, const T& g, const T& x) { return where((x > -3.0) & (x < 3.0), g * static_cast<double>(1.0f / 6.0f), 0.0); }
T hard_swish(Rule&, const T& g, const T& x) { return where(x <= -3.0, 0.0, where(x < 3.0, g * (x / 3.0 + 0.5), g)); }
T hardtanh(Rule& r, const T& g, const T& x) { return where((x <= r.number("min_val")) | (x >= r.number("max_val")), 0.0, g); }
T leaky_relu(Rule& r, const T& g, const T& x) { return where(x > 0.0, g, g * r.number("negative_slope")); }
T threshold(Rule& r, const T& g, const T& x) { return where(x <= r.number("threshold"), 0.0, g); }
/// Of softshrink and hardshrink.
T shrink(Rule& r, const T& g, const T& x) {
  const double l = r.number("lambd");
  return where((x >= -l) & (x <= l), 0.0, g);
}

T elu(Rule& r, const T& g, const T& x) {
  const double negative = r.number("alpha") * r.number("scale"), in = r.number("input_scale");
  const T slope = r.boolean("is_result") ? x + negative : exp(x * in) * negative;
  return where(x <= 0.0, g * in * slope, g * r.number("scale"));
}

void glu(Rule& r) {
  const TensorType out = r.meta_result();
  const DType t = compute_type(out.dtype);
  const T g = tensor(r, "grad_output").to(t), x = tensor(r, "self").to(t);
  const int d = r.dim("dim", x.rank());
  const Expr half = floordiv(x.dim(d), 2);
  const T a = x.slice(d, 0, half), s = sigmoid(x.slice(d, half, half));
  const T first = s * g, second = (1.0 - s) * s * a * g;
  r.set(T(r.b, r.b.cat({first.to(out.dtype), second.to(out.dtype)}, d)));
}

/// The slopes broadcast; their gradient is summed by what made them do so.
void prelu(Rule& r) {
  const T g = tensor(r, "grad_output"), x = tensor(r, "self"), w = tensor(r, "weight");
  r.set(0, where(x > 0.0, g, w * g));
  r.set(1, where(x > 0.0, 0.0, x * g));
}

void rrelu(Rule& r) {
  const T g = tensor(r, "grad_output"), x = tensor(r, "self");
  if (r.boolean("training")) return r.set(g * tensor(r, "noise"));
  const T y = g.up();
  r.set(where(x.up() > 0.0, y, y * ((r.number("lower") + r.number("upper")) / 2)).to(g.dtype()));
}

void dropout(Rule& r) {
  const T g = tensor(r, "grad_output"), y = g.up();
  r.set((y * (tensor(r, "mask").to(y.dtype()) * r.number("scale"))).to(g.dtype()));
}

constexpr RuleRow kRows[] = {
    {"aten.sigmoid_backward.default", gradient<sigmoid_>},
    {"aten.tanh_backward.default", gradient<tanh_>},
    {"aten.gelu_backward.default aten.infinitely_differentiable_gelu_backward.default", gradient<gelu>},
    {"aten.silu_backward.default", gradient<silu>},
    {"aten.mish_backward.default", gradient<mish>},
    {"aten.softplus_backward.default", gradient<softplus>},
    {"aten.log_sigmoid_backward.default", gradient<log_sigmoid>},
    {"aten.logit_backward.default", gradient<logit>},
    {"aten.hardsigmoid_backward.default", gradient<hard_sigmoid>},
    {"aten.hardswish_backward.default", gradient<hard_swish>},
    {"aten.hardtanh_backward.default", gradient<hardtanh>},
    {"aten.leaky_relu_backward.default", gradient<leaky_relu>},
    {"aten.threshold_backward.default", gradient<threshold>},
    {"aten.softshrink_backward.default aten.hardshrink_backward.default", gradient<shrink>},
    {"aten.elu_backward.default", gradient<elu>},
    {"aten.glu_backward.default", glu},
    {"aten._prelu_kernel_backward.default", prelu},
    {"aten.rrelu_with_noise_backward.default", rrelu},
    {"aten.native_dropout_backward.default", dropout},
};
}  // namespace

RuleTable backward_activation_rules() { return kRows; }

}  // namespace aotc::decompose
