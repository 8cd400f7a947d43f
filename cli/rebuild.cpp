#include "rebuild.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "import/read_archive.h"
#include "pipeline/metadata.h"

namespace aotc::cli {

pipeline::FrontOptions options_of(const Artifact& artifact, const std::string& archive, const std::string& kernels) {
  const nlohmann::json& meta = artifact.metadata();
  const aotc_model_info info = artifact.info();
  pipeline::FrontOptions o;
  o.model = archive;
  if (import::programs_of(archive).size() > 1) o.program = artifact.method();
  if (const std::string shapes = meta.value("shapes", ""); !shapes.empty())
    o.shapes = artifact.path() + " (its shapes.json)", o.shapes_text = shapes;
  o.target = info.device == AOTC_DEVICE_HOST ? parse_cpu_target(info.target) : parse_cuda_target(info.target);
  const nlohmann::json* part = &meta;
  if (meta.value("first_target", info.target) != info.target)
    for (const nlohmann::json& p : meta.at("parts"))
      if (p.at("target") == info.target) part = &p;
  o.target.uarch = pipeline::stored_uarch(*part);
  Numerics& numerics = o.target.numerics;
  numerics.reproducible = meta.value("reproducible", false);
  numerics.winograd4 = meta.value("winograd4", false);
  numerics.strassen = meta.value("strassen", false);
  if (part->contains("f32_matmul")) numerics.f32_matmul = parse_f32_matmul(part->at("f32_matmul").get<std::string>());
  for (const nlohmann::json& s : meta.at("states")) o.states.shared.push_back(s.at("name").get<std::string>());
  if (meta.contains("stored_weights")) {
    o.weights = pipeline::stored_weights_of(meta["stored_weights"]).storage;
    numerics.int8_rows = o.weights.int8_rows;
  }
  if (meta.contains("kv_cache")) {
    o.cache = passes::parse_cache_storage(meta["kv_cache"].at("as").get<std::string>());
    for (const nlohmann::json& s : meta["kv_cache"].at("states")) o.cache_names.push_back(s.at("name").get<std::string>());
  }
  if (meta.contains("precision")) {
    o.precision.mode = meta["precision"].at("mode").get<std::string>();
    o.precision.max_error = meta["precision"].value("max_error", 0.0);
    numerics.bf16_rounds_once = o.precision.mode == "auto";
    if (o.precision.mode == "bf16") o.precision.choose = [](size_t) { return passes::Precision::bf16; };
  }
  if (!kernels.empty()) {
    o.own = pipeline::load_own_kernels(kernels);
  } else if (meta.contains("own_kernels")) {
    throw Diagnostic(ExitCode::usage, Loc{artifact.path(), "", "", ""},
                     fmt::format("has a kernel of your own for {}: --bisect builds parts of the program again and needs it",
                                 meta["own_kernels"].at(0).at("op").get<std::string>()))
        .note("give the file that the artifact was built with: --kernels kernels.json");
  }
  return o;
}

void settle_precision(pipeline::FrontOptions& options, const nlohmann::json& explained) {
  if (options.precision.mode != "auto") return;
  std::set<std::string> rounded;
  const nlohmann::json steps = explained.value("precision", nlohmann::json::object()).value("steps", nlohmann::json::array());
  for (const nlohmann::json& s : steps)
    if (s.at("precision") == "bf16") rounded.insert(s.at("name").get<std::string>());
  options.precision.choose = [](size_t) { return passes::Precision::f32; };
  std::vector<bool> flags;
  for (const passes::PrecisionStep& s : pipeline::run_front(options, {}).precisions) flags.push_back(rounded.count(s.name) > 0);
  options.precision.choose = [flags](size_t place) {
    return place < flags.size() && flags[place] ? passes::Precision::bf16 : passes::Precision::f32;
  };
}

}  // namespace aotc::cli
