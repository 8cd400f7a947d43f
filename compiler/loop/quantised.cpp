#include "loop/quantised.h"

#include <array>

#include "aotc/detail/library_abi.h"

namespace aotc::loop {
namespace {

class Finder {
 public:
  Finder(const MatmulKernel& k, const ByteRange& range)
      : k_(k), e_(*k.b.prologue), range_(range), row_(Expr::symbol(e_.outer.back().sym)), column_(Expr::symbol(e_.inner[0].sym)) {}

  std::optional<QuantisedWeight> run() {
    const auto rows = k_.k.as_const(), columns = k_.n.as_const();
    if (!rows || !columns || *rows == 0) return std::nullopt;
    rows_ = *rows, columns_ = *columns;
    InstId whole = kNone<InstId>;
    for (const Inst& i : e_.insts)
      if (i.kind == InstKind::store) whole = i.args[0];
    if (k_.in != DType::f32) {
      if (inst(whole).kind != InstKind::op || inst(whole).op != Op::cast || inst(whole).dtype != k_.in) return std::nullopt;
      whole = inst(whole).args[0];
    }
    if (const auto sum = parts(whole, Op::add))
      for (const size_t first : {0, 1})
        if (const auto q = product((*sum)[first], (*sum)[1 - first])) return q;
    if (const auto q = product(whole, std::nullopt)) return q;
    return k_.in == DType::f32 ? halves(whole) : std::nullopt;
  }

 private:
  using Pair = std::array<InstId, 2>;

  const Inst& inst(InstId i) const { return e_.insts[i]; }
  std::optional<Pair> parts(InstId i, Op op) const {
    const Inst& x = inst(i);
    if (x.kind != InstKind::op || x.op != op || x.dtype != DType::f32) return std::nullopt;
    return Pair{x.args[0], x.args[1]};
  }
  /// The load of which `i` is the value as a float.
  const Inst* loaded(InstId i) const {
    while (inst(i).kind == InstKind::op && inst(i).op == Op::cast && inst(i).dtype == DType::f32) i = inst(i).args[0];
    return inst(i).kind == InstKind::load && inst(i).mask == kNone<InstId> ? &inst(i) : nullptr;
  }
  bool same(const Expr& a, const Expr& b) const { return a == b || e_.syms.proves_eq(a, b); }

  std::optional<QuantisedWeight> halves(InstId i) const {
    const Inst* values = loaded(i);
    if (!values || k_.params[values->param].dtype != DType::bf16 || !same(values->index, column_ * rows_ + row_)) return std::nullopt;
    return QuantisedWeight{values->param, kNone<ParamId>, kNone<ParamId>, rows_, 16};
  }

  std::optional<QuantisedWeight> product(InstId i, std::optional<InstId> offset) const {
    const auto factors = parts(i, Op::mul);
    if (!factors) return std::nullopt;
    for (const size_t first : {0, 1}) {
      const Inst *values = loaded((*factors)[first]), *scales = loaded((*factors)[1 - first]), *more = offset ? loaded(*offset) : nullptr;
      if (!values || !scales || (offset && !more)) continue;
      QuantisedWeight q{values->param, scales->param, more ? more->param : kNone<ParamId>, 0, 0};
      q.bits = bits_of(*values);
      const Grouped by = grouped(*scales);
      q.group = by.group, q.by_column = by.by_column;
      const auto type = [&](const Inst& load) { return k_.params[load.param].dtype; };
      if (q.bits && q.group && (!more || (grouped(*more) == by && type(*more) == type(*scales)))) return q;
    }
    return std::nullopt;
  }

  int bits_of(const Inst& load) const {
    const DType t = k_.params[load.param].dtype;
    if ((t != DType::i8 && t != DType::u8 && t != DType::f8e4m3fn) || !same(load.index, column_ * rows_ + row_)) return 0;
    if (t == DType::f8e4m3fn) return 8;
    const auto range = range_(load.param);
    if (range && range->first >= 0 && range->second < 16) return 4;
    return t == DType::i8 ? 8 : 0;
  }

  /// How a parameter of scales lies; a group of 0: it is none.
  struct Grouped {
    int64_t group = 0;
    bool by_column = false;
    friend bool operator==(const Grouped&, const Grouped&) = default;
  };
  Grouped grouped(const Inst& load) const {
    const Param& p = k_.params[load.param];
    if (!is_half(p.dtype) && p.dtype != DType::f32) return {};
    if (same(load.index, column_)) return {rows_, is_half(k_.in)};
    const auto elems = product_of(p.dims).as_const();
    if (!elems || *elems % columns_ != 0) return {};
    const int64_t groups = *elems / columns_;
    for (int64_t g = AOTC_QUANT_BLOCK; g < rows_; g += AOTC_QUANT_BLOCK) {
      if ((rows_ + g - 1) / g != groups) continue;
      if (same(load.index, floordiv(row_, g) * columns_ + column_)) return {g, false};
      if (same(load.index, column_ * groups + floordiv(row_, g))) return {g, true};
    }
    return {};
  }
  static Expr product_of(const Exprs& dims) {
    Expr n = 1;
    for (const Expr& d : dims) n *= d;
    return n;
  }

  const MatmulKernel& k_;
  const LoopKernel& e_;
  const ByteRange& range_;
  const Expr row_, column_;
  int64_t rows_ = 0, columns_ = 0;
};

}  // namespace

std::optional<QuantisedWeight> find_quantised(const MatmulKernel& k, const ByteRange& range, bool halves) {
  if (!k.b.prologue || k.b.prologue->inner.size() != 1) return std::nullopt;
  if (k.in != DType::f32 && !(halves && is_half(k.in))) return std::nullopt;
  return Finder(k, range).run();
}

QuantisedWeight with_params(QuantisedWeight q, const std::vector<ParamId>& to) {
  for (ParamId* p : {&q.values, &q.scales, &q.offsets})
    if (*p != kNone<ParamId>) *p = to.at(idx(*p));
  return q;
}

bool same_format(const QuantisedWeight& a, const IdVec<ParamId, Param>& of_a, const QuantisedWeight& b, const IdVec<ParamId, Param>& of_b) {
  const std::array<ParamId, 3> x = params_of(a), y = params_of(b);
  for (size_t i = 0; i < x.size(); ++i) {
    if (of_a.contains(x[i]) != of_b.contains(y[i])) return false;
    if (of_a.contains(x[i]) && of_a[x[i]].dtype != of_b[y[i]].dtype) return false;
  }
  return a.bits == b.bits && a.group == b.group && a.by_column == b.by_column;
}

}  // namespace aotc::loop
