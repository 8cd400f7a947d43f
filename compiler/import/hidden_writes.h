#pragma once
// Operators that write tensors although their schemas do not say so (batch_norm), or whose rules do it themselves (their results are not
// what they write).
#include <string_view>

#include "import/program.h"

namespace aotc::import {

/// The arguments that this call writes; it returns none of them.
inline std::vector<TensorRef> hidden_writes(const PNode& node) {
  struct Row {
    std::string_view target;
    std::string_view when;  ///< the bool argument without which nothing is written; empty: always
  };
  static constexpr Row kStatistics[] = {
      {"aten.batch_norm.default", "training"},
      {"aten.native_batch_norm.default", "training"},
      {"aten._native_batch_norm_legit.default", "training"},
      {"aten._batch_norm_with_update.default", ""},
      {"aten.instance_norm.default", "use_input_stats"},
  };
  const auto arg = [&](std::string_view name) -> const Arg* {
    for (const NamedArg& a : node.args)
      if (a.name == name) return &a.value;
    return nullptr;
  };
  std::vector<TensorRef> written;
  for (const Row& row : kStatistics) {
    if (row.target != node.target) continue;
    const Arg* when = arg(row.when);
    if (const bool* on = when ? std::get_if<bool>(when) : nullptr; !row.when.empty() && !(on && *on)) continue;
    for (const std::string_view name : {"running_mean", "running_var"}) {
      const Arg* a = arg(name);
      if (const TensorRef* t = a ? std::get_if<TensorRef>(a) : nullptr) written.push_back(*t);
    }
  }
  return written;
}

}  // namespace aotc::import
