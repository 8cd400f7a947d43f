#include "captured.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "npy.h"

namespace aotc::cli {
namespace {

using nlohmann::json;

std::string description_of(const std::string& folder) { return (std::filesystem::path(folder) / "run.json").string(); }

HostTensor tensor(const std::string& folder, const json& entry) {
  const std::string path = (std::filesystem::path(folder) / entry.at("file").get<std::string>()).string();
  HostTensor t = read_npy(path);
  const std::optional<DType> dtype = parse_dtype(entry.at("dtype").get<std::string>());
  if (!dtype || dtype_bytes(*dtype) != dtype_bytes(t.dtype))
    throw Diagnostic(Loc{path, "", "", ""}, fmt::format("holds {}; run.json says {}", dtype_name(t.dtype), entry["dtype"].dump()));
  t.dtype = *dtype;  // types that NumPy lacks
  return t;
}

std::map<std::string, HostTensor> tensors(const std::string& folder, const json& entries) {
  std::map<std::string, HostTensor> all;
  for (const json& entry : entries) all.emplace(entry.at("name").get<std::string>(), tensor(folder, entry));
  return all;
}

}  // namespace

bool is_captured(const std::string& folder) {
  std::error_code ec;
  return std::filesystem::is_regular_file(description_of(folder), ec);
}

Captured read_captured(const std::string& folder) {
  const std::string path = description_of(folder);
  require_file(path);
  try {
    std::ifstream file(path);
    const json j = json::parse(file);
    if (j.at("version") != 1)
      throw Diagnostic(Loc{path, "", "", ""}, "is of another version of aotc: its format is " + j["version"].dump());
    Captured c;
    c.folder = folder;
    c.artifact = j.at("artifact").get<std::string>();
    c.id = j.value("id", "");
    c.method = j.at("method").get<std::string>();
    c.device = j.at("device").get<int32_t>();
    c.threads = j.at("threads").get<int>();
    c.flags = j.at("flags").get<uint32_t>();
    c.weights_version = j.at("weights_version").get<uint64_t>();
    if (j.contains("status")) c.status = j["status"].get<std::string>();
    c.message = j.value("message", "");
    for (const json& entry : j.at("inputs")) c.inputs.push_back(tensor(folder, entry));
    c.states = tensors(folder, j.at("states"));
    c.outputs = tensors(folder, j.at("outputs"));
    return c;
  } catch (const json::exception& e) {
    throw Diagnostic(Loc{path, "", "", ""}, fmt::format("is not what an artifact writes: {}", e.what()));
  }
}

std::vector<NamedFile> captured_files(const std::string& option, const std::string& folder) {
  std::vector<NamedFile> files;
  std::error_code ec;
  for (std::filesystem::recursive_directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec))
    files.push_back({option, it->path().string()});
  return files;
}

}  // namespace aotc::cli
