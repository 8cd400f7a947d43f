#pragma once
#include <map>
#include <optional>
#include <string>

#include "import/program.h"

namespace aotc::import {

/// What the graph does with an input of integers or bools.
struct InputUse {
  bool index = false;  ///< it selects elements: lo <= value < hi
  int64_t lo = 0, hi = 0;
  bool mask = false;     ///< compared, multiplied or used as a condition
  bool divisor = false;  ///< divides: never 0
  bool offsets = false;  ///< starts of bags: ascending, the first 0
};

/// Uses of the user inputs by name, following them through views, integer casts and the addition of constants. Sizes of the indexed
/// tensors are taken at `sizes`.
std::map<std::string, InputUse> input_uses(const Program& program, const std::map<SymId, int64_t>& sizes);

}  // namespace aotc::import
