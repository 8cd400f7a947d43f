#include "passes/lookups.h"

#include <algorithm>

#include "graph/infer.h"

namespace aotc::passes {
namespace {

/// Index values start + (position along `dim`), or just `start` where dim is -1.
struct Line {
  int dim = -1;
  Expr start, size = 1;
};

/// The long dim of a view's result that corresponds to the long dim of its one-dim-long input, through reshape and expand.
std::optional<Line> line_of(const Rewriter& r, ValueId v, int depth = 8) {
  if (depth == 0) return {};
  if (const auto c = splat_int(r.g, v)) return Line{-1, *c, 1};
  const Node* n = r.g.def(v);
  if (!n) return {};
  const Exprs dims = r.dims(v);
  auto only_long_dim = [&](const Exprs& d) {
    int at = -1;
    for (size_t i = 0; i < d.size(); ++i) {
      if (d[i].is(1)) continue;
      if (at >= 0) return -2;
      at = static_cast<int>(i);
    }
    return at;
  };
  switch (n->op) {
    case Op::iota: {
      const int d = static_cast<int>(n->get<int64_t>(Attr::dim));
      return dims[d].is(1) ? Line{-1, 0, 1} : Line{d, 0, dims[d]};
    }
    case Op::sym: return Line{-1, n->get<Expr>(Attr::expr), 1};
    case Op::expand: return line_of(r, n->inputs[0], depth - 1);  // its long dim keeps its place; the others repeat
    case Op::reshape: {
      auto l = line_of(r, n->inputs[0], depth - 1);
      if (!l || l->dim < 0) return l;
      if (only_long_dim(r.dims(n->inputs[0])) != l->dim) return {};
      l->dim = only_long_dim(dims);
      return l->dim >= 0 ? l : std::nullopt;
    }
    case Op::permute: {
      auto l = line_of(r, n->inputs[0], depth - 1);
      if (!l || l->dim < 0) return l;
      const Ints& perm = n->get<Ints>(Attr::perm);
      l->dim = static_cast<int>(std::find(perm.begin(), perm.end(), l->dim) - perm.begin());
      return l;
    }
    case Op::slice: {
      auto l = line_of(r, n->inputs[0], depth - 1);
      const int d = static_cast<int>(n->get<int64_t>(Attr::dim));
      if (!l || l->dim != d) return l;
      if (n->get<int64_t>(Attr::step) != 1) return {};
      l->start += n->get<Expr>(Attr::start);
      l->size = dims[d];
      if (dims[d].is(1)) l->dim = -1;
      return l;
    }
    case Op::add: {
      auto a = line_of(r, n->inputs[0], depth - 1), b = line_of(r, n->inputs[1], depth - 1);
      if (!a || !b || (a->dim >= 0 && b->dim >= 0)) return {};
      Line l = a->dim >= 0 ? *a : *b;
      l.start = a->start + b->start;
      return l;
    }
    default: return {};
  }
}

bool within(const Rewriter& r, const Line& l, const Expr& size) {
  return holds(r.g, ShapeGuard::Kind::le, 0, l.start) && holds(r.g, ShapeGuard::Kind::le, l.start + l.size, size);
}

std::optional<ValueId> index(Rewriter& r, const Node& n) {
  const Ints& over = n.get<Ints>(Attr::dims);
  const size_t out_pos = n.get<int64_t>(Attr::out_pos), index_rank = r.g.type(n.inputs[1]).dims.size();
  std::vector<Line> lines;
  std::vector<bool> taken(index_rank, false);
  for (size_t j = 0; j < over.size(); ++j) {
    const auto l = line_of(r, n.inputs[j + 1]);
    if (!l || !within(r, *l, r.dims(n.inputs[0])[over[j]])) return {};
    if (l->dim >= 0) {
      if (taken[l->dim]) return {};
      taken[l->dim] = true;
    }
    lines.push_back(*l);
  }
  ValueId x = n.inputs[0];
  for (size_t j = 0; j < over.size(); ++j) x = r.b.slice(x, static_cast<int>(over[j]), lines[j].start, lines[j].size);
  // Dims in the order of the result: those before the index dims, the index dims, the rest; fixed positions fall away.
  Ints perm, rest;
  for (int d = 0; d < r.g.type(x).rank(); ++d) {
    if (std::binary_search(over.begin(), over.end(), d)) continue;
    (perm.size() < out_pos ? perm : rest).push_back(d);
  }
  Exprs shape;
  for (int64_t d : perm) shape.push_back(r.dims(x)[d]);
  Ints fixed;
  for (size_t j = 0; j < over.size(); ++j)
    if (lines[j].dim < 0) fixed.push_back(over[j]);
  for (size_t t = 0; t < index_rank; ++t) {
    Expr size = 1;
    for (size_t j = 0; j < over.size(); ++j) {
      if (lines[j].dim != static_cast<int>(t)) continue;
      perm.push_back(over[j]);
      size = lines[j].size;
    }
    shape.push_back(size);
  }
  for (int64_t d : rest) {
    perm.push_back(d);
    shape.push_back(r.dims(x)[d]);
  }
  perm.insert(perm.end(), fixed.begin(), fixed.end());
  return r.b.expand(r.b.reshape(r.b.permute(x, perm), shape), r.dims(n.outputs[0]));
}

/// gather(x, i) along dim: the other dims of i are leading parts of x's.
std::optional<ValueId> gather(Rewriter& r, const Node& n) {
  const int dim = static_cast<int>(n.get<int64_t>(Attr::dim));
  const auto l = line_of(r, n.inputs[1]);
  if (!l || (l->dim >= 0 && l->dim != dim) || !within(r, *l, r.dims(n.inputs[0])[dim])) return {};
  ValueId x = n.inputs[0];
  const Exprs to = r.dims(n.outputs[0]);
  for (int d = 0; d < r.g.type(x).rank(); ++d)
    if (d != dim) x = r.b.slice(x, d, 0, to[d]);
  return r.b.expand(r.b.slice(x, dim, l->start, l->size), to);
}

}  // namespace

std::optional<ValueId> lookup_as_slice(Rewriter& r, const Node& n) { return n.op == Op::gather ? gather(r, n) : index(r, n); }

}  // namespace aotc::passes
