#include "import/composite_values.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace aotc::import::composite {

/// The arguments with the values of their tensors; none where one is not known.
std::optional<Stack> KnownValues::with_values(const OperatorHandle& op, const std::vector<IValue>& args) const {
  const bool like = only_type(op);
  bool known = true;
  Stack out;
  for (IValue v : args) {
    each_tensor(v, [&](at::Tensor& t) {
      if (!t.is_meta()) return;
      const auto it = values_.find(t.unsafeGetTensorImpl());
      known &= like || it != values_.end();
      if (like)
        t = at::zeros(t.sizes(), t.options().device(at::kCPU));
      else if (known)
        t = it->second.value;
    });
    if (v.isDevice()) v = c10::Device(at::kCPU);
    out.push_back(std::move(v));
  }
  return known ? std::optional(std::move(out)) : std::nullopt;
}

void KnownValues::note(const OperatorHandle& op, const std::vector<IValue>& args, const Stack& stack) {
  if (op.hasTag(at::Tag::nondeterministic_seeded)) return;
  const size_t results = op.schema().returns().size();
  bool small = true;
  for (size_t i = stack.size() - results; i < stack.size(); ++i)
    each_tensor(stack[i], [&](const at::Tensor& t) { small &= t.numel() <= kMaxKnownValues; });
  if (!small) return;
  const c10::impl::ExcludeDispatchKeyGuard quiet(kRecord);
  auto known = with_values(op, args);
  if (!known) return;
  try {
    op.callBoxed(*known);
  } catch (const c10::Error&) { return; }
  for (size_t i = 0; i < results; ++i) {
    std::vector<at::Tensor> made;
    each_tensor((*known)[i], [&](const at::Tensor& t) { made.push_back(t.clone()); });
    size_t k = 0;
    each_tensor(stack[stack.size() - results + i], [&](const at::Tensor& t) {
      if (k < made.size()) values_[t.unsafeGetTensorImpl()] = {t.storage().unsafeGetStorageImpl(), made[k]};
      ++k;
    });
  }
}

bool KnownValues::answer(const OperatorHandle& op, Stack& stack) const {
  const size_t n = op.schema().arguments().size();
  const c10::impl::ExcludeDispatchKeyGuard quiet(kRecord);
  auto known = with_values(op, std::vector<IValue>(stack.end() - static_cast<std::ptrdiff_t>(n), stack.end()));
  if (!known) return false;
  op.callBoxed(*known);
  torch::jit::drop(stack, n);
  for (IValue& v : *known) stack.push_back(std::move(v));
  return true;
}

void KnownValues::forget(const c10::StorageImpl* storage) {
  std::erase_if(values_, [&](const auto& v) { return v.second.storage == storage; });
}

}  // namespace aotc::import::composite
