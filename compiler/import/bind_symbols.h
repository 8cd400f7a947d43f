#pragma once
#include <map>
#include <vector>

#include "graph/interp.h"
#include "import/program.h"

namespace aotc::import {

/// The shape symbols' values for these user inputs (those of kind user, in order). Throws Diagnostic (usage) where number, type, rank or
/// a size disagrees with the program.
std::map<SymId, int64_t> bind_symbols(const Program& program, const std::vector<HostTensor>& inputs);

/// Solves `e` == value for the one symbol of e that is not in `known`, where e is linear in it.
std::optional<std::pair<SymId, int64_t>> solve(const Expr& e, int64_t value, const std::map<SymId, int64_t>& known);

}  // namespace aotc::import
