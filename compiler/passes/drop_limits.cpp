#include "passes/drop_limits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

/// Of values that are numbers.
struct Range {
  double lo = -std::numeric_limits<double>::infinity(), hi = std::numeric_limits<double>::infinity();
};
constexpr int kDeepest = 12;

/// Rounding to float32 keeps order, so that bounds rounded alike stay bounds.
double as_f32(double x) { return static_cast<double>(static_cast<float>(x)); }

Range range_of(const Graph& g, ValueId v, int depth = 0) {
  if (const auto x = splat_value(g, v)) return {*x, *x};
  const DType t = g.type(v).dtype;
  if (t == DType::u8) return {0, 255};
  if (t == DType::i8) return {-128, 127};
  const Node* n = g.def(v);
  if (!n || t != DType::f32 || depth == kDeepest) return {};
  const auto of = [&](size_t i) { return range_of(g, n->inputs[i], depth + 1); };
  switch (n->op) {
    case Op::cast: {
      const DType from = g.type(n->inputs[0]).dtype;
      return from == DType::u8 || from == DType::i8 ? of(0) : Range{};
    }
    case Op::reshape:
    case Op::permute:
    case Op::expand:
    case Op::slice: return of(0);
    case Op::relu: {
      const Range x = of(0);
      return {std::max(x.lo, 0.0), std::max(x.hi, 0.0)};
    }
    case Op::round: {
      const Range x = of(0);
      return {std::nearbyint(x.lo), std::nearbyint(x.hi)};
    }
    case Op::minimum: {
      const Range x = of(0), y = of(1);
      return {std::min(x.lo, y.lo), std::min(x.hi, y.hi)};
    }
    case Op::maximum: {
      const Range x = of(0), y = of(1);
      return {std::max(x.lo, y.lo), std::max(x.hi, y.hi)};
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

std::optional<ValueId> rule(Rewriter& r, const Node& n) {
  if (n.outputs.size() != 1 || r.dtype(n.outputs[0]) != DType::f32) return std::nullopt;
  if (n.op == Op::relu) return range_of(r.g, n.inputs[0]).lo >= 0 ? std::optional(n.inputs[0]) : std::nullopt;
  if (n.op != Op::minimum && n.op != Op::maximum) return std::nullopt;
  const auto limit = splat_value(r.g, n.inputs[1]);
  if (!limit) return std::nullopt;
  const Range x = range_of(r.g, n.inputs[0]);
  return (n.op == Op::minimum ? x.hi <= *limit : x.lo >= *limit) ? std::optional(n.inputs[0]) : std::nullopt;
}

}  // namespace

void drop_limits(Graph& g, PassContext&) { Rewriter::run(g, rule); }

}  // namespace aotc::passes
