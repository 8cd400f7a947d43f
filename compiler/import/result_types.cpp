#include "import/result_types.h"

#include <c10/core/InferenceMode.h>

#include "import/composite_detail.h"
#include "import/torch_functions.h"

namespace aotc::import {
namespace {

using namespace composite;

/// The operator run on tensors without data; where it has no kernel for those, on zeros.
Stack run_for_sizes(const OperatorHandle& op, const Stack& args) {
  Stack stack = args;
  try {
    op.callBoxed(stack);
    return stack;
  } catch (const c10::Error&) {}
  for (const at::Tag tag : {at::Tag::dynamic_output_shape, at::Tag::data_dependent_output})
    if (op.hasTag(tag)) throw Refusal("they depend on data");
  stack = args;
  int64_t bytes = 0;
  for (IValue& v : stack) {
    each_tensor(v, [&](at::Tensor& t) {
      bytes += t.numel() * static_cast<int64_t>(t.element_size());
      if (bytes > kMaxTrialBytes) throw Refusal("its operands are too large to be tried");
      t = at::zeros(t.sizes(), t.options().device(at::kCPU));
    });
    if (v.isDevice()) v = c10::Device(at::kCPU);
  }
  op.callBoxed(stack);
  return stack;
}

}  // namespace

Result<std::vector<TensorMeta>> torch_side::result_types(const Program& program, const PNode& node) {
  using R = Result<std::vector<TensorMeta>>;
  const auto op = find_operator(node.target);
  if (!op) return R::fail("LibTorch does not know it");
  const c10::InferenceMode inference;
  try {
    Stack args = stack_of(*op, node, [&](const std::string& name) {
      const auto it = program.tensors.find(name);
      if (it == program.tensors.end()) throw Refusal(fmt::format("nothing is known of its operand '{}'", name));
      return without_data(name, it->second, program.syms);
    });
    for (IValue& v : args)
      if (v.isDevice()) v = c10::Device(at::kMeta);
    std::vector<TensorMeta> types;
    for (const IValue& v : run_for_sizes(*op, args)) each_tensor(v, [&](const at::Tensor& t) { types.push_back(meta_of(t)); });
    return types;
  } catch (const Refusal& r) { return R::fail(r.why); } catch (const c10::Error& e) {
    return R::fail(first_line(e));
  } catch (const std::exception& e) { return R::fail(e.what()); }
}

}  // namespace aotc::import
