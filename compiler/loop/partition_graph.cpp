// Contractions, opaque nodes, cycles and the order of the groups.
#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <tuple>

#include "graph/infer.h"
#include "loop/partitioner.h"

namespace aotc::loop {
namespace {

SymId add_axis(Group& gr, const char* name, const Expr& extent, Expr* at) {
  *at = 0;
  if (extent.is(1)) return kNone<SymId>;
  SymInfo s;
  s.name = name;
  s.kind = SymKind::loop;
  s.extent = extent;
  const SymId v = gr.syms.add(s);
  *at = Expr::symbol(v);
  return v;
}

std::vector<SymId> present(std::initializer_list<SymId> vars) {
  std::vector<SymId> out;
  for (SymId v : vars)
    if (v != kNone<SymId>) out.push_back(v);
  return out;
}

/// How many batch dims remain of a product when those that lie behind one another in both operands are taken as one.
size_t batch_axes(const Partition& p, const Exprs& result_idx, const OperandAt& a, const OperandAt& b, const std::vector<SymId>& vars,
                  const SymTable& syms) {
  const auto fa = affine(p.locate_offset(a.base, a.idx, syms).second, vars), fb = affine(p.locate_offset(b.base, b.idx, syms).second, vars);
  if (!fa || !fb) return result_idx.size();
  size_t count = 0, last = 0;
  for (size_t d = 0; d + 2 < result_idx.size(); ++d) {
    const auto v = result_idx[d].as_symbol();
    if (!v) continue;
    const size_t i = static_cast<size_t>(std::find(vars.begin(), vars.end(), *v) - vars.begin());
    const Expr extent = *syms[*v].extent;
    const auto follows = [&](const Affine& f) { return syms.proves_eq(f.coefs[last], f.coefs[i] * extent); };
    if (count == 0 || !follows(*fa) || !follows(*fb)) ++count;
    last = i;
  }
  return count;
}

}  // namespace

void Partitioner::visit_contraction(NodeId id, const Node& n) {
  const ValueId v = n.outputs[0];
  const GroupId home = p_.group_of.at(id);
  const std::vector<GroupId> groups = demanding(v);
  const bool others = std::any_of(groups.begin(), groups.end(), [&](GroupId gr) { return gr != home; });
  if (forced(v) || others || n.op == Op::attention) {
    p_.groups[home].stores.push_back({StoreAt::Where::own, v, p_.groups[home].result_idx});
    p_.home[v] = home;
    p_.stored[v] = 1;
    const std::string why = n.op == Op::attention
                                ? "result of attention"
                                : fmt::format("{} reads the result of {} outside its epilogue", reader_names(v), op_name(n.op));
    p_.notes.push_back({v, forced(v) ? why_[v] : why});
  }
  Group& gr = p_.groups[home];
  uint32_t number = 0;
  auto operand = [&](OperandAt at, const std::vector<SymId>& vars = {}) {
    const Fit computed = try_prologue(n, number++, home, at);
    if (computed.ok) {
      p_.groups[home].operands.push_back(std::move(at));
      return;
    }
    for (const Expr& e : at.idx)
      if (!affine(e, vars)) dense_[at.base] = 1;  // affine only while its dims lie as they are
    if (!p_.is_leaf(at.base)) {
      need(at.base, home, Exprs(g_.type(at.base).dims.size(), Expr(0)), true);
      const std::string why = computed.why.empty() ? "" : "; not computed in its prologue: " + computed.why;
      force(at.base, fmt::format("operand of {}{}", op_name(n.op), why));
    }
    p_.groups[home].operands.push_back(std::move(at));
  };
  if (n.op == Op::matmul) {
    const Exprs &a = g_.type(n.inputs[0]).dims, &b = g_.type(n.inputs[1]).dims;
    Expr k;
    gr.k_var = add_axis(gr, "k", a.back(), &k);
    Exprs a_at = gr.result_idx, b_at = gr.result_idx;
    a_at.back() = k;
    b_at[b.size() - 2] = k;
    std::vector<SymId> vars = gr.outer;
    if (gr.k_var != kNone<SymId>) vars.push_back(gr.k_var);
    const SymTable syms = gr.syms;
    OperandAt at_a = resolve_operand(p_, n.inputs[0], a_at, vars, syms, users_);
    OperandAt at_b = resolve_operand(p_, n.inputs[1], b_at, vars, syms, users_);
    if (a.size() > 4) {  // a kernel takes two batch dims; operands as they are have one
      if (batch_axes(p_, gr.result_idx, at_a, at_b, vars, syms) > 2) at_a = {n.inputs[0], a_at}, at_b = {n.inputs[1], b_at};
      dense_[at_a.base] = dense_[at_b.base] = 1;
    }
    operand(std::move(at_a), vars);
    operand(std::move(at_b), vars);
  } else if (n.op == Op::grouped_matmul) {
    Expr k, run;
    gr.k_var = add_axis(gr, "k", g_.type(n.inputs[0]).dims[1], &k);
    gr.run_var = add_axis(gr, "run", g_.type(n.inputs[1]).dims[0], &run);
    std::vector<SymId> vars = gr.outer;
    for (SymId v : present({gr.k_var, gr.run_var})) vars.push_back(v);
    const SymTable syms = gr.syms;
    const Exprs at = gr.result_idx;
    operand(resolve_operand(p_, n.inputs[0], {at[0], k}, vars, syms, users_), vars);
    operand(resolve_operand(p_, n.inputs[1], {run, k, at[1]}, vars, syms, users_), vars);
    operand({strip_reshapes(g_, n.inputs[2]), {}});
  } else if (n.op == Op::attention) {
    const Exprs &q = g_.type(n.inputs[0]).dims, &k = g_.type(n.inputs[1]).dims, &vv = g_.type(n.inputs[2]).dims;
    AttentionAxes& x = gr.axes;
    Expr b, h, hkv, l, s, e, ev;
    x.b = add_axis(gr, "b", q[0], &b);
    x.h = add_axis(gr, "h", q[1], &h);
    x.l = add_axis(gr, "l", q[2], &l);
    x.s = add_axis(gr, "s", k[2], &s);
    x.e = add_axis(gr, "e", q[3], &e);
    x.ev = add_axis(gr, "ev", vv[3], &ev);
    x.hkv = add_axis(gr, "hkv", k[1], &hkv);
    const SymTable syms = gr.syms;
    operand(resolve_operand(p_, n.inputs[0], {b, h, l, e}, present({x.b, x.h, x.l, x.e}), syms, users_), present({x.b, x.h, x.l, x.e}));
    operand(resolve_operand(p_, n.inputs[1], {b, hkv, s, e}, present({x.b, x.hkv, x.s, x.e}), syms, users_),
            present({x.b, x.hkv, x.s, x.e}));
    operand(resolve_operand(p_, n.inputs[2], {b, hkv, s, ev}, present({x.b, x.hkv, x.s, x.ev}), syms, users_),
            present({x.b, x.hkv, x.s, x.ev}));
    const AttentionInputs in = attention_inputs(g_, n);
    for (size_t i = 3; i < n.inputs.size(); ++i) {
      const bool scale = in.scales && i >= in.scales;
      const Exprs& dims = g_.type(n.inputs[i]).dims;
      Exprs at = {b, scale ? hkv : h, scale ? s : l, i == in.mask ? s : Expr(0)};
      for (size_t d = 0; d < 4 && !scale; ++d)
        if (dims[d].is(1)) at[d] = 0;
      const std::vector<SymId> vars = scale          ? present({x.b, x.hkv, x.s})
                                      : i == in.mask ? present({x.b, x.h, x.l, x.s})
                                                     : present({x.b, x.h, x.l});
      operand(resolve_operand(p_, n.inputs[i], at, vars, syms, users_), vars);
    }
  } else {
    operand({strip_reshapes(g_, n.inputs[0]), {}});
    operand({strip_reshapes(g_, n.inputs[1]), {}});
  }
}

Fit Partitioner::try_prologue(const Node& n, uint32_t number, GroupId home, OperandAt& operand) {
  if (n.op != Op::matmul) return {false, ""};
  if (p_.rules.prologue) {
    const DType dtype = g_.type(operand.base).dtype;
    Fit takes = p_.rules.prologue(dtype, number);
    if (!takes && number == 1 && p_.rules.few_bits && made_of_few_bits(g_, operand.base)) takes = p_.rules.few_bits(dtype);
    if (!takes) return takes;
  }
  if (p_.is_leaf(operand.base) || forced(operand.base)) return {false, ""};
  for (ValueId v = n.inputs[number]; v != operand.base; v = g_.def(v)->inputs[0])  // read through views
    if (user_nodes_[idx(v)].size() != 1) return {false, ""};
  if (g_.type(n.outputs[0]).elems().is(0)) return {false, ""};  // a product of nothing reads nothing
  const Group& host = p_.groups[home];
  // Rows of a are kept over all columns of a weight, over one block of columns of anything else. An element of b goes through the rows.
  const int64_t block = p_.rules.column_block, kept = p_.rules.kept_columns;
  const Exprs& dims = g_.type(n.outputs[0]).dims;
  const bool is_a = number == 0;
  int64_t macs = 1;
  bool again = false;
  if (is_a) {
    macs = g_.syms.hint(dims.back());
    again = macs > kept && !made_of_constants(g_, n.inputs[1]);
    macs = std::min(macs, kept);
  } else {
    for (size_t d = 0; d + 1 < dims.size(); ++d)
      if (const auto v = host.result_idx[d].as_symbol(); v && !depends_on_any(operand.idx, {*v})) macs *= g_.syms.hint(dims[d]);
    macs = std::min(macs, block);
  }
  const Result<PrologueRule> rule = find_prologue(p_, user_nodes_, row_dims_, operand.base, macs);
  if (!rule) return {false, rule.why()};
  if (again) return refuse("it would be computed for each block of {} columns", kept);
  const SymId column = is_a ? host.k_var : host.result_idx.back().as_symbol().value_or(kNone<SymId>);
  const bool across = column != kNone<SymId> && !operand.idx.back().depends_on(column);
  if (across && !made_of_constants(g_, operand.base)) return refuse("it is read across its rows");
  compute_in_prologue(*rule, n, number, home, operand);
  return Fit::yes();
}

void Partitioner::compute_in_prologue(const PrologueRule& rule, const Node& n, uint32_t number, GroupId home, OperandAt& operand) {
  Group gr;
  gr.kind = GroupKind::prologue;
  gr.host = home;
  gr.split = true;
  const Group& host = p_.groups[home];
  gr.syms = host.syms;
  const SymId column = number == 0 ? host.k_var : host.result_idx.back().as_symbol().value_or(kNone<SymId>);
  std::vector<SymId> vars = host.outer;
  if (host.k_var != kNone<SymId>) vars.push_back(host.k_var);
  for (SymId v : vars)
    if (depends_on_any(operand.idx, {v})) (v == column ? gr.inner : gr.outer).push_back(v);
  operand.prologue = p_.groups.push(std::move(gr));
  for (ValueId v : rule.values) p_.prologue[v] = operand.prologue;
  need(operand.base, operand.prologue, operand.idx);
  p_.notes.push_back({operand.base,
                      fmt::format("computed in the prologue of {}: costs {} an element and has no other reader",
                                  n.name.empty() ? std::string(op_name(n.op)) : n.name, rule.cost),
                      true});
}

void Partitioner::visit_opaque(NodeId id, const Node& n) {
  const GroupId home = p_.group_of.at(id);
  for (ValueId v : n.outputs) {
    p_.home[v] = home;
    p_.stored[v] = 1;
    p_.notes.push_back({v, forced(v) ? why_[v] : fmt::format("result of {}", op_name(n.op))});
    p_.groups[home].stores.push_back({StoreAt::Where::own, v, {}});
  }
  for (ValueId u : n.inputs) {
    need(u, home, Exprs(g_.type(u).dims.size(), Expr(0)), true);
    force(u, fmt::format("operand of {}", op_name(n.op)));
    p_.groups[home].operands.push_back({u, {}});
  }
}

bool Partitioner::makes_cycle(ValueId v, GroupId gr) {
  if (alone_.count(v)) return p_.groups[gr].kind == GroupKind::loop;  // chains of single users cannot make one
  // The groups that would wait for gr: readers of v and of whatever v becomes a part of.
  std::set<GroupId> targets;
  for (ValueId w = v;;) {
    for (const Demand& d : demands_[w]) {
      const GroupId reader = p_.groups[d.group].host == kNone<GroupId> ? d.group : p_.groups[d.group].host;
      if (reader == gr && w != v) return true;  // it would read the whole while it writes this part of it
      targets.insert(reader);
    }
    if (p_.place[w].into == kNone<NodeId>) break;
    w = g_.nodes[p_.place[w].into].outputs[0];
  }
  targets.erase(gr);
  std::set<GroupId> seen_groups;
  std::set<std::pair<ValueId, bool>> seen;
  struct Item {
    ValueId v;
    bool other;  ///< reached through another group
  };
  std::vector<Item> work;
  const Node& n = *g_.def(v);
  for (ValueId u : n.inputs) work.push_back({u, false});
  for (ValueId u : p_.groups[gr].needs)
    if (u != v) work.push_back({u, false});
  auto enter = [&](GroupId h, bool other) {  // true: a cycle
    if (h == gr) return other;
    if (targets.count(h)) return true;
    if (seen_groups.insert(h).second)
      for (ValueId u : p_.groups[h].needs) work.push_back({u, true});
    return false;
  };
  while (!work.empty()) {
    const Item it = work.back();
    work.pop_back();
    if (p_.is_leaf(it.v)) continue;
    if (p_.home[it.v] != kNone<GroupId>) {
      if (enter(p_.home[it.v], it.other)) return true;
      continue;
    }
    if (!seen.insert({it.v, it.other}).second) continue;
    if (auto c = copies_.find(it.v); c != copies_.end())
      for (GroupId h : c->second)
        if (enter(h, it.other)) return true;
    for (ValueId u : g_.def(it.v)->inputs) work.push_back({u, it.other});
  }
  return false;
}

void Partitioner::find_edges(std::vector<std::set<GroupId>>& before) const {
  before.assign(p_.groups.size(), {});
  for (uint32_t i = 0; i < p_.groups.size(); ++i) {
    const GroupId id = static_cast<GroupId>(i);
    std::set<ValueId> seen;
    std::vector<ValueId> work = p_.groups[id].needs;
    while (!work.empty()) {
      const ValueId v = work.back();
      work.pop_back();
      if (p_.is_leaf(v)) continue;
      if (const GroupId h = p_.home[v]; h != kNone<GroupId>) {
        before[i].insert(h);
        continue;
      }
      if (!seen.insert(v).second) continue;
      if (auto c = copies_.find(v); c != copies_.end()) before[i].insert(c->second.begin(), c->second.end());
      for (ValueId u : g_.def(v)->inputs) work.push_back(u);
    }
    before[i].erase(id);
  }
}

bool Partitioner::writes_state(GroupId gr) const {
  const std::vector<StoreAt>& stores = p_.groups[gr].stores;
  return std::any_of(stores.begin(), stores.end(), [&](const StoreAt& s) {
    ValueId v = s.where == StoreAt::Where::cat_part ? g_.nodes[s.cat].outputs[0] : s.value;
    while (p_.place[v].into != kNone<NodeId>) v = g_.nodes[p_.place[v].into].outputs[0];
    return s.where == StoreAt::Where::state || p_.state_of[v] >= 0;
  });
}

void Partitioner::checks_first(std::vector<std::set<GroupId>>& before, std::vector<Turn>& turn) const {
  std::vector<GroupId> checks, writers;  // writers: of states, and by index, which is what the message should not come from
  bool states = false;
  for (uint32_t i = 0; i < p_.groups.size(); ++i) {
    const GroupId id = static_cast<GroupId>(i);
    const auto stores = [&](std::initializer_list<Op> ops) {
      return std::any_of(p_.groups[id].stores.begin(), p_.groups[id].stores.end(), [&](const StoreAt& s) {
        return g_.def(s.value) && std::find(ops.begin(), ops.end(), g_.def(s.value)->op) != ops.end();
      });
    };
    const bool writes = writes_state(id);
    states = states || writes;
    if (stores({Op::check}))
      checks.push_back(id);
    else if (writes || stores({Op::index_put, Op::scatter}))
      writers.push_back(id);
  }
  for (uint32_t number = 0; states && number < checks.size(); ++number) {
    std::set<GroupId> needed = {checks[number]};
    for (std::vector<GroupId> work = {checks[number]}; !work.empty();) {
      const GroupId at = work.back();
      work.pop_back();
      for (GroupId h : before[idx(at)])
        if (needed.insert(h).second) work.push_back(h);
    }
    for (GroupId w : writers) {
      if (needed.count(w)) continue;
      before[idx(w)].insert(checks[number]);
      for (GroupId h : needed) {
        Turn& t = turn[idx(h)];
        t.rank = 0;
        t.check = std::min(t.check, number);
      }
    }
  }
}

void Partitioner::order_groups() {
  const size_t n = p_.groups.size();
  IdVec<ValueId, uint32_t> position;
  position.raw().assign(g_.values.size(), 0);
  for (uint32_t i = 0; i < g_.order.size(); ++i)
    for (ValueId v : g_.nodes[g_.order[i]].outputs) position[v] = i + 1;

  std::vector<std::set<GroupId>> before, after(n);
  std::vector<Turn> turn(n);
  find_edges(before);
  for (uint32_t i = 0; i < n; ++i)
    for (const StoreAt& s : p_.groups[static_cast<GroupId>(i)].stores) turn[i].position = std::max(turn[i].position, position[s.value]);
  for (Turn& t : turn) t.rank = t.position;
  checks_first(before, turn);
  for (uint32_t i = 0; i < n; ++i) {
    for (GroupId h : before[i]) after[idx(h)].insert(static_cast<GroupId>(i));
  }
  using Ready = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>;
  const auto ready_at = [&](uint32_t i) { return Ready{turn[i].rank, turn[i].check, turn[i].position, i}; };
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  std::vector<size_t> left(n);
  for (uint32_t i = 0; i < n; ++i)
    if ((left[i] = before[i].size()) == 0) ready.push(ready_at(i));
  size_t done = 0;
  while (!ready.empty()) {
    const uint32_t i = std::get<3>(ready.top());
    ready.pop();
    ++done;
    if (!p_.groups[static_cast<GroupId>(i)].stores.empty()) p_.order.push_back(static_cast<GroupId>(i));
    for (GroupId h : after[i])
      if (--left[idx(h)] == 0) ready.push(ready_at(static_cast<uint32_t>(idx(h))));
  }
  if (done == n) return;
  for (uint32_t i = 0; i < n; ++i)
    if (left[i] > 0)
      for (const StoreAt& s : p_.groups[static_cast<GroupId>(i)].stores) p_.circle.push_back(s.value);
}

}  // namespace aotc::loop
