#pragma once
// What a model's config says to this backend.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "status.h"

namespace aotc::triton {

enum class States {
  none,      ///< runs update none
  sequence,  ///< a context for each sequence of the sequence batcher
  slots,     ///< a slot for each of them, and runs of many (slots.h)
  instance,  ///< one context an instance, which goes on from request to request
  request    ///< back to the initial content before each request
};

enum class Spread {
  off,
  on,     ///< where a run takes long enough for that
  always  ///< however short runs are
};

/// `parameters` of config.pbtxt; README.md has the table.
struct Settings {
  std::string artifact;  ///< empty: default_model_filename, else model.so, of the version's folder
  std::string method, next_method;
  int32_t threads = 0;  ///< 0: the CPUs shared out among the instances; -1: all
  bool device_given = false;
  int32_t device = AOTC_DEVICE_DEFAULT;
  uint32_t model_flags = 0, context_flags = 0;
  int64_t weights_budget = 0;  ///< bytes; 0: not given
  bool batching = true;
  Spread spread = Spread::on;
  bool states_given = false;
  States states = States::sequence;
  int32_t sequences = 16;                                     ///< an instance's at one time
  std::vector<std::pair<std::string, std::string>> slots;     ///< role and input, where the input has another name
  int64_t vocabulary = 0;                                     ///< 0: not given
  std::vector<std::pair<std::string, std::string>> feedback;  ///< input of the next run, output of the one before
  int64_t max_steps = 128;
  std::string stop_output;  ///< empty: none
  int64_t stop_value = 0;
};

/// INVALID_ARG names the parameter, its value and what is allowed. Unknown ones are logged.
Status read_settings(const nlohmann::json& config, Settings* out);

}  // namespace aotc::triton
