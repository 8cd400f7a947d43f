#pragma once
// What the rewrites of a module that join kernels by what forms say they cost have in common.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/machine.h"
#include "loop/loop.h"

namespace aotc::forms {

/// A module that gets kernels. Lives as long as the module and the goal.
class Joining {
 public:
  Joining(loop::Module& m, const Goal& goal);

  /// How many arguments the buffer was when the rewrite began.
  size_t uses(loop::BufferId b) const;
  /// The cost model's nanoseconds of the best form; nothing where none fits.
  std::optional<double> cost_ns(const loop::Kernel& k) const;
  /// The module's kernel of this structure, added under `name` (of at most 64 bytes, made unique) where it is new.
  loop::KernelId known(loop::Kernel k, std::string name);

 private:
  loop::Module& m_;
  const Goal& goal_;
  std::set<std::string> names_;
  std::map<loop::BufferId, size_t> uses_;
  std::map<std::string, loop::KernelId> made_;
};

/// A loop of a contraction, of another one's: parameter i of the one that it was of is to[i], an instruction's or none, of `params`, which
/// are all of the other; its own parameters follow these.
void move_loop(loop::LoopKernel& k, IdVec<loop::ParamId, loop::Param> params, const std::vector<loop::ParamId>& to);

}  // namespace aotc::forms
