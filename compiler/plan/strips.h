#pragma once
// Which calls run over strips of rows: convolutions, depthwise or not, and products of their pixels that hand activations to each other
// which the caches of a core do not hold (inverted residuals). How such a step is called is in forms/strips.h.
#include <functional>
#include <string>
#include <vector>

#include "base/machine.h"
#include "forms/form.h"
#include "forms/strips.h"
#include "loop/loop.h"
#include "plan/plan.h"

namespace aotc::plan {

/// Calls [first, last) of a module that are one step.
struct StripGroup {
  size_t first = 0, last = 0;
  Exprs sizes;               ///< of the step, before those of its stages
  int rows = 1;              ///< of the last result, a strip
  Expr work, kept_bytes;     ///< strips; scratch of what the stages hand on
  int64_t handed_bytes = 0;  ///< of all that they hand on
  /// By call: how rows are counted, and what its arguments move by. ptr is AOTC_STRIP_* or 0; config, symbol and sizes are its step's.
  std::vector<forms::StripStage> stages;
};

/// When strips are taken, and how high they are: shares of L2.
struct StripRules {
  double handed_of_l2 = 0.75;  ///< that what a kernel hands on takes at least, a core
  double kept_of_l2 = 0.75;    ///< that a strip and its weights take at most
};

using ChoiceOf = std::function<const forms::Choice&(loop::KernelId)>;

/// Groups of two calls or more in rising order, none where the machine's caches hold what is handed on.
std::vector<StripGroup> find_strips(const loop::Module& m, const SymTable& syms, const Machine& machine, const ChoiceOf& choice_of,
                                    const StripRules& rules = {});

/// The call of a group: `steps` are those of its calls.
Step strips_step(const StripGroup& g, const std::vector<Step>& steps, const SymTable& syms);
/// Its config; `steps` have theirs.
forms::Strips strips_of(const StripGroup& g, const std::vector<Step>& steps);

}  // namespace aotc::plan
