#pragma once
#include <string>
#include <vector>

#include "import/program.h"

namespace aotc::import {

/// Which parameters and buffers become states of the artifact: buffers that the caller reads and writes at run time, so that nothing is
/// computed from their saved content beforehand.
struct StateChoice {
  bool all_parameters = false;
  std::vector<std::string> names;   ///< of parameters and buffers; * stands for any text
  std::vector<std::string> shared;  ///< names that other methods of the artifact have as states; a program may lack them
  bool empty() const { return !all_parameters && names.empty() && shared.empty(); }
};

/// Marks them, with all names of the same memory (tied weights). A name that nothing has is a Diagnostic.
void choose_states(Program& program, const StateChoice& choice);

}  // namespace aotc::import
