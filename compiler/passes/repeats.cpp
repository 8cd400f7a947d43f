#include "passes/repeats.h"

#include <algorithm>

#include "graph/infer.h"

namespace aotc::passes {
namespace {

constexpr int kMostViews = 8;  ///< nodes above a value that are looked at

using DimFlags = std::vector<bool>;

/// Dims [from, from_end) of what is reshaped become dims [to, to_end) of the result, with no others.
struct ReshapedDims {
  size_t from = 0, from_end = 0, to = 0, to_end = 0;
};

/// The finest groups; none where sizes cannot be compared.
std::vector<ReshapedDims> groups_of(const Graph& g, const Exprs& from, const Exprs& to) {
  std::vector<ReshapedDims> groups;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    ReshapedDims group{i, i, j, j};
    Expr a = i < from.size() ? from[i++] : Expr(1), b = j < to.size() ? to[j++] : Expr(1);
    while (!holds(g, ShapeGuard::Kind::eq, a, b)) {
      const int64_t x = g.syms.hint(a), y = g.syms.hint(b);
      if (x < y && i < from.size())
        a *= from[i++];
      else if (y < x && j < to.size())
        b *= to[j++];
      else
        return {};
    }
    group.from_end = i, group.to_end = j;
    groups.push_back(group);
  }
  return groups;
}

DimFlags repeats(const Graph& g, ValueId v, int depth);

/// Whether all dims of [begin, end) that are not of size 1 are flagged, and there are some.
bool all_repeat(const Exprs& dims, const DimFlags& flags, size_t begin, size_t end) {
  bool any = false;
  for (size_t i = begin; i < end; ++i) {
    if (dims[i].is(1)) continue;
    if (!flags[i]) return false;
    any = true;
  }
  return any;
}

DimFlags of_reshape(const Graph& g, const Node& n, int depth) {
  const Exprs &from = g.type(n.inputs[0]).dims, &to = g.type(n.outputs[0]).dims;
  const DimFlags x = repeats(g, n.inputs[0], depth + 1);
  DimFlags out(to.size());
  if (std::find(x.begin(), x.end(), true) == x.end()) return out;
  for (const ReshapedDims& group : groups_of(g, from, to))
    if (all_repeat(from, x, group.from, group.from_end))
      for (size_t j = group.to; j < group.to_end; ++j) out[j] = !to[j].is(1);
  return out;
}

DimFlags repeats(const Graph& g, ValueId v, int depth) {
  const Exprs& dims = g.type(v).dims;
  DimFlags out(dims.size());
  const Node* n = g.def(v);
  if (!n || depth > kMostViews) return out;
  if (n->op == Op::full || is_pointwise(n->op)) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = !dims[i].is(1);
    for (ValueId u : n->inputs) {
      const DimFlags x = repeats(g, u, depth + 1);
      bool any = false;
      for (size_t i = 0; i < out.size(); ++i) out[i] = out[i] && x[i], any = any || out[i];
      if (!any) break;
    }
    return out;
  }
  if (n->op == Op::reshape) return of_reshape(g, *n, depth);
  if (n->op != Op::expand && n->op != Op::permute) return out;
  const DimFlags x = repeats(g, n->inputs[0], depth + 1);
  const Exprs& from = g.type(n->inputs[0]).dims;
  const Ints* perm = n->op == Op::permute ? &n->get<Ints>(Attr::perm) : nullptr;
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t d = perm ? static_cast<size_t>((*perm)[i]) : i;
    out[i] = !dims[i].is(1) && (x[d] || from[d].is(1));
  }
  return out;
}

Exprs small_dims(Exprs dims, const DimFlags& flags) {
  for (size_t i = 0; i < dims.size(); ++i)
    if (flags[i]) dims[i] = 1;
  return dims;
}

ValueId without_repeats(Rewriter& r, ValueId v, int depth) {
  const DimFlags flags = repeats(r.g, v, depth);
  if (std::find(flags.begin(), flags.end(), true) == flags.end()) return v;
  const Exprs small = small_dims(r.dims(v), flags);
  const Node n = *r.g.def(v);  // a copy: nodes are added
  if (n.op == Op::reshape) {
    Exprs from = r.dims(n.inputs[0]);
    for (const ReshapedDims& group : groups_of(r.g, from, r.dims(v)))  // a part of a dim that repeats alone stays
      if (std::find(flags.begin() + group.to, flags.begin() + group.to_end, true) != flags.begin() + group.to_end)
        std::fill(from.begin() + group.from, from.begin() + group.from_end, Expr(1));
    return r.b.reshape(r.b.expand(without_repeats(r, n.inputs[0], depth + 1), from), small);
  }
  if (n.op == Op::permute) return r.b.permute(without_repeats(r, n.inputs[0], depth + 1), n.get<Ints>(Attr::perm));
  if (n.op == Op::expand) return r.b.expand(without_repeats(r, n.inputs[0], depth + 1), small);
  std::vector<ValueId> inputs;
  for (ValueId u : n.inputs) inputs.push_back(r.b.expand(without_repeats(r, u, depth + 1), small));
  const TensorType type{r.dtype(v), small};
  return r.b.make1(n.op, std::move(inputs), n.attrs, &type);
}

}  // namespace

std::vector<bool> repeats(const Graph& g, ValueId v) { return repeats(g, v, 0); }
ValueId without_repeats(Rewriter& r, ValueId v) { return without_repeats(r, v, 0); }

std::optional<Expr> inner_repeats(const Graph& g, ValueId v, int64_t d) {
  const Node* n = g.def(v);
  while (n && (n->op == Op::permute || n->op == Op::cast)) {
    if (n->op == Op::permute) d = n->get<Ints>(Attr::perm)[static_cast<size_t>(d)];
    v = n->inputs[0], n = g.def(v);
  }
  if (!n || n->op != Op::reshape) return {};
  const Exprs &from = g.type(n->inputs[0]).dims, &to = g.type(v).dims;
  const DimFlags x = repeats(g, n->inputs[0], 0);
  for (const ReshapedDims& group : groups_of(g, from, to)) {
    const auto at = static_cast<size_t>(d);
    if (at < group.to || at >= group.to_end) continue;
    for (size_t j = group.to; j < group.to_end; ++j)
      if (j != at && !to[j].is(1)) return {};
    Expr inner = 1;
    size_t i = group.from_end;
    while (i > group.from && (from[i - 1].is(1) || x[i - 1])) inner *= from[--i];
    if (i == group.from || inner.is(1)) return {};
    return inner;
  }
  return {};
}

ValueId with_split(Rewriter& r, ValueId v, int64_t d, const Expr& outer, const Expr& inner) {
  const Node n = *r.g.def(v);
  if (n.op == Op::cast) return r.b.cast(with_split(r, n.inputs[0], d, outer, inner), r.dtype(v));
  if (n.op == Op::permute) {
    const Ints& perm = n.get<Ints>(Attr::perm);
    const int64_t from = perm[static_cast<size_t>(d)];
    Ints split;
    for (const int64_t p : perm) {
      split.push_back(p > from ? p + 1 : p);
      if (p == from) split.push_back(p + 1);
    }
    return r.b.permute(with_split(r, n.inputs[0], from, outer, inner), split);
  }
  Exprs dims = r.dims(v);
  dims[static_cast<size_t>(d)] = inner;
  dims.insert(dims.begin() + d, outer);
  return r.b.reshape(n.inputs[0], dims);
}

}  // namespace aotc::passes
