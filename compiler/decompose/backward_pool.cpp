// Gradients of poolings: each place of the input sums over the windows that may cover it, so that they fuse like the poolings themselves.
#include <algorithm>

#include "decompose/families.h"
#include "decompose/pooling.h"

namespace aotc::decompose {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

/// x [.., M1..Mk, rest..] with each element of the k dims from `first` on repeated times[i] times.
T repeat_each(const T& x, int first, const std::vector<Expr>& times) {
  std::vector<Expr> one, many, to = x.dims();
  for (int i = 0; i < x.rank(); ++i) {
    one.push_back(x.dim(i)), many.push_back(x.dim(i));
    const int d = i - first;
    if (d < 0 || d >= static_cast<int>(times.size())) continue;
    one.emplace_back(1), many.push_back(times[at(d)]);
    to[at(i)] = x.dim(i) * times[at(d)];
  }
  return x.reshape(one).expand(many).reshape(to);
}

/// How many windows may cover one place, per dim.
Ints covers(const PoolWindows& w) {
  Ints t;
  for (size_t i = 0; i < w.kernel.size(); ++i) t.push_back(w.dilation[i] * (w.kernel[i] - 1) / w.stride[i] + 1);
  return t;
}

/// v [.., O1..Ok], a value a window → [.., S1..Sk, T1..Tk]: at place i of the input and tap t the value of window
/// (i + padding) / stride - (T - 1 - t), or `outside` where there is none.
T covering(const T& v, const std::vector<Expr>& in, const PoolWindows& w, double outside) {
  const int k = static_cast<int>(in.size()), lead = v.rank() - k;
  const Ints taps = covers(w), ones(taps.size(), 1);
  Ints before;
  std::vector<Expr> many, times;
  for (int i = 0; i < k; ++i) {
    many.push_back(v.b().syms().simplify(floordiv(in[at(i)] - 1 + w.padding[at(i)], w.stride[at(i)]) + 1));
    before.push_back(taps[at(i)] - 1);
    times.emplace_back(w.stride[at(i)]);
  }
  T y = repeat_each({v.b(), v.b().window(v, taps, ones, before, ones, many, outside)}, lead, times);
  for (int i = 0; i < k; ++i) y = y.slice(lead + i, w.padding[at(i)], in[at(i)]);
  return y;
}

/// Row-major position of each place, [S1..Sk, 1..1] with `extra` ones.
T positions(Builder& b, const std::vector<Expr>& in, int extra) {
  std::vector<Expr> dims = in;
  T flat = iota(b, in, static_cast<int>(in.size()) - 1);
  Expr scale = in.back();
  for (int i = static_cast<int>(in.size()) - 2; i >= 0; --i) {
    flat = flat + iota(b, in, i) * scalar_of(b, scale, DType::i64);
    scale = scale * in[at(i)];
  }
  dims.insert(dims.end(), at(extra), Expr(1));
  return flat.reshape(dims);
}

/// Sums over the k taps and gives the gradient its type.
void finish(Rule& r, const T& v, int k) {
  const TensorType t = r.meta_result();
  const bool single = std::all_of(v.dims().end() - k, v.dims().end(), [](const Expr& d) { return d.is(1); });
  r.set((single ? v : v.sum(trailing(v, k), false)).reshape(t.dims).to(t.dtype));
}

/// The last k sizes of the gradient, which are the input's.
std::vector<Expr> input_sizes(Rule& r, const T& g, int k) {
  const TensorType t = r.meta_result();
  r.agree(tensor(r, "self").dims(), t.dims, "the pool's input");
  if (g.rank() != t.rank() || t.rank() < k) throw r.fault(fmt::format("a pool of {} dimensions of {}", k, t.rank()));
  return last(t.dims, k);
}

bool nothing(Rule& r, const T& g) {
  const TensorType t = r.meta_result();
  const bool empty = t.elems().is(0) || r.b.type(g).elems().is(0);
  if (empty) r.set(full(r.b, t.dtype, t.dims, 0.0));
  return empty;
}

template <int k>
void max_pool(Rule& r) {
  const T g = tensor(r, "grad_output").up(), index = tensor(r, "indices").to(DType::i64);
  if (nothing(r, g)) return;
  const std::vector<Expr> in = input_sizes(r, g, k);
  const PoolWindows w = pool_windows(r, k);
  r.agree(pool_sizes(r, in, w), last(g.dims(), k), "the pool");
  const T mine = covering(index, in, w, -1.0) == positions(r.b, in, k);
  finish(r, where(mine, covering(g, in, w, 0.0), 0.0), k);
}

template <int k>
void avg_pool(Rule& r) {
  const T g = tensor(r, "grad_output").up();
  if (nothing(r, g)) return;
  const std::vector<Expr> in = input_sizes(r, g, k);
  const PoolWindows w = pool_windows(r, k);
  r.agree(pool_sizes(r, in, w), last(g.dims(), k), "the pool");
  T v = covering(g / pool_divisor(r, w, in, last(g.dims(), k), g.dtype()), in, w, 0.0);
  const Ints taps = covers(w);
  for (int i = 0; i < k; ++i) {
    // The farthest window may end before the place.
    if (w.kernel[at(i)] == taps[at(i)] * w.stride[at(i)]) continue;
    std::vector<Expr> dims(at(2 * k), Expr(1));
    dims[at(i)] = in[at(i)];
    dims[at(k + i)] = taps[at(i)];
    const double s = static_cast<double>(w.stride[at(i)]);
    const T within = binary(Op::remainder, iota(r.b, dims, i) + static_cast<double>(w.padding[at(i)]), s);
    const T back = (static_cast<double>(taps[at(i)] - 1) - iota(r.b, dims, k + i)) * s;
    v = where(within + back < static_cast<double>(w.kernel[at(i)]), v, 0.0);
  }
  finish(r, v, k);
}

/// The windows that cover a place are themselves an adaptive window: those of pooling from the result's size to the input's.
template <int k>
void adaptive_avg_pool(Rule& r) {
  const T g = tensor(r, "grad_output").up();
  if (nothing(r, g)) return;
  const std::vector<Expr> in = input_sizes(r, g, k), out = last(g.dims(), k);
  SymTable& syms = r.b.syms();
  std::vector<Expr> step;
  for (int i = 0; i < k; ++i)
    if (const auto o = out[at(i)].as_const(); o && syms.proves_divisible(in[at(i)], *o))
      step.push_back(syms.simplify(floordiv(in[at(i)], *o)));
  if (step.size() == at(k)) {
    const T each = g / count(r.b, step, g.dtype());
    return r.set(repeat_each(each, g.rank() - k, step).reshape(r.meta_result().dims).to(r.meta_result().dtype));
  }
  T n(r.b, full(r.b, g.dtype(), {}, 1.0));
  for (int i = 0; i < k; ++i) n = n * along(adaptive_range(r.b, in[at(i)], out[at(i)]).length, i, k).to(g.dtype());
  finish(r, adaptive_windows(r, g / n, in, 0.0).windows, k);
}

template <int k>
void adaptive_max_pool(Rule& r) {
  const T g = tensor(r, "grad_output").up(), index = tensor(r, "indices").to(DType::i64);
  if (nothing(r, g)) return;
  const std::vector<Expr> in = input_sizes(r, g, k);
  const T mine = adaptive_windows(r, index, in, -1.0).windows == positions(r.b, in, k);
  finish(r, where(mine, adaptive_windows(r, g, in, 0.0).windows, 0.0), k);
}

constexpr RuleRow kRows[] = {
    {"aten.max_pool2d_with_indices_backward.default", max_pool<2>},
    {"aten.max_pool3d_with_indices_backward.default", max_pool<3>},
    {"aten.avg_pool2d_backward.default", avg_pool<2>},
    {"aten.avg_pool3d_backward.default", avg_pool<3>},
    {"aten._adaptive_avg_pool2d_backward.default", adaptive_avg_pool<2>},
    {"aten._adaptive_avg_pool3d_backward.default", adaptive_avg_pool<3>},
    {"aten.adaptive_max_pool2d_backward.default", adaptive_max_pool<2>},
    {"aten.adaptive_max_pool3d_backward.default", adaptive_max_pool<3>},
};
}  // namespace

RuleTable backward_pool_rules() { return kRows; }

}  // namespace aotc::decompose
