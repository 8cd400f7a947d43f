#include "passes/passes.h"

#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

/// Whole rows of a matrix, by one list of indices.
bool by_row(const Rewriter& r, const Node& n, size_t first_index) {
  return n.inputs.size() == first_index + 1 && r.dims(n.inputs[0]).size() == 2 && r.dims(n.inputs[first_index]).size() == 1 &&
         n.get<Ints>(Attr::dims) == Ints{0} && n.get<int64_t>(Attr::out_pos) == 0;
}

/// Indices [n] that were repeated for every element of the rows that they name, if so.
std::optional<ValueId> repeated_index(Rewriter& r, ValueId index, const Exprs& rows) {
  const Node* e = r.def(index, Op::expand);
  const Exprs dims = r.dims(index);
  if (!e || dims.size() < 2 || rows.size() != dims.size()) return std::nullopt;
  const Exprs given = r.dims(e->inputs[0]);
  for (size_t d = 1; d < dims.size(); ++d)
    if (given.size() != dims.size() || !given[d].is(1) || !r.same(dims[d], rows[d])) return std::nullopt;
  if (!r.same(given[0], dims[0])) return std::nullopt;
  return r.b.reshape(e->inputs[0], {dims[0]});
}

/// Sums scattered row by row. An index below zero stays a fault: it names no row.
std::optional<ValueId> rows_scattered(Rewriter& r, const Node& n) {
  if (n.op != Op::scatter || n.get<int64_t>(Attr::dim) != 0 || n.get<std::string>(Attr::reduce) != "sum" ||
      !n.get<bool>(Attr::include_self))
    return std::nullopt;
  const ValueId x = n.inputs[0], rows = n.inputs[2];
  const DType t = r.dtype(x);
  if (t != DType::f32 && t != DType::f64) return std::nullopt;
  const auto index = repeated_index(r, n.inputs[1], r.dims(x));
  if (!index || r.dims(rows) != r.dims(n.inputs[1])) return std::nullopt;
  const auto number = [&](const Expr& e) { return r.b.expand(r.b.sym(e), r.dims(*index)); };
  const ValueId low = r.b.binary(Op::lt, *index, number(0)), at = r.b.where(low, number(r.dims(x)[0]), *index);
  return r.b.make1(Op::index_put, {x, rows, at}, {{Attr::dims, Ints{0}}, {Attr::out_pos, int64_t{0}}, {Attr::accumulate, true}});
}

/// Of places [r] that count, along `of`, how many of the numbers `begins` [n] were met, less one: these numbers, all along x's rows.
std::optional<ValueId> beginnings(Rewriter& r, ValueId places, const Expr& rows) {
  const Node* less = r.def(places, Op::sub);
  if (!less || splat_int(r.g, less->inputs[1]) != 1) return std::nullopt;
  const Node* cut = r.def(less->inputs[0], Op::slice);
  if (!cut || !cut->get<Expr>(Attr::start).is(0) || cut->get<int64_t>(Attr::step) != 1) return std::nullopt;
  const Node* sums = r.def(cut->inputs[0], Op::scan);
  if (!sums || sums->get<std::string>(Attr::kind) != "sum") return std::nullopt;
  const Node* met = r.def(sums->inputs[0], Op::index_put);
  if (!met || !met->get<bool>(Attr::accumulate) || met->inputs.size() != 3 || r.dims(met->inputs[0]).size() != 1) return std::nullopt;
  if (splat_int(r.g, met->inputs[0]) != 0 || splat_int(r.g, met->inputs[1]) != 1) return std::nullopt;
  const Exprs counted = r.dims(met->inputs[0]), begins = r.dims(met->inputs[2]);
  const bool behind = r.same(counted[0], r.dims(places)[0] + 1);  // one may begin behind the last
  if (!behind || begins.size() != 1 || !r.same(begins[0], rows) || !r.g.syms.proves_le(1, rows)) return std::nullopt;
  return met->inputs[2];
}

/// Numbers [r] that were repeated along rows [r, d].
std::optional<ValueId> row_factors(Rewriter& r, ValueId v, const Exprs& rows) {
  const Node* e = r.def(v, Op::expand);
  if (!e) return std::nullopt;
  const Exprs given = r.dims(e->inputs[0]);
  if (given.size() != 2 || !r.same(given[0], rows[0]) || !given[1].is(1)) return std::nullopt;
  return r.b.reshape(e->inputs[0], {rows[0]});
}

/// The picked rows that v is, or, where `widened`, whose float32 it is.
const Node* picked_rows(Rewriter& r, ValueId v, bool widened) {
  if (const Node* rows = r.def(v, Op::index)) return rows;
  const Node* wide = widened ? r.def(v, Op::cast) : nullptr;
  const bool floats = wide && is_half(r.dtype(wide->inputs[0])) && r.dtype(v) == DType::f32;
  return floats && r.uses(wide->inputs[0]) == 1 ? r.def(wide->inputs[0], Op::index) : nullptr;
}

/// bags_only: where rows say where their indices begin; then the table may be of 16 bits.
std::optional<ValueId> rows_added(Rewriter& r, const Node& n, bool bags_only) {
  if (n.op != Op::index_put || !by_row(r, n, 2) || !n.get<bool>(Attr::accumulate) || r.uses(n.inputs[1]) != 1) return std::nullopt;
  const DType t = r.dtype(n.inputs[0]);
  const Node* rows = picked_rows(r, n.inputs[1], bags_only);
  std::optional<ValueId> factors;
  if (const Node* product = r.def(n.inputs[1], Op::mul))
    for (const size_t side : {0, 1}) {
      const ValueId picked = product->inputs[side];
      if (rows || !picked_rows(r, picked, bags_only) || r.uses(picked) != 1) continue;
      factors = row_factors(r, product->inputs[1 - side], r.dims(picked));
      if (factors) rows = picked_rows(r, picked, bags_only);
      break;
    }
  if ((t != DType::f32 && t != DType::f64) || !rows || !by_row(r, *rows, 1)) return std::nullopt;
  const ValueId x = n.inputs[0], table = rows->inputs[0], from = rows->inputs[1];
  const auto begins = beginnings(r, n.inputs[2], r.dims(x)[0]);
  if (bags_only && !begins) return std::nullopt;
  std::vector<ValueId> in = {x, table, from, begins.value_or(n.inputs[2])};
  if (factors) in.push_back(*factors);
  return r.b.make1(Op::add_rows, in, {{Attr::begins, begins.has_value()}});
}

/// A table of 16 bits: its rows are picked and widened first.
std::optional<ValueId> rows_widened(Rewriter& r, const Node& n) {
  if (n.op != Op::add_rows || r.dtype(n.inputs[1]) == r.dtype(n.inputs[0])) return std::nullopt;
  const ValueId x = n.inputs[0], table = n.inputs[1], from = n.inputs[2], to = n.inputs[3];
  const auto attrs = n.attrs;
  const ValueId rows = r.b.cast(r.b.index(table, {from}, {0}, 0), r.dtype(x)), each = r.b.iota(r.dims(from), 0);
  return r.b.make1(Op::add_rows, {x, rows, each, to}, attrs);
}

}  // namespace

/// Sums that are scattered by one index a row are put row by row. Rows that are picked from a table only to be added to rows elsewhere
/// (bags of embeddings) are added straight from it; on GPUs where the rows say where their indices begin.
void add_picked_rows(Graph& g, PassContext& ctx) {
  Rewriter::run(g, rows_scattered);
  const bool bags_only = ctx.target.traits().rows_of_bags;
  if (!bags_only) Rewriter::run(g, rows_widened);
  Rewriter::run(g, [bags_only](Rewriter& r, const Node& n) { return rows_added(r, n, bags_only); });
}

}  // namespace aotc::passes
