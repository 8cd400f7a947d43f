#include "passes/passes.h"

#include "base/int_range.h"
#include "passes/rewrite.h"
#include "passes/value_range.h"

namespace aotc::passes {
namespace {

std::optional<std::vector<ValueId>> narrow_sort(Rewriter& r, const Node& n) {
  if (n.op != Op::sort || r.dtype(n.inputs[0]) != DType::i64) return {};
  const Range x = range_of(r.g, n.inputs[0]);
  const auto has = [&](DType t) { return x.within(static_cast<double>(int_range(t).least), static_cast<double>(int_range(t).most)); };
  if (!has(DType::i32)) return {};
  const DType t = has(DType::i16) ? DType::i16 : DType::i32;
  const std::vector<ValueId> sorted = r.b.make(Op::sort, {r.b.cast(n.inputs[0], t)}, n.attrs);
  return std::vector{r.b.cast(sorted[0], DType::i64), sorted[1]};
}

}  // namespace

/// On GPUs, 64-bit integers that are known to have 16 or 32 bits (numbers of experts, from a topk) are sorted as such: a key and its index
/// are then one word.
void narrow_sorts(Graph& g, PassContext&) { Rewriter(g).sweep_results(narrow_sort); }

}  // namespace aotc::passes
