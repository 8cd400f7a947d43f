#include "passes/passes.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/uarch.h"
#include "graph/builder.h"

namespace aotc::passes {
namespace {

constexpr int64_t kAlign = 8;  ///< elements of 16 bytes

/// The rows of [.., k, n] are columns of a matrix that lies as [.., n, k]: that matrix.
std::optional<ValueId> lies_along_k(const Graph& g, ValueId v) {
  const Node* p = g.def(v);
  if (!p || p->op != Op::permute) return std::nullopt;
  const Ints& perm = p->get<Ints>(Attr::perm);
  const size_t rank = perm.size();
  for (size_t d = 0; d + 2 < rank; ++d)
    if (perm[d] != static_cast<int64_t>(d)) return std::nullopt;
  return perm[rank - 1] == static_cast<int64_t>(rank - 2) ? std::optional(p->inputs[0]) : std::nullopt;
}

bool is_worth(const Graph& g, const Exprs& a, const Expr& n, int64_t k, bool by_element, const GpuCosts& u) {
  const double rows = static_cast<double>(g.syms.hint(product(Exprs(a.begin(), a.end() - 1)))),
               columns = static_cast<double>(g.syms.hint(n));
  if (rows < static_cast<double>(u.align_few_rows)) return false;
  const double copy = u.align_launch + 4 * rows * static_cast<double>(k + kAlign) / u.align_copy_bytes,
               flops = 2 * rows * columns * static_cast<double>(k);
  const double now =
      by_element ? std::max(flops / u.align_by_element, u.align_step * static_cast<double>((k + 63) / 64)) : flops / u.align_by_word;
  return now > u.align_product + 2 * copy;
}

}  // namespace

/// On GPUs, products of 16-bit operands whose rows are no multiples of 16 bytes multiply copies whose rows are filled up with zeros, where
/// that is faster than to read them element by element. Requires folded constants; a fold_constants follows.
void align_products(Graph& g, PassContext& ctx) {
  Builder b(g);
  const std::vector<NodeId> old = std::move(g.order);
  g.order.clear();
  std::map<ValueId, ValueId> filled, replaced;
  const auto fill = [&](ValueId v, size_t d, const Expr& to) {
    if (const auto it = filled.find(v); it != filled.end()) return it->second;
    TensorType t = g.type(v);
    const size_t rank = t.dims.size();
    t.dims[d] = to;
    return filled[v] = b.make1(Op::pad, {v}, {{Attr::lo, Exprs(rank, Expr(0))}, {Attr::value, 0.0}}, &t);
  };
  for (NodeId id : old) {
    for (ValueId& v : g.nodes[id].inputs)
      if (const auto it = replaced.find(v); it != replaced.end()) v = it->second;
    const Node n = g.nodes[id];  // a copy: building nodes moves them
    g.order.push_back(id);
    if (n.op != Op::matmul || !is_half(g.type(n.inputs[0]).dtype)) continue;
    const Exprs a = g.type(n.inputs[0]).dims, w = g.type(n.inputs[1]).dims;
    const auto k = a.back().as_const();
    if (!k || *k % kAlign == 0) continue;
    ValueId rows = n.inputs[0];  // batches of rows are rows
    for (const Node* d = g.def(rows); d && d->op == Op::reshape; d = g.def(rows)) rows = d->inputs[0];
    const bool a_along = !lies_along_k(g, rows);
    const auto w_along = lies_along_k(g, n.inputs[1]);
    // Weights are filled up beforehand; another second operand would be copied, too.
    const Value& weight = g.values[w_along.value_or(n.inputs[1])];
    const bool constant = weight.kind == ValueKind::constant;
    if (constant && ctx.rounded_weights.find(g.constants[weight.constant])) continue;  // of few bits it is computed, and needs no filling
    if (!constant || w.size() != 2 || (!a_along && !w_along) ||
        !is_worth(g, a, w.back(), *k, *k % 2 != 0 || !a_along || !w_along, uarch_of(ctx.target).gpu))
      continue;
    g.order.pop_back();
    b.at(n.name, n.source);
    const int64_t to = (*k + kAlign - 1) / kAlign * kAlign;
    const ValueId x = fill(n.inputs[0], a.size() - 1, to);
    const ValueId weights = w_along ? b.permute(fill(*w_along, 1, to), {1, 0}) : fill(n.inputs[1], 0, to);
    replaced[n.outputs[0]] = b.matmul(x, weights, g.type(n.outputs[0]).dtype);
  }
  for (OutputInfo& o : g.outputs)
    if (const auto it = replaced.find(o.value); it != replaced.end()) o.value = it->second;
  for (StateInfo& s : g.states)
    if (const auto it = replaced.find(s.updated); it != replaced.end()) s.updated = it->second;
  g.compact();
}

}  // namespace aotc::passes
