#pragma once
// Where the reference of custom operators comes from, for the verbs that run eager PyTorch.
#include <memory>
#include <string>
#include <vector>

#include "cli.h"
#include "import/custom_process.h"

namespace aotc::cli {

struct CustomOperators {
  std::vector<std::string> libraries, modules;
};
/// --torch-library, --torch-module.
void add_custom_operators(CLI::App& app, CustomOperators& operators);
/// The processes of modules: their operators are called as long as these are kept.
using CustomProcesses = std::vector<std::shared_ptr<import::CustomProcess>>;
/// Makes them known to LibTorch. Throws Diagnostic: io for a library that is not there, toolchain for one that does not load and for what
/// Python says of a module.
[[nodiscard]] CustomProcesses define(const CustomOperators& operators);

}  // namespace aotc::cli
