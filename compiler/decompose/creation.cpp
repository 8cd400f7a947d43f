// Tensors made from nothing, and triangles of tensors.
#include <algorithm>
#include <cmath>

#include "decompose/families.h"
#include "decompose/tensor.h"
#include "import/aliases.h"
#include "import/random_numbers.h"

namespace aotc::decompose {
namespace {

/// The archive's type, its dims as the arguments say: a list of sizes, or those of another tensor.
TensorType result_of(Rule& r) {
  TensorType t = r.meta_result();
  if (r.has("size"))
    r.agree_argument("size", t.dims);
  else if (r.is_tensor("self"))
    r.agree(r.b.dims(r.tensor("self")), t.dims, "a tensor like another");
  return t;
}

template <int value>
void constant_of(Rule& r) {
  const TensorType t = result_of(r);
  r.set(full(r.b, t.dtype, t.dims, static_cast<double>(value)));
}

template <int which>
void full_of(Rule& r) {
  static constexpr std::string_view kName[] = {"fill_value", "value", "s"};
  const TensorType t = result_of(r);
  const std::string_view name = kName[which];
  if (r.is_tensor(name)) return r.set(tensor(r, name).to(t.dtype).reshape({}).expand(t.dims));
  r.set(full(r.b, t.dtype, t.dims, r.scalar(name)));
}

void arange(Rule& r) {
  const TensorType t = r.meta_result();
  const auto number = [&](std::string_view name, double fallback) {
    Rule::Number n;
    if (!r.none(name)) return r.scalar(name);
    n.f = fallback;
    n.i = Expr(static_cast<int64_t>(fallback));
    return n;
  };
  const Rule::Number start = number("start", 0), step = number("step", 1);
  const bool integral = start.kind != Rule::Number::floating && step.kind != Rule::Number::floating;
  const auto is = [](const Rule::Number& n, int64_t v) {
    return n.kind == Rule::Number::floating ? n.f == static_cast<double>(v) : n.i.is(v);
  };
  if (integral) {
    // How many there are below the end, which aten.range includes.
    const bool inclusive = r.node.target.find("aten.range.") == 0;
    const std::optional<int64_t> by = step.i.as_const();
    if (by == 0) throw r.fault("a step of zero");
    if (!by) r.b.require(ShapeGuard::Kind::le, 1, step.i, "the step of a range");
    const Rule::Number end = r.scalar("end");
    const Expr far = by && *by < 0 ? start.i - end.i : end.i - start.i, width = by ? Expr(std::abs(*by)) : max(step.i, 1);
    if (end.kind != Rule::Number::floating) {
      const Expr n = inclusive ? floordiv(far, width) + 1 : ceildiv(far, width);
      r.agree({r.b.syms().simplify(max(n, 0))}, t.dims, "the count");
    }
  }
  // Floats count in float64: the product of index and step rounds once.
  const DType in = integral ? DType::i64 : DType::f64;
  T x = iota(r.b, t.dims, 0, in);
  if (!is(step, 1)) x = x * T(r.b, full(r.b, in, {}, step));
  if (!is(start, 0)) x = x + T(r.b, full(r.b, in, {}, start));
  r.set(x.to(t.dtype));
}

void linspace(Rule& r) {
  const TensorType t = r.meta_result();
  const bool log = r.has("base");
  const auto end_of = [&](std::string_view name) {
    const T end = T(r.b, materialize(r.b, operand(r, name), DType::f64)).reshape({});
    return is_float(t.dtype) ? end : end.to(DType::i64).to(t.dtype).to(DType::f64);  // ends are of the result's type
  };
  const T start = end_of("start"), end = end_of("end");
  const int64_t steps = r.integer("steps");
  r.agree({steps}, t.dims, "argument 'steps'");
  const T i = iota(r.b, t.dims, 0, DType::f64);
  T x = start.expand(t.dims);
  if (steps > 1) {
    const T step = (end - start) / static_cast<double>(steps - 1);
    // From both ends, so that the last element is exact.
    x = where(i < static_cast<double>(steps / 2), i * step + start, end - (static_cast<double>(steps - 1) - i) * step);
  }
  if (log) x = binary(Op::pow, x.like(r.number("base")), x);
  r.set(x.to(t.dtype));
}

void eye(Rule& r) {
  const TensorType t = r.meta_result();
  r.agree({r.sym("n"), r.sym(r.has("m") ? "m" : "n")}, t.dims, "the matrix");
  r.set((iota(r.b, t.dims, 0) == iota(r.b, t.dims, 1)).to(t.dtype));
}

/// Keeps j - i <= diagonal (lower) or >= diagonal (upper), in the last two dims.
template <bool lower>
void triangle(Rule& r) {
  const T x = tensor(r, "self");
  const Expr k = r.sym("diagonal");
  const int n = x.rank();
  if (n < 2) r.refuse("a triangle of a tensor with less than two dimensions");
  const std::vector<Expr> d = {x.dim(-2), x.dim(-1)};
  const T offset = iota(r.b, d, 1) - iota(r.b, d, 0), limit = scalar_of(r.b, k, DType::i64);
  const T keep = lower ? offset <= limit : offset >= limit;
  if (is_bool(x.dtype())) return r.set(x & keep.expand(x.dims()));
  r.set(where(keep, x, 0.0));
}

/// Coordinates of a triangle, row by row: a constant.
template <bool lower>
void triangle_indices(Rule& r) {
  const int64_t rows = r.integer("row"), cols = r.integer("col"), k = r.integer("offset");
  Ints at[2];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      if (lower ? j - i <= k : j - i >= k) at[0].push_back(i), at[1].push_back(j);
  const TensorType t = r.meta_result();
  r.agree({Expr(2), Expr(static_cast<int64_t>(at[0].size()))}, t.dims, "the triangle");
  if (at[0].empty()) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  at[0].insert(at[0].end(), at[1].begin(), at[1].end());
  r.set(T(r.b, literal(r.b, at[0])).reshape(t.dims).to(t.dtype));
}

void vander(Rule& r) {
  const T x = tensor(r, "x");
  const TensorType t = r.meta_result();
  const bool increasing = r.boolean_or("increasing", true);
  const int64_t n = r.constant(t.dims.back(), "the number of columns");
  std::vector<ValueId> cols;
  const T base = is_bool(x.dtype()) ? x.to(DType::i64) : x;
  T power = base.like(1.0);
  for (int64_t i = 0; i < n; ++i) {
    cols.push_back(power.unsqueeze(-1).to(t.dtype));
    power = power * base;
  }
  if (!increasing) std::reverse(cols.begin(), cols.end());
  if (cols.empty()) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  r.set(r.b.reshape(r.b.cat(cols, r.b.rank(cols[0]) - 1), t.dims));
}

/// a - b*cos(2*pi*i/(n-1 or n))
template <int kind>
void cosine_window(Rule& r) {
  const TensorType t = r.meta_result();
  const int64_t n = r.integer("window_length");
  r.agree({n}, t.dims, "argument 'window_length'");
  const bool periodic = r.boolean_or("periodic", true);
  if (n <= 1) return r.set(full(r.b, t.dtype, t.dims, 1.0));
  const double last = static_cast<double>(periodic ? n : n - 1);
  const T i = iota(r.b, t.dims, 0, DType::f64) * (2 * M_PI / last);
  T w = i;
  if (kind == 0) w = 0.5 - unary(Op::cos, i) * 0.5;
  if (kind == 1) w = r.number_or("alpha", 0.54) - unary(Op::cos, i) * r.number_or("beta", 0.46);
  if (kind == 2) w = 0.42 - unary(Op::cos, i) * 0.5 + unary(Op::cos, i * 2.0) * 0.08;
  if (kind == 3) w = 1.0 - abs(iota(r.b, t.dims, 0, DType::f64) * (2.0 / last) - 1.0);
  r.set(w.to(t.dtype));
}

/// Numbers that import/random_numbers.h does not draw: noise of no strength is zeros.
void undrawn(Rule& r) {
  const std::vector<std::string> made = import::result_names(r.node);
  if (made.size() != 1 || !import::silenced(r.program, made[0]))
    r.refuse("random numbers are not drawn here", "pass them as an input; they are drawn outside of branches and loops, as real numbers");
  constant_of<0>(r);
}

/// Row-major element i of numbers drawn: philox(i, key).
void random_bits(Rule& r) {
  const TensorType t = r.meta_result();
  const T state = tensor(r, "state");
  if (state.dtype() != DType::i64 || state.rank() != 1 || !state.dim(0).is(2)) throw r.fault("the state is not int64 [2]");
  const T run = state.select(0, 1), counter = binary(Op::shl, run, 24.0) + static_cast<double>(r.integer("slot"));
  const T key = binary(Op::philox, counter, state.select(0, 0));
  T at = t.dims.empty() ? T(r.b, full(r.b, DType::i64, {}, 0.0)) : iota(r.b, t.dims, 0);
  for (int d = 1; d < static_cast<int>(t.dims.size()); ++d)
    at = at * scalar_of(r.b, t.dims[static_cast<size_t>(d)], DType::i64).expand(t.dims) + iota(r.b, t.dims, d);
  r.set(binary(Op::philox, at, key.expand(t.dims)));
}

constexpr RuleRow kRows[] = {
    {"aten.zeros.default aten.zeros_like.default aten.new_zeros.default aten.zero.default aten.empty.memory_format aten.empty_like.default "
     "aten.new_empty.default aten.empty_strided.default aten.new_empty_strided.default aten.empty_permuted.default",
     constant_of<0>},
    {"aten.ones.default aten.ones_like.default aten.new_ones.default", constant_of<1>},
    {"aten.full.default aten.full_like.default aten.new_full.default", full_of<0>},
    {"aten.fill.Scalar aten.fill.Tensor", full_of<1>},
    {"aten.scalar_tensor.default", full_of<2>},
    {"aten.arange.default aten.arange.start aten.arange.start_step aten.range.step aten.range.default", arange},
    {"aten.linspace.default aten.linspace.Tensor_Tensor aten.linspace.Tensor_Scalar aten.linspace.Scalar_Tensor aten.logspace.default "
     "aten.logspace.Tensor_Tensor aten.logspace.Tensor_Scalar aten.logspace.Scalar_Tensor",
     linspace},
    {"aten.eye.default aten.eye.m", eye},
    {"aten.tril.default", triangle<true>},
    {"aten.triu.default", triangle<false>},
    {"aten.tril_indices.default", triangle_indices<true>},
    {"aten.triu_indices.default", triangle_indices<false>},
    {"aten.vander.default aten.linalg_vander.default", vander},
    {"aten.hann_window.default aten.hann_window.periodic", cosine_window<0>},
    {"aten.hamming_window.default aten.hamming_window.periodic aten.hamming_window.periodic_alpha aten.hamming_window.periodic_alpha_beta",
     cosine_window<1>},
    {"aten.blackman_window.default aten.blackman_window.periodic", cosine_window<2>},
    {"aten.bartlett_window.default aten.bartlett_window.periodic", cosine_window<3>},
    {import::kRandomBits, random_bits},
    {"aten.rand.default aten.rand_like.default aten.randn.default aten.randn_like.default aten.randint.default aten.randint.low "
     "aten.randperm.default aten.bernoulli.default aten.bernoulli.p aten.multinomial.default aten.normal_functional.default",
     undrawn},
};
}  // namespace

RuleTable creation_rules() { return kRows; }

}  // namespace aotc::decompose
