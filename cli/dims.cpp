#include "dims.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/diagnostic.h"

namespace aotc::cli {
namespace {

/// Whether `name` stands in `text` as a whole.
bool mentions(const std::string& text, const std::string& name) {
  const auto of_name = [&](size_t i) { return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_'); };
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1))
    if (!(at > 0 && of_name(at - 1)) && !of_name(at + name.size())) return true;
  return false;
}

}  // namespace

std::map<std::string, int64_t> parse_dims(const std::vector<std::string>& args, const nlohmann::json& metadata) {
  std::map<std::string, int64_t> out;
  for (const std::string& a : args) {
    const size_t eq = a.find('=');
    size_t used = 0;
    int64_t v = -1;
    try {
      if (eq != std::string::npos) v = std::stoll(a.substr(eq + 1), &used);
    } catch (const std::exception&) { used = 0; }
    if (eq == std::string::npos || eq == 0 || used == 0 || eq + 1 + used != a.size() || v < 0)
      throw Diagnostic(ExitCode::usage, {}, "--dim wants NAME=SIZE, for example batch=8, not '" + a + "'");
    out[a.substr(0, eq)] = v;
  }
  for (const nlohmann::json& s : metadata.value("symbols", nlohmann::json::array())) {
    const auto given = out.find(s.value("archive", ""));
    if (given != out.end()) out.emplace(s.at("name").get<std::string>(), given->second), out.erase(given);
  }
  return out;
}

void check_dims(const std::map<std::string, int64_t>& given, const std::set<std::string>& known) {
  std::string all;
  for (const std::string& k : known) all += (all.empty() ? "" : ", ") + k;
  for (const auto& [name, value] : given)
    if (std::none_of(known.begin(), known.end(), [&name = name](const std::string& k) { return mentions(k, name); }))
      throw Diagnostic(ExitCode::usage, {}, "--dim " + name + ": there is no such dimension")
          .note(known.empty() ? "all shapes of this model are fixed" : "the dimensions are " + all);
}

}  // namespace aotc::cli
