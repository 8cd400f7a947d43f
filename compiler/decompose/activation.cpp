// Activation functions. 16-bit floats compute in float32 and round once, as PyTorch's kernels do.
#include <cmath>

#include "decompose/families.h"
#include "decompose/tensor.h"
#include "graph/scalar.h"

namespace aotc::decompose {
namespace {

using Fn = T (*)(Rule&, const T&);

/// f in the type of arithmetic, back in the input's.
template <Fn f>
void activation(Rule& r) {
  const T x = tensor(r, "self");
  r.set(f(r, x.up()).to(x.dtype()));
}

void relu(Rule& r) { r.set(unary(Op::relu, tensor(r, "self"))); }

T relu6(Rule&, const T& x) { return minimum(unary(Op::relu, x), 6.0); }

T gelu(Rule& r, const T& x) {
  const std::string how = r.text_or("approximate", "none");
  if (how == "tanh") {
    const double k = std::sqrt(2.0 / M_PI);
    return x * 0.5 * (tanh((x + x * x * x * 0.044715) * k) + 1.0);
  }
  if (how != "none") r.refuse(fmt::format("approximate='{}' is not supported", how));
  return x * 0.5 * (unary(Op::erf, x * M_SQRT1_2) + 1.0);
}

T silu(Rule&, const T& x) { return x * sigmoid(x); }

T softplus_of(const T& x) { return maximum(x, 0.0) + unary(Op::log1p, exp(-abs(x))); }
T mish(Rule&, const T& x) { return x * tanh(softplus_of(x)); }

T softplus(Rule& r, const T& x) {
  const double beta = r.number_or("beta", 1.0), threshold = r.number_or("threshold", 20.0);
  const T z = x * beta;
  return where(z > threshold, x, softplus_of(z) / beta);
}

T hard_sigmoid_of(const T& x) { return minimum(unary(Op::relu, x + 3.0), 6.0) / 6.0; }
T hard_sigmoid(Rule&, const T& x) { return hard_sigmoid_of(x); }
T hard_swish(Rule&, const T& x) { return x * minimum(unary(Op::relu, x + 3.0), 6.0) / 6.0; }

void hardtanh(Rule& r) {
  const T x = tensor(r, "self");
  r.set(minimum(maximum(x, r.number_or("min_val", -1.0)), r.number_or("max_val", 1.0)));
}

T leaky_relu(Rule& r, const T& x) { return where(x > 0.0, x, x * r.number_or("negative_slope", 0.01)); }

T elu(Rule& r, const T& x) {
  const double alpha = r.number_or("alpha", 1.0), scale = r.number_or("scale", 1.0), in = r.number_or("input_scale", 1.0);
  const T pos = scale == 1.0 ? x : x * scale;
  const T arg = in == 1.0 ? x : x * in;
  return where(x > 0.0, pos, unary(Op::expm1, arg) * (alpha * scale));
}
T celu(Rule& r, const T& x) {
  const double alpha = r.number_or("alpha", 1.0);
  return where(x > 0.0, x, unary(Op::expm1, x / alpha) * alpha);
}
T selu(Rule&, const T& x) {
  const double alpha = 1.6732632423543772848170429916717, scale = 1.0507009873554804934193349852946;
  return where(x > 0.0, x * scale, unary(Op::expm1, x) * (alpha * scale));
}

T softsign(Rule&, const T& x) { return x / (abs(x) + 1.0); }
T tanhshrink(Rule&, const T& x) { return x - tanh(x); }
/// Since torch 2.15 the bound is a number of the input's type.
T softshrink(Rule& r, const T& x) {
  const DType t = r.meta_result().dtype;
  const double given = r.number_or("lambd", 0.5), l = is_half(t) && r.since_torch(2, 15) ? round_to(t, given) : given;
  return where(x > l, x - l, where(x < -l, x + l, where(unary(Op::isnan, x), x, 0.0)));
}
void hardshrink(Rule& r) {  // the bound is a number of the input's type
  const T x = tensor(r, "self");
  const double l = r.number_or("lambd", 0.5);
  r.set(where((x >= -l) & (x <= l), 0.0, x));
}

void threshold(Rule& r) {
  const T x = tensor(r, "self");
  r.set(where(x.up() <= r.number("threshold"), r.number("value"), x));
}

void prelu(Rule& r) {
  const T x = tensor(r, "self");
  T w = tensor(r, "weight");
  // One slope a channel: dim 1 of x (the only dim where x has none more).
  if (w.rank() == 1 && x.rank() > 0) {
    std::vector<Expr> d(static_cast<size_t>(x.rank()), Expr(1));
    if (x.rank() > 1)
      d[1] = w.dim(0);
    else
      d[0] = w.dim(0);
    w = w.reshape(d);
  } else if (w.rank() == 1) {
    w = w.reshape({});
  }
  r.set(where(x > 0.0, x, x * w));
}

void glu(Rule& r) {
  const T x = tensor(r, "self");
  const int d = r.dim("dim", x.rank());
  const Expr half = floordiv(x.dim(d), 2);
  const T a = x.slice(d, 0, half).up(), g = x.slice(d, half, half).up();
  r.set((a * sigmoid(g)).to(x.dtype()));
}

void rrelu(Rule& r) {
  if (r.boolean_or("training", false)) r.refuse("rrelu in training mode is random");
  const T x = tensor(r, "self"), y = x.up();
  r.set(0, where(y >= 0.0, y, y * ((r.number("lower") + r.number("upper")) / 2)).to(x.dtype()));
  if (r.wants(1)) r.set(1, r.tensor("noise"));  // which evaluation leaves as it is
}

constexpr RuleRow kRows[] = {
    {"aten.relu.default", relu},
    {"aten.relu6.default", activation<relu6>},
    {"aten.gelu.default", activation<gelu>},
    {"aten.silu.default", activation<silu>},
    {"aten.mish.default", activation<mish>},
    {"aten.softplus.default", activation<softplus>},
    {"aten.hardsigmoid.default", activation<hard_sigmoid>},
    {"aten.hardswish.default", activation<hard_swish>},
    {"aten.hardtanh.default", hardtanh},
    {"aten.leaky_relu.default", activation<leaky_relu>},
    {"aten.elu.default", activation<elu>},
    {"aten.celu.default", activation<celu>},
    {"aten.selu.default", activation<selu>},
    {"aten.softsign.default", activation<softsign>},
    {"aten.tanhshrink.default", activation<tanhshrink>},
    {"aten.softshrink.default", activation<softshrink>},
    {"aten.hardshrink.default", hardshrink},
    {"aten.threshold.default", threshold},
    {"aten.prelu.default aten._prelu_kernel.default", prelu},
    {"aten.glu.default", glu},
    {"aten.rrelu.default aten.rrelu_with_noise.default aten.rrelu_with_noise_functional.default", rrelu},
};
}  // namespace

RuleTable activation_rules() { return kRows; }

}  // namespace aotc::decompose
