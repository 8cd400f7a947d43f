#pragma once
// Whether a kernel may write a result over one of its inputs.
#include "loop/loop.h"

namespace aotc::plan {
/// True when every element of `in` is read, before it is written, only by the point that writes the same element of `out`: the two may
/// share storage. Sizes are the caller's to compare. Needs code that computes each point once (no overlapping tails) and reads before it
/// writes.
bool may_overwrite(const loop::Kernel& kernel, loop::ParamId in, loop::ParamId out);
}  // namespace aotc::plan
