#pragma once
#include <string>
#include <vector>

#include "import/graph_reader.h"

namespace aotc::import {

/// Inputs and outputs of the top graph from its signature, with pytree paths; adds the mutations that only in-place operators show.
void read_signature(const JsonRef& graph_module, GraphReader& reader, Program& program);

/// Keyword names of the call, in the order of the flattened inputs (from in_spec).
std::vector<std::string> keyword_order(const JsonRef& graph_module);

/// Names of the positional arguments, in order; empty where the archive does not say them.
std::vector<std::string> positional_names(const JsonRef& graph_module);

}  // namespace aotc::import
