#pragma once
#include <string>
#include <vector>

#include "import/program.h"

namespace aotc::import {

/// Values of the top graph that a build gives as outputs, too: how `verify --bisect` looks into a program.
struct Probes {
  std::vector<std::string> tensors;  ///< names of results of nodes, or of inputs
  bool alone = false;                ///< they take the place of the program's own user outputs
};

/// The program with the probed tensors as user outputs behind its own, before what it writes. Each is copied where it is computed, so that
/// nothing that overwrites it later changes it. Throws Diagnostic where there is no such tensor.
void add_probes(Program& program, const Probes& probes);

/// The outputs that carry data, what is written among them: the places in Program::outputs of what a Reference returns.
std::vector<size_t> results_of(const Program& program);

/// Tensors that a node takes, in order, with the name of the argument: "weight", "tensors.1" of lists.
struct Operand {
  std::string argument, tensor;
};
std::vector<Operand> operands_of(const PNode& node);

}  // namespace aotc::import
