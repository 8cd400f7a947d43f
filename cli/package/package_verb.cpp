#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "about.h"
#include "base/file.h"
#include "emit/embedded.h"
#include "emit/system_needs.h"
#include "import/read_archive.h"
#include "json_text.h"
#include "package/documents.h"
#include "package/oci_layout.h"
#include "package/package.h"
#include "package/signature.h"
#include "package/verbs.h"

namespace aotc::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Options {
  std::string artifact, output, oci, key, builder = "urn:aotc:builder:local";
  std::vector<std::string> sources, licenses;
};

/// A file that the package takes, or what is made for it.
class Contents {
 public:
  void file(const std::string& name, const std::string& path) {
    mapped_.push_back(std::make_unique<MappedBytes>(path));
    add(name, mapped_.back()->bytes());
  }
  void text(const std::string& name, std::string text) {
    texts_.push_back(std::make_unique<std::string>(std::move(text)));
    add(name, *texts_.back());
  }
  /// By name, once all are there.
  void sort() {
    sort_by_name(files_);
    std::sort(digests_.begin(), digests_.end(), [](const FileDigest& a, const FileDigest& b) { return a.name < b.name; });
  }
  const std::vector<PackedFile>& files() const { return files_; }
  const std::vector<FileDigest>& digests() const { return digests_; }

 private:
  void add(const std::string& name, std::string_view bytes) {
    if (!is_packed_name(name))
      throw Diagnostic(ExitCode::usage, Loc{name, "", "", ""}, "is no name for a file of a package")
          .note("a relative path of 99 bytes of UTF-8 at most, without control characters and quotes");
    for (const PackedFile& f : files_)
      if (f.name == name) throw Diagnostic(ExitCode::usage, Loc{name, "", "", ""}, "would stand in the package twice");
    files_.push_back({name, bytes});
    digests_.push_back({name, bytes.size(), sha256(bytes)});
  }
  std::vector<std::unique_ptr<MappedBytes>> mapped_;
  std::vector<std::unique_ptr<std::string>> texts_;
  std::vector<PackedFile> files_;
  std::vector<FileDigest> digests_;
};

/// The report that the build left beside the artifact.
json report_of(const std::string& artifact) {
  const std::string path = fs::path(artifact).replace_extension(".report.json").string();
  const json report = json::parse(read_file(path), nullptr, false);
  if (!report.is_object() || !report.contains("artifact") || !report["artifact"].is_string())
    throw Diagnostic(Loc{path, "", "", ""}, "is no report of a build");
  if (report.value("artifact_bytes", uint64_t{0}) != fs::file_size(artifact))
    throw Diagnostic(Loc{path, "", "", ""}, fmt::format("is the report of another build than {}", artifact));
  return report;
}

/// Archives that the artifact was built from, by their content.
std::vector<FileDigest> sources_of(const Options& o, const json& metadata) {
  std::set<std::string> ids = {archive_id(metadata)};
  for (const json& m : metadata.value("methods", json::array())) ids.insert(archive_id(m));
  std::vector<FileDigest> out;
  for (const std::string& path : o.sources) {
    for (const std::string& program : import::programs_of(path))
      if (const std::string id = import::read_archive(path, program).source_id; !ids.count(id))
        throw Diagnostic(Loc{path, "", "", ""}, fmt::format("is not what {} was built from (its id is {})", o.artifact, id));
    const MappedBytes file(path);
    out.push_back({fs::path(path).filename().string(), file.bytes().size(), sha256(file.bytes())});
  }
  return out;
}

/// Everything but the sums and the signature.
void collect(const Options& o, const ArtifactFile& artifact, const json& report, Contents& c) {
  const fs::path so = o.artifact;
  const auto beside = [&](const char* extension) { return fs::path(so).replace_extension(extension); };
  c.file(so.filename().string(), o.artifact);
  if (artifact.metadata().contains("weights_file")) {
    const std::string name = artifact.metadata()["weights_file"];
    c.file(name, (so.parent_path() / name).string());
  }
  Described d{artifact.metadata(), report, c.digests(), sources_of(o, artifact.metadata()), o.builder, {}};
  if (const auto needs = emit::system_needs(o.artifact)) d.glibc = needs->glibc;
  c.file(beside(".h").filename().string(), beside(".h").string());
  c.text(beside(".report.json").filename().string(), json_text(lasting_report(report)) + "\n");
  c.text(kSbom, json_text(sbom(d)) + "\n");
  c.text(kProvenance, json_text(provenance(d)) + "\n");
  c.text(std::string(kLicenses) + "NOTICE", notice(d));
  c.text(std::string(kLicenses) + "Apache-2.0.txt", std::string(emit::embedded("license/LICENSE").text()));
  for (const std::string& license : o.licenses) c.file(kLicenses + fs::path(license).filename().string(), license);
  c.sort();
}

std::string packed(const Options& o, const std::string& model, const json& report, const ArtifactFile& artifact,
                   std::vector<FileDigest>& files) {
  Contents c;
  collect(o, artifact, report, c);
  c.text(kSums, sums_text(c.digests()));
  c.sort();
  files = c.digests();
  if (!o.key.empty()) c.text(kSignature, sign_files(files, model, o.key));
  c.sort();
  if (!o.output.empty()) write_tar(o.output, c.files());
  return o.oci.empty() ? "" : write_oci_layout(o.oci, model, c.files(), c.digests());
}

}  // namespace

Run add_package(CLI::App& app) {
  auto o = std::make_shared<Options>();
  add_option(app, "artifact", o->artifact, "model.so; its header and report are beside it").required();
  add_option(app, "-o,--output", o->output, "the package; default: the artifact's name with .aotcpkg.tar, unless --oci is given");
  add_option(app, "--oci", o->oci, "write an OCI image layout into this folder, which must not exist");
  add_option(app, "--sign", o->key, "private key in PEM (P-256, P-384, P-521), to sign the package in the format of OpenSSF model signing");
  add_option(app, "--source", o->sources, "the .pt2 that it was built from (repeatable): its SHA-256 goes into the provenance");
  add_option(app, "--builder", o->builder, "URI of the builder, for the provenance");
  add_option(app, "--license", o->licenses, "license text to add, of the model or of kernels of your own (repeatable)");
  return [o](const Common& common) {
    if (o->output.empty() && o->oci.empty()) o->output = fs::path(o->artifact).filename().replace_extension(".aotcpkg.tar").string();
    const ArtifactFile artifact(o->artifact, true);
    std::vector<NamedFile> read = {{"artifact", o->artifact}, {"--sign", o->key}};
    for (const char* extension : {".h", ".report.json", ".weights"})
      read.push_back({"artifact", fs::path(o->artifact).replace_extension(extension).string()});
    for (const std::string& s : o->sources) read.push_back({"--source", s});
    for (const std::string& s : o->licenses) read.push_back({"--license", s});
    require_apart({{"-o", o->output}}, read);
    std::vector<FileDigest> files;
    const std::string model = fs::path(o->artifact).stem().string();
    const std::string manifest = packed(*o, model, report_of(o->artifact), artifact, files);
    if (common.json) {
      json j = {{"artifact", o->artifact}, {"files", json::array()}, {"signed", !o->key.empty()}};
      if (!o->output.empty()) j["package"] = o->output;
      if (!o->oci.empty()) j["oci"] = {{"folder", o->oci}, {"manifest", manifest}};
      for (const FileDigest& f : files) j["files"].push_back({{"name", f.name}, {"bytes", f.bytes}, {"sha256", hex(f.sha256)}});
      print_result(std::move(j), about(common, artifact));
    } else if (!common.quiet) {
      if (!o->output.empty()) fmt::print("{}\n", o->output);
      if (!o->oci.empty()) fmt::print("{}: {}\n", o->oci, manifest);
      fmt::print("  {} files{}\n", files.size() + !o->key.empty(), o->key.empty() ? "" : ", signed");
    }
    return 0;
  };
}

}  // namespace aotc::cli
