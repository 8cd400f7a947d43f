#pragma once
// Convolutions and products of their pixels that run one after another over strips of rows, so that what one hands to the next stays in
// caches: aotc_strips of strips_abi.h as data. plan/strips.h finds them.
#include <functional>
#include <string>
#include <vector>

#include "base/target.h"

namespace aotc::forms {

/// See aotc_strip_arg.
struct StripArg {
  int ptr = 0;  ///< of the step's arguments, or AOTC_STRIP_*
  int64_t pixel_bytes = 0, image_bytes = 0;
  friend bool operator==(const StripArg&, const StripArg&) = default;
};

/// See aotc_strip_stage.
struct StripStage {
  int config = 0;      ///< of the plan set: its kernel's own
  std::string symbol;  ///< of the kernel's own step
  bool product = false;
  int kernel = 1, stride = 1, padding = 0, dilation = 1;  ///< of rows
  int sizes = 0;                                          ///< how many of the step's it takes
  int x = 0;
  int64_t pixel_bytes = 0;
  std::vector<StripArg> args;
  friend bool operator==(const StripStage&, const StripStage&) = default;
};

/// See aotc_strips_config.
struct Strips {
  int rows = 1;
  int64_t scratch_bytes = 0;
  std::vector<StripStage> stages;
  friend bool operator==(const Strips&, const Strips&) = default;
};

/// Rows of each stage's result that a strip of `rows` rows of the last one meets.
std::vector<int64_t> rows_of_strip(const std::vector<StripStage>& stages, int64_t rows);

/// The C definition of the aotc_strips_config `name`; config_of(i): the name of config i. The entries are declared before it.
std::string strips_config(const Strips& s, Isa isa, const std::string& name, const std::function<std::string(int)>& config_of);

}  // namespace aotc::forms
