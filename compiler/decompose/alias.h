#pragma once
// Which operators return views of their first tensor, and how a write to the view becomes a write to the tensor.
#include "decompose/rule.h"

namespace aotc::decompose {

enum class Aliasing {
  none,     ///< a tensor of its own
  same,     ///< the argument itself
  view,     ///< a view; see write_back
  unclear,  ///< a view or a copy, depending on strides
};
Aliasing aliasing_of(Rule& r);
/// The name of the tensor that the result may alias: the first tensor argument. Empty: none.
std::string aliased_argument(const import::PNode& node);

/// The argument's new value after element `result` of the node's results became `updated`. Refuses views that it cannot invert.
ValueId write_back(Rule& r, ValueId argument, ValueId updated, size_t result);

}  // namespace aotc::decompose
