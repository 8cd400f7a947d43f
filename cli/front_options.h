#pragma once
// The options shared by the verbs that compile: build, inspect, explain.
#include <string>
#include <vector>

#include "cli.h"
#include "pipeline/pipeline.h"

namespace aotc::cli {

struct FrontArgs {
  std::vector<std::string> models, shapes;
  std::string kernels, cpu, cuda, uarch, f32_matmul, weights, weight_group, activations, kv_cache, dump_dir, precision = "f32";
  bool ptx = false;
  std::vector<std::string> print_ir_after, states;
  int threads = 0;
  double max_error = 0, max_weight_error = 0;
  bool winograd4 = false, strassen = false, reproducible = false;
  bool parameters_as_states = false;
  /// several: the verb takes several programs, NAME=FILE each.
  void add_to(CLI::App& app, bool several = false, const std::string& or_else = "");
  const std::string& model() const { return models.front(); }
  /// Of every method, with the shapes that are its. One file without a name is the method "forward", or all programs of an archive that
  /// holds several. Throws Diagnostic (usage; what reading archives throws).
  std::vector<pipeline::MethodOptions> methods() const;
  /// The one of that name; empty: the only one.
  pipeline::MethodOptions method(const std::string& name) const;

 private:
  pipeline::FrontOptions get() const;
};

void add_uarch(CLI::App& app, std::string& file);
/// The target's decisions go by the file, where there is one (take_uarch). Throws Diagnostic.
void read_uarch(const std::string& file, Target& target);

}  // namespace aotc::cli
