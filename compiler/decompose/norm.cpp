// Softmaxes and normalisations. Statistics are in float32 for 16-bit floats.
#include <limits>

#include "decompose/families.h"
#include "decompose/reduction.h"

namespace aotc::decompose {
namespace {

std::string_view input_name(const Rule& r) { return r.has("self") ? "self" : "input"; }

template <bool log_form>
void softmax(Rule& r) {
  const TensorType t = r.meta_result();
  const T x = tensor(r, input_name(r)).to(t.dtype).to(compute_type(t.dtype));  // what the result's type has of the operand
  const int d = r.dim("dim", x.rank());
  const Ints over = x.rank() == 0 ? Ints{} : Ints{d};
  if (t.elems().is(0)) return r.set(x.to(t.dtype));
  const T shifted = x - x.reduce(ReduceKind::max, over, true);
  if (log_form) return r.set((shifted - log(exp(shifted).sum(over, true))).to(t.dtype));
  const T e = exp(shifted);
  r.set((e / e.sum(over, true)).to(t.dtype));
}

/// x * w + b, each broadcast.
T affine(const T& x, const std::optional<T>& w, const std::optional<T>& b, const std::vector<Expr>& dims) {
  T y = x;
  if (w) y = y * w->to(x.dtype()).reshape(dims);
  if (b) y = y + b->to(x.dtype()).reshape(dims);
  return y;
}

Ints last_dims(int rank, size_t n) {
  Ints d;
  for (int i = rank - static_cast<int>(n); i < rank; ++i) d.push_back(i);
  return d;
}

void set_statistic(Rule& r, size_t i, const T& v) {
  if (r.wants(i)) r.set(i, v.to(r.meta_result(i).dtype).reshape(r.meta_result(i).dims));
}

void layer_norm(Rule& r) {
  const T x = tensor(r, "input");
  const std::vector<Expr> shape = r.syms("normalized_shape");
  const Moments m = moments_of(x.up(), x.dtype(), last_dims(x.rank(), shape.size()));
  const T inv = rsqrt(m.var + r.number("eps"));
  r.set(0, affine(m.centered * inv, opt_tensor(r, "weight"), opt_tensor(r, "bias"), shape).to(x.dtype()));
  set_statistic(r, 1, m.mean);
  set_statistic(r, 2, inv);
}

void rms_norm(Rule& r) {
  const T x = tensor(r, "input");
  const std::vector<Expr> shape = r.syms("normalized_shape");
  const T y = x.up();
  const double eps =
      r.number_or("eps", y.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon());
  const T inv = rsqrt(mean_of(y * y, last_dims(x.rank(), shape.size()), true) + eps);
  const std::optional<T> w = opt_tensor(r, "weight");
  const DType out = r.meta_result().dtype;
  r.set(0, affine(y * inv, w, std::nullopt, shape).to(out));
  set_statistic(r, 1, inv);
}

void group_norm(Rule& r) {
  const T x = tensor(r, "input");
  const Expr groups = r.sym(r.has("num_groups") ? "num_groups" : "group");
  if (r.b.type(x).elems().is(0)) {
    r.set(0, x);
    for (size_t i : {1, 2})
      if (r.wants(i))
        r.set(i, full(r.b, r.meta_result(i).dtype, r.meta_result(i).dims, i == 1 ? 0.0 : std::numeric_limits<double>::quiet_NaN()));
    return;
  }
  r.b.require(ShapeGuard::Kind::divisible, x.dim(1), groups, "channels by groups");
  const T flat = x.up().reshape({x.dim(0), groups, floordiv(r.b.type(x).elems(), x.dim(0) * groups)});
  const Moments m = moments_of(flat, x.dtype(), {2});
  const T inv = rsqrt(m.var + r.number("eps"));
  const T y = (m.centered * inv).reshape(x.dims());
  std::vector<Expr> channel(static_cast<size_t>(x.rank()), Expr(1));
  channel[1] = x.dim(1);
  r.set(0, affine(y, opt_tensor(r, "weight"), opt_tensor(r, "bias"), channel).to(x.dtype()));
  set_statistic(r, 1, m.mean);
  set_statistic(r, 2, inv);
}

/// With given statistics: scale and shift per channel, which fold into constants.
T with_statistics(Rule& r, const T& x, const T& mean, const T& var, const std::vector<Expr>& channel) {
  const T y = x.up();
  T scale = rsqrt(var.to(y.dtype()) + r.number("eps"));
  if (auto w = opt_tensor(r, "weight")) scale = scale * w->to(y.dtype());
  T shift = -(mean.to(y.dtype()) * scale);
  if (auto b = opt_tensor(r, "bias")) shift = shift + b->to(y.dtype());
  return (y * scale.reshape(channel) + shift.reshape(channel)).to(x.dtype());
}

std::vector<Expr> channel_dims(const T& x) {
  std::vector<Expr> channel(static_cast<size_t>(x.rank()), Expr(1));
  channel[x.rank() > 1 ? 1 : 0] = x.dim(x.rank() > 1 ? 1 : 0);
  return channel;
}

/// What is kept of statistics over runs: blended with this run's, the variance unbiased. A functional operator gives them as results from
/// `first` on; others write their arguments.
void update_statistics(Rule& r, const T& mean, const T& var, const T& n, std::optional<size_t> first) {
  const double momentum = r.number("momentum");
  size_t i = first.value_or(0);
  for (const auto& [name, now] : {std::pair("running_mean", mean), std::pair("running_var", var * (n / (n - 1.0)))}) {
    const T old = tensor(r, name);
    const T kept = (old.to(now.dtype()) * (1.0 - momentum) + now.reshape(old.dims()) * momentum).to(old.dtype());
    if (first)
      r.set(i++, kept);
    else
      r.write(name, kept);
  }
}

void batch_norm(Rule& r) {
  const T x = tensor(r, "input");
  const bool training = r.boolean_or("training", r.node.target.find("no_training") == std::string::npos);
  const bool has_stats = r.has("running_mean") && !r.none("running_mean");
  const bool with_reserve = r.node.target.find("with_update") != std::string::npos;  // a result for cuDNN, empty elsewhere
  if (with_reserve && r.wants(3)) r.set(3, full(r.b, r.meta_result(3).dtype, r.meta_result(3).dims, 0.0));
  if (!training && has_stats) {
    r.set(0, with_statistics(r, x, tensor(r, "running_mean"), tensor(r, "running_var"), channel_dims(x)));
    for (size_t i : {1, 2})
      if (r.wants(i) && r.b.type(r.tensor("running_mean")).rank() > 0) {
        const TensorType t = r.meta_result(i);
        // Saved statistics are empty in evaluation.
        if (t.elems().is(0)) r.set(i, full(r.b, t.dtype, t.dims, 0.0));
      }
    return;
  }
  Ints over;
  for (int i = 0; i < x.rank(); ++i)
    if (i != 1) over.push_back(i);
  const Moments m = moments_of(x.up(), x.dtype(), over);
  const T inv = rsqrt(m.var + r.number("eps"));
  r.set(0, affine(m.centered * inv, opt_tensor(r, "weight"), opt_tensor(r, "bias"), channel_dims(x)).to(x.dtype()));
  set_statistic(r, 1, m.mean);
  set_statistic(r, 2, inv);
  const bool functional = r.node.target.find("functional") != std::string::npos;
  const size_t first = with_reserve ? 4 : 3;
  if (has_stats)
    update_statistics(r, m.mean, m.var, reduced_count(x, over, m.var.dtype()), functional ? std::optional(first) : std::nullopt);
}

void instance_norm(Rule& r) {
  const T x = tensor(r, "input");
  if (!r.boolean("use_input_stats"))
    return r.set(with_statistics(r, x, tensor(r, "running_mean"), tensor(r, "running_var"), channel_dims(x)));
  const Ints over = last_dims(x.rank(), static_cast<size_t>(x.rank()) - 2);
  const Moments m = moments_of(x.up(), x.dtype(), over);
  const T y = m.centered * rsqrt(m.var + r.number("eps"));
  r.set(affine(y, opt_tensor(r, "weight"), opt_tensor(r, "bias"), channel_dims(x)).to(x.dtype()));
  if (!r.none("running_mean"))
    update_statistics(r, mean_of(m.mean, {0}, true), mean_of(m.var, {0}, true), reduced_count(x, over, m.var.dtype()), std::nullopt);
}

/// v scaled to the length g, over all dims but one.
void weight_norm(Rule& r) {
  const T v = tensor(r, "v"), g = tensor(r, "g");
  const int64_t given = r.integer("dim");
  Ints over;
  for (int i = 0; i < v.rank(); ++i)
    if (given == -1 || i != (given < 0 ? given + v.rank() : given)) over.push_back(i);
  const T n = vector_norm(v.up(), 2.0, over);
  r.set(0, (v.up() * (g.to(n.dtype()) / n)).to(v.dtype()));
  set_statistic(r, 1, n);
}

void norm_except_dim(Rule& r) {
  const T v = tensor(r, "v");
  const int64_t keep = r.integer("dim");
  Ints over;
  for (int i = 0; i < v.rank(); ++i)
    if (keep == -1 || i != keep) over.push_back(i);
  r.set(vector_norm(v.up(), r.number("pow"), over).to(v.dtype()).reshape(r.meta_result().dims));
}

constexpr RuleRow kRows[] = {
    {"aten.softmax.int aten._softmax.default aten.special_softmax.int", softmax<false>},
    {"aten.log_softmax.int aten._log_softmax.default aten.special_log_softmax.int", softmax<true>},
    {"aten.layer_norm.default aten.native_layer_norm.default", layer_norm},
    {"aten.rms_norm.default aten._fused_rms_norm.default", rms_norm},
    {"aten.group_norm.default aten.native_group_norm.default", group_norm},
    {"aten.batch_norm.default aten.native_batch_norm.default aten._native_batch_norm_legit.default aten._native_batch_norm_legit.no_stats "
     "aten._native_batch_norm_legit_no_training.default aten._native_batch_norm_legit_functional.default "
     "aten._batch_norm_no_update.default aten._batch_norm_with_update.default aten._batch_norm_with_update_functional.default",
     batch_norm},
    {"aten.instance_norm.default", instance_norm},
    {"aten._weight_norm.default aten._weight_norm_interface.default", weight_norm},
    {"aten.norm_except_dim.default", norm_except_dim},
};
}  // namespace

RuleTable norm_rules() { return kRows; }

}  // namespace aotc::decompose
