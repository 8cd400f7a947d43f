#pragma once
// What the files share that write operators with subgraphs out as nodes of the graph (control_flow.cpp, while_loop.cpp).
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "import/graph_reader.h"

namespace aotc::import {

constexpr size_t kMostNodes = 4096;  ///< of all rounds of one loop together

inline bool only_tensors(const std::vector<Arg>& args) {
  return std::all_of(args.begin(), args.end(), [](const Arg& a) { return std::holds_alternative<TensorRef>(a); });
}

/// An operator with its subgraphs and what they are called with: each argument a list, a single value a list of one.
struct GraphReader::ControlFlow {
  const JsonRef& node;
  const PNode& head;
  std::vector<std::pair<std::string, JsonRef>> graphs;  ///< with their names
  std::vector<std::vector<Arg>> arguments;
  std::vector<JsonRef> results;  ///< tensors by name, lists laid flat
};

}  // namespace aotc::import
