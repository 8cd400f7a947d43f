#include "forms/choice.h"

#include <charconv>

#include "forms/list.h"

namespace aotc::forms {

std::string str(const Choice& c) {
  AOTC_CHECK(c.form, "a choice without a form");
  std::string s(c.form->name());
  const auto fields = c.form->fields();
  for (size_t i = 0; i < fields.size(); ++i) s += fmt::format(" {}={}", fields[i].name, c.values.at(i));
  return s;
}

std::string str_if_whole(const Choice& c) { return c.values.size() == c.form->fields().size() ? str(c) : std::string(c.form->name()); }

Fit check(const Choice& c) {
  if (!c.form) return refuse("no form");
  const auto fields = c.form->fields();
  if (fields.size() != c.values.size()) return refuse("{} has {} fields, not {}", c.form->name(), fields.size(), c.values.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    const Field& f = fields[i];
    if (c.values[i] < f.min || c.values[i] > f.max) return refuse("{}: {} is not in [{}, {}]", f.name, c.values[i], f.min, f.max);
    if (c.values[i] % f.multiple_of) return refuse("{}: {} is not a multiple of {}", f.name, c.values[i], f.multiple_of);
  }
  return c.form->legal(c);
}

Result<Choice> parse_choice(std::string_view text) {
  using R = Result<Choice>;
  auto word = [&] {
    const size_t begin = std::min(text.find_first_not_of(' '), text.size()), end = std::min(text.find(' ', begin), text.size());
    const std::string_view w = text.substr(begin, end - begin);
    text.remove_prefix(end);
    return w;
  };
  const std::string_view name = word();
  Choice c;
  c.form = find_form(name);
  if (!c.form) return R::fail(fmt::format("'{}' is no form of a kernel", name));
  for (const Field& f : c.form->fields()) {
    const std::string_view w = word();
    if (w.empty() && f.absent) {
      c.values.push_back(*f.absent);
      continue;
    }
    int32_t value = 0;
    if (w.size() <= f.name.size() || w.substr(0, f.name.size()) != f.name || w[f.name.size()] != '=')
      return R::fail(fmt::format("'{}={}' is expected, not '{}'", f.name, "number", w));
    const std::string_view number = w.substr(f.name.size() + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size())
      return R::fail(fmt::format("'{}': '{}' is no number", f.name, number));
    c.values.push_back(value);
  }
  if (const std::string_view rest = word(); !rest.empty()) return R::fail(fmt::format("'{}' is no field of {}", rest, name));
  if (const Fit fit = check(c); !fit) return R::fail(fit.why);
  return c;
}

}  // namespace aotc::forms
