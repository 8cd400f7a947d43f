#include "import/torch_functions.h"
#include "import/torch_values.h"

namespace aotc::import::torch_side {
namespace {

std::string alias_of(const c10::Argument& a) {
  const c10::AliasInfo* info = a.alias_info();
  if (info && info->beforeSets().empty() && !info->containedTypes().empty()) info = &info->containedTypes().front();  // Tensor(a)[]
  if (!info || info->beforeSets().empty()) return {};
  return info->beforeSets().begin()->toUnqualString();
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

std::optional<OpSchema> find_schema(const std::string& target) {
  const auto handle = find_operator(target);
  return handle ? std::optional<OpSchema>(convert(handle->schema())) : std::nullopt;
}

std::vector<std::string> operators() {
  std::vector<std::string> out;
  for (const c10::OperatorName& o : c10::Dispatcher::singleton().getAllOpNames())
    if (const size_t at = o.name.find("::"); at != std::string::npos)
      out.push_back(o.name.substr(0, at) + "." + o.name.substr(at + 2) + "." + (o.overload_name.empty() ? "default" : o.overload_name));
  return out;
}

}  // namespace aotc::import::torch_side
