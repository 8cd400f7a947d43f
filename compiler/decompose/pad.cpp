// Padding. Modes other than constant read through computed indices.
#include "decompose/families.h"
#include "decompose/tensor.h"

namespace aotc::decompose {
namespace {

struct Amount {
  int dim;
  Expr lo, hi;
};

/// The list of pads goes from the last dim backwards, (lo, hi) each.
std::vector<Amount> amounts(Rule& r, const T& x, std::string_view name) {
  const std::vector<Expr> p = r.syms(name);
  const int last = x.rank() - (r.pairs ? 2 : 1);
  std::vector<Amount> out;
  for (size_t i = 0; i + 1 < p.size(); i += 2) out.push_back({last - static_cast<int>(i / 2), p[i], p[i + 1]});
  return out;
}

void constant(Rule& r, const T& x, const std::vector<Amount>& pads, double value) {
  SymTable& s = r.b.syms();
  std::vector<Expr> lo(static_cast<size_t>(x.rank()), Expr(0)), hi = lo;
  T y = x;
  for (const Amount& a : pads) {
    Expr l = s.simplify(a.lo), h = s.simplify(a.hi);
    const Expr cut_l = r.negative(l, "a pad") ? -l : Expr(0), cut_h = r.negative(h, "a pad") ? -h : Expr(0);
    if (!cut_l.is(0) || !cut_h.is(0)) y = y.slice(a.dim, cut_l, s.simplify(y.dim(a.dim) - cut_l - cut_h));
    lo[static_cast<size_t>(a.dim)] = cut_l.is(0) ? l : Expr(0);
    hi[static_cast<size_t>(a.dim)] = cut_h.is(0) ? h : Expr(0);
  }
  r.set(r.b.pad(y, lo, hi, value));
}

enum class Mode { reflect, replicate, circular };

void indexed(Rule& r, const T& x, const std::vector<Amount>& pads, Mode mode) {
  T y = x;
  for (const Amount& a : pads) {
    if (a.lo.is(0) && a.hi.is(0)) continue;
    const Expr n = y.dim(a.dim);
    const T size = scalar_of(r.b, n, DType::i64), top = size - 1.0;
    // Only elements of the tensor are repeated, each at most once.
    for (const Expr& by : {a.lo, a.hi})
      if (mode != Mode::replicate) r.b.require(ShapeGuard::Kind::le, by + int64_t{mode == Mode::reflect}, n, "a pad");
    T i = iota(r.b, {r.b.syms().simplify(n + a.lo + a.hi)}, 0) - scalar_of(r.b, a.lo, DType::i64);
    if (mode == Mode::reflect) i = top - abs(top - abs(i));
    if (mode == Mode::replicate) i = minimum(maximum(i, 0.0), top);
    if (mode == Mode::circular) i = binary(Op::remainder, i, size);
    y = {r.b, r.b.index(y, {i}, {a.dim}, a.dim)};
  }
  r.set(y);
}

void constant_pad_nd(Rule& r) {
  const T x = tensor(r, "self");
  const double value = r.number_or("value", 0.0);
  if (r.pairs && value != 0.0) r.refuse("padding a complex tensor with a number that is not zero");
  constant(r, x, amounts(r, x, "pad"), value);
}

template <Mode mode>
void pad_nd(Rule& r) {
  const T x = tensor(r, "self");
  indexed(r, x, amounts(r, x, r.has("padding") ? "padding" : "pad"), mode);
}

void pad(Rule& r) {
  const std::string mode = r.text("mode");
  if (mode == "constant") return constant_pad_nd(r);
  if (mode == "reflect") return pad_nd<Mode::reflect>(r);
  if (mode == "replicate") return pad_nd<Mode::replicate>(r);
  if (mode == "circular") return pad_nd<Mode::circular>(r);
  r.refuse(fmt::format("pad mode '{}' is not supported", mode));
}

constexpr RuleRow kRows[] = {
    {"aten.constant_pad_nd.default", constant_pad_nd},           {"aten.pad.default", pad},
    {"aten.reflection_pad1d.default", pad_nd<Mode::reflect>},    {"aten.reflection_pad2d.default", pad_nd<Mode::reflect>},
    {"aten.reflection_pad3d.default", pad_nd<Mode::reflect>},    {"aten.replication_pad1d.default", pad_nd<Mode::replicate>},
    {"aten.replication_pad2d.default", pad_nd<Mode::replicate>}, {"aten.replication_pad3d.default", pad_nd<Mode::replicate>},
    {"aten._pad_circular.default", pad_nd<Mode::circular>},
};
}  // namespace

RuleTable pad_rules() { return kRows; }

}  // namespace aotc::decompose
