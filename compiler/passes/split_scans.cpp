#include "passes/passes.h"

#include "base/uarch.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

/// Elements of a part of lines of so many: where it can be no less than there are parts, and such that parts are alike (then what comes
/// before each is combined with it where it is scanned); near a power of two.
int64_t part_of(int64_t elems, bool known, const GpuCosts& u) {
  int64_t part = u.scan_part_least;
  while (part < u.scan_part_most && part * part < elems) part *= 2;
  if (!known) return part;
  for (int64_t by = 0; by < part; ++by)
    for (const int64_t other : {part - by, part + by})
      if (elems % other == 0 && 2 * other >= part && other * other >= elems) return other;
  return part;
}

ValueId combine(Builder& b, ReduceKind kind, ValueId before, ValueId x) {
  switch (kind) {
    case ReduceKind::sum: return b.binary(Op::add, before, x);
    case ReduceKind::prod: return b.binary(Op::mul, before, x);
    case ReduceKind::max: return b.binary(Op::maximum, before, x);
    case ReduceKind::min: return b.binary(Op::minimum, before, x);
    default: return b.logaddexp(before, x);
  }
}

/// Of all along the last dim, which goes.
ValueId total(Builder& b, ReduceKind kind, ValueId x) {
  const int64_t last = b.rank(x) - 1;
  if (kind != ReduceKind::logsumexp) return b.reduce(kind, x, {last});
  const ValueId top = b.reduce_keep(ReduceKind::max, x, {last});
  const ValueId shift = b.where(b.unary(Op::isinf, top), b.like(top, 0), top);
  const ValueId sum = b.reduce_keep(ReduceKind::sum, b.unary(Op::exp, b.binary(Op::sub, x, b.expand(shift, b.dims(x)))), {last});
  Exprs dims = b.dims(x);
  dims.pop_back();
  return b.reshape(b.binary(Op::add, b.unary(Op::log, sum), shift), dims);
}

class Splitter {
 public:
  Splitter(Rewriter& r, const GpuCosts& u, ReduceKind kind, DType type) : r_(r), b_(r.b), u_(u), kind_(kind), type_(type) {}

  /// The scan along the last dim of x, [lines, length].
  ValueId split(ValueId x, const Expr& lines, const Expr& length) {
    const int64_t part = part_of(r_.g.syms.hint(length), length.as_const().has_value(), u_);
    const Expr parts = ceildiv(length, part);
    const bool whole = r_.g.syms.proves_divisible(length, part);
    if (!whole) x = filled(x, {0, 0}, {lines, parts * part});
    const Exprs all = {lines, parts, part};
    const ValueId apart = b_.reshape(x, all);
    const Splitter totals(r_, u_, kind_, type_of_totals());
    const ValueId ends = total(b_, kind_, b_.cast(apart, totals.type_));
    const bool few = r_.g.syms.interval(r_.g.syms.simplify(parts)).max <= part;
    const ValueId before = b_.cast(few ? totals.of_earlier(ends, lines, parts, part) : totals.scanned(ends, lines, parts), type_);
    const ValueId within = b_.scan(kind_, apart, 2);
    const ValueId y = combine(b_, kind_, b_.expand(b_.reshape(before, {lines, parts, 1}), all), within);
    const ValueId flat = b_.reshape(y, {lines, parts * part});
    return whole ? flat : b_.slice(flat, 1, 0, length);
  }

 private:
  /// float32's products of many numbers near 1 that are multiplied pair by pair are all too small by the same: 1e-4 of 300 parts.
  DType type_of_totals() const { return kind_ == ReduceKind::prod && type_ == DType::f32 ? DType::f64 : type_; }
  ValueId neutral(const Exprs& dims) const {
    const TensorType of{type_, dims};
    return b_.make1(Op::full, {}, {{Attr::value, neutral_element(kind_, type_)}}, &of);
  }
  ValueId filled(ValueId v, const Exprs& lo, const Exprs& to) const {
    const TensorType of{type_, to};
    return b_.make1(Op::pad, {v}, {{Attr::lo, lo}, {Attr::value, neutral_element(kind_, type_)}}, &of);
  }
  /// What is before each part, of the totals of all: reduced along as many elements as a part has, so that the kernel that scans the part
  /// does it.
  ValueId of_earlier(ValueId ends, const Expr& lines, const Expr& parts, int64_t part) const {
    const Exprs square = {lines, parts, part};
    const ValueId totals = b_.expand(b_.reshape(filled(ends, {0, 0}, {lines, part}), {lines, 1, part}), square);
    const ValueId earlier = b_.binary(Op::lt, b_.iota(square, 2), b_.iota(square, 1));
    return total(b_, kind_, b_.where(earlier, totals, neutral(square)));
  }
  /// The same by a scan of its own.
  ValueId scanned(ValueId ends, const Expr& lines, const Expr& parts) const {
    return filled(b_.slice(b_.scan(kind_, ends, 1), 1, 0, parts - 1), {0, 1}, {lines, parts});
  }

  Rewriter& r_;
  Builder& b_;
  const GpuCosts& u_;
  ReduceKind kind_;
  DType type_;  ///< in which it is computed
};

std::optional<ValueId> split(Rewriter& r, const Node& n, const GpuCosts& u) {
  if (n.op != Op::scan) return std::nullopt;
  const ValueId given = n.inputs[0];
  const Exprs dims = r.dims(given);
  if (n.get<int64_t>(Attr::dim) != static_cast<int64_t>(dims.size()) - 1) return std::nullopt;
  const Expr length = dims.back(), lines = product(Exprs(dims.begin(), dims.end() - 1));
  if (r.g.syms.hint(length) < u.scan_least || r.g.syms.hint(lines) > u.scan_lines || r.g.syms.interval(length).min < 1) return std::nullopt;
  const ReduceKind kind = n.reduce_kind();
  const DType type = r.dtype(given), t = compute_type(type);
  const ValueId x = r.b.reshape(r.b.cast(given, t), {lines, length});
  return r.b.cast(r.b.reshape(Splitter(r, u, kind, t).split(x, lines, length), dims), type);
}

}  // namespace

/// A scan along few lines that are longer than a block takes goes in parts on GPUs: each part's result, then a scan of every part that goes
/// on from the results of those before it.
void split_scans(Graph& g, PassContext& ctx) {
  Rewriter::run(g, [&u = uarch_of(ctx.target).gpu](Rewriter& r, const Node& n) { return split(r, n, u); });
}

}  // namespace aotc::passes
