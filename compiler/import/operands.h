#pragma once
// The tensors that an argument of a node names.
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

}  // namespace aotc::import
