#pragma once
// Overloads that write into their arguments, and those that give the same back.
#include <string>
#include <vector>

#include "import/program.h"

namespace aotc::decompose {

/// The overload that computes what another one writes, and the tensors that it writes, one a result, in their order.
struct Writing {
  std::string functional;
  std::vector<std::string> targets;
};
/// What a node may be read as, the likeliest first; the overloads need not have rules.
std::vector<Writing> writings_of(const import::PNode& node);

/// The tensor that an in-place operator writes: its first; empty: it has none.
std::string written_first(const import::PNode& node);

/// "aten.relu_.default" → "aten.relu.default"; empty where the operator is not in place.
std::string functional_name(const std::string& target);

}  // namespace aotc::decompose
