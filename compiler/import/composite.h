#pragma once
// The long tail: an operator without a rule of ours whose kernel in LibTorch is made of other operators is taken apart by running that
// kernel on tensors without data, with a fallback in the dispatcher that writes down every operator it calls. No LibTorch in this header.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "import/program.h"

namespace aotc::import {

/// Whether a call of the operator ("aten.add.Tensor") would find a rule; `complex`: one of its tensors is.
using HasRule = std::function<bool(const std::string& target, bool complex)>;

/// One operator, taken apart. Values are named by the caller's names for its operands, and by new ones below `prefix`.
struct CompositeTrace {
  std::vector<PNode> nodes;  ///< in order of execution, in-place operators and views among them; every one has a rule
  std::map<std::string, TensorMeta> tensors;
  std::map<std::string, ConstData> constants;  ///< tensors that the kernel made from numbers alone
  std::vector<Arg> results;                    ///< TensorRef, TensorList or NoneArg, as the operator's schema says
};

/// One trace at a time in a process.
class CompositeTracer {
 public:
  virtual ~CompositeTracer() = default;
  /// Names of the trace begin with `prefix`. The reason when the operator does not come apart: it is not made of others, one of those has
  /// no rule, a size is symbolic (the kernel runs for one set of sizes), or what it does depends on the values of its operands.
  virtual Result<CompositeTrace> trace(const Program& program, const PNode& node, const std::string& prefix) = 0;
};
std::unique_ptr<CompositeTracer> make_tracer(HasRule has_rule);

}  // namespace aotc::import
