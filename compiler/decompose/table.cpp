#include "decompose/table.h"

#include <map>
#include <string_view>

#include "decompose/complex.h"
#include "decompose/families.h"

namespace aotc::decompose {

std::vector<Family> families() {
  return {
#define AOTC_FAMILY(name, title, kernels) {title, kernels, name##_rules()},
#include "decompose/families.def"
#undef AOTC_FAMILY
  };
}

std::vector<RuleTable> all_rules() {
  std::vector<RuleTable> all;
  for (const Family& f : families()) all.push_back(f.rules);
  return all;
}

RuleFn find_rule(std::string_view overload) {
  static const std::map<std::string_view, RuleFn> table = [] {
    std::map<std::string_view, RuleFn> m;
    for (const RuleTable& family : all_rules())
      for (const RuleRow& row : family)
        each_word(row.overloads, [&](std::string_view overload) {
          const bool fresh = m.emplace(overload, row.fn).second;
          AOTC_CHECK(fresh, "two rules for {}", overload);
        });
    return m;
  }();
  const auto it = table.find(overload);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace aotc::decompose
