#include "decompose/writing.h"

#include "decompose/rule.h"

namespace aotc::decompose {

using import::PNode;

std::string functional_name(const std::string& target) {
  // Their overloads are named otherwise.
  static constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
      {"aten.pow_.Scalar", "aten.pow.Tensor_Scalar"},
      {"aten.pow_.Tensor", "aten.pow.Tensor_Tensor"},
      {"aten.float_power_.Scalar", "aten.float_power.Tensor_Scalar"},
      {"aten.float_power_.Tensor", "aten.float_power.Tensor_Tensor"},
      {"aten.floor_divide_.Tensor", "aten.floor_divide.default"},
      {"aten.ldexp_.default", "aten.ldexp.Tensor"},
  };
  for (const auto& [in_place, functional] : kRenamed)
    if (target == in_place) return std::string(functional);
  const size_t dot = target.find('.'), end = target.find('.', dot + 1);
  if (dot == std::string::npos || end == std::string::npos || end < dot + 2) return {};
  std::string name = target.substr(dot + 1, end - dot - 1);
  if (name.size() > 5 && name.compare(0, 3, "__i") == 0 && name.compare(name.size() - 2, 2, "__") == 0)
    name = "__" + name.substr(3);  // __iand__
  else if (name.back() == '_' && name[name.size() - 2] != '_')
    name.pop_back();
  else
    return {};
  return target.substr(0, dot + 1) + name + target.substr(end);
}

std::string written_first(const PNode& node) {
  for (const import::NamedArg& a : node.args)
    if (const auto* t = std::get_if<import::TensorRef>(&a.value)) return t->name;
  return {};
}

namespace {

/// The overload that gives its result back instead of putting it into `out`; empty where the target is no such one.
std::string without_out(const std::string& target) {
  if (target == "aten.sum.IntList_out") return "aten.sum.dim_IntList";
  const size_t dot = target.rfind('.');
  if (dot == std::string::npos) return {};
  const std::string name = target.substr(0, dot + 1), overload = target.substr(dot + 1);
  if (overload.size() > 4 && overload.compare(overload.size() - 4, 4, "_out") == 0) return name + overload.substr(0, overload.size() - 4);
  if (overload != "out") return {};
  for (const char* functional : {"default", "Tensor", "dim"})
    if (find_rule(name + functional)) return name + functional;
  return {};
}

/// Overloads that put two results into arguments, and the ones that give them back.
struct TwoOuts {
  std::string_view target, functional, first, second;
};
constexpr TwoOuts kTwoOuts[] = {
    {"aten.sort.values", "aten.sort.default", "values", "indices"},
    {"aten.sort.values_stable", "aten.sort.stable", "values", "indices"},
    {"aten.topk.values", "aten.topk.default", "values", "indices"},
    {"aten.kthvalue.values", "aten.kthvalue.default", "values", "indices"},
    {"aten.median.dim_values", "aten.median.dim", "values", "indices"},
    {"aten.nanmedian.dim_values", "aten.nanmedian.dim", "values", "indices"},
    {"aten.max.dim_max", "aten.max.dim", "max", "max_values"},
    {"aten.min.dim_min", "aten.min.dim", "min", "min_indices"},
    {"aten.cummax.out", "aten.cummax.default", "values", "indices"},
    {"aten.cummin.out", "aten.cummin.default", "values", "indices"},
    {"aten.aminmax.out", "aten.aminmax.default", "min", "max"},
};

std::string tensor_argument(const PNode& node, std::string_view name) {
  for (const import::NamedArg& a : node.args)
    if (const auto* t = std::get_if<import::TensorRef>(&a.value); t && a.name == name) return t->name;
  return {};
}

}  // namespace

std::vector<Writing> writings_of(const PNode& node) {
  std::vector<Writing> all;
  if (std::string functional = functional_name(node.target); !functional.empty())
    all.push_back({std::move(functional), {written_first(node)}});
  if (std::string out = tensor_argument(node, "out"); !out.empty()) all.push_back({without_out(node.target), {std::move(out)}});
  for (const TwoOuts& two : kTwoOuts)
    if (two.target == node.target)
      all.push_back({std::string(two.functional), {tensor_argument(node, two.first), tensor_argument(node, two.second)}});
  return all;
}

}  // namespace aotc::decompose
