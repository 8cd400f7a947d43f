#include "passes/value_range.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/int_range.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

constexpr int kDeepest = 12;
constexpr double kExact = 0x1p53;  ///< integers up to here are doubles

/// Rounding to float32 keeps order, so that bounds rounded alike stay bounds.
double as_f32(double x) { return static_cast<double>(static_cast<float>(x)); }

/// Of integers that doubles hold exactly.
Range of_type(DType t) {
  if (!is_int(t) || dtype_bytes(t) > 4) return {};
  const IntRange all = int_range(t);
  return {static_cast<double>(all.least), static_cast<double>(all.most)};
}
Range both(const Range& a, const Range& b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

Range range_at(const Graph& g, ValueId v, int depth);

/// 0 to the last entry of a dim.
Range entries(const Graph& g, ValueId v, int64_t dim) {
  const double most = static_cast<double>(g.syms.interval(g.type(v).dims[static_cast<size_t>(dim)]).max);
  return most < kExact ? Range{0, std::max(0.0, most - 1)} : Range{0};
}

/// What needs an order of the elements alone, and no arithmetic.
std::optional<Range> ordered(const Graph& g, const Node& n, int depth) {
  const auto of = [&](size_t i) { return range_at(g, n.inputs[i], depth + 1); };
  switch (n.op) {
    case Op::reshape:
    case Op::permute:
    case Op::expand:
    case Op::slice: return of(0);
    case Op::minimum: {
      const Range x = of(0), y = of(1);
      return Range{std::min(x.lo, y.lo), std::min(x.hi, y.hi)};
    }
    case Op::maximum: {
      const Range x = of(0), y = of(1);
      return Range{std::max(x.lo, y.lo), std::max(x.hi, y.hi)};
    }
    default: return {};
  }
}

Range integers(const Graph& g, const Node& n, ValueId v, int depth) {
  const auto of = [&](size_t i) { return range_at(g, n.inputs[i], depth + 1); };
  // Integers wrap around; of a range that int32 has these do not.
  const auto exact = [](const Range& x) { return x.within(of_type(DType::i32).lo, of_type(DType::i32).hi) ? x : Range{}; };
  switch (n.op) {
    case Op::flip:
    case Op::gather:
    case Op::index: return of(0);
    case Op::cast: return is_int(g.type(n.inputs[0]).dtype) ? exact(of(0)) : Range{};
    case Op::iota: return entries(g, v, n.get<int64_t>(Attr::dim));
    case Op::topk:
    case Op::sort: return v == n.outputs[1] ? entries(g, n.inputs[0], n.get<int64_t>(Attr::dim)) : of(0);
    case Op::where: return both(of(1), of(2));
    case Op::cat: {
      Range x = of(0);
      for (size_t i = 1; i < n.inputs.size(); ++i) x = both(x, of(i));
      return x;
    }
    case Op::add: {
      const Range x = of(0), y = of(1);
      return exact({x.lo + y.lo, x.hi + y.hi});
    }
    default: return {};
  }
}

Range floats(const Graph& g, const Node& n, int depth) {
  const auto of = [&](size_t i) { return range_at(g, n.inputs[i], depth + 1); };
  switch (n.op) {
    case Op::cast: {
      const DType from = g.type(n.inputs[0]).dtype;
      return from == DType::u8 || from == DType::i8 ? of(0) : Range{};
    }
    case Op::relu: {
      const Range x = of(0);
      return {std::max(x.lo, 0.0), std::max(x.hi, 0.0)};
    }
    case Op::round: {
      const Range x = of(0);
      return {std::nearbyint(x.lo), std::nearbyint(x.hi)};
    }
    case Op::add: {
      const Range x = of(0), y = of(1);
      return {as_f32(x.lo + y.lo), as_f32(x.hi + y.hi)};
    }
    case Op::mul: {
      const Range x = of(0), y = of(1);
      if (x.lo < 0 || y.lo < 0) return {};
      const double hi = std::isfinite(x.hi) && std::isfinite(y.hi) ? x.hi * y.hi : std::numeric_limits<double>::infinity();
      return {as_f32(x.lo * y.lo), as_f32(hi)};
    }
    default: return {};
  }
}

Range range_at(const Graph& g, ValueId v, int depth) {
  if (const auto x = splat_value(g, v)) return {*x, *x};
  const DType t = g.type(v).dtype;
  const Node* n = g.def(v);
  if (!n || depth == kDeepest) return of_type(t);
  if (t != DType::f32 && !is_int(t)) return {};
  const auto found = ordered(g, *n, depth);
  if (t == DType::f32) return found ? *found : floats(g, *n, depth);
  const Range x = found ? *found : integers(g, *n, v, depth), all = of_type(t);
  return {std::max(x.lo, all.lo), std::min(x.hi, all.hi)};
}

}  // namespace

Range range_of(const Graph& g, ValueId v) { return range_at(g, v, 0); }

}  // namespace aotc::passes
