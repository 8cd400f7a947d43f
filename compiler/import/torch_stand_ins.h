#pragma once
// Operators that LibTorch does not know, has not in float64, would read wrong or gives one of several right answers of, made of others: for
// the reference runner. For files that see LibTorch.
#include <ATen/core/ivalue.h>

#include <string_view>
#include <vector>

#include "import/program.h"

namespace aotc::import {

struct StandIn {
  std::string_view target;
  std::vector<c10::IValue> (*run)(const PNode& node, const std::vector<c10::IValue>& args);  ///< throws Diagnostic
  bool only_f64 = false;                                                                     ///< LibTorch runs the other types
};
/// Null: LibTorch's own is right.
const StandIn* find_stand_in(std::string_view target, bool f64);

}  // namespace aotc::import
