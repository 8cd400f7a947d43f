// Gradients of softmaxes and normalisations. Statistics and sums are in float32 for 16-bit floats.
#include "decompose/families.h"
#include "decompose/matrices.h"
#include "decompose/reduction.h"

namespace aotc::decompose {
namespace {

template <bool log_form>
void softmax(Rule& r) {
  const T y0 = tensor(r, "output"), y = y0.up(), g = tensor(r, "grad_output").to(y.dtype());
  const int d = r.dim("dim", y.rank());
  const Ints over = y.rank() == 0 ? Ints{} : Ints{d};
  if (log_form) return set_as(r, 0, g - exp(y) * g.sum(over, true));
  const T gy = g * y;
  set_as(r, 0, gy - y * gy.sum(over, true));
}

/// The gradient of x where `unit` = (x - mean) * scale over the dims given, or x * scale where nothing is subtracted.
T of_input(const T& g, const T& unit, const T& scale, const Ints& over, bool centered) {
  const T v = centered ? g - mean_of(g, over, true) : g;
  return (v - unit * mean_of(g * unit, over, true)) * scale;
}

Ints dims_between(int from, int to) {
  Ints d;
  for (int i = from; i < to; ++i) d.push_back(i);
  return d;
}

/// Statistics with the normalised dims as 1, so that they broadcast to x.
T kept(const T& v, const T& x, size_t normalised) {
  std::vector<Expr> dims(x.dims().begin(), x.dims().end() - static_cast<std::ptrdiff_t>(normalised));
  dims.insert(dims.end(), normalised, Expr(1));
  return v.to(x.dtype()).reshape(dims);
}

/// Of norms of rows; centred: of layer_norm, whose rows have a mean and a bias.
template <bool centred>
void of_rows(Rule& r) {
  const T x = tensor(r, "input").up(), g = tensor(r, "grad_out").to(x.dtype());
  const std::vector<Expr> shape = r.syms("normalized_shape");
  const int split = x.rank() - static_cast<int>(shape.size());
  const T scale = kept(tensor(r, "rstd"), x, shape.size());
  const T unit = (centred ? x - kept(tensor(r, "mean"), x, shape.size()) : x) * scale;
  const std::optional<T> w = opt_tensor(r, "weight");
  set_as(r, 0, of_input(w ? g * w->to(g.dtype()) : g, unit, scale, dims_between(split, x.rank()), centred));
  set_as(r, 1, (g * unit).sum(dims_between(0, split), false));
  if (centred) set_as(r, 2, g.sum(dims_between(0, split), false));
}

void group_norm(Rule& r) {
  const T x0 = tensor(r, "input").up();
  const Expr n = x0.dim(0), channels = x0.dim(1), groups = r.sym("group"), each = floordiv(channels, groups);
  if (x0.b().type(x0).elems().is(0)) {
    for (size_t i : {0, 1, 2})
      if (r.wants(i)) r.set(i, full(r.b, r.meta_result(i).dtype, r.meta_result(i).dims, 0.0));
    return;
  }
  const Expr pixels = floordiv(r.b.type(x0).elems(), n * channels);
  const std::vector<Expr> dims = {n, groups, each, pixels}, group = {n, groups, 1, 1};
  const T x = x0.reshape(dims), g = tensor(r, "grad_out").to(x.dtype()).reshape(dims);
  const T scale = tensor(r, "rstd").to(x.dtype()).reshape(group);
  const T unit = (x - tensor(r, "mean").to(x.dtype()).reshape(group)) * scale;
  const std::optional<T> w = opt_tensor(r, "weight");
  set_as(r, 0, of_input(w ? g * w->to(g.dtype()).reshape({1, groups, each, 1}) : g, unit, scale, {2, 3}, true).reshape(x0.dims()));
  set_as(r, 1, (g * unit).sum({0, 3}, false).reshape({channels}));
  set_as(r, 2, g.sum({0, 3}, false).reshape({channels}));
}

/// Statistics of this run, saved by it, or given ones.
void batch_norm(Rule& r) {
  const T x = tensor(r, "input").up();
  const T g = tensor(r, r.has("grad_out") ? "grad_out" : "grad_output").to(x.dtype());
  const bool train = r.boolean_or("train", r.boolean_or("update", true));
  std::vector<Expr> channel(static_cast<size_t>(x.rank()), Expr(1));
  channel[1] = x.dim(1);
  const auto per_channel = [&](std::string_view name) { return tensor(r, name).to(x.dtype()).reshape(channel); };
  const std::string_view saved = r.has("save_invstd") ? "save_invstd" : "save_var";  // both hold 1 / sqrt(var + eps)
  const T mean = per_channel(train ? "save_mean" : "running_mean");
  const T scale = train ? per_channel(saved) : rsqrt(per_channel("running_var") + r.number(r.has("eps") ? "eps" : "epsilon"));
  const T unit = (x - mean) * scale;
  Ints over = dims_between(2, x.rank());
  over.insert(over.begin(), 0);
  T gx = train ? of_input(g, unit, scale, over, true) : g * scale;
  if (!r.none("weight")) gx = gx * per_channel("weight");
  set_as(r, 0, gx);
  set_as(r, 1, (g * unit).sum(over, false));
  set_as(r, 2, g.sum(over, false));
}

/// w = v * (g / |v|), with the lengths kept.
void weight_norm(Rule& r) {
  const T v = tensor(r, "saved_v").up(), gw = tensor(r, "grad_w").to(v.dtype());
  const T length = tensor(r, "saved_norms").to(v.dtype()), g = tensor(r, "saved_g").to(v.dtype());
  const int keep = r.dim("dim", v.rank());
  Ints over;
  for (int i = 0; i < v.rank(); ++i)
    if (i != keep) over.push_back(i);
  const T dot = (gw * v).sum(over, true) / length;
  set_as(r, 0, (gw - v * (dot / length)) * (g / length));
  set_as(r, 1, dot);
}

constexpr RuleRow kRows[] = {
    {"aten._softmax_backward_data.default", softmax<false>},    {"aten._log_softmax_backward_data.default", softmax<true>},
    {"aten.native_layer_norm_backward.default", of_rows<true>}, {"aten._fused_rms_norm_backward.default", of_rows<false>},
    {"aten.native_group_norm_backward.default", group_norm},    {"aten.native_batch_norm_backward.default", batch_norm},
    {"aten.batch_norm_backward.default", batch_norm},           {"aten._weight_norm_interface_backward.default", weight_norm},
};
}  // namespace

RuleTable backward_norm_rules() { return kRows; }

}  // namespace aotc::decompose
