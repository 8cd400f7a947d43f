// Padding. Modes other than constant read through computed indices.
#include "decompose/families.h"
#include "decompose/resize.h"
#include "graph/infer.h"

namespace aotc::decompose {

std::vector<PadAmount> pad_amounts(Rule& r, int rank, std::string_view name) {
  const std::vector<Expr> p = r.syms(name);
  const int last = rank - (r.pairs ? 2 : 1);
  if (p.size() % 2 != 0 || static_cast<int>(p.size() / 2) > last + 1)
    throw r.fault(fmt::format("{} amounts for {} dims", p.size(), last + 1));
  std::vector<PadAmount> out;
  for (size_t i = 0; i + 1 < p.size(); i += 2) out.push_back({last - static_cast<int>(i / 2), p[i], p[i + 1]});
  return out;
}

T pad_index(Rule& r, const PadAmount& a, const Expr& n, PadMode mode) {
  const T size = scalar_of(r.b, n, DType::i64), top = size - 1.0;
  // Only elements of the tensor are repeated, each at most once.
  for (const Expr& by : {a.lo, a.hi})
    if (mode != PadMode::replicate) r.b.require(ShapeGuard::Kind::le, by + int64_t{mode == PadMode::reflect}, n, "a pad");
  const T i = iota(r.b, {r.b.syms().simplify(n + a.lo + a.hi)}, 0) - scalar_of(r.b, a.lo, DType::i64);
  if (mode == PadMode::reflect) return top - abs(top - abs(i));
  if (mode == PadMode::replicate) return minimum(maximum(i, 0.0), top);
  return binary(Op::remainder, i, size);
}

namespace {

/// x without what negative amounts cut off; those are 0 then. An amount that pads at some sizes and cuts at others does both, one of them
/// by nothing.
T cut(Rule& r, const T& x, std::vector<PadAmount>& pads) {
  SymTable& s = r.b.syms();
  const auto take_cut = [&](Expr& by) -> Expr {
    by = s.simplify(by);
    if (holds(r.b.graph(), ShapeGuard::Kind::le, 0, by)) return 0;
    const Expr added = holds(r.b.graph(), ShapeGuard::Kind::le, by, 0) ? Expr(0) : max(by, 0), off = added - by;
    by = added;
    return off;
  };
  T y = x;
  for (PadAmount& a : pads) {
    const Expr lo = take_cut(a.lo), hi = take_cut(a.hi);
    if (!lo.is(0) || !hi.is(0)) y = y.slice(a.dim, lo, s.simplify(y.dim(a.dim) - lo - hi));
  }
  return y;
}

void constant(Rule& r, const T& x, std::vector<PadAmount> pads, double value) {
  std::vector<Expr> lo(static_cast<size_t>(x.rank()), Expr(0)), hi = lo;
  const T y = cut(r, x, pads);
  for (const PadAmount& a : pads) {
    lo[static_cast<size_t>(a.dim)] = a.lo;
    hi[static_cast<size_t>(a.dim)] = a.hi;
  }
  r.set(r.b.pad(y, lo, hi, value));
}

void indexed(Rule& r, const T& x, std::vector<PadAmount> pads, PadMode mode) {
  // What a side repeats of the other is taken after the cut; the other modes' indices see the whole tensor.
  T y = mode == PadMode::circular ? cut(r, x, pads) : x;
  for (const PadAmount& a : pads)
    if (!a.lo.is(0) || !a.hi.is(0)) y = {r.b, r.b.index(y, {pad_index(r, a, y.dim(a.dim), mode)}, {a.dim}, a.dim)};
  r.set(y);
}

void constant_pad_nd(Rule& r) {
  const T x = tensor(r, "self");
  const double value = r.number_or("value", 0.0);
  if (r.pairs && value != 0.0) r.refuse("padding a complex tensor with a number that is not zero");
  constant(r, x, pad_amounts(r, x.rank(), "pad"), value);
}

template <PadMode mode>
void pad_nd(Rule& r) {
  const T x = tensor(r, "self");
  indexed(r, x, pad_amounts(r, x.rank(), r.has("padding") ? "padding" : "pad"), mode);
}

void pad(Rule& r) {
  const std::string mode = r.text("mode");
  if (mode == "constant") return constant_pad_nd(r);
  if (mode == "reflect") return pad_nd<PadMode::reflect>(r);
  if (mode == "replicate") return pad_nd<PadMode::replicate>(r);
  if (mode == "circular") return pad_nd<PadMode::circular>(r);
  r.refuse(fmt::format("pad mode '{}' is not supported", mode));
}

constexpr RuleRow kRows[] = {
    {"aten.constant_pad_nd.default", constant_pad_nd},
    {"aten.pad.default", pad},
    {"aten.reflection_pad1d.default aten.reflection_pad2d.default aten.reflection_pad3d.default", pad_nd<PadMode::reflect>},
    {"aten.replication_pad1d.default aten.replication_pad2d.default aten.replication_pad3d.default", pad_nd<PadMode::replicate>},
    {"aten._pad_circular.default", pad_nd<PadMode::circular>},
};
}  // namespace

RuleTable pad_rules() { return kRows; }

}  // namespace aotc::decompose
