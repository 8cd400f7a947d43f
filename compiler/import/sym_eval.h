#pragma once
// A tree of import/sym_parse.h computed as Python computes it, for given sizes.
#include <functional>
#include <optional>
#include <string>

#include "import/sym_parse.h"

namespace aotc::import {

enum class Truth : uint8_t {
  no,
  yes,
  error,   ///< Python raises (a division by zero)
  unknown  ///< a function or number that is not followed here
};

/// Whether a condition holds. `size` gives the value of a symbol.
Truth evaluate_condition(const SymNode& tree, const std::function<std::optional<int64_t>(const std::string&)>& size);

}  // namespace aotc::import
