#pragma once
// Sample inputs of a program with LibTorch's truth, and how far an artifact's outputs are from it.
#include <vector>

#include "artifact.h"

namespace aotc::cli {

/// Relative L2 error against fp64, and what is allowed.
struct OutputError {
  double l2 = 0, bound = 0;
  double share() const { return l2 <= 0 ? 0 : l2 / bound; }
};

struct Sample {
  std::vector<HostTensor> inputs, truth;
  std::vector<double> bounds;  ///< by output
};

/// Of the output, over all samples, that is nearest to its bound, or furthest beyond it. The session is bound to the inputs with `last`
/// behind them.
OutputError worst_error(Session& session, const std::vector<Sample>& samples, const HostTensor& last);

}  // namespace aotc::cli
