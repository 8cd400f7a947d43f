#pragma once
// Recurrent layers as Op::recurrence, and as their steps one after another.
#include "graph/builder.h"

namespace aotc::decompose {

/// What Op::recurrence says, step after step: a product and its cell each. Requires a known number of steps.
std::vector<ValueId> recurrence_by_steps(Builder& b, const Node& n);

}  // namespace aotc::decompose
