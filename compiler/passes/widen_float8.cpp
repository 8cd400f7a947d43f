#include "passes/widen_float8.h"

#include "graph/builder.h"

namespace aotc::passes {

void widen_float8(Graph& g, PassContext& ctx) {
  Builder b(g);
  const std::vector<NodeId> old = g.order;
  std::vector<std::pair<ValueId, ValueId>> replaced;
  for (NodeId id : old) {
    const Node n = g.nodes[id];  // a copy: building nodes moves them
    if (n.op != Op::matmul || !is_float8(g.type(n.inputs[0]).dtype)) continue;
    const DType own = g.type(n.inputs[0]).dtype;
    if (ctx.contraction_ns && ctx.contraction_ns(g, n, own) < ctx.contraction_ns(g, n, DType::bf16)) continue;
    b.at(n.name, n.source);
    const auto wide = [&](ValueId v) {
      const Node* p = g.def(v);  // a permuted weight stays one
      if (!p || p->op != Op::permute) return b.cast(v, DType::bf16);
      const Ints perm = p->get<Ints>(Attr::perm);
      return b.permute(b.cast(p->inputs[0], DType::bf16), perm);
    };
    const ValueId x = wide(n.inputs[0]), w = wide(n.inputs[1]);
    replaced.emplace_back(n.outputs[0], b.matmul(x, w, g.type(n.outputs[0]).dtype));
  }
  for (const auto& [from, to] : replaced) g.replace_all_uses(from, to);
  if (!replaced.empty()) g.compact();
}

}  // namespace aotc::passes
