#pragma once
// The options of a build, from what an artifact says of itself.
#include "artifact.h"
#include "pipeline/pipeline.h"

namespace aotc::cli {

/// Those that the method of this artifact was built with on `archive`, for the code of it that runs on this machine alone: the target's
/// instruction set or GPU, its shapes.json, states, precision, weights of few bits and what results may lose. Choices of kernels are those
/// of the cost model and of the user's tuning database. kernels: the kernels.json of an artifact with kernels of the user's. Throws
/// Diagnostic (usage) where that is needed and not given.
pipeline::FrontOptions options_of(const Artifact& artifact, const std::string& archive, const std::string& kernels);

/// Where --precision auto decided for each contraction: the same decisions by the contractions' names, whatever their places with these
/// options (their probes) are.
void settle_precision(pipeline::FrontOptions& options, const nlohmann::json& explained);

}  // namespace aotc::cli
