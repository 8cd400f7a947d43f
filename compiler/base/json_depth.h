#pragma once
// JSON that others wrote is copied, printed and walked by recursion: how deep it goes is asked of its text before.
#include <string_view>

namespace aotc {

constexpr int kMostJsonDepth = 256;

/// Whether lists and objects of the text nest deeper than that. Of a text that is no JSON either answer is right.
inline bool nests_too_deep(std::string_view json) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostJsonDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace aotc
