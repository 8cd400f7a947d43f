#include "graph/builder.h"

#include <cmath>

#include <algorithm>
#include <numeric>

#include "graph/guard.h"
#include "graph/infer.h"
#include "graph/type_error.h"

namespace aotc {
namespace {

int64_t wrap(int64_t d, int rank) { return d < 0 ? d + rank : d; }

Ints wrapped(Ints dims, int rank) {
  for (int64_t& d : dims) d = wrap(d, rank);
  std::sort(dims.begin(), dims.end());
  return dims;
}

bool all_zero(const Exprs& es) {
  return std::all_of(es.begin(), es.end(), [](const Expr& e) { return e.is(0); });
}

DType scalar_type(const Graph& g, Op op, const std::vector<ValueId>& inputs, const TensorType* result) {
  if (op == Op::full && result) return result->dtype;
  return inputs.empty() ? DType::f32 : g.type(inputs[0]).dtype;
}

}  // namespace

std::vector<ValueId> Builder::make(Op op, std::vector<ValueId> inputs, std::map<Attr, AttrValue> attrs, const TensorType* result) {
  Node n;
  n.op = op;
  n.inputs = std::move(inputs);
  n.attrs = std::move(attrs);
  n.name = name_;
  n.source = source_;
  complete_attrs(n, n.inputs.empty() ? 0 : rank(n.inputs[0]), scalar_type(g_, op, n.inputs, result));
  std::vector<ShapeGuard> needed;
  std::vector<TensorType> types = infer_types(g_, n, result, needed);
  for (ShapeGuard& q : needed)
    if (!holds(g_, q.kind, q.a, q.b)) g_.guards.push_back(std::move(q));
  for (TensorType& t : types)
    for (Expr& d : t.dims) {
      require_size(d);
      // A quotient that the ranges leave one value is that value: what broadcasts is written as 1.
      if (const Interval all = g_.syms.interval(d); all.min == all.max) d = Expr(all.min);
    }
  return g_.nodes[g_.add_node(std::move(n), std::move(types))].outputs;
}

void Builder::require(ShapeGuard::Kind kind, const Expr& a, const Expr& b, std::string_view why) {
  if (holds(g_, kind, a, b)) return;
  ShapeGuard q{kind, a, b, {}};
  q.why = fmt::format("{}{}{}, {}", name_, name_.empty() ? "" : ": ", why, guard_text(q, g_.syms));
  g_.guards.push_back(std::move(q));
}

void Builder::require_size(const Expr& size) {
  if (g_.syms.interval(size).max < 0) throw TypeError(fmt::format("a size of {}", size.str(g_.syms)));
  require(ShapeGuard::Kind::le, 0, size, "a size");
}

ValueId Builder::make1(Op op, std::vector<ValueId> inputs, std::map<Attr, AttrValue> attrs, const TensorType* result) {
  const std::vector<ValueId> out = make(op, std::move(inputs), std::move(attrs), result);
  AOTC_CHECK(out.size() == 1, "{} has {} results", op_name(op), out.size());
  return out[0];
}

// ------------------------------------------------------------------------------------------------ nullary
ValueId Builder::full(TensorType t, double value) { return make1(Op::full, {}, {{Attr::value, value}}, &t); }
ValueId Builder::full_int(TensorType t, int64_t value) { return make1(Op::full, {}, {{Attr::value, value}}, &t); }

ValueId Builder::iota(std::vector<Expr> dims, int dim) {
  const TensorType t{DType::i64, std::move(dims)};
  return make1(Op::iota, {}, {{Attr::dim, wrap(dim, t.rank())}}, &t);
}

ValueId Builder::sym(Expr e) {
  if (auto c = e.as_const()) return full_int({DType::i64, {}}, *c);
  return make1(Op::sym, {}, {{Attr::expr, std::move(e)}});
}

ValueId Builder::logaddexp(ValueId a, ValueId b, bool base_two) {
  const ValueId most = binary(Op::maximum, a, b), less = unary(Op::neg, unary(Op::abs, binary(Op::sub, a, b)));
  const ValueId tail = unary(Op::log1p, unary(base_two ? Op::exp2 : Op::exp, less));
  const ValueId more = base_two ? binary_scalar(Op::mul, tail, 1 / std::log(2.0)) : tail;
  const ValueId twice = binary_scalar(Op::add, a, base_two ? 1.0 : std::log(2.0));  // of equal infinities the difference would be NaN
  return where(binary(Op::eq, a, b), twice, binary(Op::add, most, more));
}

ValueId Builder::cast(ValueId x, DType to) {
  if (dtype(x) == to) return x;
  const TensorType t{to, dims(x)};
  return make1(Op::cast, {x}, {}, &t);
}

// ------------------------------------------------------------------------------------------------ views
ValueId Builder::reshape(ValueId x, std::vector<Expr> to) {
  if (same_dims(g_, dims(x), to)) return x;
  const Node* n = g_.def(x);
  if (n && n->op == Op::reshape) {
    const ValueId root = n->inputs[0];
    // The merged node must need no fact that the two steps did not need.
    if (holds(g_, ShapeGuard::Kind::eq, type(root).elems(), product(to))) return reshape(root, std::move(to));
  }
  const TensorType t{dtype(x), std::move(to)};
  return make1(Op::reshape, {x}, {}, &t);
}

ValueId Builder::permute(ValueId x, Ints perm) {
  const int r = rank(x);
  for (int64_t& p : perm) p = wrap(p, r);
  const Node* n = g_.def(x);
  if (n && n->op == Op::permute) {
    const Ints inner = n->get<Ints>(Attr::perm);
    for (int64_t& p : perm) p = inner.at(p);
    return permute(n->inputs[0], std::move(perm));
  }
  bool identity = static_cast<int>(perm.size()) == r;
  for (size_t i = 0; identity && i < perm.size(); ++i) identity = perm[i] == static_cast<int64_t>(i);
  return identity ? x : make1(Op::permute, {x}, {{Attr::perm, std::move(perm)}});
}

ValueId Builder::transpose(ValueId x, int d0, int d1) {
  Ints perm(rank(x));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm.at(wrap(d0, rank(x))), perm.at(wrap(d1, rank(x))));
  return permute(x, std::move(perm));
}

ValueId Builder::expand(ValueId x, std::vector<Expr> to) {
  const int extra = static_cast<int>(to.size()) - rank(x);
  AOTC_CHECK(extra >= 0, "expand cannot drop dims: rank {} to {}", rank(x), to.size());
  if (extra > 0) {
    Exprs same(extra, Expr(1));
    same.insert(same.end(), dims(x).begin(), dims(x).end());
    x = reshape(x, std::move(same));
  }
  if (same_dims(g_, dims(x), to)) return x;
  const Node* n = g_.def(x);
  if (n && n->op == Op::expand) return expand(n->inputs[0], std::move(to));
  const TensorType t{dtype(x), std::move(to)};
  return make1(Op::expand, {x}, {}, &t);
}

ValueId Builder::slice(ValueId x, int dim, Expr start, Expr size, int64_t step) {
  dim = static_cast<int>(wrap(dim, rank(x)));
  if (start.is(0) && step == 1 && holds(g_, ShapeGuard::Kind::eq, dims(x).at(dim), size)) return x;
  TensorType t = type(x);
  t.dims.at(dim) = std::move(size);
  return make1(Op::slice, {x}, {{Attr::dim, int64_t{dim}}, {Attr::start, std::move(start)}, {Attr::step, step}}, &t);
}

ValueId Builder::select(ValueId x, int dim, Expr index) {
  dim = static_cast<int>(wrap(dim, rank(x)));
  return squeeze(slice(x, dim, std::move(index), 1), dim);
}

ValueId Builder::flip(ValueId x, Ints over) {
  over = wrapped(std::move(over), rank(x));
  over.erase(std::remove_if(over.begin(), over.end(), [&](int64_t d) { return dims(x).at(d).is(1); }), over.end());
  return over.empty() ? x : make1(Op::flip, {x}, {{Attr::dims, std::move(over)}});
}

ValueId Builder::unsqueeze(ValueId x, int dim) {
  Exprs to = dims(x);
  to.insert(to.begin() + wrap(dim, rank(x) + 1), Expr(1));
  return reshape(x, std::move(to));
}

ValueId Builder::squeeze(ValueId x, int dim) {
  Exprs to = dims(x);
  to.erase(to.begin() + wrap(dim, rank(x)));
  return reshape(x, std::move(to));
}

ValueId Builder::pad(ValueId x, std::vector<Expr> lo, std::vector<Expr> hi, double value) {
  if (all_zero(lo) && all_zero(hi)) return x;
  AOTC_CHECK(lo.size() == dims(x).size() && hi.size() == lo.size(), "pad: one lo and hi per dim");
  TensorType t = type(x);
  for (size_t i = 0; i < lo.size(); ++i) t.dims[i] += lo[i] + hi[i];
  return make1(Op::pad, {x}, {{Attr::lo, std::move(lo)}, {Attr::value, value}}, &t);
}

ValueId Builder::window(ValueId x, Ints kernel, Ints stride, Ints padding, Ints dilation, std::vector<Expr> out_spatial, double value) {
  TensorType t = type(x);
  AOTC_CHECK(kernel.size() <= t.dims.size() && out_spatial.size() == kernel.size(), "window: one output size per kernel dim");
  t.dims.resize(t.dims.size() - kernel.size());
  t.dims.insert(t.dims.end(), out_spatial.begin(), out_spatial.end());
  for (int64_t k : kernel) t.dims.emplace_back(k);
  return make1(Op::window, {x},
               {{Attr::kernel, std::move(kernel)},
                {Attr::stride, std::move(stride)},
                {Attr::padding, std::move(padding)},
                {Attr::dilation, std::move(dilation)},
                {Attr::value, value}},
               &t);
}

ValueId Builder::strided(ValueId x, std::vector<Expr> to, std::vector<Expr> strides, Expr start) {
  const TensorType t{dtype(x), std::move(to)};
  return make1(Op::strided, {x}, {{Attr::strides, std::move(strides)}, {Attr::start, std::move(start)}}, &t);
}

ValueId Builder::cat(std::vector<ValueId> xs, int dim) {
  AOTC_CHECK(!xs.empty(), "cat of nothing");
  if (xs.size() == 1) return xs[0];
  const int64_t d = wrap(dim, rank(xs[0]));
  return make1(Op::cat, std::move(xs), {{Attr::dim, d}});
}

// ------------------------------------------------------------------------------------------------ reductions, products
ValueId Builder::reduce(ReduceKind kind, ValueId x, Ints over) {
  over = wrapped(std::move(over), rank(x));
  const bool arg = kind == ReduceKind::argmax || kind == ReduceKind::argmin;
  if (over.empty() && !arg) return x;
  return make1(Op::reduce, {x}, {{Attr::kind, std::string(reduce_name(kind))}, {Attr::dims, std::move(over)}});
}

ValueId Builder::reduce_keep(ReduceKind kind, ValueId x, Ints over) {
  Exprs kept = dims(x);
  for (int64_t d : over) kept.at(wrap(d, rank(x))) = 1;
  return reshape(reduce(kind, x, std::move(over)), std::move(kept));
}

ValueId Builder::scan(ReduceKind kind, ValueId x, int dim) {
  return make1(Op::scan, {x}, {{Attr::kind, std::string(reduce_name(kind))}, {Attr::dim, wrap(dim, rank(x))}});
}

ValueId Builder::matmul(ValueId a, ValueId b, DType result) {
  AOTC_CHECK(rank(a) >= 2 && rank(b) == rank(a), "matmul of ranks {} and {}", rank(a), rank(b));
  TensorType t{result, dims(a)};
  t.dims.back() = dims(b).back();
  return make1(Op::matmul, {a, b}, {}, &t);
}

ValueId Builder::grouped_matmul(ValueId x, ValueId w, ValueId ends, DType result) {
  AOTC_CHECK(rank(x) == 2 && rank(w) == 3 && rank(ends) == 1, "grouped_matmul of ranks {}, {} and {}", rank(x), rank(w), rank(ends));
  const TensorType t{result, {dims(x)[0], dims(w)[2]}};
  return make1(Op::grouped_matmul, {x, w, ends}, {}, &t);
}

// ------------------------------------------------------------------------------------------------ indirect
ValueId Builder::index(ValueId x, std::vector<ValueId> indices, Ints over, int out_pos) {
  for (int64_t& d : over) d = wrap(d, rank(x));
  std::vector<ValueId> inputs = {x};
  inputs.insert(inputs.end(), indices.begin(), indices.end());
  return make1(Op::index, std::move(inputs), {{Attr::dims, std::move(over)}, {Attr::out_pos, int64_t{out_pos}}});
}

ValueId Builder::gather(ValueId x, ValueId i, int dim) { return make1(Op::gather, {x, i}, {{Attr::dim, wrap(dim, rank(x))}}); }

}  // namespace aotc
