#pragma once
// What the search asks of a machine: times of a kernel with several choices, of a module with several sets of them. Behind it stands a
// child process on this machine; the search does not know.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "forms/list.h"

namespace aotc::search {

/// Decisions that the database or a measurement made, by contract.
using Tuned = std::map<std::string, forms::Decision>;

/// A kernel of a module as a variant calls it.
struct Subject {
  loop::KernelId kernel;
  const SymTable* syms;  ///< ranges and tuned sizes of the variant
};

struct Timing {
  double ns = 0;           ///< the lower quartile of the calls, of calls that spread widely the least: others may be at work on the machine
  double spread = 0;       ///< (upper - lower quartile) / median
  std::string error;       ///< not empty: lost (a crash, a hang, a refusal); an ordinary outcome
  double ratio = 0;        ///< of its calls to those of the first candidate in the same turns, the middle one; 0: not known
  double ratio_error = 0;  ///< by which that may be off (its standard error)
};

/// Of the outputs of the whole module against fp64 on sample inputs, of the one that is nearest to its bound or furthest beyond it:
/// relative L2, and what the accuracy rule allows.
struct WholeError {
  double l2 = 0, bound = 0;
  int samples = 3;  ///< that it was told from
};

class Measurer {
 public:
  virtual ~Measurer() = default;
  /// Calls of each choice in turns, about `seconds` in all, the way the plan would call it: prologues, epilogues, threads included. As many
  /// timings as choices.
  virtual std::vector<Timing> measure(const Subject& s, const std::vector<forms::Choice>& choices, double seconds) = 0;
  /// Runs of the whole module in turns, a time for each set of decisions; the cost model decides what a set has not. `syms`: of a variant.
  virtual std::vector<Timing> measure_whole(const SymTable& syms, const std::vector<Tuned>& sets, double seconds) = 0;
  /// Gets ready what errors are told from at the tuned sizes of `syms`, in about `seconds`: fewer samples where they take long. Returns the
  /// seconds that judging a set will take. Fails where nobody can tell errors.
  virtual Result<double> references(const SymTable&, double /*seconds*/) { return Result<double>::fail("there are no references"); }
  /// The error of each set, at the tuned sizes of `syms`: of the first ones, at least one, where `seconds` do not do for all.
  virtual Result<std::vector<WholeError>> errors(const SymTable&, const std::vector<Tuned>&, double /*seconds*/) {
    return Result<std::vector<WholeError>>::fail("there are no references");
  }
};

}  // namespace aotc::search
