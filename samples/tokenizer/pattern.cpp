#include "pattern.h"

namespace tok {

Pattern literal(std::string wanted) {
  return [wanted = std::move(wanted)](std::string_view text, const Found& found) {
    for (size_t at = 0; (at = text.find(wanted, at)) != text.npos; at += wanted.size()) found(at, at + wanted.size());
  };
}

Pattern characters(bool (*kind)(uint32_t)) {
  return [kind](std::string_view text, const Found& found) {
    for (size_t at = 0, n; at < text.size(); at += n)
      if (kind(code_at(text, at, &n))) found(at, at + n);
  };
}

Pattern expression(const std::string& regex, const Field& at, const Libraries& libraries) {
  if (!libraries.regex)
    at.wrong("it needs regular expressions, and this program is compiled without PCRE2 (-DTOKENIZER_LIBRARIES -lpcre2-8 -lutf8proc)");
  try {
    std::shared_ptr<const Regex> compiled = libraries.regex(regex);
    return [compiled](std::string_view text, const Found& found) { compiled->each(text, found); };
  } catch (const std::runtime_error& e) { at.wrong(e.what()); }
}

Pattern read_pattern(const Field& field, const Libraries& libraries) {
  if (const Field text = field["String"]; !text.is_null()) {
    if (text.text().empty()) text.wrong("is empty");
    return literal(text.text());
  }
  const Field regex = field["Regex"];
  if (regex.is_null()) field.wrong("expected String or Regex");
  return expression(regex.text(), regex, libraries);
}

}  // namespace tok
