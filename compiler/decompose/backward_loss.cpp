// Gradients of losses with respect to their first input.
#include "decompose/families.h"
#include "decompose/indexing.h"

namespace aotc::decompose {
namespace {

/// In the type of the arithmetic: the result's gradient, which the mean's divisor has divided already, the input and the target.
struct Parts {
  T g, x, y;
};

Parts parts(Rule& r) {
  const DType t = compute_type(r.meta_result().dtype);
  const T x = tensor(r, "self").to(t);
  T g = tensor(r, "grad_output").to(t);
  if (r.integer_or("reduction", 1) == 1) g = g / count(r.b, x.dims(), t);
  return {g, x, tensor(r, "target").to(t)};
}

void set(Rule& r, const T& v) { r.set(v.to(r.meta_result().dtype)); }

void mse(Rule& r) {
  const auto [g, x, y] = parts(r);
  set(r, g * 2.0 * (x - y));
}

void smooth_l1(Rule& r) {
  const auto [g, x, y] = parts(r);
  const double beta = r.number("beta");
  const T d = x - y, far = g * unary(Op::sign, d);
  set(r, beta == 0.0 ? far : where(abs(d) < beta, g * d / beta, far));
}

void huber(Rule& r) {
  const auto [g, x, y] = parts(r);
  const double delta = r.number("delta");
  set(r, g * minimum(maximum(x - y, -delta), delta));
}

void soft_margin(Rule& r) {
  const auto [g, x, y] = parts(r);
  set(r, -(y * g * sigmoid(-(y * x))));
}

void bce(Rule& r) {
  const auto [g, x, y] = parts(r);
  T v = g * (x - y) / maximum((1.0 - x) * x, 1e-12);
  if (auto w = opt_tensor(r, "weight")) v = v * w->to(v.dtype());
  set(r, v);
}

/// -weight at the target's class, zero elsewhere and where the target is ignored. Classes are dim 1, or dim 0 of one sample.
void nll(Rule& r) {
  const TensorType out = r.meta_result();
  r.agree(tensor(r, "self").dims(), out.dims, "the loss's input");
  const DType t = compute_type(out.dtype);
  const int rank = out.rank(), d = rank == 1 ? 0 : 1;
  T g = tensor(r, "grad_output").to(t), target = tensor(r, "target").to(DType::i64);
  if (r.integer("reduction") == 1) g = g / tensor(r, "total_weight").to(t).reshape({});
  if (rank == 1) {
    target = target.reshape({});
    g = g.reshape({});
  }
  target = target.unsqueeze(d);
  if (g.rank() > 0) g = g.unsqueeze(d);
  T v = -g;
  if (auto w = opt_tensor(r, "weight")) {
    std::vector<Expr> line(static_cast<size_t>(rank), Expr(1));
    line[static_cast<size_t>(d)] = w->dim(0);
    v = v * w->to(t).reshape(line);
  }
  const T hit = (iota(r.b, out.dims, d) == target) & (target != static_cast<double>(r.integer("ignore_index")));
  r.set(where(hit, v, 0.0).to(out.dtype));
}

constexpr RuleRow kRows[] = {
    {"aten.mse_loss_backward.default", mse},
    {"aten.smooth_l1_loss_backward.default", smooth_l1},
    {"aten.huber_loss_backward.default", huber},
    {"aten.soft_margin_loss_backward.default", soft_margin},
    {"aten.binary_cross_entropy_backward.default", bce},
    {"aten.nll_loss_backward.default aten.nll_loss2d_backward.default", nll},
};
}  // namespace

RuleTable backward_loss_rules() { return kRows; }

}  // namespace aotc::decompose
