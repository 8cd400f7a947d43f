// Orthogonal polynomials by their recurrences, in float64, as many steps as the order says: the highest one of a constant, or the highest
// that is allowed where the run computes the orders.
#include <algorithm>
#include <limits>

#include "decompose/families.h"
#include "decompose/tensor.h"
#include "graph/scalar.h"

namespace aotc::decompose {
namespace {

constexpr int64_t kHighestOrder = 512;   ///< whose steps are written out
constexpr int64_t kHighestOfARun = 128;  ///< where the run computes the orders

/// p[k + 1] = next(k, p[k], p[k - 1]), from p[0] = 1 and p[1].
struct Family {
  T (*first)(const T& x);
  T (*next)(int64_t k, const T& x, const T& p, const T& before);
};

T twice_less(const T& x, const T& p, const T& before) { return x * 2.0 * p - before; }
T chebyshev_next(int64_t, const T& x, const T& p, const T& before) { return twice_less(x, p, before); }
T shifted_next(int64_t, const T& x, const T& p, const T& before) { return twice_less(x * 2.0 - 1.0, p, before); }
T hermite_next(int64_t k, const T& x, const T& p, const T& before) { return x * 2.0 * p - before * (2.0 * static_cast<double>(k)); }
T hermite_e_next(int64_t k, const T& x, const T& p, const T& before) { return x * p - before * static_cast<double>(k); }
T laguerre_next(int64_t k, const T& x, const T& p, const T& before) {
  const double n = static_cast<double>(k);
  return (((1.0 - x) + 2 * n) * p - before * n) / (n + 1);
}
T legendre_next(int64_t k, const T& x, const T& p, const T& before) {
  const double n = static_cast<double>(k);
  return (x * (2 * n + 1) * p - before * n) / (n + 1);
}

constexpr Family kFamilies[] = {
    {[](const T& x) { return x; }, chebyshev_next},
    {[](const T& x) { return x * 2.0; }, chebyshev_next},
    {[](const T& x) { return x * 2.0 - 1.0; }, chebyshev_next},
    {[](const T& x) { return x * 2.0 + 1.0; }, chebyshev_next},
    {[](const T& x) { return x * 2.0 - 1.0; }, shifted_next},
    {[](const T& x) { return x * 4.0 - 2.0; }, shifted_next},
    {[](const T& x) { return x * 4.0 - 3.0; }, shifted_next},
    {[](const T& x) { return x * 4.0 - 1.0; }, shifted_next},
    {[](const T& x) { return x * 2.0; }, hermite_next},
    {[](const T& x) { return x; }, hermite_e_next},
    {[](const T& x) { return 1.0 - x; }, laguerre_next},
    {[](const T& x) { return x; }, legendre_next},
};
enum : size_t { kT, kU, kV, kW, kShiftedT, kShiftedU, kShiftedV, kShiftedW, kHermiteH, kHermiteHe, kLaguerre, kLegendre };

/// The constant's highest element.
std::optional<double> highest(const T& x) {
  const Value& v = x.b().graph().values[x];
  if (v.kind != ValueKind::constant) return std::nullopt;
  const ConstData& c = x.b().graph().constants[v.constant];
  if (c.exchangeable) return std::nullopt;
  const size_t n = c.bytes / static_cast<size_t>(dtype_bytes(c.type.dtype));
  std::vector<double> data(n);
  if (is_float(c.type.dtype)) {
    load_f64(c.type.dtype, c.data, data.data(), static_cast<int64_t>(n));
  } else {
    std::vector<int64_t> whole(n);
    load_i64(c.type.dtype, c.data, whole.data(), static_cast<int64_t>(n));
    std::copy(whole.begin(), whole.end(), data.begin());
  }
  return data.empty() ? -1 : *std::max_element(data.begin(), data.end());
}

template <size_t family>
void polynomial(Rule& r) {
  const Family& f = kFamilies[family];
  const TensorType t = r.meta_result();
  const bool one = !r.is_tensor("n");
  std::optional<double> most = one ? std::optional(r.number("n")) : highest(tensor(r, "n"));
  if (!most) most = static_cast<double>(kHighestOfARun);
  if (!(*most <= static_cast<double>(kHighestOrder))) r.refuse(fmt::format("an order of more than {}", kHighestOrder));
  const T x0(r.b, materialize(r.b, operand(r, "x"), t.dtype)), x = x0.to(DType::f64).expand(t.dims);
  const int64_t last = static_cast<int64_t>(*most);
  // Hermite's run over in PyTorch's own way.
  const bool hermite = family == kHermiteH || family == kHermiteHe;
  const double limit = hermite ? (t.dtype == DType::f64 ? 512 : 128) : std::numeric_limits<double>::infinity();
  std::optional<T> n;
  if (!one) n = unary(Op::trunc, tensor(r, "n").to(DType::f64)).expand(t.dims);
  if (n && !highest(tensor(r, "n"))) {
    // Hermite's are NaN beyond PyTorch's own limit, which is no higher in float32.
    const T small = hermite && t.dtype != DType::f64 ? *n == *n : !(*n > static_cast<double>(kHighestOfARun));
    Ints all;
    for (int d = 0; d < small.rank(); ++d) all.push_back(d);
    r.check(small.rank() ? ValueId(unary(Op::logical_not, (!small).reduce(ReduceKind::max, all, false))) : ValueId(small),
            fmt::format("{}: an order of more than {}", r.node.target, kHighestOfARun));
  }
  T y = x.like(0.0);
  const auto take = [&](int64_t k, const T& p) { y = n ? where(*n == static_cast<double>(k), p, y) : p; };
  std::optional<T> before, p;
  for (int64_t k = 0; k <= last; ++k) {
    const T next = k == 0 ? x.like(1.0) : k == 1 ? f.first(x) : f.next(k - 1, x, *p, *before);
    before = std::exchange(p, next);
    take(k, next);
  }
  if (hermite && (static_cast<double>(last) > limit || (n && *most >= limit))) {
    const T nan = x.like(std::numeric_limits<double>::quiet_NaN());
    y = n ? where(*n > limit, nan, y) : nan;
  }
  r.set(y.to(t.dtype));
}

#define AOTC_POLYNOMIAL(name, family)                                                                              \
  {"aten.special_" name ".default", polynomial<family>}, {"aten.special_" name ".x_scalar", polynomial<family>}, { \
    "aten.special_" name ".n_scalar", polynomial<family>                                                           \
  }
constexpr RuleRow kRows[] = {
    AOTC_POLYNOMIAL("chebyshev_polynomial_t", kT),
    AOTC_POLYNOMIAL("chebyshev_polynomial_u", kU),
    AOTC_POLYNOMIAL("chebyshev_polynomial_v", kV),
    AOTC_POLYNOMIAL("chebyshev_polynomial_w", kW),
    AOTC_POLYNOMIAL("shifted_chebyshev_polynomial_t", kShiftedT),
    AOTC_POLYNOMIAL("shifted_chebyshev_polynomial_u", kShiftedU),
    AOTC_POLYNOMIAL("shifted_chebyshev_polynomial_v", kShiftedV),
    AOTC_POLYNOMIAL("shifted_chebyshev_polynomial_w", kShiftedW),
    AOTC_POLYNOMIAL("hermite_polynomial_h", kHermiteH),
    AOTC_POLYNOMIAL("hermite_polynomial_he", kHermiteHe),
    AOTC_POLYNOMIAL("laguerre_polynomial_l", kLaguerre),
    AOTC_POLYNOMIAL("legendre_polynomial_p", kLegendre),
};
#undef AOTC_POLYNOMIAL
}  // namespace

RuleTable polynomial_rules() { return kRows; }

}  // namespace aotc::decompose
