#pragma once
// Tables of fields: one row a member of a struct. What prints, parses or compares the struct takes the table, so that a new member is
// one row:
//
//     template <>
//     struct FieldTable<LiveRange> {
//       static constexpr auto fields = std::tuple{field("begin", &LiveRange::begin), field("end", &LiveRange::end)};
//     };
//
// A table that lacks a member does not compile where it is used (kComplete).
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>

namespace aotc {

enum class Presence : uint8_t {
  always,          ///< must be there
  unless_default,  ///< left out where it is what the struct starts with
  positional,      ///< must be there, in the table's order, before the others and without its name
};

template <class S, class T>
struct Field {
  using Struct = S;
  using Type = T;
  std::string_view name;
  T S::*member;
  Presence presence = Presence::always;
  int64_t min = INT64_MIN;  ///< of an integer
  constexpr Field at_least(int64_t least) const {
    Field f = *this;
    f.min = least;
    return f;
  }
};
template <class S, class T>
constexpr Field<S, T> field(std::string_view name, T S::*member, Presence presence = Presence::always) {
  return {name, member, presence};
}
template <class S, class T>
constexpr Field<S, T> optional_field(std::string_view name, T S::*member) {
  return {name, member, Presence::unless_default};
}
template <class S, class T>
constexpr Field<S, T> positional_field(std::string_view name, T S::*member) {
  return {name, member, Presence::positional};
}

/// A member of a base as one of S.
template <class S, class B, class T>
constexpr T S::*inherited(T B::*member) {
  return member;
}

/// A list of which each element gets a line of its own, where the struct is a text of several lines.
template <class S, class T>
struct Rows {
  using Struct = S;
  using Type = T;
  std::string_view name;  ///< of one element
  T S::*member;
};
template <class S, class T>
constexpr Rows<S, T> rows(std::string_view name, T S::*member) {
  return {name, member};
}

template <class S>
struct FieldTable {};
template <class S>
concept HasFields = requires {
  FieldTable<S>::fields;
};

namespace detail {
struct AnyValue {
  template <class T>
  operator T() const;  // NOLINT: implicit on purpose
};
template <class S, class... Known>
consteval size_t member_count() {
  if constexpr (requires { S{std::declval<Known>()..., std::declval<AnyValue>()}; })
    return member_count<S, Known..., AnyValue>();
  else
    return sizeof...(Known);
}
}  // namespace detail

/// Whether the table of aggregate S has a row for every member (arrays as std::array).
template <class S>
inline constexpr bool kComplete = std::tuple_size_v<decltype(FieldTable<S>::fields)> == detail::member_count<S>();

/// f(row) for each row, in order.
template <HasFields S, class F>
constexpr void for_each_field(F&& f) {
  static_assert(kComplete<S>, "the field table lacks a member");
  std::apply([&](const auto&... row) { (f(row), ...); }, FieldTable<S>::fields);
}

}  // namespace aotc
