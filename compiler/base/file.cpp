#include "base/file.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/diagnostic.h"

namespace aotc {
namespace {

namespace fs = std::filesystem;

const char* kind(fs::file_type t) {
  switch (t) {
    case fs::file_type::directory: return "a folder";
    case fs::file_type::fifo: return "a FIFO";
    case fs::file_type::socket: return "a socket";
    case fs::file_type::block:
    case fs::file_type::character: return "a device";
    default: return "something else";
  }
}

}  // namespace

void require_file(const std::string& path) {
  std::error_code ec;
  const fs::file_status status = fs::status(path, ec);
  const Loc where{path, "", "", ""};
  if (status.type() == fs::file_type::not_found) throw Diagnostic(ExitCode::io, where, "there is no such file");
  if (ec) throw Diagnostic(ExitCode::io, where, "cannot be opened: " + ec.message());
  if (status.type() != fs::file_type::regular)
    throw Diagnostic(ExitCode::io, where, fmt::format("is {}; a regular file is needed", kind(status.type())));
}

std::string read_file(const std::string& path) {
  require_file(path);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Diagnostic(ExitCode::io, Loc{path, "", "", ""}, "cannot be opened");
  return {std::istreambuf_iterator<char>(in), {}};
}

void require_place_for_file(const std::string& path) {
  std::error_code ec;
  const fs::file_status status = fs::status(path, ec);
  if (status.type() == fs::file_type::not_found || status.type() == fs::file_type::regular) return;
  const Loc where{path, "", "", ""};
  if (ec) throw Diagnostic(ExitCode::io, where, "cannot be written: " + ec.message());
  throw Diagnostic(ExitCode::io, where, fmt::format("is {}: no file can be written there", kind(status.type())));
}

}  // namespace aotc
