#include "passes/add_picked_rows.h"

#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

/// Whole rows of a matrix, by one list of indices.
bool by_row(const Rewriter& r, const Node& n, size_t first_index) {
  return n.inputs.size() == first_index + 1 && r.dims(n.inputs[0]).size() == 2 && r.dims(n.inputs[first_index]).size() == 1 &&
         n.get<Ints>(Attr::dims) == Ints{0} && n.get<int64_t>(Attr::out_pos) == 0;
}

std::optional<ValueId> rows_added(Rewriter& r, const Node& n) {
  if (n.op != Op::index_put || !by_row(r, n, 2) || !n.get<bool>(Attr::accumulate) || r.uses(n.inputs[1]) != 1) return std::nullopt;
  const DType t = r.dtype(n.inputs[0]);
  const Node* rows = r.def(n.inputs[1], Op::index);
  if ((t != DType::f32 && t != DType::f64) || !rows || !by_row(r, *rows, 1)) return std::nullopt;
  return r.b.make1(Op::add_rows, {n.inputs[0], rows->inputs[0], rows->inputs[1], n.inputs[2]});
}

}  // namespace

void add_picked_rows(Graph& g, PassContext& ctx) {
  if (!ctx.target.is_gpu()) Rewriter::run(g, rows_added);
}

}  // namespace aotc::passes
