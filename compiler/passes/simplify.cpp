#include "passes/passes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/infer.h"
#include "graph/interp.h"
#include "graph/ranges.h"
#include "passes/lookups.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

using Found = std::optional<ValueId>;

bool is_splat(const Rewriter& r, ValueId v, double x) {
  const auto s = splat_value(r.g, v);
  return s && *s == x;
}

/// Every value of type a is a value of type b.
bool widens(DType a, DType b) {
  if (is_bool(a)) return true;
  const int64_t wa = dtype_bytes(a), wb = dtype_bytes(b);
  if (is_float8(a)) return is_float(b) && (a == b || wb > 1);
  if (is_float(a)) return is_float(b) && (a == b || (wb > wa && wb >= 4));
  if (is_int(b)) return a == DType::u8 ? b == DType::u8 || wb > 1 : b != DType::u8 && wb >= wa;
  if (!is_float(b) || is_float8(b)) return false;
  return wa == 1 || (wa == 2 && wb >= 4) || (wa == 4 && wb == 8);
}

Found cast(Rewriter& r, const Node& n) {
  const ValueId x = n.inputs[0];
  const DType to = r.dtype(n.outputs[0]);
  if (r.dtype(x) == to) return x;
  const Node* inner = r.def(x, Op::cast);
  if (inner && widens(r.dtype(inner->inputs[0]), r.dtype(x))) return r.b.cast(inner->inputs[0], to);
  return {};
}

/// f(f(x)) == x for an involution, f(x) for an idempotent function.
Found twice(Rewriter& r, const Node& n) {
  const Node* inner = r.def(n.inputs[0], n.op);
  if (!inner) return {};
  switch (n.op) {
    case Op::neg:
    case Op::logical_not:
    case Op::bitwise_not: return inner->inputs[0];
    case Op::abs:
    case Op::relu:
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc: return n.inputs[0];
    default: return {};
  }
}

Found unary(Rewriter& r, const Node& n) {
  if (Found f = twice(r, n)) return f;
  const Node* x = r.g.def(n.inputs[0]);
  if (n.op == Op::logical_not && x && x->op == Op::eq) return r.b.binary(Op::ne, x->inputs[0], x->inputs[1]);
  if (n.op == Op::logical_not && x && x->op == Op::ne) return r.b.binary(Op::eq, x->inputs[0], x->inputs[1]);
  if (n.op == Op::abs && x && x->op == Op::neg) return r.b.unary(Op::abs, x->inputs[0]);
  if ((n.op == Op::relu || n.op == Op::abs) && is_int(r.dtype(n.inputs[0])))
    if (const auto i = int_range(r.g, n.inputs[0]); i && i->min >= 0) return n.inputs[0];
  return {};
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kDeepest = 6;

/// No element of v is -0.0. A sum of two is that only where both are, a difference only where x is -0.0 and y is 0.0.
bool never_negative_zero(const Rewriter& r, ValueId v, int depth = 0) {
  if (!is_float(r.dtype(v))) return true;
  if (const auto c = splat_value(r.g, v)) return *c != 0 || !std::signbit(*c);
  const Node* n = r.g.def(v);
  if (!n || depth == kDeepest) return false;
  const auto never = [&](size_t i) { return never_negative_zero(r, n->inputs[i], depth + 1); };
  switch (n->op) {
    case Op::abs:
    case Op::sign:
    case Op::exp:
    case Op::exp2:
    case Op::sigmoid: return true;
    case Op::mul: return n->inputs[0] == n->inputs[1];
    case Op::add: return never(0) || never(1);
    case Op::sub: return never(0);
    case Op::where: return never(1) && never(2);
    case Op::cast: return !is_float(r.dtype(n->inputs[0])) || (widens(r.dtype(n->inputs[0]), r.dtype(v)) && never(0));
    case Op::sqrt:
    case Op::reshape:
    case Op::permute:
    case Op::expand:
    case Op::slice: return never(0);
    default: return false;
  }
}

/// Of floats: x where it is not -0.0, else 0.0.
ValueId without_sign_of_zero(Rewriter& r, ValueId x) {
  return is_float(r.dtype(x)) && !never_negative_zero(r, x) ? r.b.binary(Op::add, x, r.b.like(x, 0)) : x;
}

/// x to the power 0.5 or -0.5 is that of its square root but where it is -0.0 or -infinity.
ValueId power_of_root(Rewriter& r, ValueId x, double e) {
  const ValueId y = r.b.unary(e > 0 ? Op::sqrt : Op::rsqrt, without_sign_of_zero(r, x));
  return r.b.where(r.b.binary(Op::eq, x, r.b.like(x, -kInfinity)), r.b.like(x, e > 0 ? kInfinity : 0), y);
}

Found power(Rewriter& r, ValueId x, double e) {
  Builder& b = r.b;
  if (e == 0) return b.like(x, 1);
  if (e == 1) return x;
  if (e == 2) return b.binary(Op::mul, x, x);
  if (e == 3 && !is_half(r.dtype(x))) return b.binary(Op::mul, b.binary(Op::mul, x, x), x);  // 16-bit floats are rounded between
  if (!is_float(r.dtype(x))) return {};
  if (std::fabs(e) == 0.5) return power_of_root(r, x, e);
  if (e == -1) return b.unary(Op::reciprocal, x);
  return {};
}

bool power_of_two(double c, DType t) {
  int exponent;
  if (!std::isfinite(c) || c == 0 || std::fabs(std::frexp(c, &exponent)) != 0.5) return false;
  return std::abs(exponent) < (t == DType::f16 ? 12 : 100);  // the inverse is a normal number too
}

/// x op c, c a splat.
Found with_constant(Rewriter& r, const Node& n, ValueId x, double c) {
  Builder& b = r.b;
  const DType t = r.dtype(x);
  switch (n.op) {
    case Op::add:
    case Op::sub:
      if (c != 0) return {};
      return std::signbit(c) == (n.op == Op::add) || never_negative_zero(r, x) ? Found(x) : Found();  // -0.0 + 0.0 is 0.0
    case Op::mul:
      if (c == 1) return x;
      if (c == 0 && is_int(t)) return b.like(x, 0);
      return c == -1 && t != DType::u8 ? Found(b.unary(Op::neg, x)) : Found();
    case Op::div:
      if (c == 1) return x;
      return power_of_two(c, t) ? Found(b.binary(Op::mul, x, b.like(x, 1 / c))) : Found();
    case Op::div_trunc:
    case Op::div_floor: return c == 1 && is_int(t) ? Found(x) : Found();
    case Op::pow: return power(r, x, c);
    case Op::maximum:
      if (c == 0 && !is_bool(t)) return b.unary(Op::relu, x);
      return c == -kInfinity ? Found(x) : Found();
    case Op::minimum: return c == kInfinity ? Found(x) : Found();
    case Op::bit_and:
      if (is_bool(t)) return c != 0 ? x : b.like(x, 0);
      return c == 0 ? Found(b.like(x, 0)) : Found();
    case Op::bit_or:
      if (is_bool(t) && c != 0) return b.like(x, 1);
      return c == 0 ? Found(x) : Found();
    case Op::bit_xor:
      if (c == 0) return x;
      return is_bool(t) ? Found(b.unary(Op::logical_not, x)) : Found();
    case Op::ne:
      if (const Node* k = r.def(x, Op::cast); k && c == 0 && is_bool(r.dtype(k->inputs[0]))) return k->inputs[0];
      return is_bool(t) ? (c == 0 ? Found(x) : Found(b.unary(Op::logical_not, x))) : Found();
    case Op::eq: return is_bool(t) ? (c != 0 ? Found(x) : Found(b.unary(Op::logical_not, x))) : Found();
    case Op::shl:
    case Op::shr: return c == 0 ? Found(x) : Found();
    default: return {};
  }
}

bool commutes(Op op) {
  return op == Op::add || op == Op::mul || op == Op::minimum || op == Op::maximum || op == Op::eq || op == Op::ne || op == Op::bit_and ||
         op == Op::bit_or || op == Op::bit_xor;
}

Found binary(Rewriter& r, const Node& n) {
  const ValueId x = n.inputs[0], y = n.inputs[1];
  if (const auto c = splat_value(r.g, y))
    if (Found f = with_constant(r, n, x, *c)) return f;
  if (commutes(n.op) && splat_value(r.g, x) && !splat_value(r.g, y)) return r.b.binary(n.op, y, x);  // constants stand right
  if (n.op == Op::div && is_splat(r, x, 1)) return r.b.unary(Op::reciprocal, y);
  const Node *nx = r.def(x, Op::neg), *ny = r.def(y, Op::neg);
  if (n.op == Op::add && ny) return r.b.binary(Op::sub, x, ny->inputs[0]);
  if (n.op == Op::sub && ny) return r.b.binary(Op::add, x, ny->inputs[0]);
  if (n.op == Op::add && nx) return r.b.binary(Op::sub, y, nx->inputs[0]);
  if ((n.op == Op::mul || n.op == Op::div) && nx && ny) return r.b.binary(n.op, nx->inputs[0], ny->inputs[0]);
  const bool idempotent = n.op == Op::minimum || n.op == Op::maximum || n.op == Op::bit_and || n.op == Op::bit_or;
  return idempotent && x == y ? Found(x) : Found();
}

Found where(Rewriter& r, const Node& n) {
  const ValueId c = n.inputs[0], a = n.inputs[1], b = n.inputs[2];
  if (a == b) return a;
  if (const auto s = splat_int(r.g, c)) return *s ? a : b;
  if (const Node* flipped = r.def(c, Op::logical_not)) return r.b.where(flipped->inputs[0], b, a);
  if (is_bool(r.dtype(a)) && is_splat(r, a, 1) && is_splat(r, b, 0)) return c;
  return {};
}

/// A pointwise node of splats is a splat: computed on one element.
Found of_splats(Rewriter& r, const Node& n) {
  Graph one;
  Builder b(one);
  std::vector<ValueId> inputs;
  for (ValueId v : n.inputs) {
    const TensorType t{r.dtype(v), {}};
    if (const auto i = splat_int(r.g, v)) {
      inputs.push_back(b.full_int(t, *i));
    } else if (const auto f = splat_value(r.g, v)) {
      inputs.push_back(b.full(t, *f));
    } else {
      return {};
    }
  }
  const TensorType t{r.dtype(n.outputs[0]), {}};
  const ValueId y = b.make1(n.op, std::move(inputs), n.attrs, &t);
  one.outputs.push_back({"y", y, "", -1});
  const HostTensor value = std::move(interpret(one, {})[0]);
  return splat(r.b, r.g.type(n.outputs[0]), value.bytes.data());
}

Found reduce(Rewriter& r, const Node& n) {
  const ValueId x = n.inputs[0];
  const Ints& over = n.get<Ints>(Attr::dims);
  const ReduceKind k = n.reduce_kind();
  const bool arg = k == ReduceKind::argmax || k == ReduceKind::argmin;
  Ints real;
  Exprs squeezed;  // dims of x without the reduced ones of size 1
  for (int i = 0; i < r.g.type(x).rank(); ++i) {
    const bool reduced = std::binary_search(over.begin(), over.end(), i);
    if (reduced && r.dims(x)[i].is(1)) continue;
    if (reduced) real.push_back(static_cast<int64_t>(squeezed.size()));
    squeezed.push_back(r.dims(x)[i]);
  }
  if (real.empty() && arg) return r.b.full_int(r.g.type(n.outputs[0]), 0);
  if (real.empty()) {
    const ValueId y = r.b.reshape(x, r.dims(n.outputs[0]));
    return k == ReduceKind::sum ? without_sign_of_zero(r, y) : y;
  }
  if (real.size() < over.size()) return r.b.reduce(k, r.b.reshape(x, squeezed), real);
  const Node* inner = r.def(x, Op::reduce);
  if (!inner || arg || inner->reduce_kind() != k || r.uses(x) != 1) return {};
  if (is_half(r.dtype(x)) && k != ReduceKind::max && k != ReduceKind::min) return {};  // what is between is rounded
  const Ints& first = inner->get<Ints>(Attr::dims);
  Ints both = first;
  const int rank = r.g.type(inner->inputs[0]).rank();
  for (int i = 0, kept = 0; i < rank; ++i) {
    if (std::binary_search(first.begin(), first.end(), i)) continue;
    if (std::binary_search(over.begin(), over.end(), kept++)) both.push_back(i);
  }
  return r.b.reduce(k, inner->inputs[0], both);
}

Found scan(Rewriter& r, const Node& n) {
  if (!r.dims(n.inputs[0])[n.get<int64_t>(Attr::dim)].is(1)) return {};
  if (n.op == Op::scan_arg) return r.b.full_int(r.g.type(n.outputs[0]), 0);
  const ReduceKind k = n.reduce_kind();
  return k == ReduceKind::sum || k == ReduceKind::logsumexp ? without_sign_of_zero(r, n.inputs[0]) : n.inputs[0];
}

/// min, max and remainder of integers whose ranges show that they change nothing.
Found clamped(Rewriter& r, const Node& n) {
  if (!is_int(r.dtype(n.outputs[0]))) return {};
  const ValueId x = n.inputs[0], y = n.inputs[1];
  if (n.op != Op::minimum && n.op != Op::maximum && n.op != Op::remainder) return {};
  const auto a = int_range(r.g, x), b = a ? int_range(r.g, y) : std::nullopt;
  if (!a || !b) return {};
  if (n.op == Op::remainder) return a->min >= 0 && a->max < b->min ? Found(x) : Found();
  const bool first_below = a->max <= b->min, first_above = a->min >= b->max;
  if (!first_below && !first_above) return {};
  return first_below == (n.op == Op::minimum) ? x : y;
}

/// A comparison that the ranges of both sides decide.
Found compared(Rewriter& r, const Node& n) {
  if (is_float(r.dtype(n.inputs[0]))) return {};
  const auto a = int_range(r.g, n.inputs[0]), b = a ? int_range(r.g, n.inputs[1]) : std::nullopt;
  if (!a || !b) return {};
  auto all = [&](bool value) { return r.b.full_int(r.g.type(n.outputs[0]), value); };
  const bool below = a->max<b->min, above = a->min> b->max;
  switch (n.op) {
    case Op::lt: return below ? all(true) : a->min >= b->max ? all(false) : Found();
    case Op::ge: return below ? all(false) : a->min >= b->max ? all(true) : Found();
    case Op::gt: return above ? all(true) : a->max <= b->min ? all(false) : Found();
    case Op::le: return above ? all(false) : a->max <= b->min ? all(true) : Found();
    case Op::eq: return below || above ? all(false) : Found();
    case Op::ne: return below || above ? all(true) : Found();
    default: return {};
  }
}

Found rule(Rewriter& r, const Node& n) {
  if (is_pointwise(n.op) && n.op != Op::bitcast)
    if (Found f = of_splats(r, n)) return f;
  switch (op_class(n.op)) {
    case OpClass::unary: return n.op == Op::cast ? cast(r, n) : unary(r, n);
    case OpClass::binary:
      if (Found f = binary(r, n)) return f;
      return yields_bool(n.op) ? compared(r, n) : clamped(r, n);
    case OpClass::index: return lookup_as_slice(r, n);
    case OpClass::ternary: return where(r, n);
    case OpClass::reduce: return reduce(r, n);
    case OpClass::scan: return scan(r, n);
    default: return {};
  }
}

}  // namespace

/// Algebra that is exact in floating point (up to the sign of zero): neutral elements, double negation, casts of casts, special powers.
void simplify(Graph& g, PassContext&) { Rewriter::run(g, rule); }

}  // namespace aotc::passes
