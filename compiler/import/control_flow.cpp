// Control flow of the exported graph that needs none at run time: a branch computes both sides and takes one (so the side that is not taken
// must not read beyond its tensors either), rounds over the rows of tensors are written out, as many as there are at most, and each row on
// its own, of which there may be any number, is a map (vmap).
#include "import/control_flow.h"

#include <algorithm>
#include <utility>

namespace aotc::import {

namespace {

/// The same tensor's row.
TensorMeta row_of(const TensorMeta& t, const Expr& i) {
  TensorMeta row = t;
  row.sizes.erase(row.sizes.begin());
  row.strides.erase(row.strides.begin());
  row.storage_offset = t.storage_offset + t.strides[0] * i;
  return row;
}

/// Whether a graph gives nothing but tensors.
bool gives_tensors(const JsonRef& graph) {
  const JsonRef out = graph["outputs"];
  for (size_t i = 0, n = out.size(); i < n; ++i)
    if (out.at(i).tagged().first != "as_tensor") return false;
  return true;
}

}  // namespace

std::vector<std::string> GraphReader::define_results(const ControlFlow& f, Scope& s) {
  std::vector<std::string> names;
  for (const JsonRef& r : f.results) names.push_back(define(r["name"].text(), s, r).name);
  return names;
}

void GraphReader::add_node(const PNode& head, const std::string& target, std::vector<NamedArg> args, const std::string& result) {
  symbols_.budget().charge(Budget::Kind::nodes, 1, [&] { return Loc{p_.file, head.path, head.name, head.source}; });
  PNode n = head;
  n.name = result;
  n.target = target;
  n.args = std::move(args);
  n.results = {TensorRef{result}};
  p_.nodes.push_back(std::move(n));
}

std::string GraphReader::own(const std::string& node, const std::string& suffix, TensorMeta type) {
  std::string name = fmt::format("{}.{}", node, suffix);
  p_.tensors[name] = std::move(type);
  defined_.insert(name);
  return name;
}

TensorRef GraphReader::as_tensor(const PNode& head, const std::string& node, const std::string& suffix, const Arg& number, DType dtype) {
  const std::string name = own(node, suffix, {.dtype = dtype});
  add_node(head, "aten.scalar_tensor.default",
           {{"s", number}, {"dtype", dtype}, {"layout", NoneArg{}}, {"device", NoneArg{}}, {"pin_memory", NoneArg{}}}, name);
  return TensorRef{name};
}

bool GraphReader::inline_control_flow(const JsonRef& node, Scope& s, const PNode& head) {
  struct Kind {
    std::string_view target;
    bool (GraphReader::*inlined)(const ControlFlow&, Scope&);
    size_t graphs, arguments;
    size_t own_results;  ///< subgraphs before this one have results of their own; the others' are the operator's
  };
  static constexpr Kind kKinds[] = {
      {"higher_order.cond", &GraphReader::inline_cond, 2, 2, 0},         // condition, operands
      {"higher_order.map_impl", &GraphReader::inline_rounds, 1, 2, 0},   // rows, the rest
      {"higher_order.scan", &GraphReader::inline_rounds, 1, 3, 0},       // what is carried, rows, the rest
      {"higher_order.while_loop", &GraphReader::inline_while, 2, 2, 1},  // what is carried, the rest
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
    if (tag == "as_tensors") {  // sizes stand among the tensors, by their names
      std::vector<Arg>& values = f.arguments.emplace_back();
      for (size_t k = 0, m = v.size(); k < m; ++k) {
        const std::string name = v.at(k)["name"].text();
        const std::optional<Expr> size = size_named(name, s);
        values.push_back(size ? Arg(*size) : tensor(name, s, v.at(k)));
      }
      continue;
    }
    const Arg a = read_arg(inputs.at(i)["arg"], s);
    std::vector<Arg>& values = f.arguments.emplace_back();
    if (const auto* list = std::get_if<TensorList>(&a))
      values.assign(list->begin(), list->end());
    else if (const auto* sizes = std::get_if<std::vector<Expr>>(&a))  // so is an empty list, of whatever type
      values.assign(sizes->begin(), sizes->end());
    else
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
  for (size_t i = kind->own_results; i < f.graphs.size(); ++i)
    if (const size_t made = f.graphs[i].second["outputs"].size(); made != f.results.size())
      throw outputs.fault(fmt::format("{} names for the {} results of a subgraph", f.results.size(), made));
  return (this->*kind->inlined)(f, s);
}

namespace {

/// Arguments whose values can fail a run: indices, numbers that are read out of tensors.
enum class Risk : uint8_t { none, index, number };

Risk risk_of(const PNode& node, const std::string& argument) {
  struct Row {
    std::string_view target, argument;
    Risk risk;
  };
  static constexpr Row kRows[] = {
      {"aten.one_hot.", "self", Risk::index},
      {"aten.nll_loss", "target", Risk::index},
      {"aten.cross_entropy_loss.", "target", Risk::index},
      {"aten.multi_margin_loss.", "target", Risk::index},
      {"aten.item.", "self", Risk::number},
      {"aten._local_scalar_dense.", "self", Risk::number},
      {"aten.", "index", Risk::index},
      {"aten.", "indices", Risk::index},
  };
  const auto row = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const Row& r) { return argument == r.argument && node.target.rfind(r.target, 0) == 0; });
  return row == std::end(kRows) ? Risk::none : row->risk;
}

}  // namespace

/// The nodes from `first` on stand in a branch: what they check must hold where it is taken only. Elsewhere indices are zeros, numbers read
/// out of tensors zero or what of their range is next to it.
void GraphReader::only_where(size_t first, const Branch& branch, const PNode& head) {
  std::vector<PNode> nodes(std::make_move_iterator(p_.nodes.begin() + static_cast<std::ptrdiff_t>(first)),
                           std::make_move_iterator(p_.nodes.end()));
  p_.nodes.resize(first);
  for (PNode& node : nodes) {
    node.branches.push_back(branch);
    int number = 0;
    const auto guard = [&](TensorRef& value, Risk risk, int64_t instead) {
      const TensorMeta type = p_.tensors.at(value.name);
      const bool truth = type.dtype == DType::boolean;
      if (truth ? risk == Risk::index : type.dtype != DType::i32 && type.dtype != DType::i64) return;  // masks are in range
      const Arg other = truth ? Arg(true) : Arg(Expr(instead));
      const std::string safe = own(node.name, fmt::format("where_taken_{}", number++), type);
      if (branch.taken)
        add_node(head, "aten.where.ScalarOther", {{"condition", branch.condition}, {"self", value}, {"other", other}}, safe);
      else
        add_node(head, "aten.where.ScalarSelf", {{"condition", branch.condition}, {"self", other}, {"other", value}}, safe);
      value = TensorRef{safe};
    };
    for (NamedArg& a : node.args) {
      const Risk risk = risk_of(node, a.name);
      if (risk == Risk::none) continue;
      int64_t other = 0;
      if (risk == Risk::number && !node.results.empty())
        if (const Expr* read = std::get_if<Expr>(&node.results[0])) {
          const Interval range = symbols_.table().interval(*read);
          other = std::clamp<int64_t>(0, range.min, range.max);
        }
      if (auto* one = std::get_if<TensorRef>(&a.value)) guard(*one, risk, other);
      if (auto* list = std::get_if<TensorList>(&a.value))
        for (TensorRef& index : *list) guard(index, risk, other);
      if (auto* list = std::get_if<OptTensorList>(&a.value))
        for (std::optional<TensorRef>& index : *list)
          if (index) guard(*index, risk, other);
    }
    p_.nodes.push_back(std::move(node));
  }
}

bool GraphReader::inline_cond(const ControlFlow& f, Scope& s) {
  if (f.arguments[0].size() != 1) return false;
  const Arg& given = f.arguments[0][0];
  const auto* tensor = std::get_if<TensorRef>(&given);
  const TensorRef condition = tensor ? *tensor : as_tensor(f.head, f.head.name, "taken", given, DType::boolean);
  const auto side = [&](size_t i) {
    const Branch branch{condition, i == 0};
    const size_t first = p_.nodes.size(), guards = p_.branch_guards.size();
    const std::optional<size_t> outer = std::exchange(branch_, first);
    std::vector<Arg> results = call(f.graphs[i].second, f.graphs[i].first, f.arguments[1], s);
    branch_ = outer;
    only_where(first, branch, f.head);
    for (size_t k = guards; k < p_.branch_guards.size(); ++k) p_.branch_guards[k].branches.push_back(branch);
    return results;
  };
  const std::vector<Arg> yes = side(0), no = side(1);
  const std::vector<std::string> names = define_results(f, s);
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

/// How many rows each of them has, and at most. Nothing where that is not bounded, or they differ.
std::optional<GraphReader::Rounds> GraphReader::rounds_over(const std::vector<Arg>& over) {
  Rounds r;
  for (const Arg& a : over) {
    const TensorMeta& t = p_.tensors.at(std::get<TensorRef>(a).name);
    if (t.sizes.empty() || (&a != &over[0] && !symbols_.table().proves_eq(t.sizes[0], r.number))) return std::nullopt;
    r.number = t.sizes[0];
  }
  const Interval range = symbols_.table().interval(r.number);
  if (range.max < 1 || range.max == kInf) return std::nullopt;
  r.least = std::max<int64_t>(range.min, 1);
  r.most = range.max;
  return r;
}

/// Of rounds whose number only a run knows, those beyond it do the last one again, from what that began with: its results stay, and nothing
/// is read that it has not read.
bool GraphReader::inline_rounds(const ControlFlow& f, Scope& s) {
  const auto& [name, graph] = f.graphs[0];
  const bool carries = f.arguments.size() == 3;
  std::vector<Arg> carried = carries ? f.arguments[0] : std::vector<Arg>();
  const std::vector<Arg>&over = f.arguments[carries ? 1 : 0], &rest = f.arguments.back();
  if (over.empty() || !only_tensors(over) || !only_tensors(carried) || carried.size() > f.results.size()) return false;
  const auto rounds = rounds_over(over);
  const bool few = rounds && rounds->most <= static_cast<int64_t>(kMostNodes / std::max<size_t>(graph["nodes"].size(), 1));
  const bool open = !rounds || rounds->least < rounds->most;
  if (!carries && (open || !few)) return inline_map(f, s);
  if (!few) return false;
  if (!symbols_.table().proves_le(1, rounds->number))
    p_.guards.push_back({ShapeGuard::Kind::le, 1, rounds->number, fmt::format("{} has rows to go over", f.head.name)});
  const auto made = [&](const std::string& suffix, TensorMeta type) { return own(f.head.name, suffix, std::move(type)); };
  const std::string number = open ? as_tensor(f.head, f.head.name, "rounds", rounds->number, DType::i64).name : std::string();
  std::vector<TensorList> stacked(f.results.size() - carried.size());
  std::vector<Arg> begun;  // what the round before began with
  for (int64_t i = 0; i < rounds->most; ++i) {
    const Expr row = i < rounds->least ? Expr(i) : symbols_.table().simplify(min(Expr(i), rounds->number - 1));
    if (i >= rounds->least) {
      const std::string more = made(fmt::format("more_{}", i), {.dtype = DType::boolean});
      add_node(f.head, "aten.gt.Scalar", {{"self", TensorRef{number}}, {"other", Expr(i)}}, more);
      for (size_t k = 0; k < carried.size(); ++k) {
        const std::string from = made(fmt::format("from_{}_{}", k, i), p_.tensors.at(std::get<TensorRef>(carried[k]).name));
        add_node(f.head, "aten.where.self", {{"condition", TensorRef{more}}, {"self", carried[k]}, {"other", begun[k]}}, from);
        carried[k] = TensorRef{from};
      }
    }
    begun = carried;
    std::vector<Arg> operands = carried;
    for (size_t k = 0; k < over.size(); ++k) {
      const TensorRef of = std::get<TensorRef>(over[k]);
      const std::string picked = made(fmt::format("row_{}_{}", k, i), row_of(p_.tensors.at(of.name), row));
      add_node(f.head, "aten.select.int", {{"self", of}, {"dim", Expr(0)}, {"index", row}}, picked);
      operands.emplace_back(TensorRef{picked});
    }
    operands.insert(operands.end(), rest.begin(), rest.end());
    const std::vector<Arg> out = call(graph, name, operands, s);
    if (!only_tensors(out)) throw f.node.fault("a round that gives something else than tensors");
    std::copy_n(out.begin(), carried.size(), carried.begin());
    for (size_t k = 0; k < stacked.size(); ++k) stacked[k].push_back(std::get<TensorRef>(out[carried.size() + k]));
  }
  const std::vector<std::string> names = define_results(f, s);
  for (size_t k = 0; k < names.size(); ++k) {
    if (k < carried.size()) {
      add_node(f.head, "aten.clone.default", {{"self", carried[k]}, {"memory_format", NoneArg{}, true}}, names[k]);
      continue;
    }
    const TensorList& all = stacked[k - carried.size()];
    std::string stack = names[k];
    if (open) {
      TensorMeta type = p_.tensors.at(names[k]);
      type.sizes.at(0) = rounds->most;
      stack = made(fmt::format("all_{}", k), std::move(type));
    }
    add_node(f.head, "aten.stack.default", {{"tensors", all}, {"dim", Expr(0), true}}, stack);
    if (open)
      add_node(f.head, "aten.slice.Tensor",
               {{"self", TensorRef{stack}}, {"dim", Expr(0)}, {"start", Expr(0)}, {"end", rounds->number}, {"step", Expr(1)}}, names[k]);
  }
  return true;
}

}  // namespace aotc::import
