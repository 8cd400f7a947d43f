#include "compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace aotc::cli {
namespace {

template <class T>
T at(const HostTensor& t, int64_t i) {
  T v;
  std::memcpy(&v, t.bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return v;
}

double half_to_double(uint16_t h) {
  const int exponent = (h >> 10) & 31, mantissa = h & 1023;
  const double sign = h & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}

double bf16_to_double(uint16_t h) {
  const uint32_t bits = static_cast<uint32_t>(h) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

double e4m3fn_to_double(uint8_t b) {  // of half as it lies, 1 / 256 of it
  if ((b & 0x7f) == 0x7f) return std::nan("");
  return half_to_double(static_cast<uint16_t>((b & 0x80) << 8 | (b & 0x7f) << 7)) * 256;
}

int64_t scalars(const HostTensor& t) { return t.elems() * (is_complex(t.dtype) ? 2 : 1); }

/// Whether the number, rounded to the type, is finite.
bool finite_in(DType t, double x) {
  struct Row {
    DType dtype;
    double beyond;  ///< the least magnitude that is not: half a unit above the largest number
  };
  constexpr Row kRows[] = {
      {DType::f8e4m3fn, 0x1.d000000000001p8}, {DType::f8e5m2, 0x1.ep15},   {DType::f16, 0x1.ffep15}, {DType::bf16, 0x1.ffp127},
      {DType::f32, 0x1.ffffffp127},           {DType::c64, 0x1.ffffffp127}};
  for (const Row& r : kRows)
    if (r.dtype == t) return std::fabs(x) < r.beyond;
  return std::isfinite(x);
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// Complex numbers as pairs, as states have them.
std::vector<int64_t> dims_of_reals(const HostTensor& t) {
  std::vector<int64_t> dims = t.dims;
  if (is_complex(t.dtype)) dims.push_back(2);
  return dims;
}
bool comparable(const HostTensor& a, const HostTensor& b) { return dims_of_reals(a) == dims_of_reals(b); }

/// Relative L2 error; in units of the largest number, so that no square overflows or vanishes.
class L2 {
 public:
  explicit L2(double largest) : unit_(largest > 0 ? largest : 1) {}
  void add(double off, double t) { error_ += off / unit_ * (off / unit_), norm_ += t / unit_ * (t / unit_); }
  double value() const { return error_ == 0 ? 0 : std::sqrt(error_) / (norm_ > 0 ? std::sqrt(norm_) : 1.0); }

 private:
  double unit_, error_ = 0, norm_ = 0;
};

/// The largest magnitude of those that are finite in the type.
double largest_of(const HostTensor& t, DType type) {
  double largest = 0;
  for (int64_t i = 0; i < scalars(t); ++i)
    if (const double x = std::fabs(element(t, i)); finite_in(type, x)) largest = std::max(largest, x);
  return largest;
}

}  // namespace

double element(const HostTensor& t, int64_t i) {
  switch (t.dtype) {
    case DType::boolean: return at<uint8_t>(t, i) != 0;
    case DType::u8: return at<uint8_t>(t, i);
    case DType::i8: return at<int8_t>(t, i);
    case DType::i16: return at<int16_t>(t, i);
    case DType::i32: return at<int32_t>(t, i);
    case DType::i64: return static_cast<double>(at<int64_t>(t, i));
    case DType::f8e4m3fn: return e4m3fn_to_double(at<uint8_t>(t, i));
    case DType::f8e5m2: return half_to_double(static_cast<uint16_t>(at<uint8_t>(t, i) << 8));
    case DType::f16: return half_to_double(at<uint16_t>(t, i));
    case DType::bf16: return bf16_to_double(at<uint16_t>(t, i));
    case DType::f32:
    case DType::c64: return at<float>(t, i);
    case DType::f64:
    case DType::c128: return at<double>(t, i);
  }
  return 0;
}

Difference compare(const HostTensor& a, const HostTensor& truth) {
  Difference d;
  d.same_shape = comparable(a, truth);
  if (!d.same_shape) return d;
  const double largest = largest_of(truth, truth.dtype);
  L2 l2(largest);
  for (int64_t i = 0; i < scalars(a); ++i) {
    const double x = element(a, i), t = element(truth, i);
    if (same(x, t)) {
      if (std::isfinite(t)) l2.add(0, t);
      continue;
    }
    const double e = std::fabs(x - t);
    if (!std::isfinite(e)) {
      d.l2 = d.max_abs = d.max_rel = std::numeric_limits<double>::infinity();
      return d;
    }
    l2.add(e, t);
    d.max_abs = std::max(d.max_abs, e);
    if (std::fabs(t) > 1e-3 * largest) d.max_rel = std::max(d.max_rel, e / std::fabs(t));
  }
  d.l2 = l2.value();
  return d;
}

Distance distance(const HostTensor& reference, const HostTensor& truth) {
  Distance d;
  d.same_shape = comparable(reference, truth);
  if (!d.same_shape) return d;
  L2 l2(largest_of(truth, reference.dtype));
  for (int64_t i = 0; i < scalars(reference); ++i) {
    const double x = element(reference, i), t = element(truth, i);
    if (!finite_in(reference.dtype, t)) continue;
    if (!std::isfinite(x)) {
      ++d.lost;
      continue;
    }
    l2.add(x - t, t);
  }
  d.l2 = l2.value();
  return d;
}

Difference compare(const HostTensor& a, const HostTensor& truth, const HostTensor& eager, double limit) {
  Difference d;
  d.same_shape = comparable(a, truth) && comparable(a, eager);
  if (!d.same_shape) return d;
  const double largest = largest_of(truth, a.dtype);
  L2 l2(largest);
  for (int64_t i = 0; i < scalars(a); ++i) {
    const double x = element(a, i), t = element(truth, i), e = element(eager, i);
    const bool finite = finite_in(a.dtype, t);
    const bool rounds_to = std::isinf(x) && x * t > 0, near = std::isfinite(t) && std::fabs(x - t) <= limit * std::fabs(t);
    if (!finite && (rounds_to || near)) continue;
    if ((!finite || !std::isfinite(e)) && same(x, e)) continue;
    if (!finite || !std::isfinite(x)) {
      d.l2 = d.max_abs = d.max_rel = std::numeric_limits<double>::infinity();
      return d;
    }
    const double off = std::fabs(x - t);
    l2.add(off, t);
    d.max_abs = std::max(d.max_abs, off);
    if (std::fabs(t) > 1e-3 * largest) d.max_rel = std::max(d.max_rel, off / std::fabs(t));
  }
  d.l2 = l2.value();
  return d;
}

Outside outside(const HostTensor& a, const HostTensor& truth, const HostTensor& eager, double rtol, double atol) {
  Outside o;
  o.elements = scalars(a);
  double most = 0;
  for (int64_t i = 0; i < o.elements; ++i) {
    const double x = element(a, i), t = element(truth, i), e = element(eager, i);
    const bool finite = finite_in(a.dtype, t);
    const double allowed = atol + rtol * std::fabs(t), off = std::fabs(x - t);
    if (finite && off <= allowed) continue;
    if (!finite && (same(x, t) || (std::isinf(x) && x * t > 0))) continue;
    if ((!finite || !std::isfinite(e)) && same(x, e)) continue;
    ++o.count;
    const double beyond = std::isfinite(off) ? off - allowed : std::numeric_limits<double>::infinity();
    if (o.worst >= 0 && !(beyond > most)) continue;
    most = beyond, o.worst = i, o.got = x, o.expected = t;
  }
  return o;
}

double epsilon(DType t) {
  switch (t) {
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    case DType::f8e4m3fn: return 0x1p-3;
    case DType::f8e5m2: return 0x1p-2;
    case DType::f32:
    case DType::c64: return 0x1p-21;
    case DType::f64:
    case DType::c128: return 0x1p-50;
    default: return 0;
  }
}

}  // namespace aotc::cli
