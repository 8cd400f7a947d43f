#pragma once
#include "base/machine.h"
#include "loop/loop.h"

namespace aotc::forms {

/// Kernels of few rows with reductions (norms) whose results nobody but products reads become prologues of those products where a form
/// computes them there, once a block, in less time than a step of their own takes.
void compute_rows_in_products(loop::Module& m, const Goal& goal);

}  // namespace aotc::forms
