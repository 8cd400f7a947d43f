#include "graph/graph.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace aotc {
namespace {

constexpr std::string_view kAttrNames[] = {
#define AOTC_ATTR(name, type) #name,
#include "graph/attrs.def"
#undef AOTC_ATTR
};

constexpr std::string_view kReduceNames[] = {"sum", "prod", "max", "min", "argmax", "argmin", "logsumexp"};
static_assert(std::size(kReduceNames) == static_cast<size_t>(ReduceKind::logsumexp) + 1);

template <class E, size_t N>
std::optional<E> find_name(const std::string_view (&names)[N], std::string_view name) {
  for (size_t i = 0; i < N; ++i)
    if (names[i] == name) return static_cast<E>(i);
  return std::nullopt;
}

}  // namespace

std::string_view attr_name(Attr a) { return kAttrNames[static_cast<size_t>(a)]; }
std::optional<Attr> parse_attr(std::string_view name) { return find_name<Attr>(kAttrNames, name); }
std::string_view reduce_name(ReduceKind k) { return kReduceNames[static_cast<size_t>(k)]; }
std::optional<ReduceKind> parse_reduce(std::string_view name) { return find_name<ReduceKind>(kReduceNames, name); }

TensorType caller_type(const TensorType& value, bool complex) {
  if (!complex) return value;
  return {value.dtype == DType::f64 ? DType::c128 : DType::c64, {value.dims.begin(), value.dims.end() - 1}};
}

ReduceKind Node::reduce_kind() const {
  const std::string& text = get<std::string>(Attr::kind);
  const auto k = parse_reduce(text);
  AOTC_CHECK(k, "unknown reduction kind {}", text);
  return *k;
}

size_t Graph::results() const {
  return static_cast<size_t>(
      std::count_if(outputs.begin(), outputs.end(), [](const OutputInfo& o) { return o.role == OutputRole::result; }));
}

ValueId Graph::add_input(std::string input_name, TensorType t) {
  Value v;
  v.type = std::move(t);
  v.kind = ValueKind::input;
  v.input = static_cast<uint32_t>(inputs.size());
  v.name = input_name;
  const ValueId id = values.push(std::move(v));
  inputs.push_back({std::move(input_name), id, ""});
  return id;
}

bool same_constant(const ConstData& a, const ConstData& b) {
  if (a.bytes != b.bytes || a.exchangeable != b.exchangeable) return false;
  if (a.data == b.data) return true;
  return !a.exchangeable && a.data && b.data && std::memcmp(a.data, b.data, a.bytes) == 0;
}

ValueId Graph::add_constant(ConstData data) {
  for (const Expr& d : data.type.dims) AOTC_CHECK(d.is_const(), "constant {} has a symbolic dim", data.name);
  Value v;
  v.type = data.type;
  v.kind = ValueKind::constant;
  v.name = data.name;
  v.constant = constants.push(std::move(data));
  return values.push(std::move(v));
}

ValueId Graph::add_state(std::string state_name, TensorType t, ConstId initial) {
  Value v;
  v.type = t;
  v.kind = ValueKind::state;
  v.name = state_name;
  const StateId s = states.push({std::move(state_name), std::move(t), initial, kNone<ValueId>, kNone<ValueId>});
  v.state = s;
  const ValueId id = values.push(std::move(v));
  states[s].value = id;
  return id;
}

NodeId Graph::add_node(Node node, std::vector<TensorType> result_types) {
  node.outputs.clear();
  const NodeId id = nodes.push(std::move(node));
  for (size_t i = 0; i < result_types.size(); ++i) {
    Value v;
    v.type = std::move(result_types[i]);
    v.node = id;
    v.result = static_cast<uint32_t>(i);
    nodes[id].outputs.push_back(values.push(std::move(v)));
  }
  order.push_back(id);
  return id;
}

void Graph::replace_all_uses(ValueId from, ValueId to) {
  if (from == to) return;
  const TensorType &a = type(from), &b = type(to);
  AOTC_CHECK(a.dtype == b.dtype && a.rank() == b.rank(), "replacing a {} of rank {} by a {} of rank {}", dtype_name(a.dtype), a.rank(),
             dtype_name(b.dtype), b.rank());
  for (int i = 0; i < a.rank(); ++i) {
    const auto x = a.dims[i].as_const(), y = b.dims[i].as_const();
    AOTC_CHECK(!x || !y || *x == *y, "replacing a value whose dim {} is {} by one where it is {}", i, *x, *y);
  }
  for (NodeId id : order) {
    Node& n = nodes[id];
    if (!n.dead) std::replace(n.inputs.begin(), n.inputs.end(), from, to);
  }
  for (OutputInfo& o : outputs)
    if (o.value == from) o.value = to;
  for (StateInfo& s : states)
    if (s.updated == from) s.updated = to;
}

std::vector<std::vector<NodeId>> Graph::users() const {
  std::vector<std::vector<NodeId>> all(values.size());
  for (NodeId id : order) {
    if (nodes[id].dead) continue;
    for (ValueId v : nodes[id].inputs) all.at(idx(v)).push_back(id);
  }
  for (const OutputInfo& o : outputs) all.at(idx(o.value)).push_back(kNone<NodeId>);
  for (const StateInfo& s : states)
    if (s.updated != kNone<ValueId>) all.at(idx(s.updated)).push_back(kNone<NodeId>);
  return all;
}

void Graph::compact() {
  enum class Mark : uint8_t { none, open, done };
  std::vector<Mark> mark(nodes.size(), Mark::none);
  std::vector<NodeId> sorted;
  sorted.reserve(order.size());
  std::vector<std::pair<NodeId, size_t>> stack;  // node, next input to look at
  for (NodeId root : order) {
    if (nodes[root].dead || mark[idx(root)] == Mark::done) continue;
    stack.push_back({root, 0});
    mark[idx(root)] = Mark::open;
    while (!stack.empty()) {
      auto& [id, next] = stack.back();
      const Node& n = nodes[id];
      if (next == n.inputs.size()) {
        mark[idx(id)] = Mark::done;
        sorted.push_back(id);
        stack.pop_back();
        continue;
      }
      const Value& v = values[n.inputs[next++]];
      if (v.kind != ValueKind::node || mark[idx(v.node)] == Mark::done) continue;
      AOTC_CHECK(mark[idx(v.node)] != Mark::open, "cycle through {}", op_name(nodes[v.node].op));
      AOTC_CHECK(!nodes[v.node].dead, "{} uses the result of an erased {}", op_name(n.op), op_name(nodes[v.node].op));
      mark[idx(v.node)] = Mark::open;
      stack.push_back({v.node, 0});
    }
  }
  order = std::move(sorted);
}

}  // namespace aotc
