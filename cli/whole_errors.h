#pragma once
// The judge of builds that trade accuracy for time.
#include "pipeline/pipeline.h"

namespace aotc::cli {

/// Judges by the rule of verify: twice eager's error against fp64, and epsilon, on samples that are drawn from seeds of their own. It loads
/// the artifacts here, on all processors that this process may use, and keeps the references.
pipeline::WholeJudge whole_errors();

}  // namespace aotc::cli
