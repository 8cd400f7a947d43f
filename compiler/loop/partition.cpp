#include "loop/partition.h"

#include <algorithm>
#include <set>

#include "loop/anchors.h"
#include "loop/cost.h"
#include "loop/index.h"
#include "loop/partitioner.h"

namespace aotc::loop {

std::pair<ValueId, Exprs> Partition::locate(ValueId v, const Exprs& at_idx, const SymTable& syms) const {
  Exprs at = at_idx;
  while (!is_leaf(v) && place[v].into != kNone<NodeId>) {
    const Node& n = g.nodes[place[v].into];
    auto next = view_forward(g, n, place[v].input, at, syms);
    AOTC_CHECK(next, "{} cannot hold a stored value", op_name(n.op));
    at = std::move(*next);
    v = n.outputs[0];
  }
  return {v, at};
}

std::pair<ValueId, Expr> Partition::locate_offset(ValueId v, const Exprs& at, const SymTable& syms) const {
  const auto [root, root_at] = locate(v, at, syms);
  return {root, linearise(g.type(root).dims, root_at, syms)};
}

bool Partition::reads(GroupId gr, ValueId v) const {
  if (is_leaf(v)) return true;
  const Node& n = *g.def(v);
  if (op_class(n.op) == OpClass::nullary) return false;
  if (home[v] != kNone<GroupId>) return home[v] != gr;
  return stored[v] && n.op == Op::cat;
}

namespace {
Partition attempt(const Graph& g, const FusionRules& rules, const std::set<ValueId>& alone) {
  Partition p(g);
  p.rules = rules;
  const size_t n = g.values.size();
  p.home.raw().assign(n, kNone<GroupId>);
  p.stored.raw().assign(n, 0);
  p.place.raw().assign(n, Place{});
  p.output_of.raw().assign(n, -1);
  p.state_of.raw().assign(n, -1);
  p.anchor.raw().assign(n, kNone<NodeId>);
  p.at.raw().assign(n, Exprs{});
  p.segment.raw().assign(n, 0);
  p.prologue.raw().assign(n, kNone<GroupId>);
  find_anchors(p, alone);
  Partitioner(p, alone).run();
  return p;
}
}  // namespace

Partition partition(const Graph& g, const FusionRules& rules) {
  // Epilogues of two products may feed each other through reductions. Then what is on the circle is stored by kernels of its own; when that
  // opens others, those too; in the end everything.
  constexpr int kAttempts = 4;
  std::set<ValueId> alone;
  for (int i = 0;; ++i) {
    Partition p = attempt(g, rules, alone);
    if (p.circle.empty()) {
      for (ValueId v : alone)
        if (i < kAttempts && p.stored[v]) p.notes.push_back({v, "shared kernels would wait for each other"});
      return p;
    }
    AOTC_CHECK(i < kAttempts, "the kernels of {} depend on each other in a circle", g.name);
    alone.insert(p.circle.begin(), p.circle.end());
    if (i + 1 == kAttempts)
      for (uint32_t v = 0; v < g.values.size(); ++v) alone.insert(static_cast<ValueId>(v));
  }
}

std::vector<ValueId> handed_on(const Partition& p) {
  std::set<ValueId> all;
  for (GroupId gr : p.order)
    for (ValueId v : p.groups[gr].needs)
      if (!p.is_leaf(v) && p.stored[v] && p.home[v] != kNone<GroupId> && p.home[v] != gr && p.output_of[v] < 0 && p.state_of[v] < 0)
        all.insert(v);
  return {all.begin(), all.end()};
}

OperandAt resolve_operand(const Partition& p, ValueId v, const Exprs& at_idx, const std::vector<SymId>& vars, const SymTable& syms,
                          const IdVec<ValueId, uint32_t>& user_counts) {
  const Graph& g = p.g;
  OperandAt best{v, at_idx};
  Exprs at = at_idx;
  bool part = false;  // some view drops elements: worth reading through only when the whole is stored anyway
  for (const Node* n = g.def(v); n && is_view(n->op); n = g.def(v)) {
    if (n->op == Op::pad || n->op == Op::window || n->op == Op::flip || p.is_segment(v)) break;
    InputIndex in = view_input(g, *n, at, syms);
    if (!in.within.empty()) break;
    part = part || n->op == Op::slice || n->op == Op::strided;
    v = n->inputs[0];
    at = std::move(in.idx);
    const Node* d = g.def(v);
    const bool whole = !d || op_class(d->op) == OpClass::contraction || op_class(d->op) == OpClass::opaque || user_counts[v] > 1;
    if (part && !whole) continue;
    if (affine(p.locate_offset(v, at, syms).second, vars)) best = {v, at};
  }
  return best;
}

}  // namespace aotc::loop
