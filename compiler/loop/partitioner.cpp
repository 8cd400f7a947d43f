#include "loop/partitioner.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/pointwise.h"
#include "loop/anchors.h"

namespace aotc::loop {
namespace {

constexpr size_t kMaxNodes = 200;  ///< nodes of one loop kernel: bounds code size and register pressure

bool is_var(const Expr& e, const std::vector<SymId>& vars) {
  auto s = e.as_symbol();
  return s && std::find(vars.begin(), vars.end(), *s) != vars.end();
}

std::vector<SymId> all_vars(const Group& gr) {
  std::vector<SymId> v = gr.outer;
  v.insert(v.end(), gr.inner.begin(), gr.inner.end());
  return v;
}

Exprs extents(const Group& gr, const std::vector<SymId>& vars) {
  Exprs e;
  for (SymId s : vars) e.push_back(*gr.syms[s].extent);
  return e;
}

SymId add_var(SymTable& syms, const std::string& name, const Expr& extent, SymKind kind = SymKind::loop) {
  SymInfo s;
  s.name = name;
  s.kind = kind;
  s.extent = extent;
  return syms.add(s);
}

}  // namespace

ValueId strip_reshapes(const Graph& g, ValueId v) {
  for (const Node* n = g.def(v); n && n->op == Op::reshape; n = g.def(v)) v = n->inputs[0];
  return v;
}

Partitioner::Partitioner(Partition& p, const std::set<ValueId>& alone)
    : p_(p), g_(p.g), alone_(alone), est_(estimate_costs(p.g, p.anchor)) {
  const size_t n = g_.values.size();
  demands_.raw().resize(n);
  why_.raw().resize(n);
  dense_.raw().assign(n, 0);
  apart_.raw().assign(n, 0);
  users_.raw().assign(n, 0);
}

void Partitioner::run() {
  for (NodeId id : g_.order) {
    const Node& n = g_.nodes[id];
    for (ValueId v : n.inputs) ++users_[v];
    if (op_class(n.op) == OpClass::opaque || n.op == Op::conv || n.op == Op::conv_transpose)
      for (ValueId v : n.inputs) dense_[v] = dense_[strip_reshapes(g_, v)] = 1;
  }
  user_nodes_ = g_.users();
  find_rows();
  for (size_t i = 0; i < g_.values.size(); ++i) p_.stored[static_cast<ValueId>(i)] = p_.is_leaf(static_cast<ValueId>(i));
  auto deliver = [&](ValueId v, StoreAt::Where where, uint32_t number, const std::string& why) {
    ++users_[v];
    auto& own = where == StoreAt::Where::output ? p_.output_of : p_.state_of;
    if (p_.is_leaf(v) || p_.output_of[v] >= 0 || p_.state_of[v] >= 0) {
      copy_group(v, {where, v, {}, kNone<NodeId>, number}, why);
    } else {
      own[v] = static_cast<int32_t>(number);
      force(v, why);
    }
  };
  for (uint32_t i = 0; i < g_.states.size(); ++i)
    if (const StateInfo& s = g_.states[static_cast<StateId>(i)]; s.updated != kNone<ValueId> && s.updated != s.value)
      deliver(s.updated, StoreAt::Where::state, i, "update of state " + s.name);
  for (uint32_t i = 0; i < g_.outputs.size(); ++i) deliver(g_.outputs[i].value, StoreAt::Where::output, i, "model output");
  for (size_t i = g_.order.size(); i-- > 0;) visit(g_.order[i]);
  if (alone_.empty()) merge_siblings();
  order_groups();
}

// -------------------------------------------------------------------------------------------------------------- demands
void Partitioner::need(ValueId v, GroupId gr, const Exprs& at, bool indirect) {
  if (p_.is_leaf(v)) return;
  for (const Demand& d : demands_[v])
    if (d.group == gr && d.idx == at) return;
  demands_[v].push_back({gr, at, indirect});
  p_.groups[gr].needs.push_back(v);
  if (p_.groups[gr].host != kNone<GroupId>) p_.groups[p_.groups[gr].host].needs.push_back(v);
}

void Partitioner::need_inputs(const Node& n, GroupId id, const Exprs& at) {
  Group& gr = p_.groups[id];
  bool indirect = false;
  for (const Demand& d : demands_[n.outputs[0]]) indirect = indirect || (d.group == id && d.idx == at && d.indirect);
  if (op_class(n.op) == OpClass::nullary) return;
  bool loaded = false;
  const LookUp look_up = [&](ValueId v, const Exprs& v_at, const Expr& extent) {
    loaded = true;
    need(v, id, v_at, indirect);
    return Expr::symbol(add_var(gr.syms, "x", extent, SymKind::value));
  };
  for (const InputRead& r : input_reads(g_, n, at, gr.inner, gr.syms, look_up)) need(r.value, id, r.at, indirect || loaded);
}

void Partitioner::force(ValueId v, const std::string& why) {
  if (!p_.is_leaf(v) && why_[v].empty()) why_[v] = why;
}

void Partitioner::force_apart(ValueId v, const std::string& why) {
  force(v, why);
  apart_[v] = 1;
}

std::vector<GroupId> Partitioner::demanding(ValueId v) const {
  std::vector<GroupId> out;
  if (apart_[v]) return out;
  for (const Demand& d : demands_[v])
    if (std::find(out.begin(), out.end(), d.group) == out.end()) out.push_back(d.group);
  return out;
}

const Exprs* Partitioner::only_index(ValueId v, GroupId gr) const {
  const Exprs* found = nullptr;
  for (const Demand& d : demands_[v]) {
    if (d.group != gr) continue;
    if (found || d.indirect) return nullptr;
    found = &d.idx;
  }
  return found;
}

double Partitioner::elems(ValueId v) const { return static_cast<double>(g_.syms.hint(g_.type(v).elems())); }

double Partitioner::points(const Group& gr, const Exprs& at) const {
  const std::vector<SymId> vars = all_vars(gr);
  if (vars.empty()) return 1;
  const bool rows = gr.split && (gr.kind == GroupKind::loop || gr.kind == GroupKind::prologue);
  const std::vector<SymId> innermost = rows ? gr.inner : std::vector<SymId>{vars.back()};
  double n = 1;
  for (const SegmentAt& s : gr.segments)
    if (s.column != kNone<SymId> && depends_on_any(at, {s.column})) n = static_cast<double>(s.end - s.begin);
  const bool deep = depends_on_any(at, innermost);
  for (SymId v : vars)
    if (deep || std::find(innermost.begin(), innermost.end(), v) == innermost.end())
      n *= static_cast<double>(g_.syms.hint(*gr.syms[v].extent));
  return n;
}

double Partitioner::read_points(ValueId v) const {
  double total = 0;
  for (const Demand& d : demands_[v]) total += points(p_.groups[d.group], d.idx);
  return total;
}

std::string Partitioner::reader_names(ValueId v) const {
  std::vector<std::string> names;
  for (NodeId id : user_nodes_[idx(v)]) {
    if (id == kNone<NodeId>) continue;
    const Node& n = g_.nodes[id];
    const std::string name = n.name.empty() ? std::string(op_name(n.op)) : n.name;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::string text;
  for (size_t i = 0; i < names.size() && i < 3; ++i) text += (i ? ", " : "") + names[i];
  return names.size() > 3 ? fmt::format("{} and {} more", text, names.size() - 3) : text;
}

std::string Partitioner::reason(ValueId v) const {
  if (!why_[v].empty()) return why_[v];
  const std::vector<GroupId> groups = demanding(v);
  const std::string readers = reader_names(v);
  const bool epilogue = p_.anchor[v] != kNone<NodeId>;
  if (groups.size() > 1 && epilogue) return fmt::format("read by {} kernels ({})", groups.size(), readers);
  if (groups.size() > 1) return fmt::format("read by {} kernels ({}) and dear to compute in each", groups.size(), readers);
  const OpClass c = op_class(g_.def(v)->op);
  const auto indirect = [](const Demand& d) { return d.indirect; };
  if (std::any_of(demands_[v].begin(), demands_[v].end(), indirect)) return fmt::format("{} reads it at indices that are loaded", readers);
  if (c == OpClass::reduce || c == OpClass::scan)
    return fmt::format("a {} whose reader {} loops over other rows", op_name(g_.def(v)->op), readers);
  if (p_.anchor[v] != kNone<NodeId>)
    return fmt::format("{} needs whole rows, tiles of {} are parts of rows", readers, op_name(g_.nodes[p_.anchor[v]].op));
  if (!stays_in_row(v)) return fmt::format("a normalised row that {} reads across rows", readers);
  if (demands_[v].size() > 1) return fmt::format("{} reads it at {} places and it is dear to compute", readers, demands_[v].size());
  const double total = read_points(v);
  if (total > 1.5 * elems(v)) return fmt::format("{} reads each element about {:.0f} times", readers, total / std::max(1.0, elems(v)));
  return fmt::format("the kernel of {} has no room for it", readers);
}

// ----------------------------------------------------------------------------------------------------------------- visits
void Partitioner::visit(NodeId id) {
  const Node& n = g_.nodes[id];
  if (n.dead) return;
  bool live = false;
  for (ValueId v : n.outputs) live = live || !demands_[v].empty() || forced(v);
  if (!live) return;
  if (p_.prologue[n.outputs[0]] != kNone<GroupId>) {
    const std::vector<Demand> all = demands_[n.outputs[0]];
    for (const Demand& d : all) inline_in(n, d.group, d.idx);
    return;
  }
  switch (op_class(n.op)) {
    case OpClass::nullary:
      if (forced(n.outputs[0])) store_alone(n, why_[n.outputs[0]]);
      break;
    case OpClass::unary:
    case OpClass::binary:
    case OpClass::ternary: visit_pointwise(n); break;
    case OpClass::view: visit_view(n); break;
    case OpClass::cat: visit_cat(id, n); break;
    case OpClass::index: visit_index(n); break;
    case OpClass::reduce: visit_reduce(n); break;
    case OpClass::scan: visit_scan(n); break;
    case OpClass::contraction: visit_contraction(id, n); break;
    case OpClass::opaque: visit_opaque(id, n); break;
  }
}

void Partitioner::visit_pointwise(const Node& n) {
  const ValueId v = n.outputs[0];
  const std::vector<GroupId> groups = demanding(v);
  if (!forced(v) && widens(g_, n)) {  // what is stored in fewer bytes is cast where it is used
    const std::vector<Demand> all = demands_[v];
    for (const Demand& d : all) inline_in(n, d.group, d.idx);
    return;
  }
  if (p_.anchor[v] != kNone<NodeId>) {
    const GroupId home = p_.group_of.at(p_.anchor[v]);
    const bool others = std::any_of(groups.begin(), groups.end(), [&](GroupId gr) { return gr != home; });
    if (!forced(v) && !others) return inline_in(n, home, p_.at[v]);
    const bool wanted_there = std::find(groups.begin(), groups.end(), home) != groups.end();
    const bool sources_stored =
        !forced(v) && !wanted_there && pointwise_info(n.op).cost <= 4 &&
        std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId u) { return p_.anchor[u] != p_.anchor[v] || escapes(u, p_.anchor[v]); });
    if (!sources_stored && !makes_cycle(v, home)) return store_in(n, home, p_.at[v], reason(v));
  }
  if (!forced(v) && groups.size() == 1)
    if (const Exprs* at = only_index(v, groups[0]); at && reduced_elsewhere(n, groups[0], *at)) {
      store_alone(n, fmt::format("made of reductions over other rows than those of {}", reader_names(v)));
      return;
    }
  const double total = read_points(v);
  bool indirect = false, full = false;
  for (const Demand& d : demands_[v]) {
    const Group& gr = p_.groups[d.group];
    indirect = indirect || d.indirect;
    full = full || (gr.kind == GroupKind::loop && gr.nodes.size() > kMaxNodes);
  }
  const double e = elems(v);
  const Estimate est = est_[v];
  const bool once = demands_[v].size() == 1;
  const bool cheap = est.cost <= 4 && est.loads <= 2 && total <= 1.5 * e * static_cast<double>(demands_[v].size());
  const bool free = est.cost <= 1 || (est.loads <= 1 && est.cost <= 2) || (once && est.cost <= 3);
  if (!forced(v) && !indirect && !full && stays_in_row(v) && ((once && total <= 1.5 * e) || cheap || free)) {
    const std::vector<Demand> all = demands_[v];
    for (const Demand& d : all) inline_in(n, d.group, d.idx);
    return;
  }
  for (GroupId gr : groups) {
    const Exprs* at = only_index(v, gr);
    const Group& host = p_.groups[gr];
    if (!stays_in_row(v, gr) || host.kind != GroupKind::loop || host.nodes.size() > kMaxNodes || !at) continue;
    const Exprs& dims = g_.type(v).dims;
    const bool covers = covers_once(dims, *at, all_vars(host), host.syms) || (host.split && covers_once(dims, *at, host.outer, host.syms));
    if (covers && !makes_cycle(v, gr)) return store_in(n, gr, Exprs(*at), reason(v));
  }
  store_alone(n, reason(v));
}

bool Partitioner::escapes(ValueId v, NodeId anchor) const {
  for (NodeId id : user_nodes_[idx(v)]) {
    if (id == kNone<NodeId>) return true;
    const Node& u = g_.nodes[id];
    const ValueId w = u.outputs[0];
    if (p_.anchor[w] != anchor || (is_view(u.op) && escapes(w, anchor))) return true;
  }
  return false;
}

bool Partitioner::stays_in_row(ValueId v, GroupId only) const {
  const Ints& row = row_dims_[v];
  if (row.empty()) return true;
  for (const Demand& d : demands_[v]) {
    if (only != kNone<GroupId> && d.group != only) continue;
    const Group& gr = p_.groups[d.group];
    if (gr.kind != GroupKind::loop) return false;
    std::vector<SymId> along;
    for (int64_t i : row)
      if (auto s = d.idx[static_cast<size_t>(i)].as_symbol()) along.push_back(*s);
    if (along.size() != row.size()) continue;  // seen through a reshape: the statistics are cheaper to store than the values
    if (gr.split ? along != gr.inner : along.size() > gr.outer.size()) return false;
    for (size_t i = 0; i < d.idx.size(); ++i)
      if (std::find(row.begin(), row.end(), static_cast<int64_t>(i)) == row.end() && depends_on_any({d.idx[i]}, along)) return false;
  }
  return true;
}

void Partitioner::find_rows() {
  row_dims_.raw().resize(g_.values.size());
  row_end_.raw().resize(g_.values.size());
  // Elements behind the last of some dims, which are not among those.
  const auto behind = [&](const Exprs& dims, int64_t last) {
    return g_.syms.simplify(product(Exprs(dims.begin() + last + 1, dims.end())));
  };
  for (NodeId id : g_.order) {
    const Node& n = g_.nodes[id];
    const ValueId v = n.outputs[0];
    if (op_class(n.op) == OpClass::reduce) {
      const Ints& dims = n.get<Ints>(Attr::dims);
      row_end_[v] = behind(g_.type(n.inputs[0]).dims, *std::max_element(dims.begin(), dims.end()));
    } else if (n.op == Op::expand && made_of_reductions(n.inputs[0])) {
      const Exprs &in = g_.type(n.inputs[0]).dims, &out = g_.type(v).dims;
      Ints row;
      for (size_t i = 0; i < in.size(); ++i)
        if (in[i].is(1) && !out[i].is(1)) row.push_back(static_cast<int64_t>(i));
      // Spread along another dim than was reduced, it is a number for each of other elements, which have nothing to normalise.
      if (!row.empty() && behind(in, row.back()) == *row_end_[n.inputs[0]]) row_dims_[v] = row;
    } else if (is_pointwise(n.op)) {
      for (ValueId u : n.inputs) {
        if (!row_end_[v]) row_end_[v] = row_end_[u];
        if (row_dims_[u].size() > row_dims_[v].size()) row_dims_[v] = row_dims_[u];
      }
    } else if (n.op == Op::reshape) {
      row_end_[v] = row_end_[n.inputs[0]];
    }
  }
}

void Partitioner::visit_view(const Node& n) {
  const ValueId v = n.outputs[0], u = n.inputs[0];
  const std::vector<Demand> all = demands_[v];
  if (p_.is_segment(v)) {
    const GroupId home = p_.group_of.at(p_.anchor[v]);
    const bool others = std::any_of(all.begin(), all.end(), [&](const Demand& d) { return d.group != home; });
    if (forced(v) || others) return store_in(n, home, p_.at[v], forced(v) ? why_[v] : "columns of a product");
    return inline_in(n, home, p_.at[v]);
  }
  const bool copied = n.get_or<bool>(Attr::stored, false);
  if (copied) {
    const bool gathered =
        std::any_of(all.begin(), all.end(), [&](const Demand& d) { return d.indirect || p_.groups[d.group].kind != GroupKind::loop; });
    if (gathered || read_points(v) > 1.5 * elems(v)) force(v, "a transposed copy: what reads it finds neighbours side by side");
    if (const Node* d = g_.def(u); d && (d->op == Op::index || made_of_reductions(u) || est_[u].cost > 4 || est_[u].loads > 2))
      force_apart(u, "transposed afterwards");
  }
  if (!forced(v)) {
    for (const Demand& d : all) inline_in(n, d.group, d.idx);
    return;
  }
  const NodeId id = g_.values[v].node;
  if (!copied && is_one_to_one(n) && can_place(u, n, id, 0)) {
    p_.place[u] = {id, 0};
    p_.stored[v] = 1;
    force(u, why_[v]);
    for (const Demand& d : all) inline_in(n, d.group, d.idx);
    return;
  }
  if (p_.anchor[v] != kNone<NodeId>) {
    const GroupId home = p_.group_of.at(p_.anchor[v]);
    if (!makes_cycle(v, home)) return store_in(n, home, p_.at[v], why_[v]);
  }
  store_alone(n, why_[v]);
}

void Partitioner::visit_cat(NodeId id, const Node& n) {
  const ValueId v = n.outputs[0];
  const std::vector<GroupId> groups = demanding(v);
  if (!forced(v) && groups.size() == 1 && p_.groups[groups[0]].kind == GroupKind::loop && demands_[v].size() <= 2 && n.inputs.size() <= 4) {
    const std::vector<Demand> all = demands_[v];
    for (const Demand& d : all) inline_in(n, d.group, d.idx);
    return;
  }
  p_.stored[v] = 1;
  const std::string why = reason(v);
  p_.notes.push_back({v, why});
  for (uint32_t k = 0; k < n.inputs.size(); ++k) {
    const ValueId u = n.inputs[k];
    if (std::count(n.inputs.begin(), n.inputs.end(), u) == 1 && can_place(u, n, id, k)) {
      p_.place[u] = {id, k};
      force(u, "part of " + why);
    } else {
      copy_group(u, {StoreAt::Where::cat_part, u, {}, id, k}, "part of " + why);
    }
  }
}

void Partitioner::visit_index(const Node& n) {
  const ValueId v = n.outputs[0];
  const std::vector<GroupId> groups = demanding(v);
  if (!forced(v) && groups.size() == 1 && p_.groups[groups[0]].kind == GroupKind::loop && only_index(v, groups[0])) {
    return inline_in(n, groups[0], Exprs(*only_index(v, groups[0])));
  }
  store_alone(n, reason(v));
}

void Partitioner::visit_reduce(const Node& n) {
  const ValueId v = n.outputs[0];
  const std::vector<GroupId> groups = demanding(v);
  const Ints& dims = n.get<Ints>(Attr::dims);
  const Exprs& in = g_.type(n.inputs[0]).dims;
  bool across = false;
  if (std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return in[static_cast<size_t>(d)].is(1); })) {  // as good as a view
    if (forced(v)) {
      store_alone(n, why_[v]);
    } else {
      const std::vector<Demand> all = demands_[v];
      for (const Demand& d : all) inline_in(n, d.group, d.idx);
    }
    return;
  }
  for (GroupId id : groups) {
    const Exprs* only = only_index(v, id);
    if (!only) continue;
    const Exprs at = *only;
    if (!can_host_reduce(p_.groups[id], n, at)) continue;
    if (goes_across(id, n, at)) {
      across = true;
      continue;
    }
    const bool alone = !forced(v) && groups.size() == 1;
    if (!alone && makes_cycle(v, id)) continue;
    split_for_reduce(p_.groups[id], n, at);
    if (alone) return inline_in(n, id, at);
    return store_in(n, id, at, reason(v));
  }
  Exprs at;
  const std::string why =
      across && !forced(v) ? fmt::format("a {} across rows, {} goes along them", op_name(n.op), reader_names(v)) : reason(v);
  const GroupId id = new_loop_group(v, &at);
  split_for_reduce(p_.groups[id], n, at);
  store_in(n, id, at, why);
}

void Partitioner::visit_scan(const Node& n) {
  const ValueId v = n.outputs[0];
  const std::vector<GroupId> groups = demanding(v);
  for (GroupId id : groups) {
    const Exprs* only = only_index(v, id);
    if (!only) continue;
    const Exprs at = *only;
    if (!can_host_scan(p_.groups[id], n, at)) continue;
    const bool alone = !forced(v) && groups.size() == 1;
    if (!alone && makes_cycle(v, id)) continue;
    split_for_scan(p_.groups[id], n, at);
    if (alone) return inline_in(n, id, at);
    return store_in(n, id, at, reason(v));
  }
  Exprs at;
  const std::string why = reason(v);
  const GroupId id = new_loop_group(v, &at);
  split_for_scan(p_.groups[id], n, at);
  store_in(n, id, at, why);
}

// ----------------------------------------------------------------------------------------------------------------- stores
void Partitioner::inline_in(const Node& n, GroupId gr, const Exprs& at) {
  const NodeId id = g_.values[n.outputs[0]].node;
  for (GroupId g : {gr, p_.groups[gr].host}) {
    if (g == kNone<GroupId>) continue;
    auto& nodes = p_.groups[g].nodes;
    if (std::find(nodes.begin(), nodes.end(), id) == nodes.end()) nodes.push_back(id);
  }
  need_inputs(n, gr, at);
}

void Partitioner::store_in(const Node& n, GroupId gr, const Exprs& at, const std::string& why) {
  const ValueId v = n.outputs[0];
  p_.groups[gr].stores.push_back({StoreAt::Where::own, v, at});
  p_.home[v] = gr;
  p_.stored[v] = 1;
  p_.notes.push_back({v, why});
  inline_in(n, gr, at);
}

GroupId Partitioner::new_loop_group(ValueId v, Exprs* at) {
  Group gr;
  gr.syms = g_.syms;
  at->clear();
  for (const Expr& d : g_.type(v).dims) {
    if (d.is(1)) {
      at->push_back(0);
      continue;
    }
    gr.outer.push_back(add_var(gr.syms, fmt::format("i{}", gr.outer.size()), d));
    at->push_back(Expr::symbol(gr.outer.back()));
  }
  return p_.groups.push(std::move(gr));
}

GroupId Partitioner::store_alone(const Node& n, const std::string& why) {
  Exprs at;
  const GroupId id = new_loop_group(n.outputs[0], &at);
  store_in(n, id, at, why);
  return id;
}

void Partitioner::copy_group(ValueId v, StoreAt where, const std::string& why) {
  const GroupId id = new_loop_group(v, &where.idx);
  need(v, id, where.idx);
  if (where.where == StoreAt::Where::cat_part) copies_[g_.nodes[where.cat].outputs[0]].push_back(id);
  p_.groups[id].stores.push_back(std::move(where));
  p_.notes.push_back({v, why + " (a copy)"});
}

bool Partitioner::can_place(ValueId v, const Node& into, NodeId into_id, uint32_t input) const {
  if (p_.is_leaf(v) || p_.output_of[v] >= 0 || p_.state_of[v] >= 0 || p_.place[v].into != kNone<NodeId> || forced(v)) return false;
  const Node& n = *g_.def(v);
  if (into.op != Op::reshape && into.op != Op::cat && users_[v] > 1) return false;
  const bool needs_dense = dense_[v] || op_class(n.op) == OpClass::opaque;
  if (!needs_dense && n.op != Op::attention && users_[v] == 1) return true;
  // Where would its elements be?
  SymTable syms = g_.syms;
  std::vector<SymId> vars;
  Exprs at;
  const Exprs& dims = g_.type(v).dims;
  for (const Expr& d : dims) {
    if (!d.is(1)) vars.push_back(add_var(syms, "i", d));
    at.push_back(d.is(1) ? Expr(0) : Expr::symbol(vars.back()));
  }
  auto first = view_forward(g_, g_.nodes[into_id], input, at, syms);
  const auto [root, offset] = p_.locate_offset(into.outputs[0], *first, syms);
  if (needs_dense) return offset == linearise(dims, at, syms) && (g_.type(root).elems() == g_.type(v).elems());
  return affine(offset, vars).has_value();
}

// ------------------------------------------------------------------------------------------------------------------ hosts
bool Partitioner::can_host_reduce(const Group& gr, const Node& n, const Exprs& at) const {
  if (gr.kind != GroupKind::loop || gr.nodes.size() > kMaxNodes) return false;
  Exprs reduced;
  for (int64_t d : n.get<Ints>(Attr::dims))
    if (const Expr& e = g_.type(n.inputs[0]).dims[static_cast<size_t>(d)]; !e.is(1)) reduced.push_back(e);
  std::vector<SymId> used, rest;
  for (SymId v : all_vars(gr)) (depends_on_any(at, {v}) ? used : rest).push_back(v);
  if (!covers_once(g_.type(n.outputs[0]).dims, at, used, gr.syms)) return false;
  if (gr.split) return used == gr.outer && extents(gr, gr.inner) == reduced;
  if (rest.empty()) return true;
  if (extents(gr, rest) != reduced) return false;
  // One row and many elements in it: parallel over elements is worth a kernel of its own for the reduction.
  return points(gr, at) >= 4 || g_.syms.hint(product(reduced)) <= 32768;
}

void Partitioner::split_for_reduce(Group& gr, const Node& n, const Exprs& at) {
  if (gr.split) return;
  gr.split = true;
  std::vector<SymId> used, rest;
  for (SymId v : gr.outer) (depends_on_any(at, {v}) ? used : rest).push_back(v);
  if (rest.empty())
    for (int64_t d : n.get<Ints>(Attr::dims))
      if (const Expr& e = g_.type(n.inputs[0]).dims[static_cast<size_t>(d)]; !e.is(1))
        rest.push_back(add_var(gr.syms, fmt::format("r{}", rest.size()), e));
  gr.outer = used;
  gr.inner = rest;
}

bool Partitioner::can_host_scan(const Group& gr, const Node& n, const Exprs& at) const {
  if (gr.kind != GroupKind::loop || gr.nodes.size() > kMaxNodes) return false;
  const std::vector<SymId> vars = all_vars(gr);
  const size_t dim = static_cast<size_t>(n.get<int64_t>(Attr::dim));
  const Exprs& dims = g_.type(n.outputs[0]).dims;
  if (!covers_once(dims, at, vars, gr.syms)) return false;
  if (dims[dim].is(1)) return !gr.split;
  if (!is_var(at[dim], vars)) return false;
  const SymId x = *at[dim].as_symbol();
  for (size_t i = 0; i < at.size(); ++i)
    if (i != dim && at[i].depends_on(x)) return false;
  return !gr.split || gr.inner == std::vector<SymId>{x};
}

void Partitioner::split_for_scan(Group& gr, const Node& n, const Exprs& at) {
  if (gr.split) return;
  gr.split = true;
  if (auto x = at[static_cast<size_t>(n.get<int64_t>(Attr::dim))].as_symbol()) {
    std::erase(gr.outer, *x);
    gr.inner = {*x};
  } else {
    gr.inner = {add_var(gr.syms, "r", 1)};
  }
}

}  // namespace aotc::loop
