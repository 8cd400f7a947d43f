#pragma once
// Floats that Python computes from sizes ("1.0 / (batch * 16)") and from numbers that are read out of tensors, as rank-0 float64 values of
// the graph.
#include "decompose/read_numbers.h"
#include "decompose/rule.h"

namespace aotc::decompose {

/// The value that `arg` names. Throws Refused where an operator on the way is not known.
ValueId compute_from_sizes(Builder& b, const import::Program& program, const import::SymbolicArg& arg, const ReadNumbers& read);
/// The result of one such operator.
ValueId compute_from_sizes(Builder& b, const import::Program& program, const import::PNode& node, const ReadNumbers& read);

}  // namespace aotc::decompose
