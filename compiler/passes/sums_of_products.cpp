#include "passes/passes.h"

#include <algorithm>

#include "base/uarch.h"
#include "graph/infer.h"
#include "passes/repeats.h"

namespace aotc::passes {
namespace {

constexpr size_t kMostFactors = 5;

using Found = std::optional<ValueId>;

/// A factor as it is multiplied, and the dims along which it is not the same.
struct Factor {
  ValueId value;
  std::vector<bool> has;
};

/// What is summed: a value of the dims of its factors, and which of them its reader sums and keeps.
struct Sum {
  ValueId value = kNone<ValueId>;
  std::vector<bool> summed;   ///< for each dim of value
  std::vector<int64_t> kept;  ///< dims of value for the dims of the result; -1: of size 1
};

/// Where dims of `from` stand in `to`, which has the same dims but for those of size 1; -1 for these. Nothing where it has others.
std::optional<std::vector<int64_t>> places_of(const Rewriter& r, const Exprs& from, const Exprs& to) {
  std::vector<int64_t> at;
  size_t j = 0;
  for (const Expr& e : from) {
    while (!e.is(1) && j < to.size() && to[j].is(1)) ++j;
    if (!e.is(1) && (j == to.size() || !r.same(e, to[j]))) return {};
    at.push_back(e.is(1) ? -1 : static_cast<int64_t>(j++));
  }
  while (j < to.size() && to[j].is(1)) ++j;
  return j == to.size() ? std::optional(at) : std::nullopt;
}

/// The sum of n's operand, seen through what moves dims and widens halves: between it and the value nobody else reads.
std::optional<Sum> summed_value(const Rewriter& r, const Node& n) {
  ValueId v = n.inputs[0];
  std::vector<int64_t> at(r.dims(v).size());  // the dim of v for each dim of n's operand
  for (size_t i = 0; i < at.size(); ++i) at[i] = r.dims(v)[i].is(1) ? -1 : static_cast<int64_t>(i);
  for (const Node* x = r.g.def(v); x && r.uses(v) == 1; x = r.g.def(v)) {
    const ValueId from = x->inputs.empty() ? v : x->inputs[0];
    std::vector<int64_t> moved;
    if (x->op == Op::permute) {
      moved = x->get<Ints>(Attr::perm);
    } else if (x->op == Op::reshape) {
      const auto to = places_of(r, r.dims(v), r.dims(from));
      if (!to) break;
      moved = *to;
    } else if (x->op != Op::cast || !is_half(r.dtype(from)) || r.dtype(v) != DType::f32) {
      break;
    }
    for (int64_t& d : at)
      if (d >= 0 && !moved.empty()) d = moved[static_cast<size_t>(d)];
    v = from;
  }
  Sum s{v, std::vector<bool>(r.dims(v).size()), {}};
  const Ints& over = n.get<Ints>(Attr::dims);
  for (size_t i = 0; i < at.size(); ++i) {
    if (!std::binary_search(over.begin(), over.end(), static_cast<int64_t>(i)))
      s.kept.push_back(at[i]);
    else if (at[i] >= 0)
      s.summed[static_cast<size_t>(at[i])] = true;
  }
  return s;
}

/// The factors of v; `whole`: v itself, whose product nobody but the sum reads.
void add_factors(const Rewriter& r, ValueId v, bool whole, std::vector<Factor>& out) {
  const Node* n = r.def(v, Op::mul);
  if (n && (whole || r.uses(v) == 1)) {
    for (const ValueId u : Node(*n).inputs) add_factors(r, u, false, out);
    return;
  }
  std::vector<bool> has = repeats(r.g, v);
  for (size_t d = 0; d < has.size(); ++d) has[d] = !has[d] && !r.g.type(v).dims[d].is(1);
  out.push_back({v, std::move(has)});
}

/// Factors by operand: 0 and 1; 2 multiplies the result.
struct Sides {
  std::vector<int> side;
  std::vector<bool> has[2];  ///< dims of each operand
  int64_t elems = 0;         ///< of both
};

bool in_both(const Sides& s, size_t d) { return s.has[0][d] && s.has[1][d]; }

/// What the split multiplies as matrices; nothing where that is no gain.
std::optional<Sides> gains(const Rewriter& r, const Uarch& u, const Sum& s, const std::vector<Factor>& factors, std::vector<int> side) {
  const Exprs& dims = r.g.type(s.value).dims;
  Sides split{std::move(side), {}, 0};
  for (int i = 0; i < 2; ++i) {
    split.has[i].assign(dims.size(), false);
    for (size_t f = 0; f < factors.size(); ++f)
      for (size_t d = 0; d < dims.size() && split.side[f] == i; ++d) split.has[i][d] = split.has[i][d] || factors[f].has[d];
  }
  int64_t terms = 1, batch = 1, rows = 1, columns = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].is(1)) continue;
    if (s.summed[d] && !in_both(split, d)) return {};
    const int64_t size = std::max<int64_t>(1, r.g.syms.hint(dims[d]));
    if (in_both(split, d))
      (s.summed[d] ? terms : batch) *= size;
    else if (split.has[0][d])
      rows *= size;
    else if (split.has[1][d])
      columns *= size;
  }
  size_t last = dims.size();
  while (last > 0 && dims[last - 1].is(1)) --last;
  const bool along_lanes = last > 0 && s.summed[last - 1];  // then a loop adds up the lanes of a vector for each result
  if (terms < u.product_terms * (along_lanes ? 1 : 2) || rows * columns < u.product_reads * (rows + columns)) return {};
  split.elems = batch * terms * (rows + columns);
  return split;
}

/// The split with the smallest operands; first among those that multiply all factors into one of them.
std::optional<Sides> best_split(const Rewriter& r, const Uarch& u, const Sum& s, const std::vector<Factor>& factors) {
  for (const bool outside : {false, true}) {
    std::optional<Sides> best;
    std::vector<size_t> inside;
    std::vector<int> side(factors.size(), 0);
    for (size_t f = 0; f < factors.size(); ++f) {
      bool summed = false;
      for (size_t d = 0; d < s.summed.size(); ++d) summed = summed || (s.summed[d] && factors[f].has[d]);
      side[f] = outside && !summed ? 2 : 0;
      if (side[f] == 0) inside.push_back(f);
    }
    for (size_t bits = 1; inside.size() > 1 && bits < size_t{1} << (inside.size() - 1); ++bits) {  // the last one is always of operand 0
      for (size_t i = 0; i < inside.size(); ++i) side[inside[i]] = static_cast<int>(bits >> i & 1);
      const auto split = gains(r, u, s, factors, side);
      if (split && (!best || split->elems < best->elems)) best = split;
    }
    if (best) return best;
  }
  return {};
}

/// The product of the factors of one side, with size 1 for the dims that it lacks.
Found product_of(Rewriter& r, const std::vector<Factor>& factors, const Sides& split, int side) {
  Found all;
  Exprs dims;
  for (size_t f = 0; f < factors.size(); ++f) {
    if (split.side[f] != side) continue;
    const ValueId v = without_repeats(r, factors[f].value);
    if (!all) {
      all = v, dims = r.dims(v);
      continue;
    }
    const Exprs more = r.dims(v);
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d].is(1)) dims[d] = more[d];
    all = r.b.binary(Op::mul, r.b.expand(*all, dims), r.b.expand(v, dims));
  }
  return all;
}

Exprs sizes_at(const Exprs& dims, const Ints& at) {
  Exprs out;
  for (const int64_t d : at) out.push_back(dims[static_cast<size_t>(d)]);
  return out;
}
Ints appended(Ints a, const Ints& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// v, which has size 1 for all other dims, with the dims `order` as `shape`.
ValueId in_order(Rewriter& r, ValueId v, const Ints& order, const Exprs& shape) {
  Ints sorted = order, perm;
  std::sort(sorted.begin(), sorted.end());
  for (const int64_t d : order) perm.push_back(std::find(sorted.begin(), sorted.end(), d) - sorted.begin());
  return r.b.reshape(r.b.permute(r.b.reshape(v, sizes_at(r.dims(v), sorted)), perm), shape);
}

ValueId as_matrices(Rewriter& r, const Node& n, const Sum& s, const std::vector<Factor>& factors, Sides split) {
  const Exprs dims = r.dims(s.value);
  const auto last = std::find_if(s.kept.rbegin(), s.kept.rend(), [&](int64_t d) {
    return d >= 0 && split.has[0][static_cast<size_t>(d)] != split.has[1][static_cast<size_t>(d)];
  });
  const int left = last != s.kept.rend() && split.has[0][static_cast<size_t>(*last)] ? 1 : 0;  // columns are what lies last in the result
  Ints batch, rows, columns, terms;
  for (size_t d = 0; d < dims.size(); ++d)
    if (s.summed[d] && in_both(split, d)) terms.push_back(static_cast<int64_t>(d));
  for (const int64_t d : s.kept) {
    if (d < 0) continue;
    const auto at = static_cast<size_t>(d);
    if (in_both(split, at))
      batch.push_back(d);
    else if (split.has[left][at])
      rows.push_back(d);
    else if (split.has[1 - left][at])
      columns.push_back(d);
  }
  const Expr m = product(sizes_at(dims, rows)), k = product(sizes_at(dims, terms)), c = product(sizes_at(dims, columns));
  Exprs of_a = sizes_at(dims, batch), of_b = of_a;
  of_a.push_back(m), of_a.push_back(k);
  of_b.push_back(k), of_b.push_back(c);
  const ValueId a = in_order(r, *product_of(r, factors, split, left), appended(appended(batch, rows), terms), of_a);
  const ValueId b = in_order(r, *product_of(r, factors, split, 1 - left), appended(appended(batch, terms), columns), of_b);
  const Found outside = product_of(r, factors, split, 2);
  const DType result = r.dtype(n.outputs[0]), t = outside ? compute_type(result) : result;
  // In the order of the result's dims; dims that no operand has are of size 1.
  const Ints order = appended(appended(batch, rows), columns);
  Ints perm;
  Exprs small;
  for (const int64_t d : s.kept) {
    const auto at = std::find(order.begin(), order.end(), d);
    if (at != order.end()) perm.push_back(at - order.begin());
    small.push_back(at != order.end() ? dims[static_cast<size_t>(d)] : Expr(1));
  }
  const Exprs out = r.dims(n.outputs[0]);
  const ValueId y = r.b.expand(r.b.reshape(r.b.permute(r.b.reshape(r.b.matmul(a, b, t), sizes_at(dims, order)), perm), small), out);
  if (!outside) return y;
  Ints kept;
  Exprs others;
  for (const int64_t d : s.kept) {
    others.push_back(d < 0 ? Expr(1) : r.g.type(*outside).dims[static_cast<size_t>(d)]);
    if (d >= 0) kept.push_back(d);
  }
  const ValueId times = r.b.expand(in_order(r, r.b.cast(*outside, t), kept, others), out);
  return r.b.cast(r.b.binary(Op::mul, y, times), result);
}

Found as_product(Rewriter& r, const Uarch& u, const Node& n) {
  if (n.op != Op::reduce || n.reduce_kind() != ReduceKind::sum || !is_float(r.dtype(n.outputs[0]))) return {};
  const auto s = summed_value(r, n);
  if (!s || !r.def(s->value, Op::mul) || r.uses(s->value) != 1) return {};
  std::vector<Factor> factors;
  add_factors(r, s->value, true, factors);
  if (factors.size() > kMostFactors) return {};
  const auto split = best_split(r, u, *s, factors);
  if (!split) return {};
  return as_matrices(r, n, *s, factors, *split);
}

}  // namespace

/// Sums over products of tensors of which each lacks a dim of the other, (a[:, None] * b[None]).sum(-1), become products of matrices where
/// these read far fewer numbers than are multiplied: chunks of state-space layers, linear attention. Of several factors each is multiplied
/// into one of two operands, or, where it has none of the dims of the sum, into the result. Changes rounding: sums have another order, and
/// products of 16-bit floats are not rounded before they are summed. Requires canonical views.
void sums_of_products(Graph& g, PassContext& ctx) {
  const Uarch& u = uarch_of(ctx.target);
  Rewriter(g).sweep([&u](Rewriter& r, const Node& n) { return as_product(r, u, n); });
}

}  // namespace aotc::passes
