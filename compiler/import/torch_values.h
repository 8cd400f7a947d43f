#pragma once
// Operators, types and arguments between LibTorch and aotc. Only for the files that include LibTorch.
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>

#include "import/operators.h"
#include "import/torch_types.h"

namespace aotc::import {

/// By our name ("aten.add.Tensor"); none when LibTorch does not know it.
std::optional<c10::OperatorHandle> find_operator(const std::string& target);

struct TypeOf {
  ParamType type;
  bool optional;
};
TypeOf type_of(const c10::TypePtr& type);

/// A value without tensors as a parameter of this type; none where we have no form for it.
std::optional<Arg> arg_of(const c10::IValue& value, ParamType type);
/// A number for a parameter of this type: a Tensor parameter takes it wrapped.
c10::IValue number_ivalue(const c10::Scalar& number, c10::TypeKind kind);
/// What a parameter of this type takes; of a list of numbers, a number.
c10::TypeKind kind_of(const c10::TypePtr& type);
/// An argument without tensors, symbols or subgraphs' results, for a parameter of this type. Devices are the CPU.
c10::IValue ivalue_of(const Arg& arg, c10::TypeKind kind);

}  // namespace aotc::import
