#include "text_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/diagnostic.h"
#include "base/file.h"

namespace aotc::cli {

void write_text_file(const std::string& path, const std::string& text) {
  require_place_for_file(path);
  const std::string aside = fmt::format("{}.{}.tmp", path, getpid());
  {
    std::ofstream out(aside, std::ios::binary | std::ios::trunc);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    if (!out.flush()) {
      const std::string why = std::strerror(errno);
      std::remove(aside.c_str());
      throw Diagnostic(ExitCode::io, Loc{path, "", "", ""}, "cannot be written: " + why);
    }
  }
  if (std::rename(aside.c_str(), path.c_str()) == 0) return;
  const std::string why = std::strerror(errno);
  std::remove(aside.c_str());
  throw Diagnostic(ExitCode::io, Loc{path, "", "", ""}, "cannot be put in its place: " + why);
}

std::string xml_escaped(const std::string& text) {
  const std::string utf8 =
      nlohmann::json::parse(nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)).get<std::string>();
  std::string out;
  for (const char c : utf8) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\n')
      out += "&#10;";
    else if (byte < 0x20 && c != '\t')
      out += "\xEF\xBF\xBD";
    else
      out += c;
  }
  return out;
}

}  // namespace aotc::cli
