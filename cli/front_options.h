#pragma once
// The options shared by the verbs that compile: build, inspect, explain.
#include <string>
#include <vector>

#include "cli.h"
#include "pipeline/pipeline.h"

namespace aotc::cli {

struct FrontArgs {
  std::string model, shapes, cpu, cuda, f32_matmul, weights, weight_group, activations, dump_dir, precision = "f32";
  bool ptx = false;
  std::vector<std::string> print_ir_after, states;
  int threads = 0;
  double max_error = 0, max_weight_error = 0;
  bool winograd4 = false, strassen = false;
  bool parameters_as_states = false;
  void add_to(CLI::App& app);
  pipeline::FrontOptions get() const;  ///< throws Diagnostic (usage)
};

}  // namespace aotc::cli
