#include "graph/infer.h"

#include <algorithm>

#include "graph/guard.h"
#include "graph/type_error.h"

namespace aotc {
namespace {

using Types = std::vector<TensorType>;

/// One application of a rule: access to the operands, and the checks that rules share.
struct Infer {
  const Graph& g;
  const Node& n;
  const TensorType* given;
  std::vector<ShapeGuard>& needed;

  template <class... A>
  void require(bool ok, fmt::format_string<A...> text, A&&... args) const {
    if (ok) return;
    std::string operands;
    for (ValueId v : n.inputs) operands += (operands.empty() ? "" : ", ") + type_text(g.type(v));
    throw TypeError(fmt::format("{}{}{}({}): {}", op_name(n.op), n.name.empty() ? "" : " @", n.name, operands,
                                fmt::format(text, std::forward<A>(args)...)));
  }
  std::string text(const Expr& e) const { return e.str(g.syms); }
  std::string type_text(const TensorType& t) const {
    std::string s(dtype_name(t.dtype));
    s += '[';
    for (size_t i = 0; i < t.dims.size(); ++i) s += (i ? ", " : "") + text(t.dims[i]);
    return s + ']';
  }

  size_t arity() const { return n.inputs.size(); }
  void arity(size_t lo, size_t hi) const { require(arity() >= lo && arity() <= hi, "takes {} to {} inputs, has {}", lo, hi, arity()); }
  void arity(size_t count) const { require(arity() == count, "takes {} inputs, has {}", count, arity()); }
  const TensorType& in(size_t i) const { return g.type(n.inputs[i]); }
  const TensorType& result() const {
    require(given != nullptr, "needs its result type given");
    return *given;
  }
  int dim(int rank) const {
    const int64_t d = n.get<int64_t>(Attr::dim);
    require(d >= 0 && d < rank, "dim {} is not within rank {}", d, rank);
    return static_cast<int>(d);
  }
  const Ints& increasing_dims(int rank) const {
    const Ints& dims = n.get<Ints>(Attr::dims);
    for (size_t i = 0; i < dims.size(); ++i)
      require(dims[i] >= 0 && dims[i] < rank && (i == 0 || dims[i] > dims[i - 1]), "dims must be increasing and within rank {}", rank);
    return dims;
  }
  const Ints& per_spatial(Attr a, size_t count, int64_t least) const {
    const Ints& v = n.get<Ints>(a);
    require(v.size() == count, "{} must have {} entries", attr_name(a), count);
    for (int64_t x : v) require(x >= least, "{} must be at least {}", attr_name(a), least);
    return v;
  }

  void fact(ShapeGuard::Kind kind, const Expr& a, const Expr& b, std::string_view what) const {
    if (holds(g, kind, a, b)) return;
    const Expr diff = g.syms.simplify(a - b);
    const bool refuted =
        (kind == ShapeGuard::Kind::eq && g.syms.proves_ne(a, b)) || (kind == ShapeGuard::Kind::le && g.syms.proves_lt(b, a)) ||
        (kind != ShapeGuard::Kind::divisible && diff.is_const()) || (kind == ShapeGuard::Kind::divisible && a.is_const() && b.is_const());
    const char* relation = kind == ShapeGuard::Kind::eq ? "equal" : kind == ShapeGuard::Kind::le ? "at most" : "a multiple of";
    require(!refuted, "{}: {} is not {} {}", what, text(a), relation, text(b));
    needed.push_back({kind, a, b, {}});
    needed.back().why =
        fmt::format("{}: {}, {}", n.name.empty() ? std::string(op_name(n.op)) : n.name, what, guard_text(needed.back(), g.syms));
  }
  /// The common value; a constant where one of the two is.
  Expr equal(const Expr& a, const Expr& b, std::string_view what) const {
    fact(ShapeGuard::Kind::eq, a, b, what);
    return b.is_const() ? b : a;
  }
  void at_most(const Expr& a, const Expr& b, std::string_view what) const { fact(ShapeGuard::Kind::le, a, b, what); }
  Exprs equal(const Exprs& a, const Exprs& b, std::string_view what) const {
    require(a.size() == b.size(), "{}: ranks {} and {} differ", what, a.size(), b.size());
    Exprs out;
    for (size_t i = 0; i < a.size(); ++i) out.push_back(equal(a[i], b[i], what));
    return out;
  }
};

bool any_real(DType t) { return !is_complex(t); }
bool numeric(DType t) { return is_int(t) || is_float(t); }
bool int_or_bool(DType t) { return is_int(t) || is_bool(t); }
bool int64_only(DType t) { return t == DType::i64; }
bool any_type(DType) { return true; }

using TypeSet = bool (*)(DType);

TypeSet operand_types(Op op) {
  switch (op) {
    case Op::cast: return any_real;
    case Op::bitcast: return any_type;
    case Op::neg:
    case Op::abs:
    case Op::sign:
    case Op::relu:
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div_trunc:
    case Op::div_floor:
    case Op::remainder:
    case Op::fmod:
    case Op::pow: return numeric;
    case Op::isnan:
    case Op::isinf:
    case Op::minimum:
    case Op::maximum:
    case Op::eq:
    case Op::ne:
    case Op::lt:
    case Op::le:
    case Op::gt:
    case Op::ge: return any_real;
    case Op::logical_not: return is_bool;
    case Op::bitwise_not:
    case Op::shl:
    case Op::shr: return is_int;
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor: return int_or_bool;
    default: return is_float;  // the functions of analysis, div, atan2 ...
  }
}

// ------------------------------------------------------------------------------------------------ nullary, pointwise
Types nullary(Infer& r) {
  r.arity(0);
  if (r.n.op == Op::sym) {
    r.n.get<Expr>(Attr::expr);
    return {{DType::i64, {}}};
  }
  if (r.n.op == Op::iota) {
    r.dim(r.result().rank());
    return {{DType::i64, r.result().dims}};
  }
  r.require(r.n.has(Attr::value), "has no value");
  const AttrValue& v = r.n.attrs.at(Attr::value);
  const DType t = r.result().dtype;
  const bool fits = is_bool(t)  ? std::holds_alternative<bool>(v)
                    : is_int(t) ? std::holds_alternative<int64_t>(v)
                                : std::holds_alternative<double>(v);
  r.require(fits, "the value is not of the kind of {}", dtype_name(t));
  return {r.result()};
}

Types unary(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  r.require(operand_types(r.n.op)(x.dtype), "does not take {}", dtype_name(x.dtype));
  DType out = x.dtype;
  if (yields_bool(r.n.op)) out = DType::boolean;
  if (r.n.op == Op::cast || r.n.op == Op::bitcast) out = r.result().dtype;
  if (r.n.op == Op::cast) r.require(any_real(out), "does not make {}", dtype_name(out));
  if (r.n.op == Op::bitcast)
    r.require(dtype_bytes(out) == dtype_bytes(x.dtype), "widths of {} and {} differ", dtype_name(x.dtype), dtype_name(out));
  return {{out, x.dims}};
}

Types binary(Infer& r) {
  r.arity(2);
  const TensorType &a = r.in(0), &b = r.in(1);
  r.require(a.dtype == b.dtype, "operand types differ");
  r.require(operand_types(r.n.op)(a.dtype), "does not take {}", dtype_name(a.dtype));
  return {{yields_bool(r.n.op) ? DType::boolean : a.dtype, r.equal(a.dims, b.dims, "dims")}};
}

Types ternary(Infer& r) {  // where
  r.arity(3);
  r.require(is_bool(r.in(0).dtype), "the condition is not bool");
  r.require(r.in(1).dtype == r.in(2).dtype, "the branches' types differ");
  return {{r.in(1).dtype, r.equal(r.equal(r.in(0).dims, r.in(1).dims, "dims"), r.in(2).dims, "dims")}};
}

// ------------------------------------------------------------------------------------------------ views
Types reshape(Infer& r) {
  r.arity(1);
  r.fact(ShapeGuard::Kind::eq, r.in(0).elems(), r.result().elems(), "element count");
  return {{r.in(0).dtype, r.result().dims}};
}

Types permute(Infer& r) {
  r.arity(1);
  const Ints& perm = r.n.get<Ints>(Attr::perm);
  const Exprs& dims = r.in(0).dims;
  r.require(perm.size() == dims.size(), "perm has {} entries", perm.size());
  Ints sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) r.require(sorted[i] == static_cast<int64_t>(i), "perm is not a permutation");
  Exprs out;
  for (int64_t p : perm) out.push_back(dims[p]);
  return {{r.in(0).dtype, out}};
}

Types expand(Infer& r) {
  r.arity(1);
  const Exprs &from = r.in(0).dims, &to = r.result().dims;
  r.require(from.size() == to.size(), "rank changes from {} to {}", from.size(), to.size());
  for (size_t i = 0; i < to.size(); ++i)
    if (!from[i].is(1)) r.equal(from[i], to[i], "a dim that is not 1");
  return {{r.in(0).dtype, to}};
}

Types slice(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  const int d = r.dim(x.rank());
  const Expr& start = r.n.get<Expr>(Attr::start);
  const int64_t step = r.n.get<int64_t>(Attr::step);
  r.require(step >= 1, "step {} is not positive", step);
  r.require(r.result().rank() == x.rank(), "rank changes");
  Exprs out = x.dims;
  for (int i = 0; i < x.rank(); ++i)
    if (i != d) r.equal(x.dims[i], r.result().dims[i], "a dim that is not sliced");
  out[d] = r.result().dims[d];
  r.at_most(0, start, "slice start");
  r.at_most(start + (out[d] - 1) * step + 1, x.dims[d], "slice end");
  return {{x.dtype, out}};
}

Types flip(Infer& r) {
  r.arity(1);
  r.increasing_dims(r.in(0).rank());
  return {r.in(0)};
}

Types strided(Infer& r) {
  r.arity(1);
  const Exprs& strides = r.n.get<Exprs>(Attr::strides);
  const Exprs& dims = r.result().dims;
  r.require(strides.size() == dims.size(), "one stride per dim");
  Expr last = r.n.get<Expr>(Attr::start);
  r.at_most(0, last, "start");
  for (size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * strides[i];
  if (std::none_of(dims.begin(), dims.end(), [](const Expr& d) { return d.is(0); })) r.at_most(last + 1, r.in(0).elems(), "last element");
  return {{r.in(0).dtype, dims}};
}

Types pad(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  r.require(r.n.get<Exprs>(Attr::lo).size() == x.dims.size() && r.result().rank() == x.rank(), "one lo per dim");
  r.require(r.n.has(Attr::value), "has no value");
  return {{x.dtype, r.result().dims}};
}

Types window(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  const Ints& kernel = r.n.get<Ints>(Attr::kernel);
  const int k = static_cast<int>(kernel.size());
  r.require(k >= 1 && k <= x.rank(), "kernel of {} dims on rank {}", k, x.rank());
  r.per_spatial(Attr::kernel, k, 1);
  r.per_spatial(Attr::stride, k, 1);
  r.per_spatial(Attr::padding, k, 0);
  r.per_spatial(Attr::dilation, k, 1);
  r.require(r.n.has(Attr::value), "has no value");
  const Exprs& to = r.result().dims;
  r.require(r.result().rank() == x.rank() + k, "the result must be of rank {}", x.rank() + k);
  for (int i = 0; i < x.rank() - k; ++i) r.equal(x.dims[i], to[i], "leading dim");
  for (int i = 0; i < k; ++i) r.require(to[x.rank() + i].is(kernel[i]), "trailing dims must be the kernel's");
  return {{x.dtype, to}};
}

Types cat(Infer& r) {
  r.require(r.arity() >= 1, "no input");
  TensorType out = r.in(0);
  const int d = r.dim(out.rank());
  for (size_t i = 1; i < r.arity(); ++i) {
    const TensorType& x = r.in(i);
    r.require(x.dtype == out.dtype, "operand types differ");
    r.require(x.rank() == out.rank(), "ranks differ");
    for (int j = 0; j < out.rank(); ++j) out.dims[j] = j == d ? out.dims[j] + x.dims[j] : r.equal(out.dims[j], x.dims[j], "dims");
  }
  return {out};
}

// ------------------------------------------------------------------------------------------------ indirect
/// Dims of x[i1..ik]: the index dims stand at out_pos among the dims of x that are not indexed.
Exprs index_dims(Infer& r, size_t first_index) {
  const TensorType& x = r.in(0);
  const Ints& dims = r.increasing_dims(x.rank());
  r.require(!dims.empty() && dims.size() == r.arity() - first_index, "one index tensor per indexed dim");
  Exprs at = r.in(first_index).dims;
  for (size_t i = first_index; i < r.arity(); ++i) {
    r.require(int64_only(r.in(i).dtype), "indices must be int64");
    at = r.equal(at, r.in(i).dims, "index dims");
  }
  Exprs out;
  for (int i = 0; i < x.rank(); ++i)
    if (!std::binary_search(dims.begin(), dims.end(), i)) out.push_back(x.dims[i]);
  const int64_t pos = r.n.get<int64_t>(Attr::out_pos);
  r.require(pos >= 0 && pos <= static_cast<int64_t>(out.size()), "out_pos {} is not within the {} remaining dims", pos, out.size());
  out.insert(out.begin() + pos, at.begin(), at.end());
  return out;
}

Types index(Infer& r) {
  r.require(r.arity() >= 2, "no index tensor");
  return {{r.in(0).dtype, index_dims(r, 1)}};
}

Types index_put(Infer& r) {
  r.require(r.arity() >= 3, "no index tensor");
  r.require(r.in(0).dtype == r.in(1).dtype, "operand types differ");
  r.n.get<bool>(Attr::accumulate);
  r.equal(index_dims(r, 2), r.in(1).dims, "values dims");
  return {r.in(0)};
}

void check_along(Infer& r, const TensorType& i, const TensorType& x, int d) {
  r.require(int64_only(i.dtype), "indices must be int64");
  r.require(i.rank() == x.rank(), "ranks differ");
  for (int j = 0; j < x.rank(); ++j)
    if (j != d) r.at_most(i.dims[j], x.dims[j], "index dim");
}

Types gather(Infer& r) {
  r.arity(2);
  check_along(r, r.in(1), r.in(0), r.dim(r.in(0).rank()));
  return {{r.in(0).dtype, r.in(1).dims}};
}

Types scatter(Infer& r) {
  r.arity(3);
  const TensorType &x = r.in(0), &i = r.in(1), &src = r.in(2);
  check_along(r, i, x, r.dim(x.rank()));
  r.require(src.dtype == x.dtype && src.rank() == x.rank(), "the source's type or rank differs");
  for (int j = 0; j < x.rank(); ++j) r.at_most(i.dims[j], src.dims[j], "source dim");
  static constexpr std::string_view kKinds[] = {"none", "sum", "prod", "amax", "amin", "mean"};
  const std::string& kind = r.n.get<std::string>(Attr::reduce);
  r.require(std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds), "unknown reduce '{}'", kind);
  r.n.get<bool>(Attr::include_self);
  return {x};
}

// ------------------------------------------------------------------------------------------------ reductions
Types reduce(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  const Ints& dims = r.increasing_dims(x.rank());
  const ReduceKind k = r.n.reduce_kind();
  const bool arg = k == ReduceKind::argmax || k == ReduceKind::argmin;
  r.require(k != ReduceKind::logsumexp, "logsumexp is a scan only");
  r.require(arg || k == ReduceKind::max || k == ReduceKind::min ? any_real(x.dtype) : numeric(x.dtype), "{} does not take {}",
            reduce_name(k), dtype_name(x.dtype));
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
    r.require(any_real(x.dtype), "does not take {}", dtype_name(x.dtype));
    return {{DType::i64, x.dims}};
  }
  const bool extreme = k == ReduceKind::max || k == ReduceKind::min;
  r.require(extreme || k == ReduceKind::sum || k == ReduceKind::prod || k == ReduceKind::logsumexp, "kind {} does not scan",
            reduce_name(k));
  r.require(extreme                      ? any_real(x.dtype)
            : k == ReduceKind::logsumexp ? is_float(x.dtype)
                                         : numeric(x.dtype),
            "{} does not take {}", reduce_name(k), dtype_name(x.dtype));
  return {x};
}

// ------------------------------------------------------------------------------------------------ contractions
DType product_type(Infer& r, DType in) {
  r.require(numeric(in), "does not take {}", dtype_name(in));
  const DType out = r.given ? r.given->dtype : in;
  // Narrow integers are summed in 32 bits, which wrap.
  r.require(is_float(in) ? is_float(out) : is_int(out) && dtype_bytes(out) <= std::max<int64_t>(4, dtype_bytes(in)),
            "does not make {} of {}", dtype_name(out), dtype_name(in));
  return out;
}

Types matmul(Infer& r) {
  r.arity(2);
  const TensorType &a = r.in(0), &b = r.in(1);
  r.require(a.dtype == b.dtype, "operand types differ");
  r.require(a.rank() >= 2 && a.rank() == b.rank(), "ranks must be equal and at least 2");
  const int k = a.rank();
  Exprs out;
  for (int i = 0; i < k - 2; ++i) out.push_back(r.equal(a.dims[i], b.dims[i], "batch dim"));
  r.equal(a.dims[k - 1], b.dims[k - 2], "inner dim");
  out.push_back(a.dims[k - 2]);
  out.push_back(b.dims[k - 1]);
  return {{product_type(r, a.dtype), out}};
}

Types conv(Infer& r) {
  r.arity(2);
  const TensorType &x = r.in(0), &w = r.in(1);
  r.require(x.dtype == w.dtype, "operand types differ");
  r.require(x.rank() >= 3 && x.rank() <= 5 && w.rank() == x.rank(), "x and w must be of rank 3, 4 or 5");
  const size_t s = x.rank() - 2;
  const Ints& stride = r.per_spatial(Attr::stride, s, 1);
  const Ints& lo = r.per_spatial(Attr::padding, s, INT64_MIN);
  const Ints& hi = r.per_spatial(Attr::padding_hi, s, INT64_MIN);
  const Ints& dilation = r.per_spatial(Attr::dilation, s, 1);
  const int64_t groups = r.n.get<int64_t>(Attr::groups);
  r.require(groups >= 1, "groups {} is not positive", groups);
  const bool transposed = r.n.op == Op::conv_transpose, last = r.n.get_or<bool>(Attr::channels_last, false);
  r.require(!(transposed && last), "a transposed convolution has its channels first");
  const Expr& channels = x.dims[last ? s + 1 : 1];
  const Expr* in = &x.dims[last ? 1 : 2];  // the spatial dims
  if (transposed) {
    r.equal(channels, w.dims[0], "channels");
    r.fact(ShapeGuard::Kind::divisible, channels, groups, "input channels by groups");
  } else {
    r.equal(channels, w.dims[1] * groups, "channels");
    r.fact(ShapeGuard::Kind::divisible, w.dims[0], groups, "output channels by groups");
  }
  Exprs out = {x.dims[0], transposed ? w.dims[1] * groups : w.dims[0]};
  for (size_t i = 0; i < s; ++i) {
    const Expr reach = (w.dims[i + 2] - 1) * dilation[i];
    if (transposed) {
      const int64_t extra = r.per_spatial(Attr::output_padding, s, 0)[i];
      out.push_back((in[i] - 1) * stride[i] - lo[i] - hi[i] + reach + extra + 1);
    } else {
      out.push_back(floordiv(in[i] + lo[i] + hi[i] - reach - 1, stride[i]) + 1);
    }
    r.at_most(0, out.back(), "output size");
  }
  if (last) std::rotate(out.begin() + 1, out.begin() + 2, out.end());
  return {{product_type(r, x.dtype), out}};
}

Types attention(Infer& r) {
  r.arity(3, 4);
  const TensorType &q = r.in(0), &k = r.in(1), &v = r.in(2);
  r.require(q.rank() == 4 && k.rank() == 4 && v.rank() == 4, "q, k and v must be of rank 4");
  r.require(is_float(q.dtype) && q.dtype == k.dtype && q.dtype == v.dtype, "q, k and v must be of one floating type");
  r.equal(q.dims[0], k.dims[0], "batch of k");
  r.equal(q.dims[0], v.dims[0], "batch of v");
  r.equal(k.dims[1], v.dims[1], "heads of v");
  r.fact(ShapeGuard::Kind::divisible, q.dims[1], k.dims[1], "heads of q by heads of k");
  r.equal(q.dims[3], k.dims[3], "head size of k");
  r.equal(k.dims[2], v.dims[2], "length of v");
  r.n.get<double>(Attr::scale);
  r.n.get<bool>(Attr::causal);
  r.n.get<bool>(Attr::nan_rows);
  if (r.arity() == 4) {
    const TensorType& m = r.in(3);
    r.require(m.rank() == 4 && (is_bool(m.dtype) || is_float(m.dtype)), "the mask must be bool or float, of rank 4");
    for (int i = 0; i < 3; ++i)
      if (!m.dims[i].is(1)) r.equal(m.dims[i], q.dims[i], "mask dim");
    r.equal(m.dims[3], k.dims[2], "mask length");
  }
  return {{q.dtype, {q.dims[0], q.dims[1], q.dims[2], v.dims[3]}}};
}

// ------------------------------------------------------------------------------------------------ whole tensors
Types sort(Infer& r) {
  r.arity(1);
  TensorType values = r.in(0);
  const int d = r.dim(values.rank());
  r.require(any_real(values.dtype), "does not take {}", dtype_name(values.dtype));
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
  for (size_t i = 1; i < r.arity(); ++i) r.require(r.in(i).dtype == x.dtype, "inputs must have one dtype");
  r.require(x.rank() == 3 && w.rank() == 2 && h.rank() == 2, "x must have rank 3, w and h0 rank 2");
  r.equal(w.dims[1], x.dims[2], "gates of w");
  r.equal(h.dims[0], x.dims[1], "batch of h0");
  r.equal(h.dims[1], w.dims[0], "width of h0");
  const Expr hidden = floordiv(x.dims[2], gates);
  r.equal(hidden * gates, x.dims[2], "gates");
  std::vector<TensorType> out = {{x.dtype, {x.dims[0], x.dims[1], w.dims[0]}}, h};
  if (lstm) {
    r.require(r.in(3).rank() == 2, "c0 must have rank 2");
    r.equal(r.in(3).dims[0], x.dims[1], "batch of c0");
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

using Rule = Types (*)(Infer&);

Rule rule_of(Op op) {
  switch (op_class(op)) {
    case OpClass::nullary: return nullary;
    case OpClass::unary: return unary;
    case OpClass::binary: return binary;
    case OpClass::ternary: return ternary;
    case OpClass::cat: return cat;
    case OpClass::reduce: return reduce;
    case OpClass::scan: return scan;
    default: break;
  }
  struct Row {
    Op op;
    Rule rule;
  };
  static constexpr Row kRules[] = {
      {Op::reshape, reshape},
      {Op::permute, permute},
      {Op::expand, expand},
      {Op::slice, slice},
      {Op::flip, flip},
      {Op::strided, strided},
      {Op::pad, pad},
      {Op::window, window},
      {Op::index, index},
      {Op::gather, gather},
      {Op::scatter, scatter},
      {Op::index_put, index_put},
      {Op::matmul, matmul},
      {Op::conv, conv},
      {Op::conv_transpose, conv},
      {Op::attention, attention},
      {Op::sort, sort},
      {Op::topk, sort},
      {Op::recurrence, recurrence},
  };
  for (const Row& r : kRules)
    if (r.op == op) return r.rule;
  AOTC_CHECK(false, "{} has no type rule", op_name(op));
  return nullptr;
}

}  // namespace

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

namespace {

/// Uses guards "symbol == expression" as substitutions.
Expr with_equalities(const Graph& g, Expr e) {
  for (const ShapeGuard& q : g.guards) {
    if (q.kind != ShapeGuard::Kind::eq) continue;
    if (auto s = q.a.as_symbol(); s && !q.b.depends_on(*s)) {
      e = e.substitute({{*s, q.b}});
    } else if (auto t = q.b.as_symbol(); t && !q.a.depends_on(*t)) {
      e = e.substitute({{*t, q.a}});
    }
  }
  return g.syms.simplify(e);
}

bool proves(const SymTable& s, ShapeGuard::Kind kind, const Expr& a, const Expr& b) {
  switch (kind) {
    case ShapeGuard::Kind::eq: return s.proves_eq(a, b);
    case ShapeGuard::Kind::le: return s.proves_le(a, b);
    case ShapeGuard::Kind::divisible: {
      const auto by = b.as_const();
      if (a == b) return true;
      return by ? s.proves_divisible(a, *by) : s.proves_eq(mod(a, b), 0);
    }
  }
  return false;
}

}  // namespace

bool holds(const Graph& g, ShapeGuard::Kind kind, const Expr& a, const Expr& b) {
  if (proves(g.syms, kind, a, b)) return true;
  if (g.guards.empty()) return false;
  const Expr diff = g.syms.simplify(a - b);
  for (const ShapeGuard& q : g.guards) {
    if (q.kind == kind && q.a == a && q.b == b) return true;
    if (kind == ShapeGuard::Kind::divisible) continue;
    const Expr known = g.syms.simplify(q.a - q.b);
    if (q.kind == ShapeGuard::Kind::eq && (known == diff || known == -diff)) return true;
    if (q.kind == ShapeGuard::Kind::le && kind == ShapeGuard::Kind::le && g.syms.proves_le(diff, known)) return true;
  }
  return proves(g.syms, kind, with_equalities(g, a), with_equalities(g, b));
}

bool same_dims(const Graph& g, const Exprs& a, const Exprs& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!holds(g, ShapeGuard::Kind::eq, a[i], b[i])) return false;
  return true;
}

std::vector<TensorType> infer_types(const Graph& g, const Node& node, const TensorType* given, std::vector<ShapeGuard>& needed) {
  Infer r{g, node, given, needed};
  Types out = rule_of(node.op)(r);
  if (given) {
    r.require(given->dtype == out[0].dtype, "the result is {}, not {}", dtype_name(out[0].dtype), dtype_name(given->dtype));
    out[0].dims = r.equal(out[0].dims, given->dims, "result dims");
  }
  return out;
}

std::vector<TensorType> infer_types(const Graph& g, const Node& node, const TensorType* given) {
  std::vector<ShapeGuard> needed;
  std::vector<TensorType> out = infer_types(g, node, given, needed);
  if (!needed.empty()) {
    const ShapeGuard& q = needed.front();
    throw InternalError(fmt::format("{}: needs a guard on {} and {} ({})", op_name(node.op), q.a.str(g.syms), q.b.str(g.syms), q.why));
  }
  return out;
}

}  // namespace aotc
