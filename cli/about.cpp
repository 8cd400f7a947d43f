#include "about.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "aotc/aotc.h"
#include "json_text.h"

namespace aotc::cli {
namespace {

using nlohmann::json;

/// "model name" of /proc/cpuinfo; empty where the system does not say.
std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));  // more than the set has room for
}

}  // namespace

json machine_json() {
  json j = {{"cpu", processor_name()},
            {"processors", processors()},
            {"memory_bytes", static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE)}};
  if (const std::string type = first_line("/proc/sys/kernel/ostype"), release = first_line("/proc/sys/kernel/osrelease"); !type.empty())
    j["system"] = type + " " + release;
  return j;
}

std::string artifact_id(const ArtifactFile& artifact) {
  const aotc_seal& s = artifact.seal();
  return s.self_hash ? fmt::format("{:016x}", s.self_hash) : "";
}

std::string archive_id(const json& metadata) { return metadata.contains("source") ? metadata["source"].at("id").get<std::string>() : ""; }

json artifact_json(const ArtifactFile& artifact) {
  json j = {{"file", artifact.path()}};
  if (const std::string id = artifact_id(artifact); !id.empty()) j["id"] = id;
  if (!artifact.has_metadata()) return j;
  if (const std::string id = archive_id(artifact.metadata()); !id.empty()) j["archive"] = id;
  if (const std::string built_by = artifact.metadata().value("aotc_version", ""); !built_by.empty()) j["aotc_version"] = built_by;
  return j;
}

json about(const Common& common) {
  return {{"program", common.program},
          {"verb", common.verb},
          {"version", AOTC_VERSION},
          {"abi_version", AOTC_ABI_VERSION},
          {"machine", machine_json()}};
}

json about(const Common& common, const ArtifactFile& artifact) {
  json j = about(common);
  j["artifact"] = artifact_json(artifact);
  return j;
}

void print_result(json result, const json& about) {
  result["about"] = about;
  print_json(result);
}

}  // namespace aotc::cli
