#include "import/operators.h"

#include "import/torch_values.h"

namespace aotc::import {
namespace {

struct TypeName {
  ParamType type;
  std::string_view name;
};
constexpr TypeName kTypeNames[] = {
    {ParamType::tensor, "Tensor"},
    {ParamType::tensor_list, "Tensor[]"},
    {ParamType::opt_tensor_list, "Tensor?[]"},
    {ParamType::integer, "int"},
    {ParamType::int_list, "int[]"},
    {ParamType::real, "float"},
    {ParamType::real_list, "float[]"},
    {ParamType::boolean, "bool"},
    {ParamType::bool_list, "bool[]"},
    {ParamType::text, "str"},
    {ParamType::text_list, "str[]"},
    {ParamType::scalar, "Scalar"},
    {ParamType::dtype, "ScalarType"},
    {ParamType::layout, "Layout"},
    {ParamType::device, "Device"},
    {ParamType::other, "other"},
    {ParamType::memory_format, "MemoryFormat"},
};

std::string alias_of(const c10::Argument& a) {
  if (!a.alias_info() || a.alias_info()->beforeSets().empty()) return {};
  return a.alias_info()->beforeSets().begin()->toUnqualString();
}

OpSchema convert(const c10::FunctionSchema& s) {
  OpSchema out;
  for (const c10::Argument& a : s.arguments()) {
    const TypeOf t = type_of(a.real_type());
    OpParam p{.name = a.name(), .type = t.type, .optional = t.optional};
    if (a.default_value()) p.fallback = arg_of(*a.default_value(), t.type);
    p.alias = alias_of(a);
    p.written = a.alias_info() && a.alias_info()->isWrite();
    out.params.push_back(std::move(p));
  }
  for (const c10::Argument& a : s.returns()) out.results.push_back({type_of(a.real_type()).type, alias_of(a)});
  return out;
}

}  // namespace

std::string_view param_type_name(ParamType t) {
  for (const TypeName& n : kTypeNames)
    if (n.type == t) return n.name;
  return "?";
}

const OpParam* OpSchema::find(std::string_view name) const {
  for (const OpParam& p : params)
    if (p.name == name) return &p;
  return nullptr;
}

const OpSchema* OpTable::find(const std::string& target) {
  auto it = known_.find(target);
  if (it == known_.end()) {
    std::optional<OpSchema> schema;
    if (const auto handle = find_operator(target)) schema = convert(handle->schema());
    it = known_.emplace(target, std::move(schema)).first;
  }
  return it->second ? &*it->second : nullptr;
}

}  // namespace aotc::import
