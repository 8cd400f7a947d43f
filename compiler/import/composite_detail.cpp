#include "import/composite_detail.h"

namespace aotc::import::composite {

std::optional<OperatorHandle> functional_of_out(const OperatorHandle& op) {
  const std::string& overload = op.schema().overload_name();
  if (overload.size() < 3 || overload.substr(overload.size() - 3) != "out") return std::nullopt;
  const auto& args = op.schema().arguments();
  const size_t outs = static_cast<size_t>(std::count_if(args.begin(), args.end(), written));
  if (outs != 1 || !written(args.back())) return std::nullopt;
  std::vector<std::string> names = {"", "Tensor"};
  if (overload.size() > 4) names = {overload.substr(0, overload.size() - 4)};
  for (const std::string& name : names) {
    const auto handle = c10::Dispatcher::singleton().findSchema({op.schema().name(), name});
    if (!handle || handle->schema().arguments().size() + 1 != args.size() || handle->schema().returns().size() != 1) continue;
    const auto& plain = handle->schema().arguments();
    if (std::equal(plain.begin(), plain.end(), args.begin(),
                   [](const c10::Argument& a, const c10::Argument& b) { return a.name() == b.name(); }))
      return *handle;
  }
  return std::nullopt;
}

Stack stack_of(const OperatorHandle& op, const PNode& node, const std::function<at::Tensor(const std::string&)>& operand) {
  Stack stack;
  for (size_t i = 0; i < node.args.size(); ++i) {
    const Arg& a = node.args[i].value;
    c10::TypePtr type = op.schema().arguments().at(i).real_type();
    const auto opt = type->cast<c10::OptionalType>();
    if (opt) type = opt->getElementType();
    if (const auto* t = std::get_if<TensorRef>(&a)) {
      stack.emplace_back(operand(t->name));
    } else if (const auto* l = std::get_if<TensorList>(&a)) {
      c10::List<at::Tensor> list;
      for (const TensorRef& t : *l) list.push_back(operand(t.name));
      stack.emplace_back(std::move(list));
    } else if (const auto* ol = std::get_if<OptTensorList>(&a)) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& t : *ol) list.push_back(t ? std::optional(operand(t->name)) : std::nullopt);
      stack.emplace_back(std::move(list));
    } else if (std::holds_alternative<NoneArg>(a) && opt) {
      stack.emplace_back();
    } else if (std::holds_alternative<SymbolicArg>(a) || std::holds_alternative<SubgraphArg>(a)) {
      throw Refusal(fmt::format("no rule, and the argument '{}' is no constant", node.args[i].name));
    } else {
      const auto symbolic = [](const Expr& e) { return !e.is_const(); };
      const auto* e = std::get_if<Expr>(&a);
      const auto* es = std::get_if<std::vector<Expr>>(&a);
      if ((e && symbolic(*e)) || (es && std::any_of(es->begin(), es->end(), symbolic)))
        throw Refusal(
            fmt::format("the argument '{}' is symbolic, and LibTorch's kernels tell what they do for fixed sizes only; export "
                        "with these sizes fixed",
                        node.args[i].name));
      stack.push_back(ivalue_of(a, kind_of(type)));
    }
  }
  return stack;
}

}  // namespace aotc::import::composite
