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

/// As absolute path without links and dots, also of what is not there yet.
fs::path place(const std::string& path) {
  std::error_code ec;
  const fs::path whole = fs::absolute(path, ec), clean = fs::weakly_canonical(whole, ec);
  return ec ? whole.lexically_normal() : clean;
}

[[noreturn]] void clash(const std::string& option, const std::string& path, const NamedFile& read) {
  throw Diagnostic(ExitCode::usage, Loc{path, "", "", ""},
                   fmt::format("would be overwritten: {} writes it, {} reads it", option, read.option))
      .note("give one of them a name of its own");
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
  const Loc where{path, "", "", ""};
  if (const fs::path folder = fs::absolute(path, ec).parent_path();
      !ec && status.type() == fs::file_type::not_found && !fs::exists(folder, ec))
    throw Diagnostic(ExitCode::io, where, fmt::format("cannot be written: there is no folder {}", folder.string()));
  if (status.type() == fs::file_type::not_found || status.type() == fs::file_type::regular) return;
  if (ec) throw Diagnostic(ExitCode::io, where, "cannot be written: " + ec.message());
  throw Diagnostic(ExitCode::io, where, fmt::format("is {}: no file can be written there", kind(status.type())));
}

std::string made_folder(std::string path) {
  std::error_code ec;
  fs::create_directories(path, ec);
  if (ec) throw Diagnostic(ExitCode::io, Loc{path, "", "", ""}, "cannot be made: " + ec.message());
  return path;
}

void require_apart(const std::vector<NamedFile>& written, const std::vector<NamedFile>& read) {
  std::error_code ec;
  for (const NamedFile& w : written)
    for (const NamedFile& r : read)
      if (!w.path.empty() && !r.path.empty() && w.option != r.option &&
          (fs::equivalent(w.path, r.path, ec) || place(w.path) == place(r.path)))
        clash(w.option, r.path, r);
}

void require_apart(const NamedFolder& written, const std::vector<NamedFile>& read) {
  if (written.path.empty()) return;
  const std::string folder = (place(written.path) / "").string();
  for (const NamedFile& r : read) {
    const std::string file = r.path.empty() ? "" : place(r.path).string();
    if (file.rfind(folder, 0) != 0) continue;
    for (const std::string& end : written.ends)
      if (file.size() >= end.size() && file.compare(file.size() - end.size(), end.size(), end) == 0) clash(written.option, r.path, r);
  }
}

}  // namespace aotc
