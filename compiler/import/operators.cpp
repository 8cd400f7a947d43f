#include "import/operators.h"

#include "import/torch_functions.h"

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
  if (it == known_.end()) it = known_.emplace(target, find_schema(target)).first;
  return it->second ? &*it->second : nullptr;
}

}  // namespace aotc::import
