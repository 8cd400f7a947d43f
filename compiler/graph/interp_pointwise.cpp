#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "base/philox.h"
#include "graph/infer.h"
#include "graph/interp_detail.h"
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

double unary_f64(Op op, double x) {
  switch (op) {
    case Op::neg: return -x;
    case Op::abs: return std::fabs(x);
    case Op::sign: return sign(x);
    case Op::ceil: return std::ceil(x);
    case Op::floor: return std::floor(x);
    case Op::round: return std::nearbyint(x);
    case Op::trunc: return std::trunc(x);
    case Op::sqrt: return std::sqrt(x);
    case Op::rsqrt: return 1 / std::sqrt(x);
    case Op::reciprocal: return 1 / x;
    case Op::exp: return std::exp(x);
    case Op::exp2: return std::exp2(x);
    case Op::expm1: return std::expm1(x);
    case Op::log: return std::log(x);
    case Op::log2: return std::log2(x);
    case Op::log10: return std::log10(x);
    case Op::log1p: return std::log1p(x);
    case Op::sin: return std::sin(x);
    case Op::cos: return std::cos(x);
    case Op::tan: return std::tan(x);
    case Op::asin: return std::asin(x);
    case Op::acos: return std::acos(x);
    case Op::atan: return std::atan(x);
    case Op::sinh: return std::sinh(x);
    case Op::cosh: return std::cosh(x);
    case Op::tanh: return std::tanh(x);
    case Op::asinh: return std::asinh(x);
    case Op::acosh: return std::acosh(x);
    case Op::atanh: return std::atanh(x);
    case Op::erf: return std::erf(x);
    case Op::erfc: return std::erfc(x);
    case Op::erfinv: return erfinv(x);
    case Op::lgamma: return std::lgamma(x);
    case Op::digamma: return digamma(x);
    case Op::sigmoid: return sigmoid(x);
    case Op::relu: return x < 0 ? 0.0 : x;
    case Op::isnan: return std::isnan(x);
    case Op::isinf: return std::isinf(x);
    default: AOTC_CHECK(false, "{} on floats", op_name(op));
  }
}

int64_t wrapping_neg(int64_t x) { return static_cast<int64_t>(-static_cast<uint64_t>(x)); }

int64_t unary_i64(Op op, int64_t x) {
  switch (op) {
    case Op::neg: return wrapping_neg(x);
    case Op::abs: return x < 0 ? wrapping_neg(x) : x;
    case Op::sign: return (x > 0) - (x < 0);
    case Op::relu: return x < 0 ? 0 : x;
    case Op::isnan:
    case Op::isinf: return 0;
    case Op::logical_not: return !x;
    case Op::bitwise_not: return ~x;
    default: AOTC_CHECK(false, "{} on integers", op_name(op));
  }
}

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

double binary_f64(Op op, DType t, double a, double b) {
  switch (op) {
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a * b;
    case Op::div: return a / b;
    case Op::div_trunc: return std::trunc(round_to(compute_type(t), a / b));
    case Op::div_floor: return floor_div(a, b);
    case Op::remainder: return remainder_of(a, b);
    case Op::fmod: return std::fmod(a, b);
    case Op::pow: return std::pow(a, b);
    case Op::atan2: return std::atan2(a, b);
    case Op::hypot: return std::hypot(a, b);
    case Op::copysign: return std::copysign(a, b);
    case Op::nextafter: return next_after(t, a, b);
    case Op::minimum: return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b);
    case Op::maximum: return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b);
    case Op::eq: return a == b;
    case Op::ne: return a != b;
    case Op::lt: return a < b;
    case Op::le: return a <= b;
    case Op::gt: return a > b;
    case Op::ge: return a >= b;
    default: AOTC_CHECK(false, "{} on floats", op_name(op));
  }
}

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

int64_t binary_i64(Op op, DType t, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  const int64_t bits = 8 * dtype_bytes(t), top = t == DType::u8 ? 8 : bits - 1;
  const bool min_by_minus_one = b == -1;  // the quotient of INT64_MIN overflows
  switch (op) {
    case Op::add: return static_cast<int64_t>(ua + ub);
    case Op::sub: return static_cast<int64_t>(ua - ub);
    case Op::mul: return static_cast<int64_t>(ua * ub);
    case Op::div_trunc: return b == 0 ? 0 : min_by_minus_one ? wrapping_neg(a) : a / b;
    case Op::div_floor: return b == 0 ? 0 : min_by_minus_one ? wrapping_neg(a) : a / b - (a % b != 0 && (a < 0) != (b < 0));
    case Op::remainder: {
      if (b == 0 || min_by_minus_one) return 0;
      const int64_t m = a % b;
      return m != 0 && (m < 0) != (b < 0) ? m + b : m;
    }
    case Op::fmod: return b == 0 || min_by_minus_one ? 0 : a % b;
    case Op::pow: return int_pow(a, b);
    case Op::gcd: return gcd(a, b);
    case Op::philox: return static_cast<int64_t>(philox(ua, ub));
    case Op::minimum: return std::min(a, b);
    case Op::maximum: return std::max(a, b);
    case Op::eq: return a == b;
    case Op::ne: return a != b;
    case Op::lt: return a < b;
    case Op::le: return a <= b;
    case Op::gt: return a > b;
    case Op::ge: return a >= b;
    case Op::bit_and: return a & b;
    case Op::bit_or: return a | b;
    case Op::bit_xor: return a ^ b;
    case Op::shl: return b < 0 || b >= bits ? 0 : static_cast<int64_t>(ua << b);
    case Op::shr: return a >> (b < 0 || b >= top ? std::min<int64_t>(top, 63) : b);
    default: AOTC_CHECK(false, "{} on integers", op_name(op));
  }
}

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
  const bool unary = op_class(op) == OpClass::unary;
  if (is_float(t)) {
    if (unary)
      return float_op(e, [op](double* a, double*, int64_t n) {
        for (int64_t i = 0; i < n; ++i) a[i] = unary_f64(op, a[i]);
      });
    return float_op(e, [op, t](double* a, double* b, int64_t n) {
      for (int64_t i = 0; i < n; ++i) a[i] = binary_f64(op, t, a[i], b[i]);
    });
  }
  if (unary)
    return int_op(e, [op](int64_t* a, int64_t*, int64_t n) {
      for (int64_t i = 0; i < n; ++i) a[i] = unary_i64(op, a[i]);
    });
  int_op(e, [op, t](int64_t* a, int64_t* b, int64_t n) {
    for (int64_t i = 0; i < n; ++i) a[i] = binary_i64(op, t, a[i], b[i]);
  });
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
