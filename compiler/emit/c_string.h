#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>

namespace aotc::emit {

/// A C string literal with this content, whatever it is.
inline std::string c_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
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
