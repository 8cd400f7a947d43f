#pragma once
// How a write to a view becomes a write to the tensor that it is a view of.
#include "decompose/rule.h"

namespace aotc::decompose {

/// The operand's new value after element `result` of the node's results became `updated`, by the view's own means (a slice is put back as a
/// slice); kNone for views that have none, and then every element is written to its place.
ValueId write_back(Rule& r, ValueId operand, ValueId updated, size_t result);

/// Whether the view's elements are the conjugates of those that lie in memory.
bool conjugates(const Rule& r);

/// Whether elements of the view that the node makes may share memory with one another.
bool may_overlap(Rule& r);

}  // namespace aotc::decompose
