#pragma once
// A decision of a form as data: its fields are small integers with names and ranges, so that every form's choices are printed, parsed,
// stored, searched and explained in one way.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace aotc::forms {

class Form;

/// One field of a form's choices.
struct Field {
  std::string_view name;
  int32_t min = 0, max = INT32_MAX;
  int32_t multiple_of = 1;
  std::optional<int32_t> absent = {};  ///< what a text of an earlier version means, which ends before this field
};

/// A form and the values of its fields, in their order.
struct Choice {
  const Form* form = nullptr;
  std::vector<int32_t> values;
  friend bool operator==(const Choice&, const Choice&) = default;
};

/// "gemm mr=14 nv=2 mc=84"; the name alone where there is nothing to choose. parse_choice is its inverse.
std::string str(const Choice& c);
/// The same, or the form's name alone for a form that was refused before it had a choice.
std::string str_if_whole(const Choice& c);
/// Fails with what is wrong and where: an unknown form, a missing or unknown field, a value out of range.
Result<Choice> parse_choice(std::string_view text);
/// Whether the values are as many as the fields and within them.
Fit check(const Choice& c);

/// A row of a choice struct's table: a field and the member that holds it. See GemmTile for an example.
template <class T>
struct Member {
  Field field;
  int32_t T::*at;
};
/// The fields of T::members().
template <class T>
std::span<const Field> fields_of() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> out;
    for (const Member<T>& m : T::members()) out.push_back(m.field);
    return out;
  }();
  return fields;
}
template <class T>
Choice pack(const Form& form, const T& t) {
  Choice c{&form, {}};
  for (const Member<T>& m : T::members()) c.values.push_back(t.*m.at);
  return c;
}
template <class T>
T unpack(const Choice& c) {
  T t;
  size_t i = 0;
  for (const Member<T>& m : T::members()) t.*m.at = c.values.at(i++);
  return t;
}

}  // namespace aotc::forms
