#include "package/documents.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

namespace aotc::cli {
namespace {

using nlohmann::json;

/// What is linked into an artifact.
struct LinkedIn {
  std::string ref, name, version, license, text;
};

/// "g++ (Debian 12.2.0-14) 12.2.0": the last word.
std::string compiler_version(const std::string& line) { return line.substr(line.rfind(' ') + 1); }

std::vector<LinkedIn> linked_in(const Described& d) {
  const std::string version = d.metadata.value("aotc_version", "");
  std::vector<LinkedIn> parts = {
      {"aotc-runtime", "aotc runtime", version, "Apache-2.0", "the C ABI of the artifact, and what walks over its plans"},
      {"aotc-kernels", "aotc kernels", version, "Apache-2.0", "library kernels, and the sources that generated code includes"}};
  if (const std::string compiler = d.report.value("compiler", ""); compiler.find("clang") == std::string::npos)
    parts.push_back({"libgcc", "libgcc", compiler_version(compiler), "GPL-3.0-or-later WITH GCC-exception-3.1",
                     "the compiler's support functions, those that the code calls; the GCC Runtime Library Exception lets an artifact have "
                     "any license"});
  return parts;
}

/// Files of kernels of the user's own that are code in the artifact, by name.
std::map<std::string, std::string> own_files(const json& metadata) {
  std::map<std::string, std::string> files;  // and their hashes
  const auto add = [&](const json& method) {
    for (const json& row : method.value("own_kernels", json::array()))
      for (const char* kind : {"cpu", "cuda"})
        if (row.contains(kind)) files[row[kind].at("file").get<std::string>()] = row[kind].at("hash").get<std::string>();
  };
  add(metadata);
  for (const json& m : metadata.value("methods", json::array())) add(m);
  return files;
}

/// Ids of the archives of all methods.
std::set<std::string> archive_ids(const json& metadata) {
  std::set<std::string> ids;
  const auto add = [&](const json& m) {
    if (m.contains("source")) ids.insert(m["source"].at("id").get<std::string>());
  };
  add(metadata);
  for (const json& m : metadata.value("methods", json::array())) add(m);
  return ids;
}

json hashes(const FileDigest& f) { return {{{"alg", "SHA-256"}, {"content", hex(f.sha256)}}}; }

/// A name for the document, as UUIDs of their holder's own making are (version 8 of RFC 9562).
std::string uuid(const Digest& digest) {
  std::string h = hex(digest).substr(0, 32);
  h[12] = '8';
  h[16] = "89ab"[(digest[8] >> 4) & 3];
  return fmt::format("urn:uuid:{}-{}-{}-{}-{}", h.substr(0, 8), h.substr(8, 4), h.substr(12, 4), h.substr(16, 4), h.substr(20));
}

void without(json& j, const std::set<std::string>& keys) {
  if (j.is_object())
    for (const std::string& key : keys) j.erase(key);
  if (j.is_structured())
    for (json& child : j) without(child, keys);
}

}  // namespace

json lasting_report(json report) {
  without(report, {"seconds", "phases", "objects"});
  report.erase("about");
  const std::string artifact = report.at("artifact");
  report["artifact"] = artifact.substr(artifact.rfind('/') + 1);
  return report;
}

json sbom(const Described& d) {
  const FileDigest& artifact = d.built.front();
  json components = json::array(), dependencies = json::array();
  for (const LinkedIn& p : linked_in(d)) {
    json c = {{"type", "library"}, {"bom-ref", p.ref}, {"name", p.name}, {"version", p.version}, {"description", p.text}};
    if (p.license.find(' ') == std::string::npos)
      c["licenses"] = {{{"license", {{"id", p.license}}}}};
    else
      c["licenses"] = {{{"expression", p.license}}};
    dependencies.push_back(p.ref);
    components.push_back(std::move(c));
  }
  for (const auto& [file, hash] : own_files(d.metadata)) {
    dependencies.push_back("own-kernels/" + file);
    components.push_back({{"type", "file"},
                          {"bom-ref", "own-kernels/" + file},
                          {"name", file},
                          {"description", "kernels of the user's own"},
                          {"properties", {{{"name", "aotc:hash"}, {"value", hash}}}}});
  }
  for (const std::string& id : archive_ids(d.metadata)) {
    dependencies.push_back("archive/" + id);
    components.push_back({{"type", "machine-learning-model"},
                          {"bom-ref", "archive/" + id},
                          {"name", "archive " + id},
                          {"description", "the exported program and its weights"},
                          {"properties", {{{"name", "aotc:archive"}, {"value", id}}}}});
  }
  for (size_t i = 1; i < d.built.size(); ++i) {
    dependencies.push_back("file/" + d.built[i].name);
    components.push_back(
        {{"type", "data"}, {"bom-ref", "file/" + d.built[i].name}, {"name", d.built[i].name}, {"hashes", hashes(d.built[i])}});
  }
  json properties = {{{"name", "aotc:target"}, {"value", d.metadata.at("target")}}};
  if (!d.glibc.empty()) properties.push_back({{"name", "aotc:glibc"}, {"value", d.glibc}});
  json tools = {{{"type", "application"}, {"name", "aotc"}, {"version", d.metadata.value("aotc_version", "")}},
                {{"type", "application"}, {"name", d.report.value("compiler", "")}}};
  return {{"bomFormat", "CycloneDX"},
          {"specVersion", "1.6"},
          {"serialNumber", uuid(artifact.sha256)},
          {"version", 1},
          {"metadata",
           {{"tools", {{"components", tools}}},
            {"component",
             {{"type", "machine-learning-model"},
              {"bom-ref", "artifact"},
              {"name", artifact.name},
              {"hashes", hashes(artifact)},
              {"properties", properties}}}}},
          {"components", components},
          {"dependencies", {{{"ref", "artifact"}, {"dependsOn", dependencies}}}}};
}

json provenance(const Described& d) {
  json subject = json::array(), dependencies = json::array();
  for (const FileDigest& f : d.built) subject.push_back({{"name", f.name}, {"digest", {{"sha256", hex(f.sha256)}}}});
  for (const FileDigest& f : d.sources) dependencies.push_back({{"name", f.name}, {"digest", {{"sha256", hex(f.sha256)}}}});
  for (const std::string& id : archive_ids(d.metadata)) dependencies.push_back({{"name", "archive"}, {"digest", {{"aotc_archive", id}}}});
  json external = {{"target", d.metadata.at("target")}, {"mode", d.report.value("mode", "default")}};
  if (const std::string shapes = d.metadata.value("shapes", ""); !shapes.empty()) external["shapes"] = shapes;
  for (const json& m : d.metadata.value("methods", json::array())) external["methods"].push_back(m.at("name"));
  json internal = {{"compiler", d.report.value("compiler", "")}, {"torch", d.metadata.value("torch_version", "")}};
  if (d.report.contains("machine")) internal["machine"] = d.report["machine"];
  return {{"_type", "https://in-toto.io/Statement/v1"},
          {"subject", subject},
          {"predicateType", "https://slsa.dev/provenance/v1"},
          {"predicate",
           {{"buildDefinition",
             {{"buildType", "urn:aotc:build:v1"},
              {"externalParameters", external},
              {"internalParameters", internal},
              {"resolvedDependencies", dependencies}}},
            {"runDetails", {{"builder", {{"id", d.builder}, {"version", {{"aotc", d.metadata.value("aotc_version", "")}}}}}}}}}};
}

std::string notice(const Described& d) {
  std::string out = fmt::format("{} has in it:\n\n", d.built.front().name);
  for (const LinkedIn& p : linked_in(d)) out += fmt::format("{} {}: {}\n  {}\n\n", p.name, p.version, p.license, p.text);
  for (const auto& [file, hash] : own_files(d.metadata)) out += fmt::format("{}: kernels of the user's own\n\n", file);
  return out + "The model's program and weights have the license of who made them. The text of Apache-2.0 is in Apache-2.0.txt.\n";
}

}  // namespace aotc::cli
