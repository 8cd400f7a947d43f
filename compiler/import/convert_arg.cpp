#include "import/convert_arg.h"

namespace aotc::import {
namespace {

template <class T>
bool is(const Arg& a) {
  return std::holds_alternative<T>(a);
}

bool is_number(const Arg& a) { return is<Expr>(a) || is<double>(a) || is<bool>(a) || is<SymbolicArg>(a) || is<std::complex<double>>(a); }

bool empty_list(const Arg& a) {
  return std::visit(
      [](const auto& v) {
        if constexpr (requires {
                        v.empty();
                        v.begin();
                      } &&
                      !std::is_same_v<std::decay_t<decltype(v)>, std::string>)
          return v.empty();
        else
          return false;
      },
      a);
}

bool to_real(Arg& a) {
  if (const Expr* e = std::get_if<Expr>(&a)) {
    if (const auto c = e->as_const()) a = static_cast<double>(*c);
    return true;  // a symbolic size stays an Expr
  }
  return is<double>(a) || is<SymbolicArg>(a);
}

bool to_int_list(Arg& a) {
  if (empty_list(a)) a = std::vector<Expr>{};
  if (const Expr* e = std::get_if<Expr>(&a)) a = std::vector<Expr>{*e};
  return is<std::vector<Expr>>(a);
}

bool to_real_list(Arg& a) {
  if (empty_list(a)) a = std::vector<double>{};
  if (const double* d = std::get_if<double>(&a)) a = std::vector<double>{*d};
  if (const auto* es = std::get_if<std::vector<Expr>>(&a)) {
    std::vector<double> r;
    for (const Expr& e : *es) {
      const auto c = e.as_const();
      if (!c) return false;
      r.push_back(static_cast<double>(*c));
    }
    a = std::move(r);
  }
  return is<std::vector<double>>(a);
}

bool to_tensor_list(Arg& a) {
  if (empty_list(a)) a = TensorList{};
  if (const TensorRef* t = std::get_if<TensorRef>(&a)) a = TensorList{*t};
  return is<TensorList>(a);
}

bool to_opt_tensor_list(Arg& a) {
  if (empty_list(a)) a = OptTensorList{};
  if (const TensorList* l = std::get_if<TensorList>(&a)) {
    OptTensorList r;
    for (const TensorRef& t : *l) r.emplace_back(t);
    a = std::move(r);
  }
  return is<OptTensorList>(a);
}

bool to_type(Arg& a, ParamType type) {
  switch (type) {
    case ParamType::tensor: return is<TensorRef>(a) || is_number(a);
    case ParamType::tensor_list: return to_tensor_list(a);
    case ParamType::opt_tensor_list: return to_opt_tensor_list(a);
    case ParamType::integer:
      if (const bool* b = std::get_if<bool>(&a)) a = Expr(*b ? 1 : 0);
      return is<Expr>(a);
    case ParamType::int_list: return to_int_list(a);
    case ParamType::real: return to_real(a);
    case ParamType::real_list: return to_real_list(a);
    case ParamType::boolean: return is<bool>(a) || is<SymbolicArg>(a);
    case ParamType::bool_list:
      if (empty_list(a)) a = std::vector<bool>{};
      return is<std::vector<bool>>(a);
    case ParamType::text: return is<std::string>(a);
    case ParamType::text_list:
      if (empty_list(a)) a = std::vector<std::string>{};
      return is<std::vector<std::string>>(a);
    case ParamType::scalar: return is_number(a) || is<TensorRef>(a);
    case ParamType::dtype: return is<DType>(a);
    case ParamType::layout: return is<LayoutArg>(a);
    case ParamType::device: return is<DeviceArg>(a);
    case ParamType::memory_format: return is<MemoryFormatArg>(a);
    case ParamType::other: return true;
  }
  return false;
}

}  // namespace

Fit convert_arg(Arg& arg, const OpParam& param) {
  if (is<NoneArg>(arg)) {
    if (param.optional || param.type == ParamType::other || param.type == ParamType::tensor) return Fit::yes();
    return refuse("argument '{}' is None but must be {}", param.name, param_type_name(param.type));
  }
  if (to_type(arg, param.type)) return Fit::yes();
  return refuse("argument '{}' is not {}", param.name, param_type_name(param.type));
}

}  // namespace aotc::import
