#pragma once
// What the recorder of composite kernels (import/composite.cpp) asks about operators and tensors of LibTorch.
#include <ATen/Functions.h>
#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "import/torch_values.h"

namespace aotc::import::composite {

using c10::DispatchKey;
using c10::IValue;
using c10::OperatorHandle;
using Stack = torch::jit::Stack;

inline constexpr DispatchKey kRecord = DispatchKey::TESTING_ONLY_GenericMode;
inline constexpr size_t kMaxConstantBytes = size_t{64} << 20;  ///< of one tensor made from numbers
inline constexpr int64_t kMaxTrialBytes = int64_t{256} << 20;  ///< of the operands where a shape is found by running on zeros
inline constexpr int64_t kMaxKnownValues = 4096;               ///< elements
inline constexpr size_t kMaxNodes = 20000;
inline constexpr std::string_view kWithin = "in the expansion of ";

/// Why an operator does not come apart; leaves through LibTorch's kernels.
struct Refusal : std::exception {
  explicit Refusal(std::string text) : why(std::move(text)) {}
  std::string why;
  const char* what() const noexcept override { return why.c_str(); }
};

/// Operators that ask for a tensor's type or sizes and give a number. All others that give no tensor ask for its values.
inline constexpr std::string_view kTypeQueries =
    "size stride storage_offset numel dim sym_size sym_stride sym_numel sym_storage_offset sym_is_contiguous is_contiguous "
    "is_floating_point is_complex is_signed result_type can_cast promote_types is_conj is_neg is_same_size is_inference is_leaf output_nr "
    "_version get_device is_pinned is_coalesced _has_compatible_shallow_copy_type _debug_has_internal_overlap cudnn_is_acceptable "
    "is_vulkan_available _nnpack_available _has_same_storage_numel";
/// In-place operators that read nothing of what they write.
inline constexpr std::string_view kOverwriting = "copy_ fill_ zero_ set_";

/// Where kernels that may be made of other operators stand. Those of the last two may also do part of their work directly, which is found
/// out while they are traced.
inline constexpr DispatchKey kComposite[] = {DispatchKey::CompositeImplicitAutograd, DispatchKey::CompositeExplicitAutograd,
                                             DispatchKey::CompositeExplicitAutogradNonFunctional};
inline bool is_composite(const OperatorHandle& op) {
  return std::any_of(std::begin(kComposite), std::end(kComposite), [&](DispatchKey k) { return op.hasKernelForDispatchKey(k); });
}

inline std::string_view base_name(const OperatorHandle& op) {
  const std::string& name = op.schema().name();  // "aten::add"
  const size_t colons = name.find("::");
  return colons == std::string::npos ? std::string_view(name) : std::string_view(name).substr(colons + 2);
}

inline std::string target_of(const OperatorHandle& op) {
  const std::string& name = op.schema().name();
  const std::string& overload = op.schema().overload_name();
  const size_t colons = name.find("::");
  if (colons == std::string::npos) return name;
  return name.substr(0, colons) + "." + name.substr(colons + 2) + "." + (overload.empty() ? "default" : overload);
}

/// The operator looks at its first tensor's type and sizes, not at its elements.
inline bool only_type(const OperatorHandle& op) {
  const std::string_view name = base_name(op);
  return name.size() > 5 && (name.substr(name.size() - 5) == "_like" || name.substr(0, 4) == "new_");
}

inline bool written(const c10::Argument& a) { return a.alias_info() && a.alias_info()->isWrite(); }
inline bool returns_tensors(const c10::FunctionSchema& s) {
  return std::any_of(s.returns().begin(), s.returns().end(), [](const c10::Argument& a) {
    const ParamType t = type_of(a.real_type()).type;
    return t == ParamType::tensor || t == ParamType::tensor_list || t == ParamType::opt_tensor_list;
  });
}

/// Calls `fn` with every defined tensor of a value; `fn` may replace it.
template <class Fn>
void each_tensor(IValue& v, Fn&& fn) {
  if (v.isTensor()) {
    at::Tensor t = v.toTensor();
    if (!t.defined()) return;
    fn(t);
    v = t;
  } else if (v.isTensorList()) {
    c10::List<at::Tensor> out;
    for (at::Tensor t : v.toTensorVector()) {
      if (t.defined()) fn(t);
      out.push_back(std::move(t));
    }
    v = std::move(out);
  } else if (v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> out;
    for (std::optional<at::Tensor> t : v.toOptionalTensorVector()) {
      if (t && t->defined()) fn(*t);
      out.push_back(std::move(t));
    }
    v = std::move(out);
  }
}
template <class Fn>
void each_tensor(const IValue& v, Fn&& fn) {
  IValue copy = v;
  each_tensor(copy, [&](at::Tensor& t) { fn(static_cast<const at::Tensor&>(t)); });
}

inline DType dtype_of(const at::Tensor& t) {
  if (t.layout() != at::kStrided) throw Refusal("a tensor that is not dense");
  const auto d = from_torch(t.scalar_type());
  if (!d) throw Refusal(fmt::format("a tensor of type {}", c10::toString(t.scalar_type())));
  return *d;
}

inline TensorMeta meta_of(const at::Tensor& t) {
  TensorMeta m;
  m.dtype = dtype_of(t);
  for (const int64_t n : t.sizes()) m.sizes.emplace_back(n);
  for (const int64_t n : t.strides()) m.strides.emplace_back(n);
  m.storage_offset = t.storage_offset();
  return m;
}

inline at::Tensor on_meta(const at::Tensor& t) { return at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kMeta)); }

inline std::string first_line(const c10::Error& e) {
  std::string text = e.what_without_backtrace();
  return text.substr(0, std::min<size_t>(text.find('\n'), 200));
}

/// A tensor of these sizes on the device without data, which begins in its memory where the archive says.
inline at::Tensor without_data(const std::string& name, const TensorMeta& m, const SymTable& syms) {
  const auto numbers = [&](const std::vector<Expr>& v, const char* what) {
    std::vector<int64_t> out;
    for (const Expr& e : v) {
      const auto c = syms.simplify(e).as_const();
      if (!c)
        throw Refusal(
            fmt::format("the operand '{}' has a symbolic {} ({}), and LibTorch's kernels tell what they do for fixed sizes "
                        "only; export with these sizes fixed",
                        name, what, e.str(syms)));
      out.push_back(*c);
    }
    return out;
  };
  const auto options = at::TensorOptions().dtype(to_torch(m.dtype)).device(at::kMeta);
  const std::vector<int64_t> sizes = numbers(m.sizes, "size"), strides = numbers(m.strides, "stride");
  if (strides.size() != sizes.size()) throw Refusal(fmt::format("it is not known how the operand '{}' lies in memory", name));
  const int64_t begin = numbers({m.storage_offset}, "place in memory")[0];
  if (begin == 0) return at::empty_strided(sizes, strides, options);
  int64_t end = begin + 1;
  for (size_t d = 0; d < sizes.size(); ++d) end += std::max<int64_t>(sizes[d] - 1, 0) * strides[d];
  return at::empty({end}, options).as_strided(sizes, strides, begin);
}

/// The form of an operator that gives its result instead of writing it into an argument: "add.out" → "add.Tensor" is found by name.
std::optional<OperatorHandle> functional_of_out(const OperatorHandle& op);

/// The operator's arguments as LibTorch takes them, tensors by `operand`.
Stack stack_of(const OperatorHandle& op, const PNode& node, const std::function<at::Tensor(const std::string&)>& operand);

}  // namespace aotc::import::composite
