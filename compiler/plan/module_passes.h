#pragma once
// The passes over a Loop Module between fusion and plans, in one table: what kernels share, and which of them become one.
#include <optional>
#include <span>
#include <string_view>

#include "base/machine.h"
#include "loop/loop.h"

namespace aotc::plan {

struct ModulePass {
  Arch arch;  ///< whose modules it rewrites
  std::string_view name;
  void (*run)(loop::Module& m, const Goal& goal);
  bool joins = false;  ///< kernels whose work one kernel does in less time become that one: for each size class anew
};
/// In the order in which they run.
std::span<const ModulePass> module_passes();
/// Whether some of them join kernels.
bool joins_calls(Arch arch);

/// other_calls[from], calls that nothing was joined of yet, as the passes that join leave them for sizes within `syms`: the number of that
/// list in other_calls, to which it is added where it is new; nothing where these are the module's calls.
std::optional<size_t> join_calls_for(loop::Module& m, size_t from, const SymTable& syms, const Goal& goal);

}  // namespace aotc::plan
