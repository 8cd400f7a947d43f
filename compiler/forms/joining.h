#pragma once
// What the rewrites of a module that join kernels by what forms say they cost have in common.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/machine.h"
#include "loop/attached.h"
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
  /// Whether the cost model says that `both` takes no more time than the two do; no where one of the three has no form.
  bool pays(const loop::Kernel& both, const loop::Kernel& first, const loop::Kernel& second) const;
  /// Call `into` of what was two calls: the kernel, called as both were, its arguments, and what `other` computes.
  void merge(loop::Call& into, const loop::Call& other, loop::Kernel both, std::vector<loop::BufferId> args);
  /// Whether f(buffer, whether the call writes it) holds for an argument.
  template <class F>
  bool any_argument(const loop::Call& call, const F& f) const {
    const loop::Kernel& k = m_.kernels[call.kernel];
    const std::vector<loop::ParamId> params = loop::argument_params(k);
    for (size_t a = 0; a < params.size(); ++a)
      if (f(call.args[a], loop::writes(loop::kernel_params(k)[params[a]]))) return true;
    return false;
  }

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
