#pragma once
// What arguments of a node say: the tensors that they name, a dim.
#include "import/program.h"

namespace aotc::import {

/// Calls fn(name) for each, in order.
template <class Fn>
void each_tensor(const Arg& a, Fn&& fn) {
  if (const auto* t = std::get_if<TensorRef>(&a)) fn(t->name);
  if (const auto* l = std::get_if<TensorList>(&a))
    for (const TensorRef& t : *l) fn(t.name);
  if (const auto* l = std::get_if<OptTensorList>(&a))
    for (const std::optional<TensorRef>& t : *l)
      if (t) fn(t->name);
}

/// Whether `is` holds of the name of one.
template <class Is>
bool any_tensor(const Arg& a, Is&& is) {
  bool any = false;
  each_tensor(a, [&](const std::string& name) { any = any || is(name); });
  return any;
}

/// The node's argument `dim`, the first where it has none, of a tensor with so many dims; nothing where that has no such dim.
inline std::optional<size_t> dim_of(const PNode& n, size_t rank) {
  const auto all = static_cast<int64_t>(rank);
  int64_t dim = 0;
  for (const NamedArg& a : n.args)
    if (const auto* e = a.name == "dim" ? std::get_if<Expr>(&a.value) : nullptr) dim = e->as_const().value_or(all);
  if (dim < 0) dim += all;
  return dim >= 0 && dim < all ? std::optional(static_cast<size_t>(dim)) : std::nullopt;
}

}  // namespace aotc::import
