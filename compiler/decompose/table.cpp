#include <map>
#include <string_view>

#include "decompose/families.h"

namespace aotc::decompose {

std::vector<RuleTable> all_rules() {
  return {
      pointwise_unary_rules(),
      pointwise_binary_rules(),
      activation_rules(),
      cast_rules(),
      creation_rules(),
      view_rules(),
      layout_rules(),
      reduction_rules(),
      scan_rules(),
      norm_rules(),
      linalg_rules(),
      solve_rules(),
      einsum_rules(),
      conv_rules(),
      pool_rules(),
      upsample_rules(),
      pad_rules(),
      index_rules(),
      scatter_rules(),
      sort_rules(),
      attention_rules(),
      rnn_rules(),
      loss_rules(),
      effect_rules(),
  };
}

RuleFn find_rule(std::string_view overload) {
  static const std::map<std::string_view, RuleFn> table = [] {
    std::map<std::string_view, RuleFn> m;
    for (const RuleTable& family : all_rules())
      for (const RuleRow& row : family) {
        const bool fresh = m.emplace(row.overload, row.fn).second;
        AOTC_CHECK(fresh, "two rules for {}", row.overload);
      }
    return m;
  }();
  const auto it = table.find(overload);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace aotc::decompose
