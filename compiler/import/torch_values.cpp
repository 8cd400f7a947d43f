#include "import/torch_values.h"

#include <ATen/ScalarOps.h>

#include "import/torch_types.h"

namespace aotc::import {

using c10::IValue;

std::optional<c10::OperatorHandle> find_operator(const std::string& target) {
  const size_t a = target.find('.'), b = target.rfind('.');
  if (a == std::string::npos || a >= b) return std::nullopt;
  const std::string overload = target.substr(b + 1);
  return c10::Dispatcher::singleton().findSchema(
      {target.substr(0, a) + "::" + target.substr(a + 1, b - a - 1), overload == "default" ? "" : overload});
}

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

namespace {
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

}  // namespace

std::optional<Arg> arg_of(const IValue& v, ParamType type) {
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

namespace {
at::Tensor wrapped(const c10::Scalar& s) {
  at::Tensor t = c10::scalar_to_tensor(s);
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}
c10::MemoryFormat memory_format(const std::string& s) {
  if (s == "contiguous") return c10::MemoryFormat::Contiguous;
  if (s == "channels_last") return c10::MemoryFormat::ChannelsLast;
  if (s == "channels_last_3d") return c10::MemoryFormat::ChannelsLast3d;
  return c10::MemoryFormat::Preserve;
}
}  // namespace

c10::TypeKind kind_of(const c10::TypePtr& type) {
  const auto list = type->cast<c10::ListType>();
  const bool numbers = list && list->getElementType()->kind() == c10::TypeKind::NumberType;
  return numbers ? c10::TypeKind::NumberType : type->kind();
}

IValue number_ivalue(const c10::Scalar& s, c10::TypeKind kind) {
  if (kind == c10::TypeKind::TensorType) return wrapped(s);
  if (kind == c10::TypeKind::FloatType || kind == c10::TypeKind::SymFloatType) return s.toDouble();
  return IValue(s);
}

namespace {
struct ConstantOf {
  c10::TypeKind kind;
  IValue operator()(const NoneArg&) const { return kind == c10::TypeKind::TensorType ? IValue(at::Tensor()) : IValue(); }
  IValue operator()(const Expr& e) const { return number_ivalue(c10::Scalar(*e.as_const()), kind); }
  IValue operator()(double d) const { return number_ivalue(c10::Scalar(d), kind); }
  IValue operator()(bool b) const {
    return kind == c10::TypeKind::TensorType || kind == c10::TypeKind::NumberType ? number_ivalue(c10::Scalar(b), kind) : IValue(b);
  }
  IValue operator()(const std::complex<double>& c) const {
    return number_ivalue(c10::Scalar(c10::complex<double>(c.real(), c.imag())), kind);
  }
  template <class Range, class F>
  static IValue numbers(const Range& v, const F& number) {
    c10::List<c10::Scalar> l;
    for (const auto& e : v) l.push_back(number(e));
    return l;
  }
  IValue operator()(const std::vector<Expr>& v) const {
    if (kind == c10::TypeKind::NumberType) return numbers(v, [](const Expr& e) { return c10::Scalar(*e.as_const()); });
    c10::List<int64_t> l;
    for (const Expr& e : v) l.push_back(*e.as_const());
    return l;
  }
  IValue operator()(const std::vector<double>& v) const {
    return kind == c10::TypeKind::NumberType ? numbers(v, [](double d) { return c10::Scalar(d); }) : IValue(v);
  }
  IValue operator()(const std::vector<bool>& v) const {
    c10::List<bool> l;
    for (const bool b : v) l.push_back(b);
    return l;
  }
  IValue operator()(const std::string& s) const { return s; }
  IValue operator()(const std::vector<std::string>& v) const { return v; }
  IValue operator()(DType d) const { return static_cast<int64_t>(to_torch(d)); }
  IValue operator()(const DeviceArg&) const { return c10::Device(c10::kCPU); }
  IValue operator()(const LayoutArg&) const { return static_cast<int64_t>(c10::Layout::Strided); }
  IValue operator()(const MemoryFormatArg& m) const { return static_cast<int64_t>(memory_format(m.text)); }
  IValue operator()(const SubgraphArg& s) const { return static_cast<int64_t>(s.index); }
  template <class T>
  IValue operator()(const T&) const {
    AOTC_CHECK(false, "not a constant argument");
  }
};

}  // namespace

IValue ivalue_of(const Arg& a, c10::TypeKind kind) { return std::visit(ConstantOf{kind}, a); }

}  // namespace aotc::import
