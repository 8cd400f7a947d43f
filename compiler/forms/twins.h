#pragma once
#include "base/machine.h"
#include "loop/loop.h"

namespace aotc::forms {

/// Two products of one matrix, the second finished with the first's result (gate and up of a gated layer), become one with a twin
/// (MatmulKernel::twin) where a form computes that in less time than both: nothing is stored between them.
void pair_products(loop::Module& m, const Goal& goal);

}  // namespace aotc::forms
