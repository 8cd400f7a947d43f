#include "passes/passes.h"

#include <algorithm>
#include <numeric>

#include "base/uarch.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

/// The dim of the memory that dim d of v walks along, as one of the tensor that views show.
std::optional<bool> lies_last(const Rewriter& r, ValueId v, int64_t d) {
  for (;;) {
    const Exprs dims = r.dims(v);
    const Node* n = r.g.def(v);
    if (!n || !is_view(n->op)) return std::all_of(dims.begin() + d + 1, dims.end(), [](const Expr& e) { return e.is(1); });
    const ValueId x = n->inputs[0];
    switch (n->op) {
      case Op::permute: d = n->get<Ints>(Attr::perm)[static_cast<size_t>(d)]; break;
      case Op::expand:
        if (!r.same(r.dims(x)[d], dims[d])) return std::nullopt;
        break;
      case Op::slice:
        if (n->get<int64_t>(Attr::dim) == d && n->get<int64_t>(Attr::step) != 1) return std::nullopt;
        break;
      case Op::reshape: {
        const Exprs from = r.dims(x);
        const Expr after = r.g.syms.simplify(product(Exprs(dims.begin() + d + 1, dims.end())));
        int64_t at = static_cast<int64_t>(from.size()) - 1;
        Expr inner = 1;
        while (at > 0 && (from[at].is(1) || !r.same(inner, after))) inner = r.g.syms.simplify(inner * from[at--]);
        if (!r.same(inner, after) || !r.same(from[at], dims[d])) return std::nullopt;
        d = at;
        break;
      }
      default: return std::nullopt;
    }
    v = x;
  }
}

struct Sizes {
  int64_t m, k, n;
};

bool worth_it(const Sizes& s, const CpuCosts& u) {
  const double macs = static_cast<double>(s.m * s.k * s.n), copied = static_cast<double>(s.m * s.k + s.k * s.n);
  return std::min(s.m, s.n) <= u.small_shared &&
         macs * u.small_lane_mac_ns < macs * u.small_tile_mac_ns + copied * u.small_copied_ns + u.small_product_ns;
}

std::optional<ValueId> in_lanes(Rewriter& r, const Node& n, const CpuCosts& u) {
  const auto operands = float_operands(r, n);
  if (!operands) return std::nullopt;
  const auto [a, b] = *operands;
  const Exprs da = r.dims(a), db = r.dims(b);
  const int64_t batch = static_cast<int64_t>(da.size()) - 2;
  if (batch < 1 || db.size() != da.size() || r.g.syms.hint(da[batch - 1]) < u.small_lanes) return std::nullopt;
  const Expr m = da[batch], k = da[batch + 1], columns = db[batch + 1];
  if (k.is(0) || !worth_it({r.g.syms.hint(m), r.g.syms.hint(k), r.g.syms.hint(columns)}, u)) return std::nullopt;
  for (const ValueId v : {a, b})
    if (!lies_last(r, v, batch - 1).value_or(false)) return std::nullopt;
  Ints last = {batch, batch + 1}, back;
  for (int64_t d = 0; d < batch; ++d) last.push_back(d), back.push_back(d + 2);
  back.insert(back.end(), {0, 1});
  Exprs whole = {m, k, columns}, left = {m, k, 1}, right = {1, k, columns};
  for (Exprs* e : {&whole, &left, &right}) e->insert(e->end(), da.begin(), da.begin() + batch);
  const ValueId x = r.b.expand(r.b.reshape(r.b.permute(a, last), left), whole);
  const ValueId y = r.b.expand(r.b.reshape(r.b.permute(b, last), right), whole);
  return r.b.permute(r.b.reduce(ReduceKind::sum, r.b.binary(Op::mul, x, y), {1}), back);
}

/// A matrix times a vector, where the matrix is read along its columns: each element is needed once, so there is nothing for tiles to keep
/// in registers, and all that they copy is in vain. The matrix's rows get the lanes.
std::optional<ValueId> along_columns(Rewriter& r, const Node& n, const CpuCosts& u) {
  const auto operands = float_operands(r, n);
  if (!operands) return std::nullopt;
  const auto [a, b] = *operands;
  Exprs whole = r.dims(a);
  const int64_t rows = static_cast<int64_t>(whole.size()) - 2, k = rows + 1;
  const Exprs db = r.dims(b);
  if (rows < 0 || db.size() != whole.size() || !db.back().is(1) || whole[k].is(0) || whole[k].is(1)) return std::nullopt;
  if (r.g.syms.hint(whole[rows]) < u.small_lanes || r.g.syms.hint(whole[k]) > u.small_terms) return std::nullopt;
  if (!lies_last(r, a, rows).value_or(false)) return std::nullopt;
  Ints turn(whole.size());
  std::iota(turn.begin(), turn.end(), int64_t{0});
  std::swap(turn[rows], turn[k]);
  std::swap(whole[rows], whole[k]);
  const ValueId x = r.b.permute(a, turn), y = r.b.expand(b, whole);
  return r.b.reshape(r.b.reduce(ReduceKind::sum, r.b.binary(Op::mul, x, y), {rows}), r.dims(n.outputs[0]));
}

}  // namespace

/// On CPUs, batched products of small matrices whose elements are neighbours in memory of the same elements of the next product (the
/// batch's dims lie last: spectra times weights a mode) are multiplied and summed with a lane for each product; copying them into the rows
/// that tiles read would take longer. So are matrices that are read along their columns, times a vector, the terms of a sum being few.
void products_in_lanes(Graph& g, PassContext& ctx) {
  Rewriter rewriter(g);
  const CpuCosts& u = uarch_of(ctx.target).cpu;
  rewriter.sweep([&](Rewriter& r, const Node& n) { return in_lanes(r, n, u); });
  rewriter.sweep([&](Rewriter& r, const Node& n) { return along_columns(r, n, u); });
}

}  // namespace aotc::passes
