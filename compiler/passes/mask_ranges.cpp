#include "passes/passes.h"

#include <map>

#include "base/uarch.h"
#include "graph/infer.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

/// Of each row of a bool mask: from and end, as attention takes them.
std::pair<ValueId, ValueId> ranges_of(Rewriter& r, ValueId mask) {
  Builder& b = r.b;
  const Exprs dims = r.dims(mask);
  const ValueId key = b.iota(dims, 3), none = b.like(key, 0);
  const ValueId after = b.binary_scalar(Op::add, key, 1);
  const ValueId end = b.reduce_keep(ReduceKind::max, b.where(mask, after, none), {3});
  const ValueId beyond = b.expand(b.sym(dims[3]), dims);
  const ValueId first = b.reduce_keep(ReduceKind::min, b.where(mask, key, beyond), {3});
  const ValueId from = b.binary(Op::minimum, first, end);  // of a row that shows nothing: 0, as its end
  const ValueId count = b.reduce_keep(ReduceKind::sum, b.cast(mask, DType::i64), {3});
  const ValueId whole = b.binary(Op::eq, count, b.binary(Op::sub, end, from));
  return {from, b.where(whole, end, b.binary(Op::sub, b.like(end, -1), end))};
}

}  // namespace

/// GPUs: attention over many keys with a computed bool mask gets, for each row of the mask, where the keys that it shows begin and end
/// (ops.def), once for all attention with that mask. Kernels leave out what lies outside, such as the part of a cache that is not filled
/// yet, and do not read the mask of rows that show all of their range.
void mask_ranges(Graph& g, PassContext& ctx) {
  const GpuCosts& u = uarch_of(ctx.target).gpu;
  std::map<ValueId, std::pair<ValueId, ValueId>> known;  // by mask
  Rewriter(g).sweep([&](Rewriter& r, const Node& node) -> std::optional<ValueId> {
    if (node.op != Op::attention) return {};
    const AttentionInputs in = attention_inputs(r.g, node);
    if (!in.mask || in.from) return {};
    const ValueId mask = node.inputs[in.mask];
    if (!is_bool(r.dtype(mask)) || r.g.syms.hint(r.dims(mask)[3]) < u.mask_few_keys) return {};
    std::vector<ValueId> inputs = node.inputs;
    const auto attrs = node.attrs;
    const auto [it, fresh] = known.try_emplace(mask);
    if (fresh) it->second = ranges_of(r, mask);
    inputs.insert(inputs.begin() + static_cast<std::ptrdiff_t>(in.mask) + 1, {it->second.first, it->second.second});
    return r.b.make1(Op::attention, std::move(inputs), attrs);
  });
}

}  // namespace aotc::passes
