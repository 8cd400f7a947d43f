#pragma once
// Slices that the archive states to be longer than their operand may be.
#include <optional>
#include <vector>

#include "decompose/narrowed.h"

namespace aotc::decompose {

/// torch.export has x[:k] of a dim that may be shorter than k (Dim with min=0) as k long, and what is computed from it so, too; the
/// exported program runs at the shorter sizes all the same. The program in which these slices are as long as they are, where all that
/// follows from them takes its sizes from its operands; nothing where there are none. `needs`: of the program as stated, eq of a slice's
/// own length and the stated one.
std::optional<import::Program> with_true_slices(const import::Program& program, const std::vector<Need>& needs);

/// Whether `now` demands less of sizes than `before`, and nothing else.
bool demands_less(const std::vector<Need>& now, const std::vector<Need>& before);

}  // namespace aotc::decompose
