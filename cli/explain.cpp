#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "about.h"
#include "artifact.h"
#include "base/file.h"
#include "cli.h"
#include "explain_page.h"
#include "front_options.h"
#include "pipeline/explain.h"
#include "pipeline/metadata.h"
#include "precision.h"
#include "progress.h"
#include "text_file.h"

namespace aotc::cli {

namespace {

/// Of one part of an artifact.
struct Explained {
  std::string target;
  nlohmann::json e;
};

std::vector<Explained> of_metadata(const nlohmann::json& meta) {
  std::vector<Explained> parts = {{meta.value("first_target", meta.at("target").get<std::string>()), meta.at("explain")}};
  for (const nlohmann::json& p : meta.value("parts", nlohmann::json::array()))
    parts.push_back({p.at("target").get<std::string>(), p.at("explain")});
  return parts;
}

std::vector<Explained> of_artifact(const std::string& path, const std::string& method, bool check_weights) {
  ArtifactFile artifact(path, check_weights);
  artifact.choose_method(method);
  return of_metadata(artifact.metadata());
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
    pipeline::add_uarch(parts.back().e, options.target);
  }
  return parts;
}

/// What the page tells of a method beside its explanation.
nlohmann::json described(const nlohmann::json& meta) {
  nlohmann::json out = nlohmann::json::object();
  for (const char* key : {"inputs", "outputs", "states", "symbols", "weights_bytes", "arena_bytes", "stored_weights", "kv_cache",
                          "precision", "source", "aotc_version", "torch_version"})
    if (meta.contains(key)) out[key] = meta[key];
  return out;
}

/// All methods, or that of --method.
std::vector<PagePart> page_parts(const FrontArgs& args, const std::string& method, bool check_weights) {
  std::vector<PagePart> out;
  if (!is_shared_object(args.model())) {
    for (const pipeline::MethodOptions& m : args.methods())
      if (method.empty() || m.name == method)
        for (Explained& p : of_archive(args, m.name)) out.push_back({m.name, p.target, std::move(p.e)});
    if (out.empty()) args.method(method);  // says which there are
    return out;
  }
  ArtifactFile artifact(args.model(), check_weights);
  for (const std::string& name : method.empty() ? artifact.methods() : std::vector<std::string>{method}) {
    artifact.choose_method(name);
    const nlohmann::json& meta = artifact.metadata();
    for (Explained& p : of_metadata(meta)) out.push_back({name, p.target, std::move(p.e), described(meta)});
  }
  return out;
}

/// A `bench --profile --json` of this artifact. Throws Diagnostic.
nlohmann::json profile_of(const std::string& file, const nlohmann::json& about_it) {
  const nlohmann::json bench = nlohmann::json::parse(read_file(file), nullptr, false);
  const auto fault = [&](const char* what) { return Diagnostic(Loc{file, "", "", ""}, what); };
  if (!bench.is_object() || !bench.contains("profile") || !bench["profile"].is_object() || !bench["profile"].contains("steps") ||
      !bench["profile"]["steps"].is_array())
    throw fault("has no times of steps").note("aotc bench model.so --profile --json > " + file);
  const auto id = [](const nlohmann::json& about) {
    return about.is_object() ? about.value("artifact", nlohmann::json::object()).value("id", "") : std::string();
  };
  if (id(bench.value("about", nlohmann::json())) != id(about_it)) throw fault("holds times of another artifact");
  return bench;
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
  o->add_to(app, false, ", or model.so");
  add_method(app, *method);
  add_check_weights(app, *check_weights);
  add_option(app, "--kernel", *kernel, "only this kernel: choices, candidates with predicted and measured times, refusals");
  auto html = std::make_shared<std::string>(), bench = std::make_shared<std::string>();
  add_option(app, "--html", *html,
             "write a self-contained HTML report of all methods: the graph of steps with the lines of the model's code, the arena over "
             "time, variants, choices, roofline, weights");
  add_option(app, "--bench", *bench, "with --html: measured times, from aotc bench --profile --json of this artifact");
  return [o, kernel, method, check_weights, html, bench](const Common& common) {
    if (!bench->empty() && html->empty()) throw Diagnostic(ExitCode::usage, {}, "--bench is for --html");
    if (!html->empty()) {
      require_apart({{"--html", *html}}, {{"model", o->model()}, {"--bench", *bench}});
      const nlohmann::json from = is_shared_object(o->model()) ? about(common, ArtifactFile(o->model())) : about(common);
      const nlohmann::json times = bench->empty() ? nlohmann::json() : profile_of(*bench, from);
      const std::string page =
          explain_page(std::filesystem::path(o->model()).filename().string(), from, page_parts(*o, *method, *check_weights), times);
      write_text_file(*html, page);
      if (common.json)
        print_result({{"page", *html}, {"bytes", page.size()}}, from);
      else if (!common.quiet)
        fmt::print("{}\n  {:.2f} MB\n", *html, static_cast<double>(page.size()) / 1e6);
      return 0;
    }
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
