#pragma once
// A package: an artifact and what goes with it to other machines, as an archive (tar.h) or as the folder that it was unpacked to.
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "package/sha256.h"
#include "package/tar.h"

namespace aotc::cli {

constexpr const char* kSums = "SHA256SUMS";      ///< of all other files but the signature, as sha256sum writes them, sorted by name
constexpr const char* kSignature = "model.sig";  ///< signature.h
constexpr const char* kProvenance = "provenance.intoto.json";
constexpr const char* kSbom = "sbom.cdx.json";
constexpr const char* kLicenses = "LICENSES/";

struct FileDigest {
  std::string name;
  uint64_t bytes;
  Digest sha256;
};

/// A file's bytes, mapped. Throws Diagnostic (io).
class MappedBytes {
 public:
  explicit MappedBytes(const std::string& path);
  ~MappedBytes();
  MappedBytes(const MappedBytes&) = delete;
  MappedBytes& operator=(const MappedBytes&) = delete;
  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

/// What lies in an archive or in a folder, whatever it is.
class Package {
 public:
  explicit Package(const std::string& path);
  const std::string& path() const { return path_; }
  const std::vector<PackedFile>& files() const { return files_; }
  const PackedFile* find(std::string_view name) const;

 private:
  std::string path_;
  std::vector<std::unique_ptr<MappedBytes>> mapped_;
  std::vector<PackedFile> files_;  ///< of a folder sorted by name
};

/// JSON of anyone's, whatever it is: what lies deeper than documents of packages go is left out; discarded where it is none.
nlohmann::json parse_document(std::string_view text);
/// The text of SHA256SUMS.
std::string sums_text(const std::vector<FileDigest>& files);
/// By name, byte for byte.
void sort_by_name(std::vector<PackedFile>& files);

struct CheckedPackage {
  std::string artifact;  ///< name of the shared object
  std::vector<FileDigest> files;
  bool has_signature = false, signature_checked = false;
  std::string key;  ///< SHA-256 of the public key's PEM that the signature names
};
/// Every byte: the files are those of SHA256SUMS, each with its hash, the provenance is about this artifact; with `key`, a public key's
/// file, they are those that its owner signed. Throws Diagnostic: failed where one of that does not hold; io, bad_input, toolchain for the
/// key.
CheckedPackage check_package(const Package& package, const std::string& key);
/// The files in a new folder, which appears whole or not at all. Throws Diagnostic (io).
void unpack(const Package& package, const std::string& folder);

}  // namespace aotc::cli
