#pragma once
// How a program is run by LibTorch, planned once: the operator of each node, where its arguments come from and its results go.
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <vector>

#include "import/program.h"
#include "import/reference.h"
#include "import/scalar_ops.h"
#include "import/torch_maps.h"
#include "import/torch_stand_ins.h"

namespace aotc::import {

using c10::IValue;

/// How one argument becomes an IValue: a constant, or from slots and symbols at each run.
struct ArgPlan {
  const Arg* arg = nullptr;  ///< null: `constant`
  IValue constant;
  c10::TypeKind kind = c10::TypeKind::AnyType;  ///< of the schema's parameter, without Optional
  std::vector<int> slots;                       ///< of the tensors or symbolic values; -1: None
};
struct ResultPlan {
  std::vector<int> slots;  ///< one for a tensor or symbolic value, several for a list, none when unused
  bool list = false;
  std::optional<SymId> symbol;                       ///< an integer that the operator read from data
  std::vector<std::pair<int64_t, SymId>> data_dims;  ///< sizes that depend on data
};

enum class Control : uint8_t { none, cond, while_loop };

struct Step;
struct GraphPlan {
  const Program* program = nullptr;
  std::vector<Step> steps;
  std::vector<int> inputs;  ///< slot by position; -1 for those that are not tensors
  std::vector<ArgPlan> outputs;
  size_t slots = 0;
  std::vector<GraphPlan> subgraphs;
};
struct Step {
  const PNode* node = nullptr;
  std::optional<c10::OperatorHandle> op;
  bool turns_narrow_images = false;  ///< see call_resize in reference.cpp
  ScalarFn scalar = nullptr;
  Control control = Control::none;
  const MapNode* map = nullptr;
  const StandIn* stand_in = nullptr;
  std::optional<at::ScalarType> bits_of;  ///< a view as another type: the bits of this one
  std::vector<ArgPlan> args;
  std::vector<ResultPlan> results;
  std::vector<int> last_uses;  ///< slots to empty after this step
};

/// Refers to the program, which must outlive it. Throws Diagnostic (unsupported).
GraphPlan plan_reference(const Program& p, const ReferenceOptions& options);

}  // namespace aotc::import
