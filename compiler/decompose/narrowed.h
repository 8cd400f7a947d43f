#pragma once
// What conditions of the rules leave of the sizes that the archive takes.
#include <string>
#include <vector>

#include "graph/guard.h"
#include "import/program.h"

namespace aotc::decompose {

/// A condition on sizes, and the node whose rule needs it.
struct Need {
  ShapeGuard guard;
  const import::PNode* node;
};

/// A line for each of the needs that takes sizes of an input from the range that the archive gives it: the symbol, both ranges, the node
/// and the line of the user's model. Throws Diagnostic where the sizes of the archive's example, which the archive's own conditions allow,
/// do not meet a need. `ranges`: the archive's.
std::vector<std::string> narrowings(const import::Program& program, SymTable ranges, const std::vector<Need>& needs);

}  // namespace aotc::decompose
