#include "import/operators.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "import/torch_types.h"

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

struct TypeOf {
  ParamType type;
  bool optional;
};

TypeOf type_of(const c10::TypePtr& t) {
  if (const auto opt = t->cast<c10::OptionalType>()) return {type_of(opt->getElementType()).type, true};
  switch (t->kind()) {
    case c10::TypeKind::TensorType: return {ParamType::tensor, false};
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::IntType: return {ParamType::integer, false};
    case c10::TypeKind::SymFloatType:
    case c10::TypeKind::FloatType: return {ParamType::real, false};
    case c10::TypeKind::SymBoolType:
    case c10::TypeKind::BoolType: return {ParamType::boolean, false};
    case c10::TypeKind::StringType: return {ParamType::text, false};
    case c10::TypeKind::NumberType: return {ParamType::scalar, false};
    case c10::TypeKind::ScalarTypeType: return {ParamType::dtype, false};
    case c10::TypeKind::LayoutType: return {ParamType::layout, false};
    case c10::TypeKind::MemoryFormatType: return {ParamType::memory_format, false};
    case c10::TypeKind::DeviceObjType: return {ParamType::device, false};
    case c10::TypeKind::ListType: {
      const auto [element, optional] = type_of(t->castRaw<c10::ListType>()->getElementType());
      switch (element) {
        case ParamType::tensor: return {optional ? ParamType::opt_tensor_list : ParamType::tensor_list, false};
        case ParamType::integer: return {ParamType::int_list, false};
        case ParamType::real: return {ParamType::real_list, false};
        case ParamType::boolean: return {ParamType::bool_list, false};
        case ParamType::text: return {ParamType::text_list, false};
        default: return {ParamType::other, false};
      }
    }
    default: return {ParamType::other, false};
  }
}

std::string_view layout_text(int64_t v) { return static_cast<c10::Layout>(v) == c10::Layout::Strided ? "strided" : "other"; }
std::string_view memory_format_text(int64_t v) {
  switch (static_cast<c10::MemoryFormat>(v)) {
    case c10::MemoryFormat::Contiguous: return "contiguous";
    case c10::MemoryFormat::Preserve: return "preserve";
    case c10::MemoryFormat::ChannelsLast: return "channels_last";
    case c10::MemoryFormat::ChannelsLast3d: return "channels_last_3d";
    default: return "other";
  }
}

std::optional<Arg> arg_of(const c10::IValue& v, ParamType type) {
  if (v.isNone()) return NoneArg{};
  if (v.isInt()) {
    const int64_t i = v.toInt();
    switch (type) {
      case ParamType::dtype:
        if (const auto d = from_torch(static_cast<c10::ScalarType>(i))) return *d;
        return std::nullopt;
      case ParamType::layout: return LayoutArg{std::string(layout_text(i))};
      case ParamType::memory_format: return MemoryFormatArg{std::string(memory_format_text(i))};
      case ParamType::real: return static_cast<double>(i);
      case ParamType::boolean: return i != 0;
      default: return Expr(i);
    }
  }
  if (v.isBool()) return v.toBool();
  if (v.isDouble()) return v.toDouble();
  if (v.isComplexDouble()) return std::complex<double>(v.toComplexDouble().real(), v.toComplexDouble().imag());
  if (v.isString()) return v.toStringRef();
  if (v.isDevice()) return DeviceArg{v.toDevice().str()};
  if (v.isIntList()) {
    std::vector<Expr> r;
    for (const int64_t i : v.toIntVector()) r.emplace_back(i);
    return r;
  }
  if (v.isDoubleList()) return v.toDoubleVector();
  if (v.isBoolList()) {
    std::vector<bool> r;
    for (const bool b : v.toBoolList()) r.push_back(b);
    return r;
  }
  if (v.isList() && v.toListRef().empty()) {
    switch (type) {
      case ParamType::tensor_list: return TensorList{};
      case ParamType::opt_tensor_list: return OptTensorList{};
      case ParamType::int_list: return std::vector<Expr>{};
      case ParamType::real_list: return std::vector<double>{};
      default: return std::nullopt;
    }
  }
  return std::nullopt;
}

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
    const size_t a = target.find('.'), b = target.rfind('.');
    if (a != std::string::npos && a < b) {
      const std::string overload = target.substr(b + 1);
      const auto handle = c10::Dispatcher::singleton().findSchema(
          {target.substr(0, a) + "::" + target.substr(a + 1, b - a - 1), overload == "default" ? "" : overload});
      if (handle) schema = convert(handle->schema());
    }
    it = known_.emplace(target, std::move(schema)).first;
  }
  return it->second ? &*it->second : nullptr;
}

}  // namespace aotc::import
