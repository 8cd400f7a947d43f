// Pointwise operators of two and three tensors, with promotion and broadcasting.
#include <cmath>

#include "base/int_range.h"
#include "decompose/families.h"
#include "decompose/matrices.h"
#include "decompose/tensor.h"
#include "graph/ranges.h"

namespace aotc::decompose {
namespace {

/// Both operands, in the result's type; 16-bit floats are computed in float32 and each result of an operator is rounded.
struct Pair {
  T a, b;
  DType out;
};

/// any: the promoted type; floating: integers become float32.
enum class Want { any, floating };
/// rounded: as other operands; as_given: a number, or a tensor of rank 0 beside one with dims, stays a float32 beside 16-bit floats (then
/// both operands are in float32).
enum class Scalar { rounded, as_given };

Pair pair(Rule& r, Want want, Scalar second_is = Scalar::rounded, std::string_view first = "self", std::string_view second = "other") {
  const Operand ops[] = {operand(r, first), operand(r, second)};
  DType out = result_type(r.b, ops);
  if (is_complex(out)) r.refuse("complex tensors are not supported");
  if (want == Want::floating) out = float_type(out);
  const auto rank = [&](const Operand& o) { return o.tensor ? r.b.rank(*o.tensor) : 0; };
  const T a(r.b, materialize(r.b, ops[0], out));
  if (second_is == Scalar::as_given && rank(ops[1]) == 0 && rank(ops[0]) > 0)
    return {a.up(), T(r.b, materialize(r.b, ops[1], compute_type(out))), out};
  return {a, T(r.b, materialize(r.b, ops[1], out)), out};
}

template <Op op>
void arithmetic(Rule& r) {
  const Pair p = pair(r, Want::any);
  r.set(binary(op, p.a, p.b));
}

/// Every element of an integer value, whatever the inputs are.
bool at_least_one(const Graph& g, ValueId v, int depth = 6) {
  if (const std::optional<Interval> range = int_range(g, v); range && range->min > 0) return true;
  const Node* n = g.def(v);
  if (!n || depth == 0) return false;
  const auto input = [&](size_t i) { return at_least_one(g, n->inputs[i], depth - 1); };
  return ((n->op == Op::reshape || n->op == Op::expand) && input(0)) || (n->op == Op::maximum && (input(0) || input(1)));
}

/// Eager raises where a whole number is divided by 0.
void check_divisor(Rule& r, const Pair& p) {
  if (is_float(p.out)) return;
  if (!r.is_tensor("other")) {
    const Rule::Number n = r.scalar("other");
    if (n.kind == Rule::Number::integer ? r.b.syms().proves_ne(n.i, 0) : n.f != 0) return;
  }
  if (at_least_one(r.b.graph(), p.b)) return;
  const Expr divided = product(broadcast_dims(r.b.syms(), p.a.dims(), p.b.dims()));
  const T holds = p.b != 0.0;
  must_hold(r, r.b.syms().proves_le(1, divided) ? holds : holds | (scalar_of(r.b, divided, DType::i64) == 0.0),
            "a whole number is divided by 0");
}

template <Op op>
void rest(Rule& r) {
  const Pair p = pair(r, Want::any);
  check_divisor(r, p);
  r.set(binary(op, p.a, p.b));
}

void lcm(Rule& r) {
  const Pair p = pair(r, Want::any);
  // As in C++, narrow integers are multiplied as wider ones, of which the magnitude is narrowed.
  const DType wide = dtype_bytes(p.a.dtype()) < 4 ? DType::i32 : p.a.dtype();
  const T a = p.a.to(wide), b = p.b.to(wide);
  r.set(abs(binary(Op::div_trunc, a, binary(Op::gcd, a, b)) * b).to(p.out));  // 0 where both are
}

template <Op op>
void floating(Rule& r) {
  const Pair p = pair(r, Want::floating);
  r.set(binary(op, p.a, p.b));
}

void scaled_add(Rule& r, const Pair& p, std::string_view alpha, bool subtract) {
  const bool one = r.none(alpha) || r.number(alpha) == 1.0;
  if (is_bool(p.out)) {
    if (subtract) r.refuse("subtraction of bools");
    if (!one && r.number(alpha) == 0.0) return r.set(p.a.expand(broadcast_dims(r.b.syms(), p.a.dims(), p.b.dims())));
    return r.set(p.a | p.b);
  }
  if (one) return r.set(subtract ? p.a - p.b : p.a + p.b);
  const Rule::Number by = r.scalar(alpha);
  if (by.kind != Rule::Number::floating && by.i.is(0)) subtract = false;  // PyTorch adds by -alpha, which has no sign then
  const T y = p.b.up() * T(r.b, full(r.b, p.out, {}, by)).up();
  r.set((subtract ? p.a.up() - y : p.a.up() + y).to(p.out));
}
void add(Rule& r) { scaled_add(r, pair(r, Want::any), "alpha", false); }
void sub(Rule& r) { scaled_add(r, pair(r, Want::any), "alpha", true); }
void rsub(Rule& r) {
  const Pair p = pair(r, Want::any);
  scaled_add(r, {p.b, p.a, p.out}, "alpha", true);
}

void mul(Rule& r) {
  const Pair p = pair(r, Want::any, Scalar::as_given);
  r.set(is_bool(p.out) ? p.a & p.b : (p.a * p.b).to(p.out));
}

/// Quotients rounded down as PyTorch's kernel makes them, each step of which rounds to the 16-bit type.
T div_floor_by_steps(const T& a, const T& b) {
  const T rest = binary(Op::fmod, a, b), quotient = a / b;
  T q = (a - rest) / b;
  q = where((rest != 0.0) & ((b < 0.0) != (rest < 0.0)), q - 1.0, q);
  const T whole = floor(q);
  const T nearest = where(q - whole > 0.5, whole + 1.0, whole);
  return where(b == 0.0, quotient, where(q == 0.0, binary(Op::copysign, q.like(0.0), quotient), nearest));
}

T divided(Rule& r, Op rounding) {
  const Pair p = pair(r, Want::any, Scalar::as_given);
  check_divisor(r, p);
  if (!is_half(p.a.dtype())) return binary(rounding, p.a, p.b).to(p.out);
  return rounding == Op::div_floor ? div_floor_by_steps(p.a, p.b) : unary(Op::trunc, p.a / p.b);
}

void div(Rule& r) {
  const std::string mode = r.text_or("rounding_mode", "");
  if (mode.empty()) {
    const Pair p = pair(r, Want::floating, Scalar::as_given);
    return r.set((p.a / p.b).to(p.out));
  }
  if (mode != "trunc" && mode != "floor") r.refuse(fmt::format("rounding_mode='{}' is not supported", mode));
  r.set(divided(r, mode == "trunc" ? Op::div_trunc : Op::div_floor));
}
void floor_divide(Rule& r) { r.set(divided(r, Op::div_floor)); }

T int_pow(const T& x, int64_t n) {
  T y = x;
  for (int64_t i = 1; i < n; ++i) y = y * x;
  return y;
}

/// x to the power n as PyTorch computes it where it knows n, which differs from pow at -0.0 and -infinity.
std::optional<T> known_power(const T& x, double n) {
  if (n == 0.0) return x.like(1.0);
  if (n == 1.0) return x;
  if (n == 2.0 || n == 3.0) return int_pow(x, static_cast<int64_t>(n));
  if (!is_float(x.dtype())) return std::nullopt;
  if (n == 0.5) return sqrt(x);
  if (n == -0.5) return rsqrt(x);
  if (n == -1.0) return unary(Op::reciprocal, x);
  if (n == -2.0) return unary(Op::reciprocal, x * x);
  return std::nullopt;
}
double number_of(const Rule::Number& e) { return e.kind == Rule::Number::integer && !e.i.is_const() ? NAN : e.f; }

void pow_scalar(Rule& r) {
  const Pair p = pair(r, Want::any, Scalar::rounded, "self", "exponent");
  if (is_bool(p.out)) r.refuse("pow of bools");
  const double n = number_of(r.scalar("exponent"));
  const bool root = std::fabs(n) == 0.5;  // of float16 PyTorch takes powers here, too
  const std::optional<T> known = root && p.out == DType::f16 ? std::nullopt : known_power(p.a.up(), n);
  r.set(known ? known->to(p.out) : binary(Op::pow, p.a, p.b));
}
void pow_tensor(Rule& r) {
  const Pair p = pair(r, Want::any, Scalar::rounded, "self", "exponent");
  if (is_bool(p.out)) r.refuse("pow of bools");
  r.set(binary(Op::pow, p.a, p.b));
}
void float_power(Rule& r) {
  const T a(r.b, materialize(r.b, operand(r, "self"), DType::f64));
  if (!r.is_tensor("exponent") && r.is_tensor("self"))
    if (const auto known = known_power(a, number_of(r.scalar("exponent")))) return r.set(*known);
  r.set(binary(Op::pow, a, T(r.b, materialize(r.b, operand(r, "exponent"), DType::f64))));
}

template <Op op>
void extreme(Rule& r) {
  const Pair p = pair(r, Want::any);
  if (is_bool(p.out)) return r.set(op == Op::maximum ? p.a | p.b : p.a & p.b);
  r.set(binary(op, p.a, p.b));
}

/// fmax and fmin: a NaN loses.
template <Op op>
void quiet_extreme(Rule& r) {
  const Pair p = pair(r, Want::any);
  if (!is_float(p.out)) return extreme<op>(r);
  const T a = where(unary(Op::isnan, p.a), p.b, p.a), b = where(unary(Op::isnan, p.b), p.a, p.b);
  r.set(binary(op, a, b));
}

template <Op op>
void bitwise(Rule& r) {
  const Pair p = pair(r, Want::any);
  r.set(binary(op, p.a, p.b));
}

template <Op op>
void logical(Rule& r) {
  const T a = tensor(r, "self").to(DType::boolean), b = tensor(r, "other").to(DType::boolean);
  r.set(binary(op, a, b));
}

template <Op op>
void compare(Rule& r) {
  Pair p = pair(r, Want::any);
  if (is_bool(p.out)) p = {p.a.to(DType::u8), p.b.to(DType::u8), p.out};
  r.set(binary(op, p.a, p.b));
}

/// Since torch 2.15 a bound that all numbers of the type are within is none. Before, -1 was the largest number of uint8.
bool is_bound(Rule& r, std::string_view name, bool lower) {
  if (name.empty() || r.none(name)) return false;
  const Operand both[] = {operand(r, "self"), operand(r, name)};
  const DType t = result_type(r.b, both);
  if (r.is_tensor(name) || !is_int(t) || dtype_bytes(t) > 4 || !r.since_torch(2, 15)) return true;
  const double bound = r.number(name);
  return lower ? bound > static_cast<double>(int_range(t).least) : bound < static_cast<double>(int_range(t).most);
}

void clamp_bounds(Rule& r, std::string_view lo, std::string_view hi) {
  std::vector<Operand> ops = {operand(r, "self")};
  const bool has_lo = is_bound(r, lo, true), has_hi = is_bound(r, hi, false);
  if (has_lo) ops.push_back(operand(r, lo));
  if (has_hi) ops.push_back(operand(r, hi));
  const DType out = result_type(r.b, ops);
  T x(r.b, materialize(r.b, ops[0], out));
  if (has_lo) x = maximum(x, T(r.b, materialize(r.b, ops[1], out)));
  if (has_hi) x = minimum(x, T(r.b, materialize(r.b, ops.back(), out)));
  r.set(x);
}
void clamp(Rule& r) { clamp_bounds(r, "min", "max"); }
void clamp_min(Rule& r) { clamp_bounds(r, "min", ""); }
void clamp_max(Rule& r) { clamp_bounds(r, "", "max"); }

/// self + value * (a op b)
template <Op op>
void addc(Rule& r) {
  const Operand ops[] = {operand(r, "self"), operand(r, "tensor1"), operand(r, "tensor2")};
  DType out = result_type(r.b, ops);
  if (is_bool(out)) r.refuse("bool tensors");
  if (op == Op::div) out = float_type(out);
  const DType in = compute_type(out);
  const T x(r.b, materialize(r.b, ops[0], in)), a(r.b, materialize(r.b, ops[1], in)), c(r.b, materialize(r.b, ops[2], in));
  const T y = r.none("value") || r.number("value") == 1.0 ? a : a * T(r.b, full(r.b, in, {}, r.scalar("value")));
  r.set((x + binary(op, y, c)).to(out));
}

void interpolated(Rule& r) {
  const T x = tensor(r, "self"), e = tensor(r, "end");
  const DType out = x.dtype();
  const T s = x.up(), t = e.up();
  const T w(r.b, materialize(r.b, operand(r, "weight"), s.dtype()));
  r.set(lerp(s, t, w).to(out));
}

/// x * f(y), 0 where x is 0 (and y not NaN).
template <Op f>
void xlog(Rule& r) {
  const Pair p = pair(r, Want::floating);
  const T v = where(p.a == 0.0, 0.0, p.a * unary(f, p.b));
  r.set(where(unary(Op::isnan, p.b), p.b, v));
}

template <bool two>
void logaddexp(Rule& r) {
  const Pair p = pair(r, Want::floating);
  const std::vector<Expr> dims = broadcast_dims(r.b.syms(), p.a.dims(), p.b.dims());
  r.set(T(r.b, r.b.logaddexp(p.a.up().expand(dims), p.b.up().expand(dims), two)).to(p.out));
}

void heaviside(Rule& r) {
  const T x = tensor(r, "self"), v = tensor(r, "values");
  const T y = where(x > 0.0, x.like(1.0), 0.0);
  const T z = where(x == 0.0, v, y);
  r.set(is_float(x.dtype()) ? where(unary(Op::isnan, x), 0.0, z) : z);
}

void is_close(Rule& r) {
  const T x = tensor(r, "self"), y = tensor(r, "other");
  const double rtol = r.number("rtol"), atol = r.number("atol");
  const bool equal_nan = r.boolean("equal_nan");
  if (!is_float(x.dtype())) {
    const T a = x.to(DType::f64), b = y.to(DType::f64);
    return r.set((x.to(DType::i64) == y.to(DType::i64)) | (abs(a - b) <= abs(b) * rtol + atol));
  }
  T near = x == y;
  if (equal_nan) near = near | (unary(Op::isnan, x) & unary(Op::isnan, y));
  const T a = x.up(), b = y.up();
  const T error = abs(a - b);
  const T within = error <= abs(b) * rtol + atol;
  r.set(near | (within & !unary(Op::isinf, error)));
}

/// Whole exponents, of which int32 has a part, scale a float itself, though the power alone leaves the type: in float64, of which it takes
/// three.
void ldexp(Rule& r) {
  const T x = tensor(r, "self"), e = tensor(r, "other");
  const DType out = r.meta_result().dtype;
  if (is_float(x.dtype()) && !is_float(e.dtype()) && !is_bool(e.dtype())) {
    const bool wide = out == DType::f64;
    const double most = wide ? 2200.0 : 1000.0;
    const T n = minimum(maximum(e.to(DType::i32).to(DType::f64), -most), most), y = x.to(out).to(DType::f64);
    if (!wide) return r.set((y * unary(Op::exp2, n)).to(out));
    const T third = unary(Op::floor, n / 3.0), by = unary(Op::exp2, third);
    return r.set(y * by * by * unary(Op::exp2, n - third * 2.0));
  }
  const DType power = float_type(e.dtype());
  r.set((x.to(compute_type(out)) * unary(Op::exp2, e.to(power).up()).to(power).to(compute_type(out))).to(out));
}

void where_rule(Rule& r) {
  const T c = tensor(r, "condition").to(DType::boolean);
  const Operand ops[] = {operand(r, "self"), operand(r, "other")};
  const DType out = r.meta_result().dtype;
  r.set(where(c, T(r.b, materialize(r.b, ops[0], out)), T(r.b, materialize(r.b, ops[1], out))));
}

void dist(Rule& r) {
  T x = tensor(r, "self"), y = tensor(r, "other");
  const DType t = compute_type(result_type(r.b, {x, y}));
  const double p = r.number("p");
  const T d = abs(x.to(t) - y.to(t));
  Ints all;
  for (int i = 0; i < d.rank(); ++i) all.push_back(i);
  const DType out = r.meta_result().dtype;
  if (std::isinf(p)) return r.set(d.reduce(p > 0 ? ReduceKind::max : ReduceKind::min, all, false).to(out));
  if (p == 0) return r.set((d != 0.0).to(d.dtype()).sum(all, false).to(out));
  if (p == 2) return r.set(sqrt((d * d).sum(all, false)).to(out));
  if (p == 1) return r.set(d.sum(all, false).to(out));
  r.set(binary(Op::pow, binary(Op::pow, d, p).sum(all, false), 1.0 / p).to(out));
}

constexpr RuleRow kRows[] = {
    {"aten.add.Tensor aten.add.Scalar", add},
    {"aten.sub.Tensor aten.sub.Scalar aten.subtract.Tensor aten.subtract.Scalar", sub},
    {"aten.rsub.Tensor aten.rsub.Scalar", rsub},
    {"aten.mul.Tensor aten.mul.Scalar aten.multiply.Tensor aten.multiply.Scalar", mul},
    {"aten.div.Tensor aten.div.Scalar aten.div.Tensor_mode aten.div.Scalar_mode aten.divide.Tensor aten.divide.Scalar "
     "aten.divide.Tensor_mode aten.divide.Scalar_mode aten.true_divide.Tensor aten.true_divide.Scalar",
     div},
    {"aten.floor_divide.default aten.floor_divide.Scalar", floor_divide},
    {"aten.remainder.Tensor aten.remainder.Scalar aten.remainder.Scalar_Tensor", rest<Op::remainder>},
    {"aten.fmod.Tensor aten.fmod.Scalar", rest<Op::fmod>},
    {"aten.pow.Tensor_Scalar", pow_scalar},
    {"aten.pow.Tensor_Tensor aten.pow.Scalar", pow_tensor},
    {"aten.float_power.Tensor_Tensor aten.float_power.Tensor_Scalar aten.float_power.Scalar", float_power},
    {"aten.atan2.default aten.arctan2.default", floating<Op::atan2>},
    {"aten.hypot.default", arithmetic<Op::hypot>},
    {"aten.gcd.default", arithmetic<Op::gcd>},
    {"aten.lcm.default", lcm},
    {"aten.copysign.Tensor aten.copysign.Scalar", floating<Op::copysign>},
    {"aten.nextafter.default", bitwise<Op::nextafter>},
    {"aten.maximum.default aten.max.other", extreme<Op::maximum>},
    {"aten.minimum.default aten.min.other", extreme<Op::minimum>},
    {"aten.fmax.default", quiet_extreme<Op::maximum>},
    {"aten.fmin.default", quiet_extreme<Op::minimum>},
    {"aten.bitwise_and.Tensor aten.bitwise_and.Scalar aten.bitwise_and.Scalar_Tensor aten.__and__.Tensor aten.__and__.Scalar",
     bitwise<Op::bit_and>},
    {"aten.bitwise_or.Tensor aten.bitwise_or.Scalar aten.bitwise_or.Scalar_Tensor aten.__or__.Tensor aten.__or__.Scalar",
     bitwise<Op::bit_or>},
    {"aten.bitwise_xor.Tensor aten.bitwise_xor.Scalar aten.bitwise_xor.Scalar_Tensor aten.__xor__.Tensor aten.__xor__.Scalar",
     bitwise<Op::bit_xor>},
    {"aten.bitwise_left_shift.Tensor aten.bitwise_left_shift.Tensor_Scalar aten.bitwise_left_shift.Scalar_Tensor aten.__lshift__.Tensor "
     "aten.__lshift__.Scalar",
     bitwise<Op::shl>},
    {"aten.bitwise_right_shift.Tensor aten.bitwise_right_shift.Tensor_Scalar aten.bitwise_right_shift.Scalar_Tensor aten.__rshift__.Tensor "
     "aten.__rshift__.Scalar",
     bitwise<Op::shr>},
    {"aten.logical_and.default", logical<Op::bit_and>},
    {"aten.logical_or.default", logical<Op::bit_or>},
    {"aten.logical_xor.default", logical<Op::bit_xor>},
    {"aten.eq.Tensor aten.eq.Scalar", compare<Op::eq>},
    {"aten.ne.Tensor aten.ne.Scalar aten.not_equal.Tensor aten.not_equal.Scalar", compare<Op::ne>},
    {"aten.lt.Tensor aten.lt.Scalar aten.less.Tensor aten.less.Scalar", compare<Op::lt>},
    {"aten.le.Tensor aten.le.Scalar aten.less_equal.Tensor aten.less_equal.Scalar", compare<Op::le>},
    {"aten.gt.Tensor aten.gt.Scalar aten.greater.Tensor aten.greater.Scalar", compare<Op::gt>},
    {"aten.ge.Tensor aten.ge.Scalar aten.greater_equal.Tensor aten.greater_equal.Scalar", compare<Op::ge>},
    {"aten.clamp.default aten.clamp.Tensor aten.clip.default aten.clip.Tensor", clamp},
    {"aten.clamp_min.default aten.clamp_min.Tensor", clamp_min},
    {"aten.clamp_max.default aten.clamp_max.Tensor", clamp_max},
    {"aten.addcmul.default", addc<Op::mul>},
    {"aten.addcdiv.default", addc<Op::div>},
    {"aten.lerp.Scalar aten.lerp.Tensor", interpolated},
    {"aten.xlogy.Tensor aten.xlogy.Scalar_Self aten.xlogy.Scalar_Other aten.special_xlogy.default aten.special_xlogy.self_scalar "
     "aten.special_xlogy.other_scalar",
     xlog<Op::log>},
    {"aten.special_xlog1py.default aten.special_xlog1py.self_scalar aten.special_xlog1py.other_scalar", xlog<Op::log1p>},
    {"aten.logaddexp.default", logaddexp<false>},
    {"aten.logaddexp2.default", logaddexp<true>},
    {"aten.heaviside.default", heaviside},
    {"aten.isclose.default", is_close},
    {"aten.ldexp.Tensor", ldexp},
    {"aten.where.self aten.where.ScalarSelf aten.where.ScalarOther aten.where.Scalar", where_rule},
    {"aten.dist.default", dist},
};
}  // namespace

RuleTable pointwise_binary_rules() { return kRows; }

}  // namespace aotc::decompose
