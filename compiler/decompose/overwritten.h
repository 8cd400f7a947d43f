#pragma once
#include "import/program.h"

namespace aotc::decompose {

/// Whether a node is a slice, from and to constants, whose elements nobody reads: it is overwritten in place, and never looked at. Of such
/// a slice it does not matter whether it has the size that the archive states, which is another one where the tensor is shorter.
bool only_overwritten(const import::Program& p, const import::PNode& node);

/// Whether a node or the program's results read the tensor.
bool is_used(const import::Program& p, const std::string& name);

}  // namespace aotc::decompose
