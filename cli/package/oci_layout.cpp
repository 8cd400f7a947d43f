#include "package/oci_layout.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/diagnostic.h"

namespace aotc::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kArtifactType = "application/vnd.aotc.model.v1";

std::string media_type(const std::string& name) {
  if (name == kSignature) return "application/vnd.dev.sigstore.bundle.v0.3+json";
  if (name == kSbom) return "application/vnd.cyclonedx+json";
  if (name == kProvenance) return "application/vnd.in-toto+json";
  if (name.ends_with(".so")) return "application/vnd.aotc.model.artifact.v1";
  if (name.ends_with(".weights")) return "application/vnd.aotc.model.weights.v1";
  if (name.ends_with(".json")) return "application/json";
  return "text/plain";
}

class Blobs {
 public:
  explicit Blobs(fs::path folder) : folder_(std::move(folder)) {}
  /// The descriptor of what was written.
  json add(const std::string& type, std::string_view bytes, const Digest& hash) {
    const std::string digest = hex(hash);
    if (written_.insert(digest).second) {
      std::ofstream out(folder_ / digest, std::ios::binary | std::ios::trunc);
      out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      out.close();
      good_ = good_ && out;
    }
    return {{"mediaType", type}, {"digest", "sha256:" + digest}, {"size", bytes.size()}};
  }
  json add(const std::string& type, const std::string& text) { return add(type, text, sha256(text)); }
  bool good() const { return good_; }

 private:
  fs::path folder_;
  std::set<std::string> written_;
  bool good_ = true;
};

}  // namespace

std::string write_oci_layout(const std::string& folder, const std::string& model, const std::vector<PackedFile>& files,
                             const std::vector<FileDigest>& digests) {
  const fs::path to = fs::absolute(folder), aside = fmt::format("{}.{}.tmp", to.string(), getpid());
  std::error_code ec;
  if (fs::exists(fs::symlink_status(to, ec)))
    throw Diagnostic(ExitCode::io, Loc{folder, "", "", ""}, "is there already; name a new folder");
  if (fs::is_directory(to.parent_path(), ec)) fs::create_directories(aside / "blobs" / "sha256", ec);
  Blobs blobs(aside / "blobs" / "sha256");
  json layers = json::array();
  for (size_t i = 0; i < files.size(); ++i) {
    json layer = blobs.add(media_type(files[i].name), files[i].bytes, digests[i].sha256);
    layer["annotations"] = {{"org.opencontainers.image.title", files[i].name}};
    layers.push_back(std::move(layer));
  }
  json config = blobs.add("application/vnd.oci.empty.v1+json", "{}");
  config["data"] = "e30=";
  const json manifest = {{"schemaVersion", 2},
                         {"mediaType", "application/vnd.oci.image.manifest.v1+json"},
                         {"artifactType", kArtifactType},
                         {"config", config},
                         {"layers", layers},
                         {"annotations", {{"org.opencontainers.image.title", model}}}};
  json descriptor = blobs.add("application/vnd.oci.image.manifest.v1+json", manifest.dump());
  descriptor["artifactType"] = kArtifactType;
  const json index = {
      {"schemaVersion", 2}, {"mediaType", "application/vnd.oci.image.index.v1+json"}, {"manifests", json::array({descriptor})}};
  bool good = blobs.good();
  for (const auto& [name, text] :
       {std::pair("oci-layout", std::string(R"({"imageLayoutVersion":"1.0.0"})")), {"index.json", index.dump()}}) {
    std::ofstream out(aside / name, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    good = good && out;
  }
  if (good) fs::rename(aside, to, ec);
  if (good && !ec) return descriptor["digest"];
  fs::remove_all(aside, ec);
  throw Diagnostic(ExitCode::io, Loc{folder, "", "", ""}, "cannot be written").note("is the folder above it there, writable and not full?");
}

}  // namespace aotc::cli
