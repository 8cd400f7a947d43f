#include "references_file.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "json_text.h"

namespace aotc::cli {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
constexpr const char* kName = "references.json";

std::string path_in(const std::string& folder) { return (std::filesystem::path(folder) / kName).string(); }

json bound_json(const std::string& name, const Bound& b) {
  json j = {{"name", name}, {"limit", b.limit}, {"err_eager", b.err_eager}};
  if (b.err_bf16 >= 0) j["err_eager_bf16"] = b.err_bf16;
  if (b.err_int8) j["err_eager_int8"] = *b.err_int8;
  if (b.lost > 0) j["eager_not_finite"] = b.lost;
  return j;
}

Bound bound_in(const json& j) {
  Bound b{j.at("limit").get<double>(), j.at("err_eager").get<double>(), j.value("err_eager_bf16", -1.0)};
  if (j.contains("err_eager_int8")) b.err_int8 = j["err_eager_int8"].get<double>();
  b.lost = j.value("eager_not_finite", int64_t{0});
  return b;
}

}  // namespace

std::string computes_of(const json& metadata) {
  std::string text;
  if (metadata.contains("stored_weights")) text = "weights as " + metadata["stored_weights"].at("as").get<std::string>();
  if (metadata.contains("precision")) text += (text.empty() ? "precision " : ", precision ") + metadata["precision"].dump();
  return text;
}

void write_references_file(const std::string& folder, const ReferencesFile& references) {
  json j = {{"version", kVersion}, {"source", references.source}, {"computes", references.computes}, {"outputs", json::array()}};
  for (const auto& [name, bound] : references.outputs) j["outputs"].push_back(bound_json(name, bound));
  const std::string path = path_in(folder);
  require_place_for_file(path);
  std::ofstream out(path, std::ios::trunc);
  out << json_text(j) << "\n";
  if (!out.flush()) throw Diagnostic(ExitCode::io, Loc{path, "", "", ""}, "cannot be written");
}

std::optional<ReferencesFile> read_references_file(const std::string& folder) {
  const std::string path = path_in(folder);
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    const json j = json::parse(read_file(path));
    if (j.at("version").get<int>() != kVersion)
      throw Diagnostic(Loc{path, "", "", ""}, fmt::format("has version {}; this aotc reads {}", j.at("version").dump(), kVersion));
    ReferencesFile r{j.at("source").get<std::string>(), j.at("computes").get<std::string>(), {}};
    for (const json& o : j.at("outputs")) r.outputs.emplace(o.at("name").get<std::string>(), bound_in(o));
    return r;
  } catch (const json::exception& e) {
    throw Diagnostic(Loc{path, "", "", ""}, std::string("is not what aotc references writes: ") + e.what());
  }
}

}  // namespace aotc::cli
