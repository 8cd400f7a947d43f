#include "passes/passes.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "graph/infer.h"
#include "graph/text.h"

namespace aotc::passes {
namespace {

bool commutes(Op op) {
  switch (op) {
    case Op::add:
    case Op::mul:
    case Op::minimum:
    case Op::maximum:
    case Op::eq:
    case Op::ne:
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor: return true;
    default: return false;
  }
}

std::string attr_key(const AttrValue& v, const SymTable& syms) {
  struct Visitor {
    const SymTable& syms;
    std::string operator()(bool b) const { return b ? "t" : "f"; }
    std::string operator()(int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const {
      uint64_t u;  // bits: tells zeros apart and NaNs together
      std::memcpy(&u, &d, 8);
      return std::to_string(u);
    }
    std::string operator()(const std::string& s) const { return s; }
    std::string operator()(const Ints& v) const { return fmt::format("{}", fmt::join(v, ",")); }
    std::string operator()(const Expr& e) const { return e.str(syms); }
    std::string operator()(const Exprs& v) const {
      std::string s;
      for (const Expr& e : v) s += e.str(syms) + ",";
      return s;
    }
  };
  return std::visit(Visitor{syms}, v);
}

/// Equal keys: equal results.
std::string key_of(const Graph& g, const Node& n) {
  std::vector<uint32_t> inputs;
  for (ValueId v : n.inputs) inputs.push_back(idx(v));
  if (commutes(n.op)) std::sort(inputs.begin(), inputs.end());
  std::string key = fmt::format("{}({})", static_cast<int>(n.op), fmt::join(inputs, ","));
  for (const auto& [a, v] : n.attrs) key += fmt::format(";{}={}", static_cast<int>(a), attr_key(v, g.syms));
  return key + ":" + print(g.type(n.outputs[0]), g.syms);
}

/// Constants of equal type and content (same_constant), by the first of them.
void merge_constants(const Graph& g, std::vector<ValueId>& now) {
  std::unordered_map<std::string, std::vector<ValueId>> seen;  // by type; most that differ do so in their first bytes
  for (size_t i = 0; i < g.values.size(); ++i) {
    const Value& v = g.values.raw()[i];
    if (v.kind != ValueKind::constant) continue;
    const ConstData& c = g.constants[v.constant];
    if (!c.data) continue;
    std::vector<ValueId>& others = seen[print(c.type, g.syms)];
    const auto same =
        std::find_if(others.begin(), others.end(), [&](ValueId o) { return same_constant(g.constants[g.values[o].constant], c); });
    if (same == others.end())
      others.push_back(static_cast<ValueId>(i));
    else
      now[i] = *same;
  }
}

}  // namespace

/// Computes equal nodes once, and keeps one of several constants with the same content.
void cse(Graph& g, PassContext&) {
  std::vector<ValueId> now(g.values.size());
  for (size_t i = 0; i < now.size(); ++i) now[i] = static_cast<ValueId>(i);
  merge_constants(g, now);
  std::unordered_map<std::string, NodeId> seen;
  for (NodeId id : g.order) {
    Node& n = g.nodes[id];
    for (ValueId& v : n.inputs) v = now[idx(v)];
    const auto [it, first] = seen.try_emplace(key_of(g, n), id);
    if (first) continue;
    const Node& same = g.nodes[it->second];
    for (size_t i = 0; i < n.outputs.size(); ++i) now[idx(n.outputs[i])] = same.outputs[i];
    n.dead = true;
  }
  for (OutputInfo& o : g.outputs) o.value = now[idx(o.value)];
  for (StateInfo& s : g.states)
    if (s.updated != kNone<ValueId>) s.updated = now[idx(s.updated)];
  g.compact();
}

}  // namespace aotc::passes
