// Which axis lanes would run along: a reduction across rows, whose neighbours in memory are the elements of other rows, and a kernel that
// goes along its own rows had better not share their loops, though the extents agree. One of the two would step over what it reads.
#include <algorithm>

#include "loop/partitioner.h"

namespace aotc::loop {
namespace {

constexpr int64_t kLeastReduced = 4096;  ///< elements; fewer are read before another kernel has begun
constexpr int kDear = 4;                 ///< simple operations that are not made again for each row of a reader
constexpr size_t kMostReads = 64;        ///< of the values behind a reduction that are looked at

/// Accesses that a lane axis would step over, neither one element a lane nor one for all.
int stepped_over(const std::vector<ElementAt>& accesses, SymId lanes) {
  return static_cast<int>(std::count_if(accesses.begin(), accesses.end(), [&](const ElementAt& a) {
    const auto step = a.offset.linear_coefficient(lanes);
    return !step || !(step->is(0) || step->is(1));
  }));
}

/// The fewest that some axis of lanes does: of the inner ones, which may be short, or of those rows that fill the lanes.
int stepped_over(const std::vector<ElementAt>& accesses, const std::vector<SymId>& inner, const std::vector<SymId>& rows,
                 const SymTable& syms, int64_t lanes) {
  int best = static_cast<int>(accesses.size());
  for (SymId v : inner) best = std::min(best, stepped_over(accesses, v));
  for (SymId v : rows)
    if (syms.hint(*syms[v].extent) >= lanes) best = std::min(best, stepped_over(accesses, v));
  return best;
}

}  // namespace

void Partitioner::read_behind(ValueId v, const Exprs& at, const std::vector<SymId>& inner, SymTable& syms, Behind& out) const {
  const Node* n = g_.def(v);
  if (n && op_class(n->op) == OpClass::nullary) return;
  const bool computed = n && !p_.stored[v] && !forced(v) && (is_pointwise(n->op) || is_view(n->op)) && out.reads.size() < kMostReads;
  if (!computed) {
    const auto [base, offset] = p_.locate_offset(v, at, syms);
    if (depends_on_any({offset}, inner) && std::find(out.reads.begin(), out.reads.end(), ElementAt{base, offset}) == out.reads.end())
      out.reads.push_back({base, offset});
    return;
  }
  std::vector<Exprs>& seen = out.seen[v];
  if (std::find(seen.begin(), seen.end(), at) != seen.end()) return;
  seen.push_back(at);
  const LookUp none = [](ValueId, const Exprs&, const Expr&) { return Expr(0); };
  for (const InputRead& r : input_reads(g_, *n, at, inner, syms, none)) read_behind(r.value, r.at, inner, syms, out);
}

std::vector<ElementAt> Partitioner::accesses(GroupId id, const std::vector<SymId>& inner, ValueId but) const {
  const Group& gr = p_.groups[id];
  SymTable syms = gr.syms;
  Behind out;
  for (const StoreAt& s : gr.stores) {
    const auto [base, offset] = p_.locate_offset(s.value, s.idx, syms);
    if (depends_on_any({offset}, inner)) out.reads.push_back({base, offset});
  }
  const LookUp none = [](ValueId, const Exprs&, const Expr&) { return Expr(0); };
  const auto reads_of = [&](const Node& n, const Exprs& at) {
    if (op_class(n.op) == OpClass::nullary) return;
    for (const InputRead& r : input_reads(g_, n, at, inner, syms, none)) {
      if (r.value == but) continue;
      const Node* from = g_.def(r.value);
      if (from && std::find(gr.nodes.begin(), gr.nodes.end(), g_.values[r.value].node) != gr.nodes.end()) continue;
      read_behind(r.value, r.at, inner, syms, out);
    }
  };
  for (NodeId node : gr.nodes) {
    const Node& n = g_.nodes[node];
    for (const Demand& d : demands_[n.outputs[0]])
      if (d.group == id) reads_of(n, d.idx);
    for (const StoreAt& s : gr.stores)
      if (s.value == n.outputs[0]) reads_of(n, s.idx);
  }
  return std::move(out.reads);
}

bool Partitioner::goes_across(GroupId id, const Node& n, const Exprs& at) const {
  const Group& gr = p_.groups[id];
  const FusionRules& rules = p_.rules;
  if (!rules.columns || g_.syms.hint(g_.type(n.inputs[0]).elems()) < kLeastReduced) return false;
  std::vector<SymId> rows, inner = gr.inner;
  if (gr.split) {
    rows = gr.outer;
  } else {
    for (SymId v : gr.outer) (depends_on_any(at, {v}) ? rows : inner).push_back(v);
  }
  if (inner.empty() || rows.empty()) return false;
  SymTable syms = gr.syms;
  Behind behind;
  const LookUp none = [](ValueId, const Exprs&, const Expr&) { return Expr(0); };
  for (const InputRead& r : input_reads(g_, n, at, inner, syms, none)) read_behind(r.value, r.at, inner, syms, behind);
  const std::vector<ElementAt>& reduced = behind.reads;
  std::vector<ElementAt> both = accesses(id, inner, n.outputs[0]);
  const int apart = stepped_over(reduced, inner, rows, syms, rules.lanes) + stepped_over(both, inner, rows, syms, rules.lanes);
  for (const ElementAt& r : reduced) {
    if (std::find(both.begin(), both.end(), r) != both.end()) return false;  // read once for both
  }
  both.insert(both.end(), reduced.begin(), reduced.end());
  return stepped_over(both, inner, rows, syms, rules.lanes) > apart;
}

bool Partitioner::lanes_differ(GroupId a, GroupId b, const SymMap& to) const {
  const Group &x = p_.groups[a], &y = p_.groups[b];
  if (!p_.rules.columns || !x.split || !y.split || x.inner.empty() || x.outer.empty()) return false;
  int64_t points = 1;
  for (const std::vector<SymId>* vars : {&x.outer, &x.inner})
    for (SymId v : *vars) points *= x.syms.hint(*x.syms[v].extent);
  if (points < kLeastReduced) return false;
  const auto count = [&](const std::vector<ElementAt>& all, const Group& gr) {
    return stepped_over(all, gr.inner, gr.outer, gr.syms, p_.rules.lanes);
  };
  std::vector<ElementAt> all = accesses(a, x.inner, kNone<ValueId>);
  const std::vector<ElementAt> others = accesses(b, y.inner, kNone<ValueId>);
  const int apart = count(all, x) + count(others, y);
  for (const ElementAt& e : others) {
    const ElementAt moved{e.base, e.offset.substitute(to)};
    if (std::find(all.begin(), all.end(), moved) == all.end()) all.push_back(moved);
  }
  return count(all, x) > apart;
}

bool Partitioner::reduced_elsewhere(const Node& n, GroupId id, const Exprs& at) const {
  const Group& gr = p_.groups[id];
  if (!p_.rules.columns || gr.kind != GroupKind::loop || !made_of_reductions(n.outputs[0])) return false;
  SymTable syms = gr.syms;
  const LookUp none = [](ValueId, const Exprs&, const Expr&) { return Expr(0); };
  // How many reductions a value at a place is made of, up to two; nothing where one of them can be computed here. Values are made of others
  // by many ways, each of which is gone once.
  std::map<ValueId, std::vector<std::pair<Exprs, std::optional<int>>>> known;
  const auto elsewhere = [&](const auto& self, const Node& x, const Exprs& x_at) -> std::optional<int> {
    int all = 0;
    for (const InputRead& r : input_reads(g_, x, x_at, {}, syms, none)) {
      const Node* from = g_.def(r.value);
      if (!from || !made_of_reductions(r.value)) continue;
      if (op_class(from->op) == OpClass::reduce) {
        if (can_host_reduce(gr, *from, r.at) && !goes_across(id, *from, r.at)) return std::nullopt;
        ++all;
        continue;
      }
      auto& of_value = known[r.value];
      auto it = std::find_if(of_value.begin(), of_value.end(), [&](const auto& k) { return k.first == r.at; });
      std::optional<int> more = it != of_value.end() ? it->second : self(self, *from, r.at);
      if (it == of_value.end()) known[r.value].emplace_back(r.at, more);
      if (!more) return std::nullopt;
      all = std::min(all + *more, 2);
    }
    return std::min(all, 2);
  };
  const std::optional<int> reductions = elsewhere(elsewhere, n, at);
  return reductions && (*reductions > 1 || (*reductions == 1 && est_[n.outputs[0]].cost > kDear));
}

}  // namespace aotc::loop
