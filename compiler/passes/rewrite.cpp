#include "passes/rewrite.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/int_range.h"
#include "graph/constant_store.h"
#include "graph/infer.h"
#include "graph/scalar.h"

namespace aotc::passes {
namespace {

constexpr int kMaxSweeps = 32;

/// The full() or constant that v repeats, through views that neither add nor compute values.
ValueId splat_root(const Graph& g, ValueId v) {
  for (const Node* n = g.def(v); n; n = g.def(v)) {
    if (n->op != Op::reshape && n->op != Op::permute && n->op != Op::expand && n->op != Op::slice && n->op != Op::flip) break;
    v = n->inputs[0];
  }
  return v;
}

/// Bytes of the constant's element when all its elements are equal.
const std::byte* uniform(const Graph& g, ValueId v) {
  const Value& x = g.values[v];
  if (x.kind != ValueKind::constant) return nullptr;
  const ConstData& c = g.constants[x.constant];
  const size_t width = dtype_bytes(c.type.dtype), count = c.bytes / width;
  if (count == 0 || count > 64 || !has_data(c) || c.exchangeable) return nullptr;
  for (size_t i = 1; i < count; ++i)
    if (std::memcmp(c.data, c.data + i * width, width) != 0) return nullptr;
  return c.data;
}

}  // namespace

Rewriter::Rewriter(Graph& graph) : g(graph), b(graph) {}

const Node* Rewriter::def(ValueId v, Op op) const {
  const Node* n = g.def(v);
  return n && n->op == op ? n : nullptr;
}

bool Rewriter::same(const Expr& x, const Expr& y) const { return holds(g, ShapeGuard::Kind::eq, x, y); }

void Rewriter::count_uses() {
  uses_.assign(g.values.size(), 0);
  for (const OutputInfo& o : g.outputs) ++uses_[idx(o.value)];
  for (const StateInfo& s : g.states)
    if (s.updated != kNone<ValueId>) ++uses_[idx(s.updated)];
  for (size_t i = g.order.size(); i-- > 0;) {  // users first: a node without live users uses nothing
    const Node& n = g.nodes[g.order[i]];
    const bool live = std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return uses_[idx(v)] != 0; });
    for (ValueId v : n.inputs) uses_[idx(v)] += live;
  }
}

bool Rewriter::sweep(const Rule& rule) {
  return sweep_results([&rule](Rewriter& r, const Node& n) -> std::optional<std::vector<ValueId>> {
    const std::optional<ValueId> to = n.outputs.size() == 1 ? rule(r, n) : std::nullopt;
    if (!to || *to == n.outputs[0]) return {};
    return std::vector{*to};
  });
}

bool Rewriter::sweep_results(const ResultsRule& rule) {
  count_uses();
  std::vector<ValueId> now(g.values.size());
  for (size_t i = 0; i < now.size(); ++i) now[i] = static_cast<ValueId>(i);
  auto current = [&](ValueId v) { return idx(v) < now.size() ? now[idx(v)] : v; };
  const std::vector<NodeId> old = std::move(g.order);
  g.order.clear();
  bool changed = false;
  for (NodeId id : old) {
    if (g.nodes[id].dead) continue;
    for (ValueId& v : g.nodes[id].inputs) v = current(v);
    const Node n = g.nodes[id];  // a copy: the rule adds nodes
    b.at(n.name, n.source);
    const std::optional<std::vector<ValueId>> to = rule(*this, n);
    if (!to) {
      g.order.push_back(id);
      continue;
    }
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      const TensorType &made = g.type(to->at(i)), &was = g.type(n.outputs[i]);
      AOTC_CHECK(made.dtype == was.dtype && same_dims(g, made.dims, was.dims), "{} is replaced by a value of another type", op_name(n.op));
      now[idx(n.outputs[i])] = to->at(i);
    }
    g.nodes[id].dead = true;
    changed = true;
  }
  for (OutputInfo& o : g.outputs) o.value = current(o.value);
  for (StateInfo& s : g.states)
    if (s.updated != kNone<ValueId>) s.updated = current(s.updated);
  return changed;
}

void Rewriter::run(Graph& g, const Rule& rule) {
  Rewriter r(g);
  for (int i = 0; i < kMaxSweeps && r.sweep(rule); ++i) {}
}

std::optional<std::pair<ValueId, ValueId>> float_operands(const Rewriter& r, const Node& n) {
  if (n.op != Op::matmul) return std::nullopt;
  const DType t = r.dtype(n.outputs[0]);
  if ((t != DType::f32 && t != DType::f64) || r.dtype(n.inputs[0]) != t || r.dtype(n.inputs[1]) != t) return std::nullopt;
  return std::pair(n.inputs[0], n.inputs[1]);
}

std::optional<double> splat_value(const Graph& g, ValueId v) {
  v = splat_root(g, v);
  const Node* n = g.def(v);
  if (n && n->op == Op::full) {
    const DType t = g.type(v).dtype;
    const double x = scalar_f64(*n, Attr::value);
    return is_float(t) ? round_to(t, x) : x;
  }
  const std::byte* p = uniform(g, v);
  if (!p || !is_float(g.type(v).dtype)) {
    const auto i = splat_int(g, v);
    return i ? std::optional<double>(static_cast<double>(*i)) : std::nullopt;
  }
  double x;
  load_f64(g.type(v).dtype, p, &x, 1);
  return x;
}

std::optional<int64_t> splat_int(const Graph& g, ValueId v) {
  v = splat_root(g, v);
  const DType t = g.type(v).dtype;
  if (!is_int(t) && !is_bool(t)) return std::nullopt;
  const Node* n = g.def(v);
  if (n && n->op == Op::full) return scalar_i64(*n, Attr::value);
  const std::byte* p = uniform(g, v);
  if (!p) return std::nullopt;
  int64_t x;
  load_i64(t, p, &x, 1);
  return x;
}

ValueId splat(Builder& b, const TensorType& t, const std::byte* element) {
  if (is_float(t.dtype)) {
    double v;
    load_f64(t.dtype, element, &v, 1);
    return b.full(t, v);
  }
  int64_t v;
  load_i64(t.dtype, element, &v, 1);
  return b.full_int(t, v);
}

AttrValue neutral_element(ReduceKind kind, DType t) {
  const double inf = std::numeric_limits<double>::infinity();
  const bool largest = kind == ReduceKind::min;
  if (kind == ReduceKind::sum || kind == ReduceKind::prod) return kind == ReduceKind::prod ? 1.0 : 0.0;
  if (is_float(t)) return largest ? inf : -inf;
  if (is_bool(t)) return largest;
  return largest ? int_range(t).most : int_range(t).least;
}

}  // namespace aotc::passes
