#include "passes/passes.h"

#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

std::optional<ValueId> rule(Rewriter& r, const Node& n) {
  if (n.op != Op::conv || n.has(Attr::value) || n.get_or<bool>(Attr::channels_last, false)) return std::nullopt;
  const Node* pad = r.def(n.inputs[0], Op::pad);
  if (!pad || pad->get<double>(Attr::value) != 0) return std::nullopt;
  const Exprs &inner = r.g.type(pad->inputs[0]).dims, &outer = r.g.type(n.inputs[0]).dims, &before = pad->get<Exprs>(Attr::lo);
  Ints lo = n.get<Ints>(Attr::padding), hi = n.get<Ints>(Attr::padding_hi);
  for (size_t d = 0; d < outer.size(); ++d) {
    const auto first = before[d].as_const(), last = r.g.syms.simplify(outer[d] - inner[d] - before[d]).as_const();
    if (!first || !last || *first < 0 || *last < 0) return std::nullopt;  // a negative one takes elements away
    if (d < 2 && (*first || *last)) return std::nullopt;
    if (d >= 2) lo[d - 2] += *first, hi[d - 2] += *last;
  }
  std::map<Attr, AttrValue> attrs = n.attrs;
  attrs[Attr::padding] = lo, attrs[Attr::padding_hi] = hi;
  const TensorType result = r.g.type(n.outputs[0]);
  return r.b.make1(Op::conv, {pad->inputs[0], n.inputs[1]}, attrs, &result);
}

}  // namespace

/// Zeros around the images of a convolution become its padding, on either side by itself. Sums have the same terms.
void fold_pads(Graph& g, PassContext&) { Rewriter::run(g, rule); }

}  // namespace aotc::passes
