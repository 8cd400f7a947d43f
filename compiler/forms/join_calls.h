#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "base/machine.h"
#include "loop/loop.h"

namespace aotc::forms {

/// A rewrite of a GPU's module: kernels whose work one kernel does in less time become that one.
struct JoiningPass {
  std::string_view name;
  void (*run)(loop::Module& m, const Machine& machine);
};
/// In the order in which they run.
std::span<const JoiningPass> joining_passes();

/// other_calls[from], calls that nothing was joined of yet, as the passes leave them for sizes within `syms`: the number of that list in
/// other_calls, to which it is added where it is new; nothing where these are the module's calls.
std::optional<size_t> join_calls_for(loop::Module& m, size_t from, const SymTable& syms, const Machine& machine);

}  // namespace aotc::forms
