#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "base/philox.h"
#include "graph/infer.h"
#include "graph/interp_detail.h"
#include "graph/op_table.h"
#include "graph/scalar.h"

namespace aotc::interp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double sign(double x) { return (x > 0) - (x < 0); }  // NaN gives 0, as PyTorch
double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

double digamma(double x) {
  if (x == 0) return std::copysign(kInfinity, -x);
  if (x < 0) {
    if (x == std::trunc(x)) return kNan;
    return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * (x - std::trunc(x)));  // exact also next to zero
  }
  double shift = 0;
  for (; x < 12; x += 1) shift -= 1 / x;
  const double r = 1 / (x * x);
  const double tail = r * (1. / 12 - r * (1. / 120 - r * (1. / 252 - r * (1. / 240 - r * (1. / 132 - r * 691. / 32760)))));
  return shift + std::log(x) - 0.5 / x - tail;
}

double erfinv(double y) {
  if (std::isnan(y) || y < -1 || y > 1) return kNan;
  if (y == 1 || y == -1) return y * kInfinity;
  const double w = std::log1p(-y * y), c = 2 / (std::numbers::pi * 0.147) + w / 2;
  double x = std::copysign(std::sqrt(std::max(0.0, std::sqrt(c * c - w / 0.147) - c)), y);
  for (int i = 0; i < 4; ++i) {  // Halley on erf(x) - y, through erfc in the tails
    const double f = std::fabs(y) < 0.5 ? std::erf(x) - y : std::copysign(1, y) * ((1 - std::fabs(y)) - std::erfc(std::fabs(x)));
    const double step = f / (2 / std::sqrt(std::numbers::pi) * std::exp(-x * x));
    if (!std::isfinite(step)) break;
    x -= step / (1 + x * step);
  }
  return x;
}

/// One operator: of an element, or of two and their type.
template <class T>
struct Unary {
  Op op;
  T (*fn)(T);
};
template <class T>
struct Binary {
  Op op;
  T (*fn)(DType, T, T);
};
/// Whether a table of operators of a class is for one: cast and bitcast are none of them.
constexpr bool wanted(const OpInfo& o, OpClass cls, std::initializer_list<OperandTypes> sets) {
  const OperandTypes operands = kPointwise[static_cast<size_t>(o.op)].operands;
  return o.cls == cls && o.op != Op::cast && o.op != Op::bitcast && std::find(sets.begin(), sets.end(), operands) != sets.end();
}
using enum OperandTypes;
constexpr bool on_floats(const OpInfo& o, OpClass cls) { return wanted(o, cls, {any, real, numeric, floats}); }
constexpr bool on_ints(const OpInfo& o, OpClass cls) { return wanted(o, cls, {any, real, numeric, ints, ints_or_bool, bools}); }

constexpr Unary<double> kFloatUnary[] = {
    {Op::neg, [](double x) -> double { return -x; }},
    {Op::abs, [](double x) -> double { return std::fabs(x); }},
    {Op::sign, [](double x) -> double { return sign(x); }},
    {Op::ceil, [](double x) -> double { return std::ceil(x); }},
    {Op::floor, [](double x) -> double { return std::floor(x); }},
    {Op::round, [](double x) -> double { return std::nearbyint(x); }},
    {Op::trunc, [](double x) -> double { return std::trunc(x); }},
    {Op::sqrt, [](double x) -> double { return std::sqrt(x); }},
    {Op::rsqrt, [](double x) -> double { return 1 / std::sqrt(x); }},
    {Op::reciprocal, [](double x) -> double { return 1 / x; }},
    {Op::exp, [](double x) -> double { return std::exp(x); }},
    {Op::exp2, [](double x) -> double { return std::exp2(x); }},
    {Op::expm1, [](double x) -> double { return std::expm1(x); }},
    {Op::log, [](double x) -> double { return std::log(x); }},
    {Op::log2, [](double x) -> double { return std::log2(x); }},
    {Op::log10, [](double x) -> double { return std::log10(x); }},
    {Op::log1p, [](double x) -> double { return std::log1p(x); }},
    {Op::sin, [](double x) -> double { return std::sin(x); }},
    {Op::cos, [](double x) -> double { return std::cos(x); }},
    {Op::tan, [](double x) -> double { return std::tan(x); }},
    {Op::asin, [](double x) -> double { return std::asin(x); }},
    {Op::acos, [](double x) -> double { return std::acos(x); }},
    {Op::atan, [](double x) -> double { return std::atan(x); }},
    {Op::sinh, [](double x) -> double { return std::sinh(x); }},
    {Op::cosh, [](double x) -> double { return std::cosh(x); }},
    {Op::tanh, [](double x) -> double { return std::tanh(x); }},
    {Op::asinh, [](double x) -> double { return std::asinh(x); }},
    {Op::acosh, [](double x) -> double { return std::acosh(x); }},
    {Op::atanh, [](double x) -> double { return std::atanh(x); }},
    {Op::erf, [](double x) -> double { return std::erf(x); }},
    {Op::erfc, [](double x) -> double { return std::erfc(x); }},
    {Op::erfinv, [](double x) -> double { return erfinv(x); }},
    {Op::lgamma, [](double x) -> double { return std::lgamma(x); }},
    {Op::digamma, [](double x) -> double { return digamma(x); }},
    {Op::sigmoid, [](double x) -> double { return sigmoid(x); }},
    {Op::relu, [](double x) -> double { return x < 0 ? 0.0 : x; }},
    {Op::isnan, [](double x) -> double { return std::isnan(x); }},
    {Op::isinf, [](double x) -> double { return std::isinf(x); }},
};
static_assert(Fits<misfit(kFloatUnary, [](const OpInfo& o) { return on_floats(o, OpClass::unary); })>::value);

int64_t wrapping_neg(int64_t x) { return static_cast<int64_t>(-static_cast<uint64_t>(x)); }

constexpr Unary<int64_t> kIntUnary[] = {
    {Op::neg, [](int64_t x) -> int64_t { return wrapping_neg(x); }},
    {Op::abs, [](int64_t x) -> int64_t { return x < 0 ? wrapping_neg(x) : x; }},
    {Op::sign, [](int64_t x) -> int64_t { return (x > 0) - (x < 0); }},
    {Op::relu, [](int64_t x) -> int64_t { return x < 0 ? 0 : x; }},
    {Op::isnan, [](int64_t) -> int64_t { return 0; }},
    {Op::isinf, [](int64_t) -> int64_t { return 0; }},
    {Op::logical_not, [](int64_t x) -> int64_t { return !x; }},
    {Op::bitwise_not, [](int64_t x) -> int64_t { return ~x; }},
};
static_assert(Fits<misfit(kIntUnary, [](const OpInfo& o) { return on_ints(o, OpClass::unary); })>::value);

double floor_div(double a, double b) {  // as PyTorch: exact for quotients near an integer
  if (b == 0) return a / b;
  const double mod = std::fmod(a, b);
  double div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
  if (div == 0) return std::copysign(0.0, a / b);
  const double f = std::floor(div);
  return div - f > 0.5 ? f + 1 : f;
}

double remainder_of(double a, double b) {
  const double m = std::fmod(a, b);
  return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}

double next_after(DType t, double a, double b) {
  if (t == DType::f64) return std::nextafter(a, b);
  if (t == DType::f32) return std::nextafterf(static_cast<float>(a), static_cast<float>(b));
  if (std::isnan(a) || std::isnan(b)) return kNan;
  if (a == b) return b;
  std::byte raw[2];
  uint16_t u;
  store_f64(t, &a, raw, 1);
  std::memcpy(&u, raw, 2);
  if (a == 0) {
    u = b < 0 ? 0x8001 : 0x0001;
  } else {
    u = static_cast<uint16_t>((b > a) == (a > 0) ? u + 1 : u - 1);
  }
  std::memcpy(raw, &u, 2);
  load_f64(t, raw, &a, 1);
  return a;
}

constexpr Binary<double> kFloatBinary[] = {
    {Op::add, [](DType, double a, double b) -> double { return a + b; }},
    {Op::sub, [](DType, double a, double b) -> double { return a - b; }},
    {Op::mul, [](DType, double a, double b) -> double { return a * b; }},
    {Op::div, [](DType, double a, double b) -> double { return a / b; }},
    {Op::div_trunc, [](DType t, double a, double b) -> double { return std::trunc(round_to(compute_type(t), a / b)); }},
    {Op::div_floor, [](DType, double a, double b) -> double { return floor_div(a, b); }},
    {Op::remainder, [](DType, double a, double b) -> double { return remainder_of(a, b); }},
    {Op::fmod, [](DType, double a, double b) -> double { return std::fmod(a, b); }},
    {Op::pow, [](DType, double a, double b) -> double { return std::pow(a, b); }},
    {Op::atan2, [](DType, double a, double b) -> double { return std::atan2(a, b); }},
    {Op::hypot, [](DType, double a, double b) -> double { return std::hypot(a, b); }},
    {Op::copysign, [](DType, double a, double b) -> double { return std::copysign(a, b); }},
    {Op::nextafter, [](DType t, double a, double b) -> double { return next_after(t, a, b); }},
    {Op::minimum, [](DType, double a, double b) -> double { return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b); }},
    {Op::maximum, [](DType, double a, double b) -> double { return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b); }},
    {Op::eq, [](DType, double a, double b) -> double { return a == b; }},
    {Op::ne, [](DType, double a, double b) -> double { return a != b; }},
    {Op::lt, [](DType, double a, double b) -> double { return a < b; }},
    {Op::le, [](DType, double a, double b) -> double { return a <= b; }},
    {Op::gt, [](DType, double a, double b) -> double { return a > b; }},
    {Op::ge, [](DType, double a, double b) -> double { return a >= b; }},
};
static_assert(Fits<misfit(kFloatBinary, [](const OpInfo& o) { return on_floats(o, OpClass::binary); })>::value);

int64_t int_pow(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  uint64_t r = 1, x = static_cast<uint64_t>(a);
  for (; b; b >>= 1, x *= x)
    if (b & 1) r *= x;
  return static_cast<int64_t>(r);
}

int64_t gcd(int64_t x, int64_t y) {
  uint64_t a = x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x),
           b = y < 0 ? 0 - static_cast<uint64_t>(y) : static_cast<uint64_t>(y);
  while (b != 0) a = std::exchange(b, a % b);
  return static_cast<int64_t>(a);
}

uint64_t bits_of(int64_t x) { return static_cast<uint64_t>(x); }
/// Whether a quotient by b is none: of 0, or of INT64_MIN by -1, which overflows.
bool no_quotient(int64_t b) { return b == 0 || b == -1; }
int64_t quotient(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? wrapping_neg(a) : a / b; }
bool signs_differ(int64_t rest, int64_t a, int64_t b) { return rest != 0 && (a < 0) != (b < 0); }
int64_t rest_of(int64_t a, int64_t b) { return no_quotient(b) ? 0 : a % b; }
int64_t shifted_left(DType t, int64_t a, int64_t b) { return b < 0 || b >= 8 * dtype_bytes(t) ? 0 : static_cast<int64_t>(bits_of(a) << b); }
int64_t shifted_right(DType t, int64_t a, int64_t b) {
  const int64_t top = t == DType::u8 ? 8 : 8 * dtype_bytes(t) - 1;
  return a >> (b < 0 || b >= top ? std::min<int64_t>(top, 63) : b);
}

constexpr Binary<int64_t> kIntBinary[] = {
    {Op::add, [](DType, int64_t a, int64_t b) -> int64_t { return static_cast<int64_t>(bits_of(a) + bits_of(b)); }},
    {Op::sub, [](DType, int64_t a, int64_t b) -> int64_t { return static_cast<int64_t>(bits_of(a) - bits_of(b)); }},
    {Op::mul, [](DType, int64_t a, int64_t b) -> int64_t { return static_cast<int64_t>(bits_of(a) * bits_of(b)); }},
    {Op::div_trunc, [](DType, int64_t a, int64_t b) -> int64_t { return quotient(a, b); }},
    {Op::div_floor, [](DType, int64_t a, int64_t b) -> int64_t { return quotient(a, b) - signs_differ(rest_of(a, b), a, b); }},
    {Op::remainder,
     [](DType, int64_t a, int64_t b) -> int64_t { return rest_of(a, b) + (signs_differ(rest_of(a, b), rest_of(a, b), b) ? b : 0); }},
    {Op::fmod, [](DType, int64_t a, int64_t b) -> int64_t { return rest_of(a, b); }},
    {Op::pow, [](DType, int64_t a, int64_t b) -> int64_t { return int_pow(a, b); }},
    {Op::gcd, [](DType, int64_t a, int64_t b) -> int64_t { return gcd(a, b); }},
    {Op::philox, [](DType, int64_t a, int64_t b) -> int64_t { return static_cast<int64_t>(philox(bits_of(a), bits_of(b))); }},
    {Op::minimum, [](DType, int64_t a, int64_t b) -> int64_t { return std::min(a, b); }},
    {Op::maximum, [](DType, int64_t a, int64_t b) -> int64_t { return std::max(a, b); }},
    {Op::eq, [](DType, int64_t a, int64_t b) -> int64_t { return a == b; }},
    {Op::ne, [](DType, int64_t a, int64_t b) -> int64_t { return a != b; }},
    {Op::lt, [](DType, int64_t a, int64_t b) -> int64_t { return a < b; }},
    {Op::le, [](DType, int64_t a, int64_t b) -> int64_t { return a <= b; }},
    {Op::gt, [](DType, int64_t a, int64_t b) -> int64_t { return a > b; }},
    {Op::ge, [](DType, int64_t a, int64_t b) -> int64_t { return a >= b; }},
    {Op::bit_and, [](DType, int64_t a, int64_t b) -> int64_t { return a & b; }},
    {Op::bit_or, [](DType, int64_t a, int64_t b) -> int64_t { return a | b; }},
    {Op::bit_xor, [](DType, int64_t a, int64_t b) -> int64_t { return a ^ b; }},
    {Op::shl, [](DType t, int64_t a, int64_t b) -> int64_t { return shifted_left(t, a, b); }},
    {Op::shr, [](DType t, int64_t a, int64_t b) -> int64_t { return shifted_right(t, a, b); }},
};
static_assert(Fits<misfit(kIntBinary, [](const OpInfo& o) { return on_ints(o, OpClass::binary); })>::value);

constexpr int64_t kChunk = 1024;

/// Runs f over chunks of elements: f(first, count).
template <class F>
void chunks(int64_t count, F&& f) {
  for (int64_t i = 0; i < count; i += kChunk) f(i, std::min(kChunk, count - i));
}

const std::byte* at(const HostTensor& t, int64_t i) { return t.bytes.data() + i * dtype_bytes(t.dtype); }
std::byte* at(HostTensor& t, int64_t i) { return t.bytes.data() + i * dtype_bytes(t.dtype); }

void cast(const HostTensor& x, HostTensor& out) {
  const bool from_float = is_float(x.dtype), to_float = is_float(out.dtype);
  double f[kChunk];
  int64_t n[kChunk];
  chunks(out.elems(), [&](int64_t i, int64_t count) {
    if (from_float) {
      load_f64(x.dtype, at(x, i), f, count);
      if (to_float) return store_f64(out.dtype, f, at(out, i), count);
      for (int64_t j = 0; j < count; ++j) n[j] = float_to_int(out.dtype, f[j]);
      store_i64(out.dtype, n, at(out, i), count);
    } else {
      load_i64(x.dtype, at(x, i), n, count);
      if (!to_float) return store_i64(out.dtype, n, at(out, i), count);
      for (int64_t j = 0; j < count; ++j) f[j] = out.dtype == DType::f64 ? static_cast<double>(n[j]) : static_cast<float>(n[j]);
      store_f64(out.dtype, f, at(out, i), count);
    }
  });
}

void bitcast(Eval& e) {
  const DType from = e.graph_type(e.n.inputs[0]), to = e.graph_type(e.n.outputs[0]);
  HostTensor plain{from, e.in[0]->dims, {}};
  plain.bytes.resize(plain.elems() * dtype_bytes(from));
  if (from == e.in[0]->dtype) {
    plain.bytes = e.in[0]->bytes;
  } else {
    cast(*e.in[0], plain);
  }
  plain.dtype = to;
  if (to == e.out[0].dtype) {
    e.out[0].bytes = std::move(plain.bytes);
  } else {
    cast(plain, e.out[0]);
  }
}

void where(Eval& e) {
  HostTensor& out = e.out[0];
  const int64_t w = dtype_bytes(out.dtype);
  for (int64_t i = 0; i < out.elems(); ++i) std::memcpy(at(out, i), at(*e.in[e.in[0]->bytes[i] != std::byte{0} ? 1 : 2], i), w);
}

template <class F>
void float_op(Eval& e, F&& f) {
  HostTensor& out = e.out[0];
  double a[kChunk], b[kChunk];
  int64_t n[kChunk];
  chunks(out.elems(), [&](int64_t i, int64_t count) {
    load_f64(e.in[0]->dtype, at(*e.in[0], i), a, count);
    if (e.in.size() > 1) load_f64(e.in[1]->dtype, at(*e.in[1], i), b, count);
    f(a, b, count);
    if (is_float(out.dtype)) return store_f64(out.dtype, a, at(out, i), count);
    for (int64_t j = 0; j < count; ++j) n[j] = a[j] != 0;
    store_i64(out.dtype, n, at(out, i), count);
  });
}

template <class F>
void int_op(Eval& e, F&& f) {
  HostTensor& out = e.out[0];
  int64_t a[kChunk], b[kChunk];
  chunks(out.elems(), [&](int64_t i, int64_t count) {
    load_i64(e.in[0]->dtype, at(*e.in[0], i), a, count);
    if (e.in.size() > 1) load_i64(e.in[1]->dtype, at(*e.in[1], i), b, count);
    f(a, b, count);
    store_i64(out.dtype, a, at(out, i), count);
  });
}

}  // namespace

void pointwise(Eval& e) {
  const Op op = e.n.op;
  if (op == Op::cast) return cast(*e.in[0], e.out[0]);
  if (op == Op::bitcast) return bitcast(e);
  if (op == Op::where) return where(e);
  const DType t = e.in[0]->dtype;
  const auto run = [&](auto of, const auto& unary, const auto& binary) {
    if (op_class(op) == OpClass::unary)
      return of([f = row_of(unary, op).fn](auto* a, auto*, int64_t n) {
        for (int64_t i = 0; i < n; ++i) a[i] = f(a[i]);
      });
    of([f = row_of(binary, op).fn, t](auto* a, auto* b, int64_t n) {
      for (int64_t i = 0; i < n; ++i) a[i] = f(t, a[i], b[i]);
    });
  };
  if (is_float(t)) return run([&](auto f) { float_op(e, f); }, kFloatUnary, kFloatBinary);
  run([&](auto f) { int_op(e, f); }, kIntUnary, kIntBinary);
}

void nullary(Eval& e) {
  HostTensor& out = e.out[0];
  const int64_t count = out.elems();
  if (e.n.op == Op::sym) return set_i64(out, {e.eval(e.n.get<Expr>(Attr::expr))});
  if (e.n.op == Op::full) {
    if (is_float(out.dtype)) return set_f64(out, std::vector<double>(count, scalar_f64(e.n, Attr::value)));
    return set_i64(out, std::vector<int64_t>(count, scalar_i64(e.n, Attr::value)));
  }
  const int64_t d = e.n.get<int64_t>(Attr::dim), stride = row_major(out.dims)[d], size = out.dims[d];
  std::vector<int64_t> v(count);
  for (int64_t i = 0; i < count; ++i) v[i] = i / stride % size;
  set_i64(out, v);
}

}  // namespace aotc::interp
