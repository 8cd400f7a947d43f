#include "import/scalar_inputs.h"

#include <algorithm>
#include <cstdint>
#include <memory>

namespace aotc::import {
namespace {

/// Whether a run knows the symbol by the sizes of its tensors.
bool is_size_of_input(const Program& p, SymId s) {
  return std::any_of(p.inputs.begin(), p.inputs.end(), [&](const ProgramInput& in) {
    if (in.kind != InputKind::user) return false;
    const std::vector<Expr>& sizes = p.tensors.at(in.name).sizes;
    return std::any_of(sizes.begin(), sizes.end(), [&](const Expr& d) { return d.depends_on(s); });
  });
}

}  // namespace

ConstData scalar_sample(const std::string& name, int64_t number) {
  const auto kept = std::make_shared<const int64_t>(number);
  return {name, {DType::i64, {}}, kept, reinterpret_cast<const std::byte*>(kept.get()), sizeof number};
}

void read_scalar_inputs(Program& p) {
  std::vector<PNode> readers;
  for (ProgramInput& in : p.inputs) {
    const auto* number = in.kind == InputKind::user_scalar ? std::get_if<Expr>(&in.constant) : nullptr;
    const std::optional<SymId> s = number ? number->as_symbol() : std::nullopt;
    if (!s || in.name.empty() || p.tensors.count(in.name) || is_size_of_input(p, *s)) continue;
    p.tensors[in.name] = {.dtype = DType::i64};
    readers.push_back({.name = in.name + "_item",
                       .target = "aten.item.default",
                       .args = {{"self", TensorRef{in.name}}},
                       .results = {*number},
                       .path = "$.graph_module.signature"});
    // The range that the archive gives it begins at 0 whatever the model does with it. Where conditions are listed, one says so if it must.
    if (p.states_guards && p.syms[*s].min == 0) p.least[*s] = INT64_MIN;
    in.kind = InputKind::user;
    in.constant = NoneArg{};
  }
  p.nodes.insert(p.nodes.begin(), std::make_move_iterator(readers.begin()), std::make_move_iterator(readers.end()));
}

}  // namespace aotc::import
