#pragma once
#include "import/program.h"

namespace aotc::import {

/// Sizes and types that an exporter is known to misstate, set to those that the operator gives, and so is what is computed from them, as
/// far as LibTorch's own kernels say. Throws Diagnostic where they cannot.
void correct_misstated(Program& program);

}  // namespace aotc::import
