#include "passes/passes.h"

#include <algorithm>

#include "base/uarch.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

/// What keeps a machine busy.
struct Busy {
  int64_t many_elems;             ///< of one result; fewer are left to one thread or one block
  int64_t few_results;            ///< more are work for everybody as they are
  int64_t parts_each, parts_all;  ///< partial results of one result, of all
  int64_t least_chunk;            ///< elements of a part
};
Busy busy_with_sums(const Uarch& u) { return {u.split_many, u.split_few, u.split_parts_each, u.split_parts_all, u.split_least}; }
Busy busy_with_places(const GpuCosts& u) { return {u.place_many, u.place_few, u.place_parts_each, u.place_parts_all, u.place_least}; }

/// A power of two, so that it divides what is common.
int64_t chunks_of(const Busy& busy, int64_t elems, int64_t results) {
  const int64_t most = std::min({busy.parts_each, busy.parts_all / std::max<int64_t>(results, 1), elems / busy.least_chunk});
  int64_t chunks = 1;
  while (chunks * 2 <= most) chunks *= 2;
  return chunks;
}

// ---- sums of columns on GPUs: the reduced dims lie before one that is kept, whose elements are neighbours in memory
// -------------------------

/// What is summed as [outer, rows, columns]; the result is that over rows, and over the last `each` of columns together.
struct Columns {
  ValueId view = kNone<ValueId>;
  Expr outer = 1, rows = 1, columns = 1, each = 1;
};

/// Where a value of [n, groups, rest] is an image [n, s.., c] whose channels were brought to the front: that permuted value's dims.
std::optional<Exprs> image_of(const Rewriter& r, ValueId v) {
  for (int depth = 0; depth < 8; ++depth) {
    const Node* n = r.g.def(v);
    if (!n) return std::nullopt;
    if (n->op == Op::reshape) {
      const Node* p = r.def(n->inputs[0], Op::permute);
      if (!p) return std::nullopt;
      const Ints& perm = p->get<Ints>(Attr::perm);
      const int64_t rank = static_cast<int64_t>(perm.size());
      if (rank < 3 || perm[0] != 0 || perm[1] != rank - 1) return std::nullopt;
      for (int64_t d = 2; d < rank; ++d)
        if (perm[static_cast<size_t>(d)] != d - 1) return std::nullopt;
      return r.dims(n->inputs[0]);
    }
    if (!is_pointwise(n->op)) return std::nullopt;
    v = n->inputs[0];
  }
  return std::nullopt;
}

std::optional<Columns> columns_of(Rewriter& r, const Node& n) {
  const ValueId x = n.inputs[0];
  const Exprs in = r.dims(x);
  const Ints& dims = n.get<Ints>(Attr::dims);
  const size_t rank = in.size();
  Columns c;
  bool last = !dims.empty() && rank >= 2;  // all dims between some first ones and the last
  for (size_t i = 0; last && i < dims.size(); ++i) last = dims[dims.size() - 1 - i] == static_cast<int64_t>(rank - 2 - i);
  if (last) {
    for (size_t d = 0; d < rank - 1; ++d) (d + 1 + dims.size() < rank ? c.outer : c.rows) *= in[d];
    c.columns = in[rank - 1];
    c.view = x;
    return c;
  }
  if (rank != 3 || dims != Ints{2}) return std::nullopt;
  const auto image = image_of(r, x);
  if (!image) return std::nullopt;
  c.outer = in[0], c.columns = (*image)[1], c.rows = product(Exprs(image->begin() + 2, image->end()));
  const auto channels = c.columns.as_const(), groups = in[1].as_const();
  if (!channels || !groups || *groups < 1 || *channels % *groups != 0 || !r.same((*image)[0], in[0])) return std::nullopt;
  c.each = *channels / *groups;
  if (!r.same(c.each * c.rows, in[2])) return std::nullopt;
  c.view = r.b.permute(r.b.reshape(x, {c.outer, *groups, c.each, c.rows}), {0, 3, 1, 2});
  return c;
}

std::optional<ValueId> split_columns(Rewriter& r, const Node& n, const GpuCosts& u) {
  const auto c = columns_of(r, n);
  if (!c) return std::nullopt;
  const int64_t rows = r.g.syms.hint(c->rows), columns = r.g.syms.hint(c->columns), results = r.g.syms.hint(c->outer) * columns;
  if (rows < u.split_column_many || columns < u.split_column_few) return std::nullopt;
  if (!c->each.is(1) && rows * r.g.syms.hint(c->each) < u.split_column_group) return std::nullopt;
  int64_t parts = 1;
  while (parts * 2 * results <= u.split_column_parts && parts * 2 * u.split_column_least <= rows &&
         r.g.syms.proves_divisible(c->rows, parts * 2))
    parts *= 2;
  if (parts < 8) return std::nullopt;
  const DType given = r.dtype(n.inputs[0]), t = compute_type(given);
  const ReduceKind kind = n.reduce_kind();
  const Exprs out = r.dims(n.outputs[0]);
  Builder& b = r.b;
  const ValueId apart = b.reshape(b.cast(c->view, t), {c->outer, parts, floordiv(c->rows, parts), c->columns});
  const ValueId partial = b.reduce(kind, apart, {2});
  if (c->each.is(1)) return b.cast(b.reshape(b.reduce(kind, partial, {1}), out), given);
  const ValueId by_group = b.reshape(partial, {c->outer, parts, floordiv(c->columns, c->each), c->each});
  return b.cast(b.reshape(b.reduce(kind, by_group, {1, 3}), out), given);
}

// ---- in parts of what is reduced
// -------------------------
struct Parts {
  ValueId view;  ///< [results.., chunks, length]
  Expr length;   ///< of a part
  int64_t last;  ///< the dim of the parts
};

/// The reduced elements in `n_chunks` parts, in the type in which they are reduced, filled up with what changes nothing.
Parts parts_of(Rewriter& r, const Node& n, const Expr& count, int64_t n_chunks) {
  const ValueId x = n.inputs[0];
  const DType t = compute_type(r.dtype(x));  // what the first step leaves is not rounded to 16 bits
  const Ints reduced = n.get<Ints>(Attr::dims);
  const Exprs out = r.dims(n.outputs[0]);
  Builder& b = r.b;
  Ints perm;
  for (int64_t d = 0; d < static_cast<int64_t>(r.dims(x).size()); ++d)
    if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) perm.push_back(d);
  perm.insert(perm.end(), reduced.begin(), reduced.end());
  Exprs flat = out, padded = out, chunks = out;
  const Expr length = ceildiv(count, n_chunks);
  flat.push_back(count);
  padded.push_back(length * n_chunks);
  chunks.push_back(n_chunks);
  chunks.push_back(length);
  ValueId v = b.reshape(b.permute(b.cast(x, t), perm), flat);
  if (!r.g.syms.proves_divisible(count, n_chunks)) {
    const ReduceKind kind = n.reduce_kind(), fills = kind == ReduceKind::argmax   ? ReduceKind::max
                                                     : kind == ReduceKind::argmin ? ReduceKind::min
                                                                                  : kind;
    TensorType type{t, padded};
    v = b.make1(Op::pad, {v}, {{Attr::lo, Exprs(flat.size(), Expr(0))}, {Attr::value, neutral_element(fills, t)}}, &type);
  }
  return {b.reshape(v, chunks), length, static_cast<int64_t>(out.size())};
}

/// Where the largest is: of the parts' largest the first, and its place there.
ValueId place_of(Rewriter& r, const Node& n, const Parts& p) {
  Builder& b = r.b;
  const ReduceKind arg = n.reduce_kind(), kind = arg == ReduceKind::argmax ? ReduceKind::max : ReduceKind::min;
  const ValueId best = b.reduce(kind, p.view, {p.last + 1}), within = b.reduce(arg, p.view, {p.last + 1});
  Exprs one = r.dims(n.outputs[0]);
  one.push_back(1);
  const Exprs all = b.dims(within);
  const ValueId part = b.expand(b.reshape(b.reduce(arg, best, {p.last}), one), all);
  const ValueId number = b.iota(all, static_cast<int>(p.last)),
                length = b.expand(b.reshape(b.sym(p.length), Exprs(all.size(), Expr(1))), all);
  const ValueId place = b.binary(Op::add, b.binary(Op::mul, number, length), within);
  return b.reduce(ReduceKind::sum, b.where(b.binary(Op::eq, number, part), place, b.like(place, 0)), {p.last});
}

}  // namespace

/// A reduction of many elements to a few results goes in two steps, so that all threads, or the blocks of a GPU, work on it: partial
/// results of a fixed number of chunks (the result does not depend on the number of threads), then the result of those. Where the
/// largest is goes so on GPUs only.
void split_reductions(Graph& g, PassContext& ctx) {
  const bool blocks = ctx.target.traits().reduces_in_blocks;
  const Uarch& u = uarch_of(ctx.target);
  Rewriter(g).sweep([blocks, &u](Rewriter& r, const Node& n) -> std::optional<ValueId> {
    if (n.op != Op::reduce) return std::nullopt;
    const ReduceKind kind = n.reduce_kind();
    const bool arg = kind == ReduceKind::argmax || kind == ReduceKind::argmin;
    if (arg && !blocks) return std::nullopt;
    if (blocks && !arg)
      if (const auto split = split_columns(r, n, u.gpu)) return split;
    const Busy busy = arg ? busy_with_places(u.gpu) : busy_with_sums(u);
    Expr count = 1;
    for (int64_t d : n.get<Ints>(Attr::dims)) count *= r.dims(n.inputs[0])[static_cast<size_t>(d)];
    const int64_t elems = r.g.syms.hint(count), results = r.g.syms.hint(product(r.dims(n.outputs[0])));
    if (elems < busy.many_elems || results > busy.few_results) return std::nullopt;
    const int64_t n_chunks = chunks_of(busy, elems, results);
    if (n_chunks < 2) return std::nullopt;
    const Parts parts = parts_of(r, n, count, n_chunks);
    if (arg) return place_of(r, n, parts);
    return r.b.cast(r.b.reduce(kind, r.b.reduce(kind, parts.view, {parts.last + 1}), {parts.last}), r.dtype(n.inputs[0]));
  });
}

}  // namespace aotc::passes
