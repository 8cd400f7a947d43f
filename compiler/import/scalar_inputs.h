#pragma once
#include "import/program.h"

namespace aotc::import {

/// A number that is an example of such an input, as a tensor of rank 0.
ConstData scalar_sample(const std::string& name, int64_t number);

/// Integers that the caller gives, and that are no size of an input, become tensors of rank 0 (int64) with a node that reads them, as if
/// the model had called .item(). Those of an expression stay.
void read_scalar_inputs(Program& p);

}  // namespace aotc::import
