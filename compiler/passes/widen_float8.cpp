#include "passes/passes.h"

#include "passes/rewrite.h"

namespace aotc::passes {

/// Products of 8-bit floats multiply bfloat16, which holds them all, unless PassContext::contraction_ns says that the target's own take
/// less. Comes before constants are folded: then those of the casts are.
void widen_float8(Graph& g, PassContext& ctx) {
  Rewriter(g).sweep([&](Rewriter& r, const Node& n) -> std::optional<ValueId> {
    if (n.op != Op::matmul || !is_float8(g.type(n.inputs[0]).dtype)) return std::nullopt;
    const DType own = g.type(n.inputs[0]).dtype;
    if (ctx.contraction_ns && ctx.contraction_ns(g, n, own) < ctx.contraction_ns(g, n, DType::bf16)) return std::nullopt;
    const auto wide = [&](ValueId v) {
      const Node* p = g.def(v);  // a permuted weight stays one
      if (!p || p->op != Op::permute) return r.b.cast(v, DType::bf16);
      const Ints perm = p->get<Ints>(Attr::perm);
      return r.b.permute(r.b.cast(p->inputs[0], DType::bf16), perm);
    };
    const ValueId x = wide(n.inputs[0]), w = wide(n.inputs[1]);
    return r.b.matmul(x, w, g.type(n.outputs[0]).dtype);
  });
}

}  // namespace aotc::passes
