#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "about.h"
#include "artifact.h"
#include "cli.h"
#include "front_options.h"
#include "pipeline/explain.h"
#include "precision.h"
#include "progress.h"

namespace aotc::cli {

namespace {

/// Of one part of an artifact.
struct Explained {
  std::string target;
  nlohmann::json e;
};

std::vector<Explained> of_artifact(const std::string& path, const std::string& method, bool check_weights) {
  ArtifactFile artifact(path, check_weights);
  artifact.choose_method(method);
  const nlohmann::json& meta = artifact.metadata();
  std::vector<Explained> parts = {{meta.value("first_target", meta.at("target").get<std::string>()), meta.at("explain")}};
  for (const nlohmann::json& p : meta.value("parts", nlohmann::json::array()))
    parts.push_back({p.at("target").get<std::string>(), p.at("explain")});
  return parts;
}

std::vector<Explained> of_archive(const FrontArgs& args, const std::string& method) {
  pipeline::FrontOptions all = args.method(method).front;
  if (all.precision.mode == "auto")
    watched(true, [&](const pipeline::Events& events) {
      choose_precision(all, (std::filesystem::temp_directory_path() / "explain").string(), events);
    });
  std::vector<Explained> parts;
  for (const pipeline::FrontOptions& options : pipeline::parts_of(all)) {
    const pipeline::Front front = pipeline::run_front(options, {});
    plan::Decisions decisions;
    const plan::PlanSet plans = pipeline::make_plans(front, options.target, &decisions);
    parts.push_back({options.target.str(), pipeline::explain(front, plans, decisions)});
  }
  return parts;
}

/// Of the parts that have that kernel, what is said of it. Throws Diagnostic where none has it.
std::vector<Explained> with_kernel(const std::vector<Explained>& parts, const std::string& kernel) {
  std::vector<Explained> out;
  std::optional<Diagnostic> unknown;
  for (const Explained& p : parts) {
    try {
      out.push_back({p.target, pipeline::explain_kernel(p.e, kernel)});
    } catch (const Diagnostic& d) { unknown = d; }
  }
  if (out.empty()) throw *unknown;
  return out;
}

}  // namespace

Run add_explain(CLI::App& app) {
  auto o = std::make_shared<FrontArgs>();
  auto kernel = std::make_shared<std::string>();
  auto method = std::make_shared<std::string>();
  auto check_weights = std::make_shared<bool>(false);
  o->add_to(app);
  add_method(app, *method);
  add_check_weights(app, *check_weights);
  app.add_option("--kernel", *kernel, "only this kernel: its choices, what they were chosen from, predicted and measured times, refusals");
  return [o, kernel, method, check_weights](const Common& common) {
    std::vector<Explained> parts =
        is_shared_object(o->model()) ? of_artifact(o->model(), *method, *check_weights) : of_archive(*o, *method);
    if (!kernel->empty()) parts = with_kernel(parts, *kernel);
    if (common.json) {
      nlohmann::json j = parts.front().e;
      for (size_t p = 1; p < parts.size(); ++p) j["parts"].push_back({{"target", parts[p].target}, {"explain", parts[p].e}});
      print_result(j, is_shared_object(o->model()) ? about(common, ArtifactFile(o->model())) : about(common));
      return 0;
    }
    for (const Explained& p : parts) {
      if (parts.size() > 1) fmt::print("==== {} ====\n", p.target);
      fmt::print("{}", kernel->empty() ? pipeline::explain_text(p.e) : pipeline::explain_kernel_text(p.e));
    }
    return 0;
  };
}

}  // namespace aotc::cli
