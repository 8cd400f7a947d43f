#include "passes/passes.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

std::optional<ValueId> rule(Rewriter& r, const Node& n) {
  if (n.op != Op::conv || n.has(Attr::value) || n.get_or<bool>(Attr::channels_last, false)) return std::nullopt;
  const ValueId x = n.inputs[0], w = n.inputs[1];
  const Exprs from = r.dims(x), window = r.dims(w), to = r.dims(n.outputs[0]);  // [N, C, S..], [C, 1, S..], [N, C, 1..]
  const DType t = r.dtype(x), result = r.dtype(n.outputs[0]), sum = t == DType::f64 ? DType::f64 : DType::f32;
  if (!is_float(t) || r.dtype(w) != t || !window[1].is(1) || !from[1].is(n.get<int64_t>(Attr::groups)) || !r.same(window[0], from[1]))
    return std::nullopt;
  if (!all_are(n.get<Ints>(Attr::padding), 0) || !all_are(n.get<Ints>(Attr::padding_hi), 0) || !all_are(n.get<Ints>(Attr::dilation), 1))
    return std::nullopt;
  Ints dims;
  for (size_t d = 2; d < from.size(); ++d) {
    if (!r.same(from[d], window[d])) return std::nullopt;
    dims.push_back(static_cast<int64_t>(d));
  }
  Exprs one = window;
  one[1] = one[0], one[0] = 1;
  const ValueId weights = r.b.expand(r.b.reshape(w, one), from);
  const ValueId products = r.b.binary(Op::mul, r.b.cast(x, sum), r.b.cast(weights, sum));
  return r.b.reshape(r.b.cast(r.b.reduce(ReduceKind::sum, products, dims), result), to);
}

}  // namespace

/// A convolution channel by channel whose window is all of its input is a sum of products: each element is needed once, so there is nothing
/// for neighbouring outputs to share. Sums go in the order of any other reduction.
void whole_windows(Graph& g, PassContext&) { Rewriter::run(g, rule); }

}  // namespace aotc::passes
