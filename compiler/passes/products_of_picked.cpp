#include "passes/passes.h"

#include <algorithm>
#include <numeric>

#include "base/uarch.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

/// Matrices that indices pick. first[d]: the first dim of v, which lies in the order of memory but for permutes, of dim d of the product's
/// operand; behind the last one their number.
struct Picked {
  ValueId v;
  Ints first;
  std::vector<bool> by_index;  ///< dims of v along which the indices lie
  int64_t innermost;           ///< dim of v whose elements are neighbours in memory
};

/// The dims of `from` that each dim of `to` is the product of.
std::optional<Ints> merged(const Rewriter& r, const Exprs& from, const Exprs& to) {
  Ints first;
  size_t at = 0;
  for (const Expr& e : to) {
    first.push_back(static_cast<int64_t>(at));
    if (at == from.size()) return std::nullopt;
    Expr size = from[at++];
    while (!r.same(size, e) && at < from.size()) size = r.g.syms.simplify(size * from[at++]);
    if (!r.same(size, e)) return std::nullopt;
  }
  first.push_back(static_cast<int64_t>(at));
  return at == from.size() ? std::optional(first) : std::nullopt;
}

std::optional<Picked> picked(const Rewriter& r, ValueId operand) {
  const Exprs whole = r.dims(operand);
  Picked p{operand, Ints(whole.size() + 1), {}, 0};
  std::iota(p.first.begin(), p.first.end(), int64_t{0});
  if (const Node* n = r.def(operand, Op::reshape); n && r.uses(operand) == 1) {
    const auto first = merged(r, r.dims(n->inputs[0]), whole);
    if (!first) return std::nullopt;
    p = {n->inputs[0], *first, {}, 0};
  }
  ValueId v = p.v;
  Ints at(r.dims(v).size());  // the dim of v that each of p.v is
  std::iota(at.begin(), at.end(), int64_t{0});
  const Node* n = r.g.def(v);
  for (; n && r.uses(v) == 1 && n->op != Op::index; v = n->inputs[0], n = r.g.def(v)) {
    if (n->op != Op::permute && n->op != Op::cast) return std::nullopt;
    if (n->op == Op::permute)
      for (int64_t& d : at) d = n->get<Ints>(Attr::perm)[static_cast<size_t>(d)];
  }
  if (!n || r.uses(v) != 1) return std::nullopt;
  const int64_t begin = n->get<int64_t>(Attr::out_pos), end = begin + static_cast<int64_t>(r.dims(n->inputs[1]).size());
  for (const int64_t d : at) p.by_index.push_back(begin <= d && d < end);
  p.innermost = std::find(at.begin(), at.end(), static_cast<int64_t>(at.size()) - 1) - at.begin();
  return p;
}

std::optional<ValueId> in_place(Rewriter& r, const Node& n, const CpuCosts& u) {
  if (n.op != Op::matmul) return std::nullopt;
  const DType t = r.dtype(n.outputs[0]);
  if (t != DType::f32 && t != DType::f64) return std::nullopt;
  for (const size_t side : {0, 1}) {
    const ValueId matrices = n.inputs[side], vectors = n.inputs[1 - side];
    const Exprs whole = r.dims(matrices), given = r.dims(vectors);
    if (r.dtype(matrices) != t || r.dtype(vectors) != t || whole.size() < 3 || given.size() != whole.size()) return std::nullopt;
    const size_t rows = whole.size() - 2, columns = rows + 1, terms = side == 1 ? rows : columns, kept = side == 1 ? columns : rows;
    if (!given[terms].is(1)) continue;
    const auto p = picked(r, matrices);
    if (!p) continue;
    // Lanes run along the matrices' memory, and no sum goes from one to the next.
    const auto of = [&](size_t d, int64_t x) { return p->first[d] <= x && x < p->first[d + 1]; };
    const Exprs dims = r.dims(p->v);
    Ints summed;
    for (int64_t d = p->first[terms]; d < p->first[terms + 1]; ++d) summed.push_back(d);
    if (p->by_index[p->innermost] || std::any_of(summed.begin(), summed.end(), [&](int64_t d) { return p->by_index[d]; })) continue;
    const int64_t lanes = r.g.syms.hint(dims[p->innermost]);
    if (of(terms, p->innermost) ? lanes < u.picked_product_terms : !of(kept, p->innermost) || lanes < u.picked_product_columns) continue;
    Exprs apart = dims;
    for (int64_t d = p->first[kept]; d < p->first[kept + 1]; ++d) apart[d] = 1;
    const ValueId x = r.b.expand(r.b.reshape(vectors, apart), dims);
    return r.b.reshape(r.b.reduce(ReduceKind::sum, r.b.binary(Op::mul, x, p->v), summed), r.dims(n.outputs[0]));
  }
  return std::nullopt;
}

}  // namespace

/// On CPUs, products of one row each with a matrix that the row's index picks (a relation's, an expert's, an adapter's) are multiplied and
/// summed where the matrices lie: written out for tiles they would be copied, as many elements as are multiplied.
void products_of_picked(Graph& g, PassContext& ctx) {
  Rewriter(g).sweep([&u = uarch_of(ctx.target).cpu](Rewriter& r, const Node& n) { return in_place(r, n, u); });
}

}  // namespace aotc::passes
