#pragma once
// Where the reference of custom operators comes from, for the verbs that run eager PyTorch.
#include <string>
#include <vector>

#include "cli.h"

namespace aotc::cli {

struct CustomOperators {
  std::vector<std::string> libraries, modules;
};
/// --torch-library, --torch-module.
void add_custom_operators(CLI::App& app, CustomOperators& operators);
/// Makes them known to LibTorch. Throws Diagnostic: io for a library that is not there, toolchain for one that does not load and for what
/// Python says of a module.
void define(const CustomOperators& operators);

}  // namespace aotc::cli
