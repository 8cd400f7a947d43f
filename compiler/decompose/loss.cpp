// Losses: pointwise, then the mean or the sum of all.
#include <cmath>

#include "decompose/families.h"
#include "decompose/indexing.h"
#include "decompose/matrices.h"
#include "decompose/reduction.h"

namespace aotc::decompose {
namespace {

/// The floating type in which a loss is computed.
DType sum_type(Rule& r) { return compute_type(float_type(r.meta_result().dtype)); }

/// reduction: 0 none, 1 mean, 2 sum.
void finish(Rule& r, const T& each) {
  const int64_t how = r.integer_or("reduction", 1);
  const T loss = each.up();
  const T y = how == 0 ? loss : how == 1 ? mean_of(loss, all_dims(loss), false) : loss.sum(all_dims(loss), false);
  r.set(y.to(r.meta_result().dtype));
}

struct Pair {
  T x, y;
};
Pair pair(Rule& r) {
  const T a = tensor(r, "self"), b = tensor(r, "target");
  const DType t = compute_type(promote_types(a.dtype(), b.dtype()));
  return {a.to(t), b.to(t)};
}

/// For losses that PyTorch composes of operators: each of them rounds.
Pair rounding_pair(Rule& r) {
  const T a = tensor(r, "self"), b = tensor(r, "target");
  const DType t = promote_types(a.dtype(), b.dtype());
  return {a.to(t), b.to(t)};
}

void mse(Rule& r) {
  const auto [x, y] = pair(r);
  const T d = x - y;
  finish(r, d * d);
}
void l1(Rule& r) {
  const auto [x, y] = pair(r);
  finish(r, abs(x - y));
}
void smooth_l1(Rule& r) {
  const auto [x, y] = pair(r);
  const double beta = r.number_or("beta", 1.0);
  const T d = abs(x - y);
  finish(r, beta == 0.0 ? d : where(d < beta, d * d * (0.5 / beta), d - 0.5 * beta));
}
void huber(Rule& r) {
  const auto [x, y] = pair(r);
  const double delta = r.number_or("delta", 1.0);
  const T d = abs(x - y);
  finish(r, where(d <= delta, d * d * 0.5, (d - 0.5 * delta) * delta));
}
void kl_div(Rule& r) {
  const auto [x, y] = rounding_pair(r);
  if (r.boolean_or("log_target", false)) return finish(r, exp(y) * (y - x));
  const T ylogy = where(y == 0.0, 0.0, y * log(y));
  finish(r, ylogy - y * x);
}
void bce(Rule& r) {
  const auto [x, y] = pair(r);
  must_hold(r, (x >= 0.0) & (x <= 1.0), "the input has numbers outside of 0 to 1");
  must_hold(r, (y >= 0.0) & (y <= 1.0), "the target has numbers outside of 0 to 1");
  // log is cut off at -100, so that 0 and 1 have finite losses.
  T loss = (y - 1.0) * maximum(unary(Op::log1p, -x), -100.0) - y * maximum(log(x), -100.0);
  if (auto w = opt_tensor(r, "weight")) loss = loss * w->to(loss.dtype());
  finish(r, loss);
}
void bce_logits(Rule& r) {
  const auto [x, y] = rounding_pair(r);
  const T wide = x.up(), log_sigmoid = (minimum(wide, 0.0) - unary(Op::log1p, exp(-abs(wide)))).to(x.dtype());
  T loss = (1.0 - y) * x - log_sigmoid;
  if (auto p = opt_tensor(r, "pos_weight")) loss = (1.0 - y) * x - ((p->to(x.dtype()) - 1.0) * y + 1.0) * log_sigmoid;
  if (auto w = opt_tensor(r, "weight")) loss = loss * w->to(loss.dtype());
  finish(r, loss);
}
void soft_margin(Rule& r) {
  const auto [x, y] = rounding_pair(r);
  finish(r, unary(Op::log1p, exp(-(y * x))));
}
void hinge_embedding(Rule& r) {
  const auto [x, y] = pair(r);
  const T far = maximum(r.number_or("margin", 1.0) - x, 0.0);
  finish(r, where(y == 1.0, 0.0, far) + where(y == -1.0, 0.0, x));
}
void poisson_nll(Rule& r) {
  const T x = tensor(r, "input").to(sum_type(r)), y = tensor(r, "target").to(x.dtype());
  T loss = r.boolean("log_input") ? exp(x) - y * x : x - y * log(x + r.number("eps"));
  if (r.boolean("full")) {
    const T stirling = y * log(y) - y + log(y * (2 * M_PI)) * 0.5;
    loss = loss + where(y <= 1.0, 0.0, stirling);
  }
  finish(r, loss);
}
void margin_ranking(Rule& r) {
  const T a = tensor(r, "input1").to(sum_type(r)), b = tensor(r, "input2").to(sum_type(r)), y = tensor(r, "target").to(a.dtype());
  finish(r, maximum(-y * (a - b) + r.number("margin"), 0.0));
}
void triplet_margin(Rule& r) {
  const T a = tensor(r, "anchor").to(sum_type(r)), p = tensor(r, "positive").to(sum_type(r)), n = tensor(r, "negative").to(sum_type(r));
  const double ord = r.number("p"), eps = r.number("eps");
  const auto far = [&](const T& x, const T& y) {
    const T d = x - y + eps;
    return vector_norm(d, ord, {d.rank() - 1}).squeeze(-1);
  };
  const T near = far(a, p);
  T away = far(a, n);
  if (r.boolean_or("swap", false)) away = minimum(away, far(p, n));
  finish(r, maximum(near - away + r.number("margin"), 0.0));
}
void cosine_embedding(Rule& r) {
  const T a = tensor(r, "input1").to(sum_type(r)), b = tensor(r, "input2").to(sum_type(r)), y = tensor(r, "target").to(a.dtype());
  const Ints d = {std::max(a.rank(), b.rank()) - 1};
  const double eps = 1e-12;
  const T ab = a * b;
  const T cos = ab.sum(d, false) / sqrt(((a * a).sum({a.rank() - 1}, false) + eps) * ((b * b).sum({b.rank() - 1}, false) + eps));
  const T far = maximum(cos - r.number("margin"), 0.0);
  finish(r, where(y == 1.0, 1.0 - cos, 0.0) + where(y == -1.0, far, 0.0));
}

/// Scores [n, classes] and targets [n, ..]: one sample has one row.
struct Scores {
  T x, target;
  bool one;
};
Scores scores_of(Rule& r) {
  const T x = tensor(r, "self").to(sum_type(r)), y = tensor(r, "target").to(DType::i64);
  const bool one = x.rank() < 2;
  if (!one) return {x, y, one};
  const T line = x.rank() == 0 ? x.reshape({1}) : x;
  return {line.unsqueeze(0), y.rank() == 1 && r.has("p") ? y : y.unsqueeze(0), one};
}

/// Every other class that comes nearer to the target's than the margin.
void multi_margin(Rule& r) {
  const auto [x, y, one] = scores_of(r);
  const double p = r.number_or("p", 1.0), margin = r.number_or("margin", 1.0);
  const T own = T(r.b, r.b.gather(x, from_start(y, x.dim(1)).unsqueeze(1), 1));
  T loss = maximum(margin - own + x, 0.0);
  if (p == 2.0) loss = loss * loss;
  if (auto w = opt_tensor(r, "weight")) loss = loss * take_index(w->to(loss.dtype()), y, 0).unsqueeze(1);
  loss = where(iota(r.b, x.dims(), 1) == y.unsqueeze(1), 0.0, loss);
  const T each = loss.sum({1}, false) / scalar_of(r.b, x.dim(1), loss.dtype());
  finish(r, one ? each.reshape({}) : each);
}

/// The classes before the first negative one are targets; each of them is to lie a margin of one before every other class.
void multilabel_margin(Rule& r) {
  const auto [x, given, one] = scores_of(r);
  const T y = given.reshape(x.dims());
  const T listed = T(r.b, r.b.scan(ReduceKind::sum, (y < 0.0).to(DType::i64), 1)) == 0.0;
  const T at = where(listed, y, 0.0), own = T(r.b, r.b.gather(x, from_start(at, x.dim(1)), 1));
  const T here = listed.unsqueeze(2) & (at.unsqueeze(2) == iota(r.b, x.dims(), 1).unsqueeze(1));
  const T target = here.to(DType::i64).sum({1}, false) > 0.0;
  const T near = maximum(1.0 - own.unsqueeze(2) + x.unsqueeze(1), 0.0);
  const T counted = listed.unsqueeze(2) & !target.unsqueeze(1);
  const T each = where(counted, near, 0.0).sum({1, 2}, false) / scalar_of(r.b, x.dim(1), x.dtype());
  finish(r, one ? each.reshape({}) : each);
}

/// -log_probs at the target's class (dim 1, or dim 0 of one sample), weighted, without ignored targets.
void nll_of(Rule& r, const T& log_probs, const T& target0, double smoothing) {
  const int d = log_probs.rank() == 1 ? 0 : 1;
  const DType out = r.meta_result(0).dtype;
  const int64_t ignore = r.integer("ignore_index"), how = r.integer_or("reduction", 1);
  const std::optional<T> weight = opt_tensor(r, "weight");
  const T target = target0.to(DType::i64);
  const T used = target != static_cast<double>(ignore);
  const T safe = where(used, target, 0.0);
  const T one(r.b, r.b.gather(log_probs, from_start(safe, log_probs.dim(d)).unsqueeze(d), d));
  T loss = -one.squeeze(d), w = used.to(loss.dtype());
  T per_class = log_probs;
  if (weight) {
    w = take_index(weight->to(loss.dtype()), safe.reshape({r.b.type(safe).elems()}), 0).reshape(safe.dims()) * w;
    std::vector<Expr> line(static_cast<size_t>(log_probs.rank()), Expr(1));
    line[static_cast<size_t>(d)] = weight->dim(0);
    per_class = log_probs * weight->to(loss.dtype()).reshape(line);
  }
  loss = loss * w;
  const T total = w.sum(all_dims(w), false);
  const auto reduced = [&](const T& x) { return how == 0 ? x : how == 2 ? x.sum(all_dims(x), false) : x.sum(all_dims(x), false) / total; };
  T y = reduced(where(used, loss, 0.0));
  if (smoothing > 0) {
    const T smooth = where(used, -per_class.sum({d}, false), 0.0);
    y = y * (1.0 - smoothing) + reduced(smooth) * smoothing / scalar_of(r.b, log_probs.dim(d), y.dtype());
  }
  r.set(0, y.to(out));
  if (r.wants(1)) r.set(1, (how == 0 ? T(r.b, full(r.b, out, {}, 0.0)) : total.to(out)).reshape(r.meta_result(1).dims));
}
void nll(Rule& r) { nll_of(r, tensor(r, "self").up(), tensor(r, "target"), 0.0); }

void cross_entropy(Rule& r) {
  const T x = tensor(r, "self").up(), target = tensor(r, "target");
  const int d = x.rank() == 1 ? 0 : 1;
  const T shifted = x - x.reduce(ReduceKind::max, {d}, true);
  const T lp = shifted - log(exp(shifted).sum({d}, true));
  const double smoothing = r.number_or("label_smoothing", 0.0);
  if (!is_float(target.dtype())) return nll_of(r, lp, target, smoothing);
  // Probabilities as targets.
  T y = target.to(lp.dtype());
  if (smoothing > 0) y = y * (1.0 - smoothing) + scalar_of(r.b, 1, lp.dtype()) * smoothing / scalar_of(r.b, x.dim(d), lp.dtype());
  T loss = lp * y;
  if (auto w = opt_tensor(r, "weight")) {
    std::vector<Expr> line(static_cast<size_t>(x.rank()), Expr(1));
    line[static_cast<size_t>(d)] = w->dim(0);
    loss = loss * w->to(lp.dtype()).reshape(line);
  }
  const T per_sample = -loss.sum({d}, false);
  finish(r, per_sample);
}

constexpr RuleRow kRows[] = {
    {"aten.mse_loss.default", mse},
    {"aten.l1_loss.default", l1},
    {"aten.smooth_l1_loss.default", smooth_l1},
    {"aten.huber_loss.default", huber},
    {"aten.kl_div.default", kl_div},
    {"aten.binary_cross_entropy.default", bce},
    {"aten.binary_cross_entropy_with_logits.default", bce_logits},
    {"aten.soft_margin_loss.default", soft_margin},
    {"aten.hinge_embedding_loss.default", hinge_embedding},
    {"aten.poisson_nll_loss.default", poisson_nll},
    {"aten.margin_ranking_loss.default", margin_ranking},
    {"aten.triplet_margin_loss.default", triplet_margin},
    {"aten.cosine_embedding_loss.default", cosine_embedding},
    {"aten.multi_margin_loss.default", multi_margin},
    {"aten.multilabel_margin_loss.default", multilabel_margin},
    {"aten.nll_loss.default aten.nll_loss_nd.default aten.nll_loss2d.default aten.nll_loss_forward.default aten.nll_loss2d_forward.default",
     nll},
    {"aten.cross_entropy_loss.default", cross_entropy},
};
}  // namespace

RuleTable loss_rules() { return kRows; }

}  // namespace aotc::decompose
