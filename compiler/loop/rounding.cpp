#include "loop/rounding.h"

#include <algorithm>
#include <cmath>

#include "graph/scalar.h"

namespace aotc::loop {
namespace {

enum : uint8_t { kF16 = 1, kBf16 = 2, kBoth = 3 };

uint8_t bit_of(DType t) { return t == DType::f16 ? kF16 : t == DType::bf16 ? kBf16 : 0; }

bool holds(DType half, double x) { return std::isnan(x) || round_to(half, x) == x; }

uint8_t representable(const IdVec<InstId, Inst>& insts, const Inst& i, const std::vector<uint8_t>& known) {
  const auto of = [&](size_t arg) { return known[idx(i.args.at(arg))]; };
  if (!is_float(i.dtype)) return 0;
  switch (i.kind) {
    case InstKind::load: return is_float8(i.dtype) ? uint8_t{kBoth} : bit_of(i.dtype);
    case InstKind::constant:
      return static_cast<uint8_t>((holds(DType::f16, i.imm_f) ? kF16 : 0) | (holds(DType::bf16, i.imm_f) ? kBf16 : 0));
    case InstKind::reduce:
    case InstKind::scan: return i.reduce_kind == ReduceKind::max || i.reduce_kind == ReduceKind::min ? of(0) : 0;
    case InstKind::op: break;
    default: return 0;
  }
  switch (i.op) {
    case Op::cast: {
      const DType from = insts[i.args[0]].dtype;
      return is_bool(from) || from == DType::u8 || from == DType::i8 || is_float8(from) ? uint8_t{kBoth} : of(0);
    }
    case Op::sign: return kBoth;
    case Op::neg:
    case Op::abs:
    case Op::relu:
    case Op::ceil:
    case Op::floor:
    case Op::round:
    case Op::trunc:
    case Op::copysign: return of(0);
    case Op::minimum:
    case Op::maximum: return of(0) & of(1);
    case Op::nextafter: return bit_of(i.dtype);
    case Op::where: return of(1) & of(2);
    default: return 0;
  }
}

}  // namespace

void Representable::look(const IdVec<InstId, Inst>& insts, InstId i) {
  while (known_.size() <= idx(i)) {
    const Inst& next = insts[static_cast<InstId>(known_.size())];
    computed_.push_back(representable(insts, next, known_));
    known_.push_back(computed_.back() | bit_of(next.dtype));
  }
}

bool Representable::is(const IdVec<InstId, Inst>& insts, InstId i, DType half) {
  look(insts, i);
  return (known_[idx(i)] & bit_of(half)) != 0;
}

bool Representable::must_round(const IdVec<InstId, Inst>& insts, InstId i) {
  look(insts, i);
  const Inst& x = insts[i];
  const bool computes = (x.kind == InstKind::op && x.op != Op::bitcast) || x.kind == InstKind::reduce || x.kind == InstKind::scan;
  return computes && (is_half(x.dtype) || is_float8(x.dtype)) && (computed_[idx(i)] & bit_of(x.dtype)) == 0;
}

namespace {

/// What is not the element's own: made of other elements of a row, or the same for many elements.
std::vector<bool> of_rows(const LoopKernel& k) {
  std::vector<bool> out(k.insts.size(), false);
  const auto same_for_many = [&](const Expr& index) {
    const auto unused = [&](const LoopVar& v) { return !(v.extent == Expr(1)) && !index.depends_on(v.sym); };
    return std::any_of(k.outer.begin(), k.outer.end(), unused) || std::any_of(k.inner.begin(), k.inner.end(), unused);
  };
  for (size_t n = 0; n < out.size(); ++n) {
    const Inst& i = k.insts[static_cast<InstId>(n)];
    switch (i.kind) {
      case InstKind::reduce:
      case InstKind::scan: out[n] = true; break;
      case InstKind::load: out[n] = same_for_many(i.index); break;
      case InstKind::op: out[n] = std::any_of(i.args.begin(), i.args.end(), [&](InstId a) { return out[idx(a)]; }); break;
      default: break;
    }
  }
  return out;
}

}  // namespace

std::vector<bool> products_to_round(const LoopKernel& k) {
  std::vector<bool> out(k.insts.size(), false);
  const std::vector<bool> row = of_rows(k);
  const auto is_op = [&](InstId i, Op op) { return k.insts[i].kind == InstKind::op && k.insts[i].op == op; };
  const auto constant = [&](InstId i) { return k.insts[i].kind == InstKind::constant; };
  const auto has = [&](InstId i, auto&& what) { return std::any_of(k.insts[i].args.begin(), k.insts[i].args.end(), what); };
  const auto negated = [&](InstId i) {
    const auto neg = [&](InstId a) { return is_op(a, Op::neg); };
    return neg(i) || (is_op(i, Op::mul) && has(i, neg));
  };
  for (const Inst& i : k.insts) {
    if (i.kind != InstKind::op || (i.dtype != DType::f32 && i.dtype != DType::f64)) continue;
    if (i.op != Op::sub && i.op != Op::add) continue;
    if (i.op == Op::add && !negated(i.args[0]) && !negated(i.args[1])) continue;
    for (size_t a = 0; a < 2; ++a) {
      const InstId product = i.args[a], other = i.args[1 - a];
      if (!is_op(product, Op::mul) || constant(other)) continue;
      if (!has(product, constant) || (row[idx(other)] && !is_op(other, Op::mul))) out[idx(product)] = true;
    }
  }
  return out;
}

}  // namespace aotc::loop
