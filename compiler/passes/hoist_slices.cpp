#include "passes/passes.h"

#include <algorithm>

#include "graph/infer.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

constexpr int kMaxRounds = 4;  // one moves the slices of one dim as far as they go

/// Of a dim that is [before, whole, after] in row-major order the elements start, start + step ... of `whole`.
struct Part {
  int64_t dim = 0;
  Expr before = 1, whole = 1, after = 1;
  Expr start = 0, size = 1;
  int64_t step = 1;

  Expr elems() const { return before * size * after; }
  bool plain() const { return before.is(1) && after.is(1); }
  Part of(int64_t d) const {
    Part p = *this;
    p.dim = d;
    return p;
  }
};

/// What is read of a value: nothing yet, a part, or all of it.
struct Demand {
  bool any = false;
  std::optional<Part> part;
};
/// For each operand of a node what it needs to give a part of its result; nothing: all.
using Needs = std::vector<std::optional<Part>>;

bool equal(const Graph& g, const Expr& a, const Expr& b) { return holds(g, ShapeGuard::Kind::eq, a, b); }

bool equal(const Graph& g, const Part& a, const Part& b) {
  return a.dim == b.dim && a.step == b.step && equal(g, a.before, b.before) && equal(g, a.whole, b.whole) && equal(g, a.start, b.start) &&
         equal(g, a.size, b.size) && equal(g, a.after, b.after);
}

Part part_of(const Graph& g, const Node& slice) {
  Part p;
  p.dim = slice.get<int64_t>(Attr::dim);
  p.whole = g.type(slice.inputs[0]).dims[p.dim];
  p.start = slice.get<Expr>(Attr::start);
  p.size = g.type(slice.outputs[0]).dims[p.dim];
  p.step = slice.get<int64_t>(Attr::step);
  return p;
}

/// The same elements before a reshape from `from` to `to`, where they are a part of one dim there, too.
std::optional<Part> before_reshape(const Graph& g, const Exprs& from, const Exprs& to, const Part& p) {
  struct Split {
    Expr outside, inside;  ///< of what lies before the part: left of the operand's dim, within it
  };
  std::vector<Split> lefts;
  Expr inside = p.before;
  Expr outside = 1;
  for (int64_t j = 0; j < p.dim; ++j) outside *= to[j];
  lefts.push_back({outside * p.before, 1});
  for (int64_t j = p.dim; j >= 0; --j) {
    Expr left = 1;
    for (int64_t i = 0; i < j; ++i) left *= to[i];
    lefts.push_back({left, inside});
    if (j > 0) inside = to[j - 1] * inside;
  }
  std::vector<Expr> rights = {1, p.after};
  for (size_t j = p.dim + 1; j < to.size(); ++j) rights.push_back(rights.back() * to[j]);
  Expr prefix = 1;
  for (size_t e = 0; e < from.size(); ++e) {
    for (const Split& left : lefts) {
      if (!equal(g, prefix, left.outside)) continue;
      for (const Expr& right : rights)
        if (equal(g, from[e], left.inside * p.whole * right)) {
          Part q = p.of(static_cast<int64_t>(e));
          q.before = g.syms.simplify(left.inside);
          q.after = g.syms.simplify(right);
          return q;
        }
    }
    prefix *= from[e];
  }
  return {};
}

std::optional<Needs> through_view(const Graph& g, const Node& n, const Part& p) {
  const Exprs &from = g.type(n.inputs[0]).dims, &to = g.type(n.outputs[0]).dims;
  switch (n.op) {
    case Op::permute: return Needs{p.of(n.get<Ints>(Attr::perm)[p.dim])};
    case Op::expand: return from[p.dim].is(1) ? Needs{{}} : Needs{p};
    case Op::reshape:
      if (auto q = before_reshape(g, from, to, p)) return Needs{q};
      return {};
    case Op::flip: {
      const Ints& over = n.get<Ints>(Attr::dims);
      if (std::find(over.begin(), over.end(), p.dim) != over.end()) return {};
      return Needs{p};
    }
    case Op::pad:
      if (!n.get<Exprs>(Attr::lo)[p.dim].is(0) || !equal(g, from[p.dim], to[p.dim])) return {};
      return Needs{p};
    default: return {};
  }
}

/// The last row of a causal mask attends to all keys.
bool is_last_row(const Graph& g, const Node& n, const Part& p) {
  return p.plain() && p.size.is(1) && holds(g, ShapeGuard::Kind::le, g.type(n.inputs[1]).dims[2], p.start + 1);
}

std::optional<Needs> through_attention(const Graph& g, const Node& n, const Part& p) {
  if (p.dim != 0 && p.dim != 2) return {};
  if (p.dim == 2 && n.get<bool>(Attr::causal) && !is_last_row(g, n, p)) return {};
  Needs needs(n.inputs.size());
  needs[0] = p;
  if (p.dim == 0) needs[1] = needs[2] = p;
  for (size_t i = 3; i < n.inputs.size(); ++i)
    if (!g.type(n.inputs[i]).dims[p.dim].is(1)) needs[i] = p;
  return needs;
}

std::optional<Needs> through_reduce(const Node& n, const Part& p) {
  const Ints& reduced = n.get<Ints>(Attr::dims);
  int64_t kept = -1, d = -1;
  while (kept < p.dim) {
    ++d;
    kept += std::find(reduced.begin(), reduced.end(), d) == reduced.end();
  }
  return Needs{p.of(d)};
}

std::optional<Needs> through(const Graph& g, const Node& n, const Part& p) {
  if (n.outputs.size() != 1) return {};
  if (is_pointwise(n.op)) return Needs(n.inputs.size(), p);
  if (is_view(n.op)) return through_view(g, n, p);
  switch (n.op) {
    case Op::full: return Needs{};
    case Op::cat:
      if (n.get<int64_t>(Attr::dim) == p.dim) return {};
      return Needs(n.inputs.size(), p);
    case Op::reduce: return through_reduce(n, p);
    case Op::scan:
    case Op::scan_arg:
      if (n.get<int64_t>(Attr::dim) == p.dim) return {};
      return Needs{p};
    case Op::matmul: {
      const int64_t columns = g.type(n.outputs[0]).rank() - 1;
      if (p.dim == columns) return {};
      return p.dim == columns - 1 ? Needs{p, {}} : Needs{p, p};
    }
    case Op::conv:
    case Op::conv_transpose:
      if (p.dim != 0) return {};
      return Needs{p, {}};
    case Op::attention: return through_attention(g, n, p);
    default: return {};
  }
}

/// One pass over the users before what they use.
std::vector<Demand> demands(const Graph& g) {
  std::vector<Demand> of(g.values.size());
  auto ask = [&](ValueId v, const std::optional<Part>& part) {
    Demand& d = of[idx(v)];
    const bool as_before = d.any && d.part && part && equal(g, *d.part, *part);
    if (!as_before) d.part = d.any ? std::nullopt : part;
    d.any = true;
  };
  for (const OutputInfo& o : g.outputs) ask(o.value, {});
  for (const StateInfo& s : g.states)
    if (s.updated != kNone<ValueId>) ask(s.updated, {});
  for (auto it = g.order.rbegin(); it != g.order.rend(); ++it) {
    const Node& n = g.nodes[*it];
    if (n.dead || std::none_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return of[idx(v)].any; })) continue;
    Demand& own = of[idx(n.outputs[0])];
    if (n.op == Op::slice) {
      own.part.reset();
      ask(n.inputs[0], part_of(g, n));
      continue;
    }
    const auto needs = own.part ? through(g, n, *own.part) : std::nullopt;
    if (!needs) own.part.reset();
    for (size_t i = 0; i < n.inputs.size(); ++i) ask(n.inputs[i], needs ? (*needs)[i] : std::nullopt);
  }
  return of;
}

class Hoister {
 public:
  explicit Hoister(Graph& g) : r_(g) {}

  bool round() {
    of_ = demands(r_.g);
    parts_.assign(of_.size(), {});
    return r_.sweep([this](Rewriter&, const Node& n) { return rule(n); });
  }

 private:
  std::optional<ValueId> rule(const Node& n) {
    if (n.op == Op::slice) return part(n.inputs[0]);
    const std::optional<Part> p = of_[idx(n.outputs[0])].part;
    if (!p) return {};
    const auto needs = through(r_.g, n, *p);
    AOTC_CHECK(needs, "a part of {} was asked for", op_name(n.op));
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < n.inputs.size(); ++i) inputs.push_back((*needs)[i] ? take(n.inputs[i], *(*needs)[i]) : n.inputs[i]);
    auto attrs = n.attrs;
    if (n.op == Op::attention && p->dim == 2) attrs[Attr::causal] = false;
    TensorType t = r_.g.type(n.outputs[0]);
    t.dims[p->dim] = r_.g.syms.simplify(p->elems());
    parts_[idx(n.outputs[0])] = n.op == Op::reshape  ? r_.b.reshape(inputs[0], t.dims)
                                : n.op == Op::expand ? r_.b.expand(inputs[0], t.dims)
                                                     : r_.b.make1(n.op, std::move(inputs), std::move(attrs), &t);
    return {};
  }

  /// The part of v that is read, where it was computed by itself.
  std::optional<ValueId> part(ValueId v) const { return idx(v) < parts_.size() ? parts_[idx(v)] : std::nullopt; }

  ValueId take(ValueId v, const Part& p) {
    if (const auto computed = part(v)) return *computed;
    if (p.plain()) return r_.b.slice(v, static_cast<int>(p.dim), p.start, p.size, p.step);
    Exprs split = r_.dims(v), joined = split;
    split[p.dim] = p.after;
    split.insert(split.begin() + p.dim, {p.before, p.whole});
    joined[p.dim] = r_.g.syms.simplify(p.elems());
    return r_.b.reshape(r_.b.slice(r_.b.reshape(v, split), static_cast<int>(p.dim) + 1, p.start, p.size, p.step), joined);
  }

  Rewriter r_;
  std::vector<Demand> of_;                     ///< by value: a part only where it can be computed by itself
  std::vector<std::optional<ValueId>> parts_;  ///< by value: the part that of_ names
};

}  // namespace

/// Where all that is read of a value is one slice, computes that slice alone: slices move towards the inputs through operators that compute
/// each row from the same row of their operands (pointwise, reductions of other dims, rows of products, queries of attention, batches,
/// views). Lookups stay whole, since a run reports their indices that are out of range. Requires canonical views; leaves slices of full()
/// and of constants.
void hoist_slices(Graph& g, PassContext&) {
  Hoister h(g);
  for (int i = 0; i < kMaxRounds && h.round(); ++i) {}
}

}  // namespace aotc::passes
