#include "passes/split_scans.h"

#include <cmath>

#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

constexpr int64_t kPart = 4096;      ///< elements of a part
constexpr int64_t kMostLines = 128;  ///< more keep a GPU busy as they are

/// Lines that fewer elements have are left to the blocks of a cluster, which combine each logarithm of sums only a few times.
int64_t least_elems(ReduceKind kind) { return kind == ReduceKind::logsumexp ? 1 << 15 : 1 << 18; }

/// log(exp(a) + exp(b)); infinities of one sign stay what they are.
ValueId logaddexp(Builder& b, ValueId x, ValueId y) {
  const ValueId most = b.binary(Op::maximum, x, y), less = b.unary(Op::neg, b.unary(Op::abs, b.binary(Op::sub, x, y)));
  const ValueId more = b.unary(Op::log1p, b.unary(Op::exp, less));
  return b.where(b.binary(Op::eq, x, y), b.binary(Op::add, x, b.like(x, std::log(2.0))), b.binary(Op::add, most, more));
}

ValueId combine(Builder& b, ReduceKind kind, ValueId before, ValueId x) {
  switch (kind) {
    case ReduceKind::sum: return b.binary(Op::add, before, x);
    case ReduceKind::prod: return b.binary(Op::mul, before, x);
    case ReduceKind::max: return b.binary(Op::maximum, before, x);
    case ReduceKind::min: return b.binary(Op::minimum, before, x);
    default: return logaddexp(b, before, x);
  }
}

std::optional<ValueId> split(Rewriter& r, const Node& n) {
  if (n.op != Op::scan) return std::nullopt;
  const ReduceKind kind = n.reduce_kind();
  const ValueId given = n.inputs[0];
  const Exprs dims = r.dims(given);
  if (n.get<int64_t>(Attr::dim) != static_cast<int64_t>(dims.size()) - 1) return std::nullopt;
  const Expr length = dims.back(), lines = product(Exprs(dims.begin(), dims.end() - 1));
  if (r.g.syms.hint(length) < least_elems(kind) || r.g.syms.hint(lines) > kMostLines || r.g.syms.interval(length).min < 1)
    return std::nullopt;
  const DType type = r.dtype(given), t = compute_type(type);
  const AttrValue neutral = neutral_element(kind, t);
  Builder& b = r.b;
  const auto filled = [&](ValueId v, const Exprs& lo, const Exprs& to) {
    const TensorType of{t, to};
    return b.make1(Op::pad, {v}, {{Attr::lo, lo}, {Attr::value, neutral}}, &of);
  };
  const Expr parts = ceildiv(length, kPart);
  ValueId x = b.reshape(b.cast(given, t), {lines, length});
  if (!r.g.syms.proves_divisible(length, kPart)) x = filled(x, {0, 0}, {lines, parts * kPart});
  const ValueId within = b.scan(kind, b.reshape(x, {lines, parts, kPart}), 2);
  const ValueId ends = b.reshape(b.slice(within, 2, kPart - 1, 1), {lines, parts});
  const ValueId before = filled(b.slice(b.scan(kind, ends, 1), 1, 0, parts - 1), {0, 1}, {lines, parts});
  const Exprs all = {lines, parts, kPart};
  ValueId y = b.reshape(combine(b, kind, b.expand(b.reshape(before, {lines, parts, 1}), all), within), {lines, parts * kPart});
  if (!r.g.syms.proves_divisible(length, kPart)) y = b.slice(y, 1, 0, length);
  return b.cast(b.reshape(y, dims), type);
}

}  // namespace

void split_scans(Graph& g, PassContext& ctx) {
  if (ctx.target.is_gpu()) Rewriter::run(g, split);
}

}  // namespace aotc::passes
