#pragma once
// What the search asks of a machine: times of a kernel with several choices. Behind it stands a child process on this machine; the search
// does not know.
#include <optional>
#include <string>
#include <vector>

#include "forms/form.h"

namespace aotc::search {

/// A kernel of a module as a variant calls it.
struct Subject {
  loop::KernelId kernel;
  const SymTable* syms;  ///< ranges and tuned sizes of the variant
};

struct Timing {
  double ns = 0;      ///< the lower quartile of the calls: others may be at work on the machine
  double spread = 0;  ///< (upper - lower quartile) / median
  std::string error;  ///< not empty: lost (a crash, a hang, a refusal); an ordinary outcome
};

class Measurer {
 public:
  virtual ~Measurer() = default;
  /// Calls of each choice in turns, about `seconds` in all, the way the plan would call it: prologues, epilogues, threads included. As many
  /// timings as choices.
  virtual std::vector<Timing> measure(const Subject& s, const std::vector<forms::Choice>& choices, double seconds) = 0;
};

}  // namespace aotc::search
