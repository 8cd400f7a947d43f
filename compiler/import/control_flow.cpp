// Control flow of the exported graph that needs none at run time: a branch computes both sides and takes one (so the side that is not taken
// must not read beyond its tensors either), rounds over the rows of tensors of a known length are written out, and each row on its own, of
// which there may be any number, is a map (vmap).
#include <algorithm>

#include "import/graph_reader.h"

namespace aotc::import {

namespace {

constexpr size_t kMostNodes = 4096;  ///< of all rounds of one loop together

/// The same tensor's row.
TensorMeta row_of(const TensorMeta& t, int64_t i) {
  TensorMeta row = t;
  row.sizes.erase(row.sizes.begin());
  row.strides.erase(row.strides.begin());
  row.storage_offset = t.storage_offset + t.strides[0] * i;
  return row;
}

bool only_tensors(const std::vector<Arg>& args) {
  return std::all_of(args.begin(), args.end(), [](const Arg& a) { return std::holds_alternative<TensorRef>(a); });
}

/// Whether a graph gives nothing but tensors.
bool gives_tensors(const JsonRef& graph) {
  const JsonRef out = graph["outputs"];
  for (size_t i = 0, n = out.size(); i < n; ++i)
    if (out.at(i).tagged().first != "as_tensor") return false;
  return true;
}

}  // namespace

/// An operator with its subgraphs and what they are called with: each argument a list, a single value a list of one.
struct GraphReader::ControlFlow {
  const JsonRef& node;
  const PNode& head;
  std::vector<std::pair<std::string, JsonRef>> graphs;  ///< with their names
  std::vector<std::vector<Arg>> arguments;
  std::vector<JsonRef> results;  ///< tensors by name, lists laid flat
};

std::vector<std::string> GraphReader::define_results(const ControlFlow& f, Scope& s) {
  std::vector<std::string> names;
  for (const JsonRef& r : f.results) names.push_back(define(r["name"].text(), s, r).name);
  return names;
}

void GraphReader::add_node(const PNode& head, const std::string& target, std::vector<NamedArg> args, const std::string& result) {
  PNode n = head;
  n.name = result;
  n.target = target;
  n.args = std::move(args);
  n.results = {TensorRef{result}};
  p_.nodes.push_back(std::move(n));
}

bool GraphReader::inline_control_flow(const JsonRef& node, Scope& s, const PNode& head) {
  struct Kind {
    std::string_view target;
    bool (GraphReader::*inlined)(const ControlFlow&, Scope&);
    size_t graphs, arguments;
  };
  static constexpr Kind kKinds[] = {
      {"higher_order.cond", &GraphReader::inline_cond, 2, 2},        // condition, operands
      {"higher_order.map_impl", &GraphReader::inline_rounds, 1, 2},  // rows, the rest
      {"higher_order.scan", &GraphReader::inline_rounds, 1, 3},      // what is carried, rows, the rest
  };
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.target == head.target; });
  if (kind == std::end(kKinds)) return false;
  ControlFlow f{node, head, {}, {}, {}};
  const JsonRef inputs = node["inputs"];
  for (size_t i = 0, n = inputs.size(); i < n; ++i) {
    const auto [tag, v] = inputs.at(i)["arg"].tagged();
    if (tag == "as_graph") {
      f.graphs.emplace_back(v["name"].text(), v["graph"]);
      if (!gives_tensors(v["graph"])) return false;
      continue;
    }
    const Arg a = read_arg(inputs.at(i)["arg"], s);
    std::vector<Arg>& values = f.arguments.emplace_back();
    if (const auto* list = std::get_if<TensorList>(&a))
      values.assign(list->begin(), list->end());
    else if (!std::holds_alternative<std::vector<Expr>>(a))  // an empty list has no type
      values.push_back(a);
  }
  const JsonRef outputs = node["outputs"];
  for (size_t i = 0, n = outputs.size(); i < n; ++i) {
    const auto [tag, v] = outputs.at(i).tagged();
    if (tag == "as_tensor")
      f.results.push_back(v);
    else if (tag == "as_tensors")
      for (size_t k = 0, m = v.size(); k < m; ++k) f.results.push_back(v.at(k));
    else
      return false;
  }
  if (f.graphs.size() != kind->graphs || f.arguments.size() != kind->arguments) return false;
  for (const auto& [name, graph] : f.graphs)
    if (graph["outputs"].size() != f.results.size())
      throw outputs.fault(fmt::format("{} names for the {} results of a subgraph", f.results.size(), graph["outputs"].size()));
  return (this->*kind->inlined)(f, s);
}

bool GraphReader::inline_cond(const ControlFlow& f, Scope& s) {
  if (f.arguments[0].size() != 1) return false;
  const auto side = [&](size_t i) { return call(f.graphs[i].second, f.graphs[i].first, f.arguments[1], s); };
  const std::vector<Arg> yes = side(0), no = side(1);
  const std::vector<std::string> names = define_results(f, s);
  Arg condition = f.arguments[0][0];
  if (!std::holds_alternative<TensorRef>(condition)) {
    const std::string taken = f.head.name + ".taken";
    p_.tensors[taken] = {.dtype = DType::boolean};
    defined_.insert(taken);
    add_node(f.head, "aten.scalar_tensor.default",
             {{"s", condition}, {"dtype", DType::boolean}, {"layout", NoneArg{}}, {"device", NoneArg{}}, {"pin_memory", NoneArg{}}}, taken);
    condition = TensorRef{taken};
  }
  for (size_t i = 0; i < names.size(); ++i)
    add_node(f.head, "aten.where.self", {{"condition", condition}, {"self", yes[i]}, {"other", no[i]}}, names[i]);
  return true;
}

bool GraphReader::inline_map(const ControlFlow& f, Scope& s) {
  const std::vector<Arg>&over = f.arguments[0], &rest = f.arguments[1];
  const TensorMeta& first = p_.tensors.at(std::get<TensorRef>(over[0]).name);
  if (first.sizes.empty()) return false;
  const Expr rows = first.sizes[0];
  const auto add = [&](const std::string& op, std::vector<Arg> args, std::vector<Arg> results) {
    PNode n = f.head;
    n.target = "torch._functorch.predispatch." + op;
    for (size_t i = 0; i < args.size(); ++i) n.args.push_back({std::to_string(i), std::move(args[i])});
    n.results = std::move(results);
    if (const auto* t = std::get_if<TensorRef>(&n.results[0])) n.name = t->name;
    p_.nodes.push_back(std::move(n));
  };
  std::vector<Arg> operands;
  for (size_t k = 0; k < over.size(); ++k) {
    const TensorMeta& t = p_.tensors.at(std::get<TensorRef>(over[k]).name);
    if (t.sizes.empty() || !symbols_.table().proves_eq(t.sizes[0], rows)) return false;
  }
  const Expr level(++maps_);
  add("_vmap_increment_nesting", {rows, std::string("error")}, {NoneArg{}});
  for (size_t k = 0; k < over.size(); ++k) {
    const std::string row = fmt::format("{}.rows_{}", f.head.name, k);
    p_.tensors[row] = row_of(p_.tensors.at(std::get<TensorRef>(over[k]).name), 0);
    defined_.insert(row);
    add("_add_batch_dim", {over[k], Expr(0), level}, {TensorRef{row}});
    operands.emplace_back(TensorRef{row});
  }
  operands.insert(operands.end(), rest.begin(), rest.end());
  const std::vector<Arg> out = call(f.graphs[0].second, f.graphs[0].first, operands, s);
  if (!only_tensors(out)) throw f.node.fault("a row that gives something else than tensors");
  const std::vector<std::string> names = define_results(f, s);
  for (size_t k = 0; k < names.size(); ++k) add("_remove_batch_dim", {out[k], level, rows, Expr(0)}, {TensorRef{names[k]}});
  add("_vmap_decrement_nesting", {}, {NoneArg{}});
  --maps_;
  return true;
}

bool GraphReader::inline_rounds(const ControlFlow& f, Scope& s) {
  const auto& [name, graph] = f.graphs[0];
  const bool carries = f.arguments.size() == 3;
  std::vector<Arg> carried = carries ? f.arguments[0] : std::vector<Arg>();
  const std::vector<Arg>&over = f.arguments[carries ? 1 : 0], &rest = f.arguments.back();
  if (over.empty() || !only_tensors(over) || carried.size() > f.results.size()) return false;
  std::optional<int64_t> rounds;
  for (const Arg& a : over) {
    const TensorMeta& t = p_.tensors.at(std::get<TensorRef>(a).name);
    const auto n = t.sizes.empty() ? std::nullopt : t.sizes[0].as_const();
    if (!n && !carries) return inline_map(f, s);
    if (!n || *n < 1 || (rounds && *rounds != *n)) return false;
    rounds = n;
  }
  if (static_cast<size_t>(*rounds) * std::max<size_t>(graph["nodes"].size(), 1) > kMostNodes) return false;
  std::vector<TensorList> stacked(f.results.size() - carried.size());
  for (int64_t i = 0; i < *rounds; ++i) {
    std::vector<Arg> operands = carried;
    for (size_t k = 0; k < over.size(); ++k) {
      const TensorRef of = std::get<TensorRef>(over[k]);
      const std::string row = fmt::format("{}.row_{}_{}", f.head.name, k, i);
      p_.tensors[row] = row_of(p_.tensors.at(of.name), i);
      defined_.insert(row);
      add_node(f.head, "aten.select.int", {{"self", of}, {"dim", Expr(0)}, {"index", Expr(i)}}, row);
      operands.emplace_back(TensorRef{row});
    }
    operands.insert(operands.end(), rest.begin(), rest.end());
    const std::vector<Arg> out = call(graph, name, operands, s);
    if (!only_tensors(out)) throw f.node.fault("a round that gives something else than tensors");
    std::copy_n(out.begin(), carried.size(), carried.begin());
    for (size_t k = 0; k < stacked.size(); ++k) stacked[k].push_back(std::get<TensorRef>(out[carried.size() + k]));
  }
  const std::vector<std::string> names = define_results(f, s);
  for (size_t k = 0; k < names.size(); ++k) {
    if (k < carried.size())
      add_node(f.head, "aten.clone.default", {{"self", carried[k]}, {"memory_format", NoneArg{}, true}}, names[k]);
    else
      add_node(f.head, "aten.stack.default", {{"tensors", stacked[k - carried.size()]}, {"dim", Expr(0), true}}, names[k]);
  }
  return true;
}

}  // namespace aotc::import
