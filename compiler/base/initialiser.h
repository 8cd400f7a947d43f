#pragma once
// The text of a C initialiser by the names of a struct's members: one that is missing is zero, two that are swapped do not compile.
#include <fmt/ranges.h>

#include <concepts>
#include <string>
#include <string_view>

namespace aotc {

/// "{.a = 1, .b = x}", members in the struct's order.
class Initialiser {
 public:
  Initialiser& add(std::string_view member, std::string_view text) {
    members_ += fmt::format("{}.{} = {}", members_.empty() ? "" : ", ", member, text);
    return *this;
  }
  Initialiser& add(std::string_view member, const char* text) { return add(member, std::string_view(text)); }
  Initialiser& add(std::string_view member, std::integral auto number) { return add(member, fmt::format("{}", number)); }
  /// An array's elements; what it has beyond them is zero.
  template <class Range>
  Initialiser& list(std::string_view member, const Range& elements) {
    return add(member, fmt::format("{{{}}}", fmt::join(elements, ", ")));
  }
  std::string str() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

}  // namespace aotc
