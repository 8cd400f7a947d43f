#pragma once
// verify --bisect: where in a program an artifact's numbers begin to be wrong.
#include <optional>
#include <string>
#include <vector>

#include "artifact.h"
#include "cli.h"
#include "import/program.h"
#include "judge.h"

namespace aotc::cli {

struct BisectOptions {
  std::string folder;   ///< what the operator took and gave is written here; made where it is not there
  std::string kernels;  ///< the kernels.json of an artifact that has kernels of the user's
  int threads = 1;
  bool flush_denormals = false;
  Allowed allowed;
  std::optional<double> max_loss;
};

/// A result that departs, and on which inputs.
struct Departed {
  Row row;
  std::vector<HostTensor> inputs;
  size_t place = 0;  ///< among the results: outputs, then states that runs change
};

/// The first value of the program that departs, by artifacts that are built as this one was and have values of the program as further
/// outputs: first some of all values before the result, then those between the last that is right and the first that is not, until the
/// operands of an operator are right and its result is not. What is fused changes at the values that are outputs; where nothing departs so,
/// programs that end at a value, and are fused up to it, are tried. archive: with the artifact's symbols (sizes.h, against). Throws
/// Diagnostic.
Departure find_departure(const BisectOptions& options, const Common& common, const Artifact& artifact, const import::Program& archive,
                         const Departed& departed);

}  // namespace aotc::cli
