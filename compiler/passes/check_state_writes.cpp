#include "passes/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "graph/builder.h"
#include "graph/ops.h"
#include "graph/states.h"
#include "passes/value_range.h"

namespace aotc::passes {
namespace {

/// An index of the elements that a node writes.
struct Write {
  NodeId node;
  size_t input;  ///< of the node: the index
  int64_t size;  ///< of the dim that it goes along
};

/// How the new content of a state is made.
struct StateWrites {
  StateId state;
  std::vector<Write> writes;
  bool by_index_alone = true;  ///< the old content with these writes, in its order
};

StateWrites writes_of(const Graph& g, StateId id) {
  StateWrites out{id};
  const StateInfo& s = g.states[id];
  std::set<ValueId> seen;
  std::vector<ValueId> work = {s.updated};
  while (!work.empty()) {
    const ValueId v = work.back();
    work.pop_back();
    const Node* n = g.def(v);
    if (!n) out.by_index_alone = out.by_index_alone && v == s.value;
    if (!n || !seen.insert(v).second) continue;
    if (n->op == Op::index_put || n->op == Op::scatter) {
      const bool put = n->op == Op::index_put;
      const Ints dims = put ? n->get<Ints>(Attr::dims) : Ints{n->get<int64_t>(Attr::dim)};
      for (size_t i = 0; i < dims.size(); ++i)
        if (const auto size = g.type(n->inputs[0]).dims[static_cast<size_t>(dims[i])].as_const())
          out.writes.push_back({g.values[v].node, put ? 2 + i : 1, *size});
      work.push_back(n->inputs[0]);
    } else if (n->op == Op::reshape || n->op == Op::permute) {
      work.push_back(n->inputs[0]);
    } else {
      out.by_index_alone = false;
      if (op_class(n->op) == OpClass::view || op_class(n->op) == OpClass::cat || n->op == Op::cast)
        work.insert(work.end(), n->inputs.begin(), n->inputs.end());
      else if (n->op == Op::where)
        work.insert(work.end(), n->inputs.begin() + 1, n->inputs.end());
    }
  }
  return out;
}

/// Everything that the values are made of, themselves too; but for `arms` not what is made for an arm of `where` alone.
std::set<ValueId> made_of(const Graph& g, std::vector<ValueId> work, bool arms = true) {
  std::set<ValueId> seen;
  while (!work.empty()) {
    const ValueId v = work.back();
    work.pop_back();
    if (!seen.insert(v).second) continue;
    const Node* n = g.def(v);
    if (n) work.insert(work.end(), n->inputs.begin(), n->op == Op::where && !arms ? n->inputs.begin() + 1 : n->inputs.end());
  }
  return seen;
}

/// What is to be within [first, last], before anything is written where it names places.
struct Bounds {
  ValueId index;
  int64_t first, last;
  bool operator<(const Bounds& o) const { return std::tie(index, first, last) < std::tie(o.index, o.first, o.last); }
};

Bounds bounds_of(const Graph& g, const Write& w) {
  const Node& n = g.nodes[w.node];
  Bounds r{n.inputs[w.input], n.op == Op::index_put || n.op == Op::index ? -w.size : 0, w.size - 1};
  const auto def = [&] { return g.def(r.index); };
  while (def() && def()->op == Op::expand) r.index = def()->inputs[0];
  // Where negative indices do not count from the end they were replaced by the size (decompose's from_start).
  const Node* negative = def() && def()->op == Op::where ? g.def(def()->inputs[0]) : nullptr;
  if (negative && negative->op == Op::lt && negative->inputs[0] == def()->inputs[2]) r.index = def()->inputs[2], r.first = 0;
  while (def() && (def()->op == Op::expand || def()->op == Op::reshape)) r.index = def()->inputs[0];
  return r;
}

bool is_constant(const Graph& g, const std::set<ValueId>& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](ValueId v) { return g.def(v) || g.values[v].kind == ValueKind::constant; });
}

/// What a message calls an index.
std::string name_of(const Graph& g, ValueId index, const std::set<ValueId>& parts) {
  const auto input = [&](ValueId v) { return fmt::format("the input '{}'", g.inputs[g.values[v].input].name); };
  if (g.values[index].kind == ValueKind::input) return input(index);
  if (const Node* n = g.def(index); n && n->op == Op::cast && g.values[n->inputs[0]].kind == ValueKind::input) return input(n->inputs[0]);
  std::string from;
  for (const InputInfo& i : g.inputs)
    if (parts.count(i.value)) from += (from.empty() ? "" : " and ") + fmt::format("'{}'", i.name);
  for (const StateInfo& s : g.states)
    if (parts.count(s.value)) from += (from.empty() ? "the state " : " and the state ") + fmt::format("'{}'", s.name);
  return "an index computed from " + (from.empty() ? "data" : from);
}

/// What a run computes whatever its conditions are: not what a branch computes.
std::set<ValueId> always_made(const Graph& g) {
  std::vector<ValueId> work;
  for (const OutputInfo& o : g.outputs) work.push_back(o.value);
  for (const StateInfo& s : g.states)
    if (s.updated != kNone<ValueId>) work.push_back(s.updated);
  return made_of(g, std::move(work), false);
}

/// Whether it is computed from the run's inputs by integers alone.
bool is_of_inputs(const Graph& g, const std::set<ValueId>& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](ValueId v) {
    const ValueKind kind = g.values[v].kind;
    return !is_float(g.type(v).dtype) && (g.def(v) || kind == ValueKind::constant || kind == ValueKind::input);
  });
}

class Checks {
 public:
  explicit Checks(Graph& g) : g_(g), b_(g) {
    for (uint32_t s = 0; s < g.states.size(); ++s)
      if (const StateInfo& x = g.states[static_cast<StateId>(s)]; x.updated != kNone<ValueId> && x.updated != x.value)
        states_.push_back(writes_of(g, static_cast<StateId>(s)));
    for (const StateWrites& s : states_)
      for (const Write& w : s.writes) {
        const Bounds r = bounds_of(g, w);
        auto [it, fresh] = bounds_.try_emplace(r);
        if (fresh) it->second.parts = made_of(g, {r.index});
        std::vector<StateId>& at = it->second.states;
        if (at.empty() || at.back() != s.state) at.push_back(s.state);
        order_.push_back(r);
      }
    if (!states_.empty()) find_lookups();
    std::erase_if(bounds_, [&](const auto& r) { return is_constant(g_, r.second.parts) || !comes_before(r.second.parts); });
  }

  /// Adds the conditions.
  bool add() {
    for (const Bounds& r : order_) {
      const auto it = bounds_.find(r);
      if (it == bounds_.end() || it->second.holds != kNone<ValueId>) continue;
      Checked& c = it->second;
      b_.at("check", "");
      const TensorType t = g_.type(r.index), one{DType::i64, {}};
      const auto number = [&](int64_t v) { return b_.expand(b_.full_int(one, v), t.dims); };
      const ValueId outside =
          b_.binary(Op::bit_or, b_.binary(Op::lt, r.index, number(r.first)), b_.binary(Op::gt, r.index, number(r.last)));
      const ValueId shown = b_.binary(Op::maximum, r.index, number(INT64_MIN + 1));
      Ints all;
      for (int d = 0; d < t.rank(); ++d) all.push_back(d);
      const ValueId each = b_.where(outside, shown, number(INT64_MIN));
      const ValueId worst = t.rank() ? b_.reduce(ReduceKind::max, each, all) : each;
      c.holds = b_.binary(Op::eq, worst, b_.full_int(one, INT64_MIN));
      also(c.holds);
      const ValueId checked = b_.make1(Op::check, {c.holds, worst}, {{Attr::kind, std::string(kBeforeWrites)}});
      g_.outputs.push_back({text(r, c), checked, "", -1, "", {}, OutputRole::check});
    }
    return all_hold_ != kNone<ValueId>;
  }

  /// Conditions of the program itself.
  void take_given() {
    for (OutputInfo& o : g_.outputs) {
      if (states_.empty() || o.role != OutputRole::check || !g_.def(o.value)) continue;  // without a node: it is constant
      const std::set<ValueId> parts = made_of(g_, {o.value});
      if (!comes_before(parts)) continue;
      parts_of_given_.insert(parts.begin(), parts.end());
      g_.nodes[g_.values[o.value].node].attrs[Attr::kind] = std::string(kBeforeWrites);
      also(g_.def(o.value)->inputs[0]);
    }
  }

  /// Nothing changes states where a condition does not hold.
  void hold_writes() {
    std::map<std::pair<ValueId, ValueId>, ValueId> held;
    for (const StateWrites& s : states_) {
      bool whole = !s.by_index_alone;
      for (const Write& w : s.writes) {
        const auto own = bounds_.find(bounds_of(g_, w));
        const ValueId result = g_.nodes[w.node].outputs[0];
        const bool read_by_checks = parts_of_given_.count(result) || std::any_of(bounds_.begin(), bounds_.end(), [&](const auto& r) {
                                      return r.second.parts.count(result);
                                    });
        whole = whole || read_by_checks;
        if (read_by_checks && own == bounds_.end()) continue;
        hold(w, read_by_checks ? own->second.holds : all_hold_, held);
      }
      StateInfo& info = g_.states[s.state];
      if (whole) info.updated = b_.where(b_.expand(all_hold_, g_.type(info.value).dims), info.updated, info.value);
    }
  }

 private:
  void find_lookups() {
    const std::set<ValueId> always = always_made(g_);
    for (const NodeId id : g_.order) {
      const Node& n = g_.nodes[id];
      if ((n.op != Op::index && n.op != Op::gather) || !always.count(n.outputs[0])) continue;
      const Ints dims = n.op == Op::index ? n.get<Ints>(Attr::dims) : Ints{n.get<int64_t>(Attr::dim)};
      for (size_t i = 0; i < dims.size(); ++i) {
        const auto size = g_.type(n.inputs[0]).dims[static_cast<size_t>(dims[i])].as_const();
        if (!size) continue;
        const Bounds r = bounds_of(g_, {id, 1 + i, *size});
        std::set<ValueId> parts = made_of(g_, {r.index});
        const Range known = range_of(g_, r.index);
        if (bounds_.count(r) || !is_of_inputs(g_, parts) || known.within(static_cast<double>(r.first), static_cast<double>(r.last)))
          continue;
        bounds_[r] = {std::move(parts), {}, kNone<ValueId>};
        order_.push_back(r);
      }
    }
  }

  void also(ValueId holds) { all_hold_ = all_hold_ == kNone<ValueId> ? holds : b_.binary(Op::bit_and, all_hold_, holds); }

  struct Checked {
    std::set<ValueId> parts;
    std::vector<StateId> states;  ///< that are written there; none: it is a lookup's
    ValueId holds = kNone<ValueId>;
  };

  /// Not made of the new content of a state that cannot be kept beside the old one.
  bool comes_before(const std::set<ValueId>& parts) const {
    return std::all_of(states_.begin(), states_.end(), [&](const StateWrites& s) {
      const StateInfo& info = g_.states[s.state];
      ValueId v = info.updated;
      while (g_.def(v) && (g_.def(v)->op == Op::reshape || g_.def(v)->op == Op::permute)) v = g_.def(v)->inputs[0];
      return !parts.count(v) || is_small_state(info.type);
    });
  }

  std::string text(const Bounds& r, const Checked& c) const {
    if (c.states.empty())
      return fmt::format("{} must be {} to {}, as an index into {} elements", name_of(g_, r.index, c.parts), r.first, r.last, r.last + 1);
    const size_t others = c.states.size() - 1;
    std::string states = fmt::format("the state '{}'", g_.states[c.states[0]].name);
    if (others) states += fmt::format(" and {} other{}", others, others == 1 ? "" : "s");
    return fmt::format("{} must be {} to {}, where {} {} written", name_of(g_, r.index, c.parts), r.first, r.last, states,
                       others ? "are" : "is");
  }

  void hold(const Write& w, ValueId condition, std::map<std::pair<ValueId, ValueId>, ValueId>& held) {
    const ValueId index = g_.nodes[w.node].inputs[w.input];
    auto [it, fresh] = held.try_emplace({index, condition});
    if (fresh) {
      b_.at("hold", g_.nodes[w.node].source);
      const TensorType t = g_.type(index);
      it->second = b_.where(b_.expand(condition, t.dims), index, b_.expand(b_.full_int({DType::i64, {}}, kNowhere), t.dims));
    }
    g_.nodes[w.node].inputs[w.input] = it->second;
  }

  Graph& g_;
  Builder b_;
  std::vector<StateWrites> states_;
  std::map<Bounds, Checked> bounds_;
  std::vector<Bounds> order_;
  std::set<ValueId> parts_of_given_;
  ValueId all_hold_ = kNone<ValueId>;
};

}  // namespace

/// Indices at which states are written, and those that runs look elements up by (token ids), where integers of the inputs alone decide them
/// and no branch decides whether, become conditions of the run, which come, as those of the program, before all writes: a run where one
/// does not hold changes no state. Not those that are computed from the new content of a state of more than kSmallStateBytes
/// (graph/states.h): the write itself reports them. GPUs, whose steps do not wait for conditions: the writes go nowhere (kNowhere) where
/// any of them does not hold, and states that are written otherwise keep their old content.
void check_state_writes(Graph& g, PassContext& ctx) {
  Checks checks(g);
  checks.take_given();
  if (!checks.add()) return;
  if (!ctx.target.traits().waits_for_conditions) checks.hold_writes();
  g.compact();
}

}  // namespace aotc::passes
