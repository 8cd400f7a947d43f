#include "import/reference_values.h"

#include <ATen/Functions.h>

#include "import/torch_types.h"

namespace aotc::import {
at::Tensor to_tensor(DType dtype, const std::vector<int64_t>& dims, const void* data) {
  const auto options = at::TensorOptions().dtype(to_torch(dtype));
  if (!data) return at::empty(dims, options);
  return at::from_blob(const_cast<void*>(data), dims, options);  // written only after a clone
}

at::Tensor widened(const at::Tensor& t, const ReferenceOptions& options) {
  if (options.bf16) return t.scalar_type() == at::kFloat ? t.to(at::kBFloat16) : t;
  if (!options.f64) return t;
  const DType d = from_torch(t.scalar_type()).value();
  return widened(d) == d ? t : t.to(to_torch(widened(d)));
}

ReferenceValues::ReferenceValues(const Program& program, const ReferenceOptions& options, const std::set<std::string>& whole) {
  const auto changes = [&](DType d) { return options.bf16 ? d == DType::f32 : options.f64 && widened(d) != d; };
  const auto bytes = [&](const at::Tensor& t) { return static_cast<size_t>(t.numel()) * (options.f64 ? 8 : 2); };
  size_t all = 0;
  for (const ProgramInput& in : program.inputs) {
    if (in.kind == InputKind::user || in.kind == InputKind::user_scalar || values_.count(in.target)) continue;
    const ConstData& d = program.data.at(in.target);
    std::vector<int64_t> dims;
    for (const Expr& e : d.type.dims) dims.push_back(*e.as_const());
    const at::Tensor& t = values_.emplace(in.target, to_tensor(d.type.dtype, dims, d.bytes ? d.data : nullptr)).first->second;
    if (!changes(d.type.dtype)) continue;
    all += bytes(t);
    narrow_.insert(in.target);
  }
  for (auto it = narrow_.begin(); it != narrow_.end();) {
    at::Tensor& t = values_.at(*it);
    const bool stays = all > options.kept_bytes && bytes(t) > options.kept_bytes / 2048 && !whole.count(*it);
    if (!stays) t = widened(t, options);
    it = stays ? std::next(it) : narrow_.erase(it);
  }
}

const at::Tensor* ReferenceValues::find(const std::string& name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? nullptr : &it->second;
}

}  // namespace aotc::import
