#pragma once
#include "import/program.h"

namespace aotc::import {
/// Replaces symbols in every type, argument, result, guard and subgraph.
void substitute(Program& program, const SymMap& with);
}  // namespace aotc::import
