#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "import/program.h"

namespace aotc::import {

/// What the graph does with an input of integers or bools.
struct InputUse {
  bool index = false;  ///< it selects elements: lo <= value < hi
  int64_t lo = 0, hi = 0;
  bool mask = false;     ///< compared, multiplied or used as a condition
  bool divisor = false;  ///< divides: never 0
  bool offsets = false;  ///< starts of bags in each line of the last dim: ascending, the first 0, none above `indices`
  bool ends = false;     ///< of offsets: the last is where the last bag ends
  int64_t indices = 0;   ///< of offsets: how many elements the bags share
};

/// Uses of the user inputs by name, following them through views, integer casts and the addition of constants. Sizes of the indexed
/// tensors are taken at `sizes`.
std::map<std::string, InputUse> input_uses(const Program& program, const std::map<SymId, int64_t>& sizes);

/// Numbers that the program compares each user input with, or the largest, smallest, sum or mean of it; by name.
std::map<std::string, std::vector<double>> compared_with(const Program& program);

}  // namespace aotc::import
