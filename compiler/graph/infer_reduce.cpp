// Type rules: reductions, scans and whole-tensor algorithms.
#include <algorithm>

#include "graph/infer_detail.h"

namespace aotc::infer {

Types reduce(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  const Ints& dims = r.increasing_dims(x.rank());
  const ReduceKind k = r.n.reduce_kind();
  const bool arg = k == ReduceKind::argmax || k == ReduceKind::argmin;
  r.require(k != ReduceKind::logsumexp, "logsumexp is a scan only");
  const bool ordered = arg || k == ReduceKind::max || k == ReduceKind::min;
  r.require(takes(ordered ? OperandTypes::real : OperandTypes::numeric, x.dtype), "{} does not take {}", reduce_name(k),
            dtype_name(x.dtype));
  Exprs out;
  for (int i = 0; i < x.rank(); ++i)
    if (!std::binary_search(dims.begin(), dims.end(), i)) out.push_back(x.dims[i]);
  return {{arg ? DType::i64 : x.dtype, out}};
}

Types scan(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  r.dim(x.rank());
  const ReduceKind k = r.n.reduce_kind();
  if (r.n.op == Op::scan_arg) {
    r.require(k == ReduceKind::max || k == ReduceKind::min, "kind must be max or min");
    r.require(takes(OperandTypes::real, x.dtype), "does not take {}", dtype_name(x.dtype));
    return {{DType::i64, x.dims}};
  }
  const bool extreme = k == ReduceKind::max || k == ReduceKind::min;
  r.require(extreme || k == ReduceKind::sum || k == ReduceKind::prod || k == ReduceKind::logsumexp, "kind {} does not scan",
            reduce_name(k));
  const OperandTypes types = extreme ? OperandTypes::real : k == ReduceKind::logsumexp ? OperandTypes::floats : OperandTypes::numeric;
  r.require(takes(types, x.dtype), "{} does not take {}", reduce_name(k), dtype_name(x.dtype));
  return {x};
}

Types sort(Infer& r) {
  r.arity(1);
  TensorType values = r.in(0);
  const int d = r.dim(values.rank());
  r.require(takes(OperandTypes::real, values.dtype), "does not take {}", dtype_name(values.dtype));
  if (r.n.op == Op::topk) {
    const Expr& k = r.n.get<Expr>(Attr::k);
    r.at_most(0, k, "k");
    r.at_most(k, values.dims[d], "k");
    values.dims[d] = k;
  }
  return {values, {DType::i64, values.dims}};
}

Types recurrence(Infer& r) {
  const std::string& cell = r.n.get<std::string>(Attr::cell);
  r.n.get<bool>(Attr::reverse);
  const int64_t gates = recurrence_gates(cell);
  r.require(gates > 0, "unknown cell {}", cell);
  const bool lstm = cell == "lstm", gru = cell == "gru";
  const size_t least = 3 + static_cast<size_t>(lstm || gru);
  r.arity(least, least + static_cast<size_t>(lstm));
  const TensorType &x = r.in(0), &w = r.in(1), &h = r.in(2);
  r.require(is_float(x.dtype), "does not take {}", dtype_name(x.dtype));
  const bool half = x.dtype == DType::f32 && w.dtype == DType::bf16;
  r.require(!half || r.arity() < 5, "w of bfloat16 beside float32: a projected state is not taken");
  for (size_t i = 1; i < r.arity(); ++i) r.require(r.in(i).dtype == x.dtype || (i == 1 && half), "inputs must have one dtype");
  r.require(x.rank() == 3 && w.rank() == 2 && h.rank() == 2, "x must have rank 3, w and h0 rank 2");
  const int64_t steps = r.n.get<int64_t>(Attr::dim);
  r.require(steps == 0 || steps == 1, "the steps must be dim 0 or 1");
  const Expr& batch = x.dims[static_cast<size_t>(1 - steps)];
  r.equal(w.dims[1], x.dims[2], "gates of w");
  r.equal(h.dims[0], batch, "batch of h0");
  r.equal(h.dims[1], w.dims[0], "width of h0");
  const Expr hidden = floordiv(x.dims[2], gates);
  r.equal(hidden * gates, x.dims[2], "gates");
  std::vector<TensorType> out = {{x.dtype, {x.dims[0], x.dims[1], w.dims[0]}}, h};
  if (lstm) {
    r.require(r.in(3).rank() == 2, "c0 must have rank 2");
    r.equal(r.in(3).dims[0], batch, "batch of c0");
    r.equal(r.in(3).dims[1], hidden, "width of c0");
    out.push_back(r.in(3));
  }
  if (gru) {
    r.require(r.in(3).rank() == 1, "bias must have rank 1");
    r.equal(r.in(3).dims[0], x.dims[2], "gates of bias");
  }
  if (r.arity() == 5) {
    r.require(r.in(4).rank() == 2, "w_hr must have rank 2");
    r.equal(r.in(4).dims[0], hidden, "rows of w_hr");
    r.equal(r.in(4).dims[1], w.dims[0], "columns of w_hr");
  } else {
    r.equal(hidden, w.dims[0], "width of the state");
  }
  return out;
}

Types fourier(Infer& r) {
  const std::string& kind = r.n.get<std::string>(Attr::kind);
  const bool pairs = kind == "pairs", half = kind == "half", line = kind == "line";
  r.require(pairs || half || line, "unknown kind {}", kind);
  r.arity(half ? 2 : pairs ? 2 : 3, half ? 2 : 3);
  r.n.get<bool>(Attr::reverse), r.n.get<double>(Attr::scale);
  const TensorType &x = r.in(0), &waves = r.in(r.arity() - 1);
  r.require(x.dtype == DType::f32 || x.dtype == DType::f64, "does not take {}", dtype_name(x.dtype));
  const int64_t d = r.n.get<int64_t>(Attr::dim);
  r.require(d >= 0 && d < x.rank(), "dim {} out of range", d);
  const std::optional<int64_t> n = r.n.get<Expr>(Attr::k).as_const();
  r.require(n && *n > 0, "the length must be known");
  r.require(waves.dtype == x.dtype && waves.rank() == 2 && waves.dims[0].is(2) && waves.dims[1].is(*n), "waves must be [2, {}]", *n);
  if (r.arity() == 3) {
    r.require(r.in(1).dtype == x.dtype && r.in(1).rank() == x.rank(), "the parts differ");
    for (int i = 0; i < x.rank(); ++i) r.equal(r.in(1).dims[i], x.dims[i], "dim of the parts");
  }
  const std::optional<int64_t> given = x.dims[d].as_const();
  r.require(given && *given <= (line ? *n / 2 + 1 : *n), "more numbers than the transform has");
  TensorType out = x;
  out.dims[d] = half ? *n / 2 + 1 : *n;
  return line ? Types{out} : Types{out, out};
}

static void factorised(Infer& r, const TensorType& x) {
  r.require(x.dtype == DType::f32 || x.dtype == DType::f64, "does not take {}", dtype_name(x.dtype));
  r.require(x.rank() >= 2, "takes matrices");
  r.equal(x.dims[x.rank() - 2], x.dims[x.rank() - 1], "rows and columns");
}

Types check(Infer& r) {
  r.arity(1, 2);
  r.require(r.in(0).dtype == DType::boolean && r.in(0).rank() == 0, "the condition is one bool");
  r.require(r.arity() == 1 || (r.in(1).dtype == DType::i64 && r.in(1).rank() == 0), "an index is one int64");
  return {r.in(0)};
}

Types cholesky(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  factorised(r, x);
  return {x, {DType::i32, {x.dims.begin(), x.dims.end() - 2}}};
}

Types exclude(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  r.require(x.dtype == DType::boolean && x.rank() >= 2, "takes matrices of bools");
  r.equal(x.dims[x.rank() - 2], x.dims[x.rank() - 1], "rows and columns");
  return {{x.dtype, {x.dims.begin(), x.dims.end() - 1}}};
}

Types lu(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  r.require(x.dtype == DType::f64, "does not take {}", dtype_name(x.dtype));
  r.require(x.rank() >= 2, "takes matrices");
  TensorType order = {DType::i64, {x.dims.begin(), x.dims.end() - 1}}, swaps = order;
  swaps.dims.back() = r.g.syms.simplify(min(x.dims[x.rank() - 2], x.dims.back()));
  return {x, order, swaps};
}

Types qr(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  r.require(x.dtype == DType::f64, "does not take {}", dtype_name(x.dtype));
  r.require(x.rank() >= 2, "takes matrices");
  TensorType tau = {x.dtype, {x.dims.begin(), x.dims.end() - 1}};
  tau.dims.back() = r.g.syms.simplify(min(x.dims[x.rank() - 2], x.dims.back()));
  return {x, tau};
}

Types svd(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  r.require(x.dtype == DType::f64, "does not take {}", dtype_name(x.dtype));
  r.require(x.rank() >= 2, "takes matrices");
  TensorType values = {x.dtype, {x.dims.begin(), x.dims.end() - 2}}, right = x;
  values.dims.push_back(x.dims.back());
  right.dims[right.dims.size() - 2] = x.dims.back();
  return {x, values, right};
}

Types solve_triangular(Infer& r) {
  r.arity(2);
  const bool upper = r.n.get<bool>(Attr::upper), below = r.n.get<bool>(Attr::below);
  r.n.get<bool>(Attr::unit);
  const TensorType &a = r.in(0), &b = r.in(1);
  factorised(r, a);
  r.require(a.dtype == b.dtype, "operand types differ");
  r.require(a.rank() == b.rank(), "ranks differ");
  for (int i = 0; i < a.rank() - 1; ++i) r.equal(a.dims[i], b.dims[i], i < a.rank() - 2 ? "batch dim" : "rows");
  if (below) {
    r.require(!upper, "below the diagonal means the lower triangle");
    r.equal(a.dims.back(), b.dims.back(), "columns");
  }
  return {b};
}

}  // namespace aotc::infer

namespace aotc {

std::optional<Cell> parse_cell(std::string_view name) {
  constexpr std::string_view kNames[] = {"lstm", "gru", "tanh", "relu"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<Cell>(i);
  return std::nullopt;
}

int64_t recurrence_gates(std::string_view cell) {
  const std::optional<Cell> kind = parse_cell(cell);
  if (!kind) return 0;
  return *kind == Cell::lstm ? 4 : *kind == Cell::gru ? 3 : 1;
}

}  // namespace aotc
