#pragma once
#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace aotc::import {

/// What a result is called by its place in what the program returns: "past.3.keys" of "['past'][3]['keys']", "output_1.keys" of
/// "[1]['keys']"; empty where the path has no key.
inline std::string result_name(const std::string& path) {
  std::vector<std::string> parts;
  bool keyed = false;
  for (size_t i = 0; i < path.size();) {
    if (path[i] != '[') return {};
    const bool quoted = i + 1 < path.size() && path[i + 1] == '\'';
    const size_t end = path.find(quoted ? "']" : "]", i + 1);
    if (end == std::string::npos) return {};
    const size_t from = i + (quoted ? 2 : 1);
    std::string part;
    for (char c : path.substr(from, end - from))
      part += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.' ? c : '_';
    if (part.empty()) part = "_";
    keyed = keyed || quoted;
    parts.push_back(std::move(part));
    i = end + (quoted ? 2 : 1);
  }
  if (!keyed) return {};
  std::string name = std::isdigit(static_cast<unsigned char>(parts[0][0])) ? "output_" : "";
  for (size_t i = 0; i < parts.size(); ++i) name += (i ? "." : "") + parts[i];
  return name;
}

}  // namespace aotc::import
