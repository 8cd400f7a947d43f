#include "base/diagnostic.h"

namespace aotc {

std::string Loc::str() const {
  std::string s;
  auto add = [&s](const std::string& part) {
    if (part.empty()) return;
    if (!s.empty()) s += ": ";
    s += part;
  };
  add(file);
  add(path);
  if (!node.empty()) add("node " + node);
  if (!source.empty()) add("from " + source);
  return s;
}

void Diagnostic::render() {
  const std::string where = loc_.str();
  text_ = where.empty() ? message_ : where + ": " + message_;
  for (const std::string& n : notes_) text_ += "\n  note: " + n;
}

void check_failed(const char* file, int line, const char* cond, const std::string& text) {
  throw InternalError(fmt::format("{}:{}: check failed: {}{}{}", file, line, cond, text.empty() ? "" : ": ", text));
}

}  // namespace aotc
