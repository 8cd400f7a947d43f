#pragma once
// An artifact for several kinds of machine.
#include <vector>

#include "base/target.h"

namespace aotc {

/// The kinds of machine that an artifact of this target has plans and code of their own for, a target each: every GPU architecture, then
/// CPUs. A data file of the target is that of the parts of its kind; PTX, for GPUs that nobody has seen, has none.
std::vector<Target> parts_of(const Target& target);
/// Adds PTX of the newest architecture ("compute_90"), which the driver of a later GPU compiles.
void add_ptx(Target& target);
/// Whether the code of a GPU architecture is PTX.
bool is_ptx(std::string_view sm);

}  // namespace aotc
