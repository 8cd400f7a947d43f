#include "package/package.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "aotc/seal.h"
#include "base/diagnostic.h"
#include "base/file.h"
#include "package/signature.h"

namespace aotc::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// What the provenance is about: the first of its subjects, each of which is one of the files.
std::string subject(const std::string& path, const json& provenance, const std::vector<FileDigest>& files) {
  const auto fail = [&](const std::string& what) {
    return Diagnostic(ExitCode::failed, Loc{path, "", "", ""}, fmt::format("has a {} that {}", kProvenance, what));
  };
  const json subjects = provenance.is_object() ? provenance.value("subject", json()) : json();
  if (!subjects.is_array() || subjects.empty()) throw fail("names no artifact");
  for (const json& s : subjects) {
    const auto same = [&](const FileDigest& f) { return s == json({{"name", f.name}, {"digest", {{"sha256", hex(f.sha256)}}}}); };
    if (std::none_of(files.begin(), files.end(), same)) throw fail("is about other files: " + s.dump(-1, ' ', true));
  }
  return subjects[0]["name"];
}

}  // namespace

MappedBytes::MappedBytes(const std::string& path) {
  require_file(path);
  std::error_code ec;
  if (fs::file_size(path, ec) == 0 && !ec) return;
  const unsigned char* data;
  uint64_t bytes;
  char error[512];
  if (aotc_map_file(path.c_str(), &data, &bytes, error, sizeof error) != AOTC_STATUS_OK)
    throw Diagnostic(ExitCode::io, Loc{path, "", "", ""}, fmt::format("cannot be read: {}", error));
  bytes_ = {reinterpret_cast<const char*>(data), bytes};
}

MappedBytes::~MappedBytes() {
  if (bytes_.data()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

Package::Package(const std::string& path) : path_(path) {
  std::error_code ec;
  if (!fs::is_directory(path, ec)) {
    mapped_.push_back(std::make_unique<MappedBytes>(path));
    files_ = read_tar(path, mapped_.back()->bytes());
    return;
  }
  for (auto it = fs::recursive_directory_iterator(path, ec); !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    if (it->is_directory(ec) && !it->is_symlink(ec)) continue;
    const std::string name = fs::path(it->path()).lexically_relative(path).generic_string();
    if (it->is_symlink(ec) || !it->is_regular_file(ec) || !is_packed_name(name))
      throw Diagnostic(ExitCode::failed, Loc{path, "", "", ""}, fmt::format("is no unpacked package: '{}' is no file of one", name));
    mapped_.push_back(std::make_unique<MappedBytes>(it->path().string()));
    files_.push_back({name, mapped_.back()->bytes()});
  }
  if (ec) throw Diagnostic(ExitCode::io, Loc{path, "", "", ""}, "cannot be read: " + ec.message());
  sort_by_name(files_);
}

const PackedFile* Package::find(std::string_view name) const {
  for (const PackedFile& f : files_)
    if (f.name == name) return &f;
  return nullptr;
}

void sort_by_name(std::vector<PackedFile>& files) {
  std::sort(files.begin(), files.end(), [](const PackedFile& a, const PackedFile& b) { return a.name < b.name; });
}

json parse_document(std::string_view text) {
  constexpr int kDeepest = 32;
  return json::parse(
      text, [](int depth, json::parse_event_t, json&) { return depth <= kDeepest; }, false);
}

std::string sums_text(const std::vector<FileDigest>& files) {
  std::string out;
  for (const FileDigest& f : files) out += hex(f.sha256) + "  " + f.name + "\n";
  return out;
}

CheckedPackage check_package(const Package& package, const std::string& key) {
  const Loc here{package.path(), "", "", ""};
  const PackedFile *sums = package.find(kSums), *provenance = package.find(kProvenance), *signature = package.find(kSignature);
  for (const auto& [file, name] : {std::pair(sums, kSums), {provenance, kProvenance}})
    if (!file) throw Diagnostic(ExitCode::failed, here, fmt::format("is no package of aotc: it has no {}", name));
  CheckedPackage out;
  for (size_t i = 0; i + 1 < package.files().size(); ++i)
    if (package.files()[i].name >= package.files()[i + 1].name)
      throw Diagnostic(ExitCode::failed, here,
                       fmt::format("is no package of aotc: '{}' stands in the wrong place", package.files()[i + 1].name));
  for (const PackedFile& f : package.files())
    if (f.name != kSums && f.name != kSignature) out.files.push_back({f.name, f.bytes.size(), sha256(f.bytes)});
  if (const std::string expected = sums_text(out.files); sums->bytes != expected) {
    Diagnostic d(ExitCode::failed, here, fmt::format("is damaged: its files are not those of its {}", kSums));
    for (const FileDigest& f : out.files)
      if (sums->bytes.find(hex(f.sha256) + "  " + f.name + "\n") == std::string_view::npos)
        d.note(fmt::format("'{}' has the hash {}, which is not listed", f.name, hex(f.sha256)));
    throw d;
  }
  out.artifact = subject(package.path(), parse_document(provenance->bytes), out.files);
  out.has_signature = signature != nullptr;
  if (!signature && !key.empty()) throw Diagnostic(ExitCode::failed, here, fmt::format("is not signed: it has no {}", kSignature));
  if (!signature) return out;
  std::vector<FileDigest> all = out.files;
  all.push_back({kSums, sums->bytes.size(), sha256(sums->bytes)});
  std::sort(all.begin(), all.end(), [](const FileDigest& a, const FileDigest& b) { return a.name < b.name; });
  const Signature said = read_signature(package.path(), signature->bytes, all);
  out.key = said.key;
  if (!key.empty()) check_signature(package.path(), said, key), out.signature_checked = true;
  return out;
}

void unpack(const Package& package, const std::string& folder) {
  const fs::path to = fs::absolute(folder), aside = fmt::format("{}.{}.tmp", to.string(), getpid());
  std::error_code ec;
  if (fs::exists(fs::symlink_status(to, ec)))
    throw Diagnostic(ExitCode::io, Loc{folder, "", "", ""}, "is there already; name a new folder");
  bool good = fs::is_directory(to.parent_path(), ec);
  for (const PackedFile& f : package.files()) {
    if (!good) break;
    const fs::path file = aside / f.name;
    fs::create_directories(file.parent_path(), ec);
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out.write(f.bytes.data(), static_cast<std::streamsize>(f.bytes.size()));
    out.close();
    good = static_cast<bool>(out);
  }
  if (good) fs::rename(aside, to, ec);
  if (good && !ec) return;
  fs::remove_all(aside, ec);
  throw Diagnostic(ExitCode::io, Loc{folder, "", "", ""}, "cannot be written").note("is the folder above it there, writable and not full?");
}

}  // namespace aotc::cli
