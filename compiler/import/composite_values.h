#pragma once
#include <map>
#include <optional>

#include "import/composite_detail.h"

namespace aotc::import::composite {

/// Tensors without data whose values follow from numbers alone, so that a kernel may ask for them.
class KnownValues {
 public:
  /// What an operator without side effects made; its results are on the stack.
  void note(const OperatorHandle& op, const std::vector<IValue>& args, const Stack& stack);
  /// Answers a question about values that are known, from the arguments on the stack, and leaves the answer there.
  bool answer(const OperatorHandle& op, Stack& stack) const;
  /// The storage has been written.
  void forget(const c10::StorageImpl* storage);

 private:
  std::optional<Stack> with_values(const OperatorHandle& op, const std::vector<IValue>& args) const;
  struct Known {
    const c10::StorageImpl* storage;
    at::Tensor value;
  };
  std::map<const c10::TensorImpl*, Known> values_;
};

}  // namespace aotc::import::composite
