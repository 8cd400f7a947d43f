#include "graph/ranges.h"

#include <algorithm>

#include "graph/infer.h"
#include "graph/scalar.h"

namespace aotc {
namespace {

constexpr int kMaxDepth = 12;
constexpr int64_t kMaxScanned = 1 << 22;     ///< elements of a constant that are looked at
constexpr int64_t kSafe = int64_t{1} << 62;  ///< sums of two stay within int64
constexpr int64_t kSafeFactor = int64_t{1} << 31;

using Found = std::optional<Interval>;

Found of_constant(const ConstData& c) {
  if (c.exchangeable) return {};
  const int64_t count = static_cast<int64_t>(c.bytes) / dtype_bytes(c.type.dtype);
  if (count == 0 || count > kMaxScanned) return {};
  constexpr int64_t kAtOnce = 4096;
  int64_t v[kAtOnce];
  Interval all{INT64_MAX, INT64_MIN};
  for (int64_t i = 0; i < count; i += kAtOnce) {
    const int64_t n = std::min(kAtOnce, count - i);
    load_i64(c.type.dtype, c.data + i * dtype_bytes(c.type.dtype), v, n);
    const auto [lo, hi] = std::minmax_element(v, v + n);
    all = {std::min(all.min, *lo), std::max(all.max, *hi)};
  }
  return all;
}

/// What an element of type t cannot leave; arithmetic that may leave it wraps.
bool fits(const Interval& i, DType t) {
  switch (t) {
    case DType::u8: return i.min >= 0 && i.max <= 255;
    case DType::i8: return i.min >= -128 && i.max <= 127;
    case DType::i16: return i.min >= -32768 && i.max <= 32767;
    case DType::i32: return i.min >= INT32_MIN && i.max <= INT32_MAX;
    case DType::i64: return i.min > -kSafe && i.max < kSafe;
    default: return false;
  }
}

Found binary(Op op, const Interval& a, const Interval& b, DType t) {
  Interval r{};
  switch (op) {
    case Op::add: r = {a.min + b.min, a.max + b.max}; break;
    case Op::sub: r = {a.min - b.max, a.max - b.min}; break;
    case Op::mul: {
      if (std::max({-a.min, a.max, -b.min, b.max}) > kSafeFactor) return {};
      const int64_t p[] = {a.min * b.min, a.min * b.max, a.max * b.min, a.max * b.max};
      r = {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
      break;
    }
    case Op::minimum: r = {std::min(a.min, b.min), std::min(a.max, b.max)}; break;
    case Op::maximum: r = {std::max(a.min, b.min), std::max(a.max, b.max)}; break;
    case Op::remainder:
      if (b.min <= 0) return {};
      r = {0, b.max - 1};
      break;
    default: return {};
  }
  return fits(r, t) ? Found(r) : Found();
}

Found range(const Graph& g, ValueId v, int depth);

/// Of min(max(x, low), high), or the other way round, for any x.
Found clamped(const Graph& g, const Node& n, int depth) {
  const Op other = n.op == Op::minimum ? Op::maximum : Op::minimum;
  for (size_t side : {size_t{0}, size_t{1}}) {
    const Node* inner = g.def(n.inputs[1 - side]);
    const Found near = range(g, n.inputs[side], depth - 1);
    if (near && inner && n.op == Op::minimum && inner->op == Op::relu) return Interval{std::min<int64_t>(near->min, 0), near->max};
    if (!near || !inner || inner->op != other) continue;
    for (ValueId v : inner->inputs)
      if (const Found far = range(g, v, depth - 2))
        return n.op == Op::minimum ? Interval{std::min(near->min, far->min), near->max}
                                   : Interval{near->min, std::max(near->max, far->max)};
  }
  return {};
}

Found range(const Graph& g, ValueId v, int depth) {
  const DType t = g.type(v).dtype;
  if (depth <= 0 || (!is_int(t) && !is_bool(t))) return {};
  const Value& x = g.values[v];
  if (x.kind == ValueKind::constant) return of_constant(g.constants[x.constant]);
  const Node* n = g.def(v);
  if (!n) return {};
  auto input = [&](size_t i) { return range(g, n->inputs[i], depth - 1); };
  auto both = [](const Found& a, const Found& b) { return a && b ? Found({std::min(a->min, b->min), std::max(a->max, b->max)}) : Found(); };
  switch (n->op) {
    case Op::full: return Interval{scalar_i64(*n, Attr::value), scalar_i64(*n, Attr::value)};
    case Op::iota: {
      const Interval size = g.syms.interval(x.type.dims[n->get<int64_t>(Attr::dim)]);
      return size.max < kSafe ? Found({0, std::max<int64_t>(size.max - 1, 0)}) : Found({0, kSafe - 1});
    }
    case Op::sym: {
      const Interval i = g.syms.interval(n->get<Expr>(Attr::expr));
      return i.min > -kSafe && i.max < kSafe ? Found(i) : Found();
    }
    case Op::reshape:
    case Op::permute:
    case Op::expand:
    case Op::slice:
    case Op::flip:
    case Op::strided:
    case Op::index:
    case Op::gather: return input(0);
    case Op::cast: {
      const Found i = input(0);
      return i && (is_bool(t) || fits(*i, t)) ? (is_bool(t) ? Found({i->min > 0 || i->max < 0, 1}) : i) : Found();
    }
    case Op::where: return both(input(1), input(2));
    case Op::neg: {
      const Found i = input(0);
      return i && fits({-i->max, -i->min}, t) ? Found({-i->max, -i->min}) : Found();
    }
    case Op::relu: {
      const Found i = input(0);
      return i ? Found({std::max<int64_t>(i->min, 0), std::max<int64_t>(i->max, 0)}) : Found();
    }
    case Op::cat: {
      Found all = input(0);
      for (size_t i = 1; i < n->inputs.size(); ++i) all = both(all, input(i));
      return all;
    }
    default: break;
  }
  if (op_class(n->op) != OpClass::binary || is_bool(t)) return {};
  const Found a = input(0), b = input(1);
  if ((!a || !b) && (n->op == Op::minimum || n->op == Op::maximum)) return clamped(g, *n, depth);
  if (!a || !b || !fits(*a, DType::i64) || !fits(*b, DType::i64)) return {};
  return binary(n->op, *a, *b, t);
}

}  // namespace

std::optional<Interval> int_range(const Graph& g, ValueId v) { return range(g, v, kMaxDepth); }

}  // namespace aotc
