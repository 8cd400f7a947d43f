#pragma once
// Nodes without a rule replaced, in the program, by what their kernels are made of.
#include <set>

#include "import/budget.h"
#include "import/composite.h"

namespace aotc::import {

/// One operator of the archive that was replaced by others.
struct Expansion {
  std::string node, target, source;
  std::vector<std::string> into;  ///< the operators, in order
};

class Expander {
 public:
  explicit Expander(HasRule has_rule);
  /// Replaces the node of this name. What it gives keeps its names; the parts say in `source` of which operator they are. The reason when
  /// it cannot be done, and then the program is as it was. Throws Diagnostic where the parts of all are more than the budget has.
  Fit expand(Program& program, const std::string& node);
  const std::vector<Expansion>& done() const { return done_; }

 private:
  HasRule has_rule_;
  std::unique_ptr<CompositeTracer> tracer_;  ///< made when the first is needed
  std::vector<Expansion> done_;
  Budget budget_;
  std::map<std::string, std::set<std::string>> within_;  ///< part → the operators that it is a part of, so that none is a part of itself
};

}  // namespace aotc::import
