// Loops on data (while_loop) whose condition counts: "i < 50", alone or beside others ("& (error > 1e-3)"), of a number that each round
// raises or, "i > 0", lowers; the limit may be a size. They take at most so many rounds, which are written out; those that a run does not
// take do the last one again.
#include <algorithm>
#include <array>
#include <limits>

#include "base/words.h"
#include "import/control_flow.h"
#include "import/graph_reader.h"

namespace aotc::import {
namespace {

/// A subgraph of the archive as it stands: values by their names in it.
class Subgraph {
 public:
  explicit Subgraph(const JsonRef& graph) : graph_(graph) {
    const JsonRef inputs = graph_["inputs"], nodes = graph_["nodes"];
    for (size_t i = 0, n = inputs.size(); i < n; ++i)
      if (const std::string name = name_of(inputs.at(i)); !name.empty()) inputs_.emplace(name, i);
    for (size_t i = 0, n = nodes.size(); i < n; ++i) {
      const JsonRef outputs = nodes.at(i)["outputs"];
      if (outputs.size() != 1) continue;
      if (const std::string name = name_of(outputs.at(0)); !name.empty()) makers_.emplace(name, i);
    }
  }

  /// The name of result k.
  std::string result(size_t k) const { return name_of(graph_["outputs"].at(k)); }
  /// Which input a name is.
  std::optional<size_t> input(const std::string& name) const { return find(inputs_, name); }
  /// The node that makes a tensor; nothing for inputs.
  std::optional<JsonRef> maker(const std::string& name) const {
    const std::optional<size_t> at = find(makers_, name);
    return at ? std::optional(graph_["nodes"].at(*at)) : std::nullopt;
  }
  /// "lt.Tensor" for torch.ops.aten's.
  static std::string op(const JsonRef& node) {
    const std::string target = node["target"].text(), prefix = "torch.ops.aten.";
    return target.rfind(prefix, 0) == 0 ? target.substr(prefix.size()) : target;
  }
  static std::optional<JsonRef> argument(const JsonRef& node, size_t k) {
    const JsonRef inputs = node["inputs"];
    return k < inputs.size() ? std::optional(inputs.at(k)["arg"]) : std::nullopt;
  }
  /// Of a tensor; empty for anything else.
  static std::string name_of(const JsonRef& argument) {
    const auto [tag, v] = argument.tagged();
    return tag == "as_tensor" ? v["name"].text() : std::string();
  }
  /// What the graph notes of a size.
  std::optional<JsonRef> size(const JsonRef& argument) const {
    const auto [tag, v] = argument.tagged();
    if (tag != "as_sym_int" || !v.has("as_name")) return std::nullopt;
    const JsonRef sizes = graph_["sym_int_values"];
    const std::string name = v["as_name"].text();
    return sizes.has(name) ? std::optional(sizes[name]) : std::nullopt;
  }
  static std::optional<int64_t> integer(const JsonRef& argument) {
    const auto [tag, v] = argument.tagged();
    return tag == "as_int" ? std::optional(v.integer()) : std::nullopt;
  }

 private:
  using Places = std::map<std::string, size_t>;
  static std::optional<size_t> find(const Places& places, const std::string& name) {
    const auto it = places.find(name);
    return it == places.end() ? std::nullopt : std::optional(it->second);
  }

  JsonRef graph_;
  Places inputs_, makers_;
};

/// "lesser < greater", by the operands' places.
struct Comparison {
  std::string_view op;
  size_t lesser, greater;
  bool inclusive;  ///< "<="
};
constexpr Comparison kComparisons[] = {
    {"lt.Scalar", 0, 1, false}, {"lt.Tensor", 0, 1, false}, {"le.Scalar", 0, 1, true}, {"le.Tensor", 0, 1, true},
    {"gt.Scalar", 1, 0, false}, {"gt.Tensor", 1, 0, false}, {"ge.Scalar", 1, 0, true}, {"ge.Tensor", 1, 0, true},
};
constexpr std::string_view kBoth = "__and__.Tensor bitwise_and.Tensor logical_and.default";
/// Results that are their first argument.
constexpr std::string_view kSame =
    "aten.lift_fresh_copy.default aten.lift_fresh.default aten.detach_.default aten.detach.default aten.clone.default aten.alias.default";

/// What the loop is: its subgraphs, and what is known of the numbers that stand for its operands outside of it.
struct Loop {
  Subgraph condition, body;
  size_t carried;
  std::function<std::optional<Interval>(size_t)> begins;  ///< of an operand
  std::function<std::optional<Interval>(const JsonRef&)> limit;
};

/// What each round adds to what is carried k-th; nothing where it does otherwise.
std::optional<int64_t> step_of(const Loop& l, size_t k) {
  const std::optional<JsonRef> node = l.body.maker(l.body.result(k));
  if (!node || (*node)["inputs"].size() != 2) return std::nullopt;
  const std::string op = Subgraph::op(*node);
  if (op != "add.Tensor" && op != "sub.Tensor") return std::nullopt;
  for (const size_t own : {0, 1}) {
    const JsonRef a = *Subgraph::argument(*node, own), b = *Subgraph::argument(*node, 1 - own);
    const std::optional<int64_t> by = Subgraph::integer(b);
    if (!by || *by == std::numeric_limits<int64_t>::min() || l.body.input(Subgraph::name_of(a)) != k) continue;
    if (op == "add.Tensor") return by;
    return own == 0 ? std::optional(-*by) : std::nullopt;  // "1 - i" turns about
  }
  return std::nullopt;
}

/// How many rounds a comparison of the condition allows; nothing where it is none of a counter.
std::optional<int64_t> rounds_of(const Loop& l, const std::string& op, const std::array<JsonRef, 2>& operands) {
  constexpr int64_t kFar = int64_t{1} << 40;
  const auto c = std::find_if(std::begin(kComparisons), std::end(kComparisons), [&](const Comparison& k) { return k.op == op; });
  if (c == std::end(kComparisons)) return std::nullopt;
  for (const bool rises : {true, false}) {
    const std::optional<size_t> counter = l.condition.input(Subgraph::name_of(operands[rises ? c->lesser : c->greater]));
    if (!counter || *counter >= l.carried) continue;
    const auto step = step_of(l, *counter);
    const auto first = l.begins(*counter), limit = l.limit(operands[rises ? c->greater : c->lesser]);
    if (!step || !first || !limit || (rises ? *step <= 0 : *step >= 0)) continue;
    const int64_t low = rises ? first->min : limit->min, high = rises ? limit->max : first->max, by = std::abs(*step);
    if (std::min(low, high) < -kFar || std::max(low, high) > kFar) continue;
    const int64_t way = high - low + (c->inclusive ? 1 : 0);
    return way <= 0 ? 0 : (way - 1) / by + 1;
  }
  return std::nullopt;
}

/// How many rounds the condition allows at most: the least of what the comparisons allow that it joins by "and", each looked at once.
std::optional<int64_t> rounds(const Loop& l) {
  std::optional<int64_t> most;
  std::vector<std::string> open{l.condition.result(0)};
  std::set<std::string> seen(open.begin(), open.end());
  while (!open.empty()) {
    const std::optional<JsonRef> node = l.condition.maker(open.back());
    open.pop_back();
    if (!node) continue;
    const std::string op = Subgraph::op(*node);
    const std::optional<JsonRef> a = Subgraph::argument(*node, 0), b = Subgraph::argument(*node, 1);
    if (!a || !b) continue;
    if (has_word(kBoth, op)) {
      for (const JsonRef& side : {*a, *b})
        if (const std::string name = Subgraph::name_of(side); seen.insert(name).second) open.push_back(name);
    } else if (const std::optional<int64_t> here = rounds_of(l, op, {*a, *b}); here && (!most || *here < *most)) {
      most = here;
    }
  }
  return most;
}

}  // namespace

std::optional<Interval> GraphReader::whole_number(const Arg& a) const {
  const auto exactly = [](std::optional<int64_t> n) { return n ? std::optional(Interval{*n, *n}) : std::nullopt; };
  const Arg* value = &a;
  for (auto node = p_.nodes.rbegin();; ++node) {  // what makes a value stands before those that take it
    if (const auto* e = std::get_if<Expr>(value)) return symbols_.table().interval(*e);
    const auto* t = std::get_if<TensorRef>(value);
    if (!t) return std::nullopt;
    node = std::find_if(node, p_.nodes.rend(), [&](const PNode& n) {
      const auto* r = n.results.size() == 1 ? std::get_if<TensorRef>(&n.results[0]) : nullptr;
      return r && r->name == t->name;
    });
    if (node == p_.nodes.rend()) return exactly(constants_ ? constants_(t->name) : std::nullopt);
    const std::string& op = node->target;
    if (op == "aten.zeros.default" || op == "aten.zeros_like.default") return exactly(0);
    if (op == "aten.ones.default" || op == "aten.ones_like.default") return exactly(1);
    const bool same = has_word(kSame, op);
    const std::string_view taken = op == "aten.full.default" ? "fill_value" : op == "aten.scalar_tensor.default" ? "s" : "";
    if (!same && taken.empty()) return std::nullopt;
    const auto given = std::find_if(node->args.begin(), node->args.end(), [&](const NamedArg& n) { return same || n.name == taken; });
    if (given == node->args.end()) return std::nullopt;
    value = &given->value;
  }
}

bool GraphReader::inline_while(const ControlFlow& f, Scope& s) {
  const auto& [condition, condition_graph] = std::pair(f.graphs[0].first, f.graphs[0].second);
  const auto& [body, body_graph] = std::pair(f.graphs[1].first, f.graphs[1].second);
  const std::vector<Arg> first = f.arguments[0], rest = f.arguments.size() > 1 ? f.arguments[1] : std::vector<Arg>();
  if (!only_tensors(first) || first.size() != f.results.size() || condition_graph["outputs"].size() != 1 ||
      body_graph["outputs"].size() != first.size())
    return false;
  const auto operands = [&](const std::vector<Arg>& carried) {
    std::vector<Arg> all = carried;
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  };
  const std::vector<Arg> outside = operands(first);
  Loop loop{Subgraph(condition_graph), Subgraph(body_graph), first.size(), {}, {}};
  std::map<size_t, std::optional<Interval>> known;
  const auto whole = [&](size_t k) {  // of integers: others are no counters
    const auto [it, fresh] = known.emplace(k, std::nullopt);
    const auto* t = std::get_if<TensorRef>(&outside.at(k));
    if (fresh && (!t || is_int(p_.tensors.at(t->name).dtype))) it->second = whole_number(outside[k]);
    return it->second;
  };
  loop.begins = whole;
  loop.limit = [&](const JsonRef& a) -> std::optional<Interval> {
    if (const auto number = Subgraph::integer(a)) return Interval{*number, *number};
    if (const auto size = loop.condition.size(a)) return symbols_.table().interval(symbols_.read(*size));
    const auto k = loop.condition.input(Subgraph::name_of(a));
    return k && *k >= first.size() && *k < outside.size() ? whole(*k) : std::nullopt;
  };
  const std::optional<int64_t> most = rounds(loop);
  const size_t nodes = condition_graph["nodes"].size() + body_graph["nodes"].size() + first.size();
  if (!most || *most > static_cast<int64_t>(kMostNodes / std::max<size_t>(nodes, 1))) return false;

  const auto made = [&](const std::string& suffix, TensorMeta type) { return own(f.head.name, suffix, std::move(type)); };
  const auto pick = [&](const Arg& when, const Arg& yes, const Arg& no, const std::string& name) {
    add_node(f.head, "aten.where.self", {{"condition", when}, {"self", yes}, {"other", no}}, name);
  };
  std::vector<Arg> carried = first, begun = first;  // `begun`: what the round before began with
  std::optional<Arg> ever, goes_on;
  for (int64_t i = 0; i < *most; ++i) {
    Arg more = call(condition_graph, condition, operands(carried), s).at(0);
    if (!std::holds_alternative<TensorRef>(more)) throw f.node.fault("a condition of a loop that is no tensor");
    if (goes_on) {
      const std::string both = made(fmt::format("more_{}", i), {.dtype = DType::boolean});
      add_node(f.head, "aten.logical_and.default", {{"self", *goes_on}, {"other", more}}, both);
      more = TensorRef{both};
      for (size_t k = 0; k < carried.size(); ++k) {
        const std::string from = made(fmt::format("from_{}_{}", k, i), p_.tensors.at(std::get<TensorRef>(first[k]).name));
        pick(more, carried[k], begun[k], from);
        carried[k] = TensorRef{from};
      }
    }
    goes_on = more;
    if (!ever) ever = more;
    begun = carried;
    carried = call(body_graph, body, operands(carried), s);
    if (!only_tensors(carried)) throw f.node.fault("a round that gives something else than tensors");
  }
  const std::vector<std::string> names = define_results(f, s);
  for (size_t k = 0; k < names.size(); ++k) {
    if (ever)
      pick(*ever, carried[k], first[k], names[k]);
    else
      add_node(f.head, "aten.clone.default", {{"self", first[k]}, {"memory_format", NoneArg{}, true}}, names[k]);
  }
  return true;
}

}  // namespace aotc::import
