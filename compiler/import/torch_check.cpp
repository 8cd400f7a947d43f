// Whether this file, compiled against one LibTorch, works with the one that is loaded: what headers know of its types is compared with what
// its libraries answer.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "import/torch_functions.h"
#include "import/torch_values.h"

namespace aotc::import::torch_side {
namespace {

bool tensors_fit() {
  const at::Tensor t = at::arange(6, at::kFloat).view({2, 3}).t();
  const bool shape = t.dim() == 2 && t.size(0) == 3 && t.stride(0) == 1 && t.stride(1) == 3 && t.numel() == 6 && t.storage_offset() == 0;
  const bool kind = t.scalar_type() == at::kFloat && t.device().is_cpu() && t.defined() && !t.is_contiguous() && !t.requires_grad();
  if (!shape || !kind || t.storage().nbytes() != 24 || t.unsafeGetTensorImpl()->version_counter().current_version() > 1) return false;
  const at::Tensor c = t.contiguous();
  for (int i = 0; i < 6; ++i)
    if (c.const_data_ptr<float>()[i] != static_cast<float>(i % 2 * 3 + i / 2)) return false;
  const at::Tensor meta = at::empty({5, 7}, at::TensorOptions().dtype(at::kBFloat16).device(at::kMeta));
  return meta.is_meta() && meta.sym_sizes()[1] == 7 && meta.element_size() == 2;
}

/// Through the dispatcher, with values of several kinds on its stack.
bool calls_fit() {
  const auto add = find_operator("aten.add.Tensor"), cat = find_operator("aten.cat.default"), sum = find_operator("aten.sum.dim_IntList");
  if (!add || !cat || !sum) return false;
  const c10::FunctionSchema& schema = add->schema();
  if (schema.arguments().size() != 3 || schema.arguments()[2].name() != "alpha" || !schema.arguments()[2].default_value()) return false;
  const at::Tensor x = at::ones({2, 2}, at::kDouble);
  torch::jit::Stack stack = {x, x, at::Scalar(2.5)};
  add->callBoxed(stack);
  const at::Tensor y = stack.at(0).toTensor();
  stack = {c10::List<at::Tensor>({x, y}), int64_t{1}};
  cat->callBoxed(stack);
  const at::Tensor both = stack.at(0).toTensor();
  stack = {both, c10::List<int64_t>({1}), false, c10::IValue()};
  sum->callBoxed(stack);
  const at::Tensor s = stack.at(0).toTensor();
  return both.size(1) == 4 && s.dim() == 1 && s.const_data_ptr<double>()[1] == 9.0;
}

bool errors_fit() {
  try {
    at::ones({6}).view({4});
  } catch (const c10::Error& e) { return std::string(e.what_without_backtrace()).find("shape") != std::string::npos; }
  return false;
}

}  // namespace

bool works() {
  try {
    return tensors_fit() && calls_fit() && errors_fit();
  } catch (...) { return false; }
}

}  // namespace aotc::import::torch_side
