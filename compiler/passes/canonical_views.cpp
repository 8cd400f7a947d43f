#include "passes/passes.h"

#include <algorithm>

#include "graph/infer.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

using Found = std::optional<ValueId>;

bool all_equal_dims(const Rewriter& r, ValueId a, ValueId b) { return same_dims(r.g, r.dims(a), r.dims(b)); }

/// Any view of full() but pad and window (which have a value of their own) is full().
Found of_full(Rewriter& r, const Node& n) {
  const Node* x = r.def(n.inputs[0], Op::full);
  if (!x || n.op == Op::pad || n.op == Op::window) return {};
  return r.b.make1(Op::full, {}, {{Attr::value, x->attrs.at(Attr::value)}}, &r.g.type(n.outputs[0]));
}

Found reshape(Rewriter& r, const Node& n) {
  const ValueId x = n.inputs[0];
  if (all_equal_dims(r, x, n.outputs[0])) return x;
  const Node* inner = r.def(x, Op::reshape);
  if (inner && holds(r.g, ShapeGuard::Kind::eq, r.g.type(inner->inputs[0]).elems(), r.g.type(n.outputs[0]).elems()))
    return r.b.reshape(inner->inputs[0], r.dims(n.outputs[0]));
  return {};
}

Found permute(Rewriter& r, const Node& n) {
  const ValueId x = n.inputs[0];
  const Ints& perm = n.get<Ints>(Attr::perm);
  if (r.def(x, Op::permute)) return r.b.permute(x, perm);
  // Where only dims of size 1 change places nothing moves.
  int64_t last = -1;
  bool in_place = true;
  for (int64_t p : perm) {
    if (r.dims(x)[p].is(1)) continue;
    in_place = in_place && p > last;
    last = p;
  }
  if (in_place) return r.b.reshape(x, r.dims(n.outputs[0]));
  if (const Node* e = r.def(x, Op::expand)) return r.b.expand(r.b.permute(e->inputs[0], perm), r.dims(n.outputs[0]));
  return {};
}

Found expand(Rewriter& r, const Node& n) {
  const ValueId x = n.inputs[0];
  if (all_equal_dims(r, x, n.outputs[0])) return x;
  if (const Node* inner = r.def(x, Op::expand)) return r.b.expand(inner->inputs[0], r.dims(n.outputs[0]));
  return {};
}

/// The part [start, start + (size-1)*step] of a cat that lies within one piece.
Found slice_of_cat(Rewriter& r, const Node& n, const Node& c) {
  const int64_t d = n.get<int64_t>(Attr::dim), step = n.get<int64_t>(Attr::step);
  const Expr start = n.get<Expr>(Attr::start), size = r.dims(n.outputs[0])[d];
  if (c.get<int64_t>(Attr::dim) != d) return {};
  Expr begin = 0;
  for (ValueId piece : c.inputs) {
    const Expr end = begin + r.dims(piece)[d];
    if (holds(r.g, ShapeGuard::Kind::le, begin, start) && holds(r.g, ShapeGuard::Kind::le, start + (size - 1) * step + 1, end))
      return r.b.slice(piece, static_cast<int>(d), r.g.syms.simplify(start - begin), size, step);
    begin = end;
  }
  return {};
}

constexpr int kDeepest = 8;  ///< slices and cats along other dims that a slice is looked for beneath

/// The slice `n` of v where slices and cats along other dims lie between it and a cat along its own dim: what is cut off there is never
/// put in (the parts of complex numbers).
Found slice_beneath(Rewriter& r, const Node& n, ValueId v, int depth) {
  const Node* x = r.g.def(v);
  if (!x || depth > kDeepest) return {};
  const int64_t d = n.get<int64_t>(Attr::dim);
  const bool along = (x->op == Op::cat || x->op == Op::slice) && x->get<int64_t>(Attr::dim) == d;
  if (x->op == Op::full) {
    TensorType t = r.g.type(v);
    t.dims[d] = r.dims(n.outputs[0])[d];
    return r.b.make1(Op::full, {}, {{Attr::value, x->attrs.at(Attr::value)}}, &t);
  }
  if (x->op == Op::cat && along) return slice_of_cat(r, n, *x);
  if (along) return {};
  if (x->op == Op::slice) {
    const Node cut = *x;
    const Found from = slice_beneath(r, n, cut.inputs[0], depth + 1);
    if (!from) return {};
    const int64_t e = cut.get<int64_t>(Attr::dim);
    return r.b.slice(*from, static_cast<int>(e), cut.get<Expr>(Attr::start), r.dims(v)[e], cut.get<int64_t>(Attr::step));
  }
  if (x->op != Op::cat) return {};
  const Node joined = *x;
  std::vector<ValueId> parts;
  for (ValueId part : joined.inputs) {
    const Found p = slice_beneath(r, n, part, depth + 1);
    if (!p) return {};
    parts.push_back(*p);
  }
  return r.b.cat(parts, static_cast<int>(joined.get<int64_t>(Attr::dim)));
}

Found slice(Rewriter& r, const Node& n) {
  const ValueId x = n.inputs[0];
  const int64_t d = n.get<int64_t>(Attr::dim), step = n.get<int64_t>(Attr::step);
  const Expr start = n.get<Expr>(Attr::start), size = r.dims(n.outputs[0])[d];
  if (start.is(0) && step == 1 && all_equal_dims(r, x, n.outputs[0])) return x;
  const Node* inner = r.g.def(x);
  if (!inner) return {};
  if (inner->op == Op::slice && inner->get<int64_t>(Attr::dim) == d) {
    const int64_t inner_step = inner->get<int64_t>(Attr::step);
    return r.b.slice(inner->inputs[0], static_cast<int>(d), inner->get<Expr>(Attr::start) + start * inner_step, size, step * inner_step);
  }
  if (inner->op == Op::expand) {
    const ValueId from = inner->inputs[0];
    if (r.dims(from)[d].is(1)) return r.b.expand(from, r.dims(n.outputs[0]));
    return r.b.expand(r.b.slice(from, static_cast<int>(d), start, size, step), r.dims(n.outputs[0]));
  }
  if (inner->op == Op::cat && inner->get<int64_t>(Attr::dim) == d) return slice_of_cat(r, n, *inner);
  if (inner->op == Op::cat || inner->op == Op::slice) return slice_beneath(r, n, x, 0);
  return {};
}

Found flip(Rewriter& r, const Node& n) {
  const ValueId x = n.inputs[0];
  const Ints& over = n.get<Ints>(Attr::dims);
  if (over.empty()) return x;
  if (std::any_of(over.begin(), over.end(), [&](int64_t d) { return r.dims(x)[d].is(1); })) return r.b.flip(x, over);
  const Node* inner = r.def(x, Op::flip);
  if (!inner) return {};
  const Ints& first = inner->get<Ints>(Attr::dims);
  Ints odd;
  std::set_symmetric_difference(over.begin(), over.end(), first.begin(), first.end(), std::back_inserter(odd));
  return r.b.flip(inner->inputs[0], odd);
}

Found pad(Rewriter& r, const Node& n) {
  const Exprs& lo = n.get<Exprs>(Attr::lo);
  const bool no_lo = std::all_of(lo.begin(), lo.end(), [](const Expr& e) { return e.is(0); });
  if (no_lo && all_equal_dims(r, n.inputs[0], n.outputs[0])) return n.inputs[0];
  return {};
}

Found strided(Rewriter& r, const Node& n) {
  if (!n.get<Expr>(Attr::start).is(0)) return {};
  const Exprs strides = n.get<Exprs>(Attr::strides), dims = r.dims(n.outputs[0]);
  Expr dense = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (!dims[i].is(1) && !r.same(strides[i], dense)) return {};
    dense = r.g.syms.simplify(dense * dims[i]);
  }
  if (!r.same(dense, r.g.type(n.inputs[0]).elems())) return {};
  return r.b.reshape(n.inputs[0], dims);
}

/// Next to each other in the same tensor: one slice.
Found joined(Rewriter& r, ValueId a, ValueId b, int64_t d) {
  const Node *x = r.def(a, Op::slice), *y = r.def(b, Op::slice);
  if (!x || !y || x->inputs[0] != y->inputs[0]) return {};
  for (const Node* s : {x, y})
    if (s->get<int64_t>(Attr::dim) != d || s->get<int64_t>(Attr::step) != 1) return {};
  const Expr start = x->get<Expr>(Attr::start), size = r.dims(a)[d];
  if (!r.same(start + size, y->get<Expr>(Attr::start))) return {};
  return r.b.slice(x->inputs[0], static_cast<int>(d), start, r.g.syms.simplify(size + r.dims(b)[d]));
}

Found cat(Rewriter& r, const Node& n) {
  const int64_t d = n.get<int64_t>(Attr::dim);
  std::vector<ValueId> parts;
  bool changed = false;
  for (ValueId v : n.inputs) {
    const Node* inner = r.def(v, Op::cat);
    if (r.dims(v)[d].is(0)) {
      changed = true;
    } else if (inner && inner->get<int64_t>(Attr::dim) == d && r.uses(v) == 1) {
      parts.insert(parts.end(), inner->inputs.begin(), inner->inputs.end());
      changed = true;
    } else if (Found both = parts.empty() ? Found() : joined(r, parts.back(), v, d)) {
      parts.back() = *both;
      changed = true;
    } else {
      parts.push_back(v);
    }
  }
  if (parts.empty()) return n.inputs[0];
  if (parts.size() == 1) return parts[0];
  if (!changed) return {};
  return r.b.cat(parts, static_cast<int>(d));
}

/// A pointwise node whose inputs all repeat along the same dims is computed once and repeated.
Found pointwise(Rewriter& r, const Node& n) {
  const Exprs dims = r.dims(n.outputs[0]);
  std::vector<bool> repeats(dims.size(), true);
  bool any_expand = false;
  for (ValueId v : n.inputs) {
    if (r.def(v, Op::full)) continue;
    const Node* e = r.def(v, Op::expand);
    if (!e) return {};
    any_expand = true;
    for (size_t i = 0; i < dims.size(); ++i) repeats[i] = repeats[i] && r.dims(e->inputs[0])[i].is(1) && !dims[i].is(1);
  }
  if (!any_expand || std::none_of(repeats.begin(), repeats.end(), [](bool x) { return x; })) return {};
  Exprs small = dims;
  for (size_t i = 0; i < dims.size(); ++i)
    if (repeats[i]) small[i] = 1;
  std::vector<ValueId> inputs;
  for (ValueId v : n.inputs) {
    const Node* f = r.def(v, Op::full);
    const TensorType t{r.dtype(v), small};
    inputs.push_back(f ? r.b.make1(Op::full, {}, {{Attr::value, f->attrs.at(Attr::value)}}, &t)
                       : r.b.expand(r.def(v, Op::expand)->inputs[0], small));
  }
  const TensorType t{r.dtype(n.outputs[0]), small};
  return r.b.expand(r.b.make1(n.op, std::move(inputs), n.attrs, &t), dims);
}

Found rule(Rewriter& r, const Node& n) {
  if (is_pointwise(n.op)) return pointwise(r, n);
  if (is_view(n.op))
    if (Found f = of_full(r, n)) return f;
  switch (n.op) {
    case Op::reshape: return reshape(r, n);
    case Op::permute: return permute(r, n);
    case Op::expand: return expand(r, n);
    case Op::slice: return slice(r, n);
    case Op::flip: return flip(r, n);
    case Op::pad: return pad(r, n);
    case Op::strided: return strided(r, n);
    case Op::cat: return cat(r, n);
    default: return {};
  }
}

}  // namespace

/// Merges chains of views, drops those that change nothing, and lets views of full() be full().
void canonical_views(Graph& g, PassContext&) { Rewriter::run(g, rule); }

}  // namespace aotc::passes
