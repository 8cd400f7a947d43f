#pragma once
// A program made smaller as long as it fails.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "import/json.h"
#include "import/program.h"

namespace aotc::cli {

/// A program as it can be saved.
struct Candidate {
  import::Json model;
  std::map<std::string, ConstData> data;
};

/// Drawn numbers in place of the weights, buffers and constants: floats with the mean and the deviation of the tensor, not negative where
/// it is not, integers and bools within its range.
std::map<std::string, ConstData> drawn_weights(const std::map<std::string, ConstData>& data);

struct Reducer {
  std::function<bool(const Candidate&)> fails;        ///< as the whole does; candidates that cannot be read do not
  std::function<void(const std::string& what)> tell;  ///< progress
  std::function<bool()> time_left;
  std::function<std::optional<int64_t>(const std::string& expr)> size;  ///< of the inputs that it fails on; none: the example's
};

/// The smallest that was found, starting with `whole`, which fails: a set of operators of which none can be left out (delta debugging,
/// ddmin of Zeller and Hildebrandt 2002), then results, symbolic sizes and the extents of inputs, where it still fails without them.
/// scratch: a path for programs whose sizes LibTorch is asked for.
Candidate reduced(const Candidate& whole, const Reducer& reducer, const std::string& scratch);

}  // namespace aotc::cli
