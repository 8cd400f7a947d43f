#pragma once
// A weight as products and convolutions have it: a constant, or one seen through a permute.
#include <optional>

#include "graph/graph.h"

namespace aotc::passes {

struct SeenWeight {
  ValueId source;  ///< the constant's value
  ConstId constant;
  Ints perm;  ///< empty: it is seen as it is
};

inline std::optional<SeenWeight> seen_weight(const Graph& g, ValueId v) {
  const Node* p = g.def(v);
  const bool permuted = p && p->op == Op::permute;
  const ValueId source = permuted ? p->inputs[0] : v;
  if (g.values[source].kind != ValueKind::constant) return std::nullopt;
  return SeenWeight{source, g.values[source].constant, permuted ? p->get<Ints>(Attr::perm) : Ints{}};
}

}  // namespace aotc::passes
