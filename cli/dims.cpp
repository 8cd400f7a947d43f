#include "dims.h"

#include "base/diagnostic.h"

namespace aotc::cli {

std::map<std::string, int64_t> parse_dims(const std::vector<std::string>& args) {
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
  return out;
}

}  // namespace aotc::cli
