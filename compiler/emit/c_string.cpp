#include "emit/c_string.h"

#include <fmt/format.h>

namespace aotc::emit {

std::string c_string(std::string_view s) {
  std::string out = "\"";
  for (const char c : s) {
    const unsigned char u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '?')
      out += "\\?";
    else if (u < 32 || u > 126)
      out += fmt::format("\\{:03o}", u);
    else
      out += c;
  }
  return out + "\"";
}

}  // namespace aotc::emit
