#pragma once
// Lists of names as text, separated by spaces: "view reshape flatten".
#include <algorithm>
#include <string_view>

namespace aotc {

template <class F>
constexpr void each_word(std::string_view list, F f) {
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(' ', at), list.size());
    f(list.substr(at, end - at));
    at = end + 1;
  }
}
constexpr bool has_word(std::string_view list, std::string_view word) {
  bool found = false;
  each_word(list, [&](std::string_view w) { found |= w == word; });
  return found;
}

}  // namespace aotc
