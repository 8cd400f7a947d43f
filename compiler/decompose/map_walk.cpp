#include "decompose/map_walk.h"

#include <algorithm>
#include <set>

#include "decompose/matrices.h"
#include "import/operands.h"

namespace aotc::decompose {

using import::Arg;
using import::PNode;
using import::result_names;

namespace {

constexpr std::string_view kMaps = "torch._functorch.predispatch.";

std::vector<std::string> operand_names(const PNode& node) {
  std::set<std::string> names;
  const auto add = [&](const std::string& t) { names.insert(t); };
  for (const import::NamedArg& a : node.args) each_tensor(a.value, add);
  return {names.begin(), names.end()};
}

/// A dim of something of this rank, which may be counted from its end.
int dim_of(const PNode& node, size_t arg, int rank) {
  const auto* e = node.args.size() > arg ? std::get_if<Expr>(&node.args[arg].value) : nullptr;
  const auto d = e ? e->as_const() : std::nullopt;
  if (!d || *d < -rank || *d >= rank) throw Refused{"a dim of a map (vmap) that is not known", ""};
  return static_cast<int>(*d < 0 ? *d + rank : *d);
}

const std::string& tensor_of(const PNode& node) {
  const auto* t = node.args.empty() ? nullptr : std::get_if<import::TensorRef>(&node.args[0].value);
  if (!t || result_names(node).size() != 1) throw Refused{"a map (vmap) of something else than a tensor", ""};
  return t->name;
}

}  // namespace

bool MapWalk::takes(const PNode& node) const {
  if (node.target.rfind(kMaps, 0) == 0) return true;
  if (mapped_.empty()) return false;
  for (const std::string& name : operand_names(node))
    if (mapped_.count(name) || rows_.own.count(name)) return true;
  return false;
}

void MapWalk::run(const PNode& node) {
  struct Row {
    std::string_view name;
    void (*fn)(MapWalk&, const PNode&);
  };
  static constexpr Row kRows[] = {
      {"lazy_load_decompositions", [](MapWalk&, const PNode&) {}},
      {"_vmap_increment_nesting", [](MapWalk& w, const PNode&) { w.maps_.enter(); }},
      {"_vmap_decrement_nesting", [](MapWalk& w, const PNode&) { w.maps_.leave(); }},
      {"_add_batch_dim", [](MapWalk& w, const PNode& n) { w.begin_rows(n); }},
      {"_remove_batch_dim", [](MapWalk& w, const PNode& n) { w.end_rows(n); }},
  };
  if (node.target.rfind(kMaps, 0) != 0) return run_rows(node);
  for (const Row& row : kRows)
    if (node.target.substr(kMaps.size()) == row.name) return row.fn(*this, node);
  throw Refused{"a transformation of torch.func other than vmap",
                "ep.run_decompositions() before torch.export.save carries some of them out"};
}

Mapped MapWalk::operand(const std::string& name) {
  if (rows_.own.count(name)) {
    const ValueId v = rows_.env.get(name);
    follow();
    return maps_.value(rows_.graph, v, rows_.made);
  }
  const auto it = mapped_.find(name);
  if (it == mapped_.end()) return {env_.get(name)};
  if (it->second.leads > maps_.depth()) throw Refused{"a row of a map (vmap) that has ended", ""};
  return it->second;
}

void MapWalk::define(const std::string& name, const Mapped& v) {
  if (v.leads == 0)
    env_.define(name, v.value);
  else
    mapped_[name] = v;
}

void MapWalk::begin_rows(const PNode& node) {
  const Mapped x = operand(tensor_of(node));
  if (maps_.depth() == 0 || x.leads >= maps_.depth()) throw Refused{"rows of a map (vmap) that has not begun", ""};
  define(result_names(node)[0], maps_.rows_of(x, dim_of(node, 1, b_.rank(x.value) - x.leads)));
}

void MapWalk::end_rows(const PNode& node) {
  const std::string of = tensor_of(node), result = result_names(node)[0];
  const Mapped x = operand(of);
  const auto* n = node.args.size() > 2 ? std::get_if<Expr>(&node.args[2].value) : nullptr;
  if (maps_.depth() == 0 || !n) throw Refused{"rows of a map (vmap) whose number is not known", ""};
  define(result, maps_.whole(x, *n, dim_of(node, 3, b_.rank(x.value) - x.leads + 1)));
  // What a map within gives is a new tensor of the row around it, unless it shares memory with another.
  if (!mapped_.count(result) || !rows_.own.count(of)) return;
  if (const std::string& base = rows_.env.base_of(of); rows_.given.count(base) || !rows_.handed_on.insert(base).second) return;
  give(result);
  rows_.given.erase(result);
  rows_.own.insert(result);
}

void MapWalk::give(const std::string& name) {
  if (rows_.own.count(name)) return;
  const Mapped x = operand(name);
  const auto known = rows_.given.find(name);
  if (known != rows_.given.end() && rows_.made.at(known->second).value == x.value) return;
  const Exprs& dims = b_.dims(x.value);
  const ValueId v = rows_.graph.add_input(name, {b_.dtype(x.value), Exprs(dims.begin() + x.leads, dims.end())});
  rows_.made[v] = x;
  rows_.given[name] = v;
  rows_.env.define(name, v);
}

void MapWalk::follow() {
  const std::vector<NodeId>& order = rows_.graph.order;
  const std::vector<NodeId> added(order.begin() + static_cast<std::ptrdiff_t>(rows_.nodes), order.end());
  rows_.nodes = order.size();
  for (; rows_.guards < rows_.graph.guards.size(); ++rows_.guards) {
    const ShapeGuard& q = rows_.graph.guards[rows_.guards];
    b_.require(q.kind, q.a, q.b, q.why);
  }
  maps_.apply(rows_.graph, added, rows_.made);
  for (; rows_.checks < rows_.env.checks().size(); ++rows_.checks) {
    const Env::Check& c = rows_.env.checks()[rows_.checks];
    const T each(b_, maps_.value(rows_.graph, c.condition, rows_.made).value);
    env_.add({each.rank() == 0 ? each : each.reduce(ReduceKind::min, all_dims(each), false), c.message});
  }
}

void MapWalk::run_rows(const PNode& node) {
  if (import::views_memory(node)) throw Refused{"a view of memory for each row of a map (vmap)", "use slicing, permute or unfold"};
  rows_.graph.syms = b_.syms();
  for (const std::string& name : operand_names(node)) give(name);
  for (const import::Branch& b : node.branches) give(b.condition.name);
  const auto written = [&] {
    return std::count_if(rows_.given.begin(), rows_.given.end(), [&](const auto& g) { return rows_.env.written(g.first); });
  };
  const auto before = written();
  rows_.b.at(node.name, node.source);
  rows_.env.run(node);
  follow();
  for (const std::string& name : result_names(node))
    if (rows_.env.known(name)) rows_.own.insert(name);
  if (written() > before) throw Refused{"a write in place, for each row of a map (vmap), into what the rows are of", "clone the row first"};
}

}  // namespace aotc::decompose
