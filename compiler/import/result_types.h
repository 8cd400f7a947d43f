#pragma once
// What an operator's results are like, asked of LibTorch. No LibTorch in this header.
#include "import/program.h"

namespace aotc::import {

/// Types and sizes of the results of a node from those of its operands as `program` has them, in the order of result_names(node). The
/// reason where LibTorch does not say: a size is symbolic, or depends on data.
Result<std::vector<TensorMeta>> result_types(const Program& program, const PNode& node);

}  // namespace aotc::import
