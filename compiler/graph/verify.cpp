#include "graph/verify.h"

#include <algorithm>

#include "graph/infer.h"

namespace aotc {
namespace {

struct Verifier {
  const Graph& g;
  std::string_view after;

  [[noreturn]] void fail(std::string_view where, std::string_view why) const {
    throw InternalError(fmt::format("the graph is malformed after {}: {}: {}", after, where, why));
  }
  std::string where(const Node& n) const {
    std::string s(op_name(n.op));
    if (!n.outputs.empty()) s += fmt::format(" %v{}", idx(n.outputs[0]));
    if (!n.name.empty()) s += " @" + n.name;
    return s;
  }

  void check_defined(ValueId v, const std::vector<bool>& defined, std::string_view user) const {
    if (!g.values.contains(v)) fail(user, fmt::format("uses value {} that does not exist", idx(v)));
    if (g.values[v].kind == ValueKind::node && !defined[idx(v)]) fail(user, fmt::format("uses value {} before its definition", idx(v)));
    if (g.values[v].kind == ValueKind::constant) check_constant(g.values[v]);
  }

  void check_leaves() const {
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      const ValueId v = g.inputs[i].value;
      if (!g.values.contains(v) || g.values[v].kind != ValueKind::input || g.values[v].input != i)
        fail(g.inputs[i].name, "input value is wrong");
      if (g.inputs[i].complex) check_pairs(v, g.inputs[i].name);
    }
    for (const StateInfo& s : g.states) {
      if (s.initial == kNone<ConstId>) continue;
      if (!g.constants.contains(s.initial)) fail(s.name, "initial content does not exist");
      check_data(g.constants[s.initial]);
    }
  }

  void check_pairs(ValueId v, const std::string& name) const {
    const TensorType& t = g.type(v);
    if ((t.dtype != DType::f32 && t.dtype != DType::f64) || t.dims.empty() || !t.dims.back().is(2))
      fail(name, "a complex tensor that is no pairs of reals");
  }

  void check_constant(const Value& v) const {
    if (!g.constants.contains(v.constant)) fail(v.name, "constant does not exist");
    const ConstData& c = g.constants[v.constant];
    if (!(c.type == v.type)) fail(v.name, "constant of another type");
    check_data(c);
  }
  void check_data(const ConstData& c) const {
    const auto bytes = c.type.bytes().as_const();
    if (!bytes || static_cast<size_t>(*bytes) != c.bytes) fail(c.name, fmt::format("constant holds {} bytes", c.bytes));
  }

  void check_node(NodeId id, std::vector<bool>& defined) const {
    const Node& n = g.nodes[id];
    const std::string at = where(n);
    if (n.dead) fail(at, "an erased node is in the order");
    for (ValueId v : n.inputs) check_defined(v, defined, at);
    if (n.outputs.empty()) fail(at, "has no result");
    std::vector<TensorType> types;
    try {
      types = infer_types(g, n, &g.type(n.outputs[0]));
    } catch (const InternalError& e) { fail(at, e.what()); }
    if (types.size() != n.outputs.size()) fail(at, fmt::format("has {} results, not {}", n.outputs.size(), types.size()));
    for (size_t i = 0; i < types.size(); ++i) {
      const Value& v = g.values[n.outputs[i]];
      if (v.kind != ValueKind::node || v.node != id || v.result != i) fail(at, fmt::format("result {} does not point back", i));
      if (defined[idx(n.outputs[i])]) fail(at, "defined twice");
      if (v.type.dtype != types[i].dtype || !same_dims(g, v.type.dims, types[i].dims))
        fail(at, fmt::format("result {} has another type", i));
      defined[idx(n.outputs[i])] = true;
    }
  }

  void check_edges(const std::vector<bool>& defined) const {
    for (const OutputInfo& o : g.outputs) {
      check_defined(o.value, defined, "output " + o.name);
      if (o.alias_input >= static_cast<int32_t>(g.inputs.size())) fail(o.name, "aliases an input that does not exist");
      if (o.alias_input >= 0 && g.inputs[static_cast<size_t>(o.alias_input)].complex != o.complex)
        fail(o.name, "is not complex as its input is");
      if (o.complex) check_pairs(o.value, o.name);
    }
    for (const StateInfo& s : g.states) {
      if (!g.values.contains(s.value) || g.values[s.value].kind != ValueKind::state) fail(s.name, "state value is wrong");
      if (s.updated == kNone<ValueId>) continue;
      check_defined(s.updated, defined, "state " + s.name);
      if (g.type(s.updated).dtype != s.type.dtype || !same_dims(g, g.type(s.updated).dims, s.type.dims))
        fail(s.name, "updated by another type");
    }
  }
};

}  // namespace

void verify_live(const Graph& g, std::string_view after) {
  std::vector<bool> used(g.values.size(), false);
  for (const OutputInfo& o : g.outputs) used[idx(o.value)] = true;
  for (const StateInfo& s : g.states)
    if (s.updated != kNone<ValueId>) used[idx(s.updated)] = true;
  const Verifier v{g, after};
  for (size_t i = g.order.size(); i-- > 0;) {
    const Node& n = g.nodes[g.order[i]];
    if (std::none_of(n.outputs.begin(), n.outputs.end(), [&](ValueId r) { return used[idx(r)]; }))
      v.fail(v.where(n), "nothing uses its results");
    for (ValueId in : n.inputs) used[idx(in)] = true;
  }
}

void verify(const Graph& g, std::string_view after) {
  const Verifier v{g, after};
  std::vector<bool> defined(g.values.size(), false);
  v.check_leaves();
  for (NodeId id : g.order) v.check_node(id, defined);
  v.check_edges(defined);
}

}  // namespace aotc
