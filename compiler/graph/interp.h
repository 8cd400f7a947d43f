#pragma once
// Reference interpreter of Graphs: plain loops, no speed. Constant folding and the tests use it.
#include <map>
#include <vector>

#include "graph/graph.h"

namespace aotc {

struct HostTensor {
  DType dtype = DType::f32;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;  ///< dense row-major
  int64_t elems() const;
};
/// The first elements of each dim.
HostTensor beginning(const HostTensor& whole, const std::vector<int64_t>& dims);

struct InterpOptions {
  bool f64 = false;  ///< compute every floating value in f64 (the truth for tests); results keep their dtype tags as f64
};

/// Runs the whole graph. `inputs` in the order of g.inputs; shape symbols are bound from their dims. Returns outputs, then state updates.
std::vector<HostTensor> interpret(const Graph& g, const std::vector<HostTensor>& inputs, const InterpOptions& = {});
/// Of what interpret gave: results with the sizes that the run found. Throws Diagnostic (ExitCode::failed) where a check is false.
std::vector<HostTensor> found_results(const Graph& g, const std::vector<HostTensor>& inputs, std::vector<HostTensor> outputs);
/// Evaluates one node whose inputs are all given (constant folding).
std::vector<HostTensor> interpret_node(const Graph& g, const Node& n, const std::vector<const HostTensor*>& inputs);

}  // namespace aotc
