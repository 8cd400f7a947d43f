#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "about.h"
#include "artifact.h"
#include "cache_options.h"
#include "cli.h"
#include "custom_operators.h"
#include "emit/header.h"
#include "front_options.h"
#include "pipeline/pipeline.h"
#include "precision.h"
#include "progress.h"
#include "whole_errors.h"

namespace aotc::cli {
namespace {

struct Options {
  FrontArgs front;
  CacheArgs cache;
  pipeline::BuildOptions build;
  std::string mode = "default", emit = "shared", prefix, header = "standalone";
  CustomOperators operators;
  bool weights_file = false;
};

std::string trades_line(const nlohmann::json& trades) {
  const auto& steps = trades.at("steps");
  const auto taken = std::count_if(steps.begin(), steps.end(), [](const auto& s) { return s.at("taken").template get<bool>(); });
  std::string line = fmt::format("{} of {} faster and less accurate choices taken", taken, steps.size());
  if (taken > 0)
    line += fmt::format("; error against fp64 {:.3g}, bound {:.3g}", trades.at("error").get<double>(), trades.at("bound").get<double>());
  return line;
}

/// A method of several: what it adds to those before it.
void method_summary(const nlohmann::json& m) {
  fmt::print("  method {}: weights {:.1f} MB, of which {:.1f} MB are no other method's; arena {:.2f} MB, {} kernels, {} steps\n",
             m.at("name").get<std::string>(), m.at("weights_bytes").get<double>() / 1e6, m.at("added_bytes").get<double>() / 1e6,
             m.at("arena_bytes").get<double>() / 1e6, m.at("kernels").size(), m.at("steps").get<int64_t>());
  uint64_t bytes = 0;
  for (const nlohmann::json& l : m.at("second_layouts")) bytes += l.at("bytes").get<uint64_t>();
  if (bytes > 0) fmt::print("    {} weights of earlier methods in a second layout: {} bytes\n", m.at("second_layouts").size(), bytes);
}

void summary(const nlohmann::json& r) {
  fmt::print("{}\n", r.at("artifact").get<std::string>());
  if (r.contains("methods"))
    fmt::print("  {:.1f} MB, weights {:.1f} MB, {} methods, built in {:.2f} s\n", r.at("artifact_bytes").get<double>() / 1e6,
               r.at("blob_bytes").get<double>() / 1e6, r.at("methods").size(), r.at("seconds").get<double>());
  else
    fmt::print("  {:.1f} MB, weights {:.1f} MB, arena {:.2f} MB, {} kernels, {} steps, built in {:.2f} s\n",
               r.at("artifact_bytes").get<double>() / 1e6, r.at("weights_bytes").get<double>() / 1e6,
               r.at("arena_bytes").get<double>() / 1e6, r.at("kernels").size(), r.at("steps").get<int64_t>(),
               r.at("seconds").get<double>());
  if (r.contains("trades")) fmt::print("  {}\n", trades_line(r.at("trades")));
  for (const nlohmann::json& m : r.value("methods", nlohmann::json::array())) method_summary(m);
  if (r.contains("stored_weights")) fmt::print("  {}\n", stored_weights_text(r.at("stored_weights")));
  if (r.contains("kv_cache")) fmt::print("  {}\n", stored_caches_text(r.at("kv_cache")));
}

/// Of --emit static; empty: a shared object. Throws Diagnostic (usage) where the options do not go together.
std::string static_prefix(const Options& o, const std::string& output) {
  if (o.emit != "static") {
    if (!o.prefix.empty())
      throw Diagnostic(ExitCode::usage, {}, "--prefix is for --emit static: a shared object's header is named after its file");
    return {};
  }
  const std::filesystem::path file = output;
  if (file.extension() == ".so")
    throw Diagnostic(ExitCode::usage, Loc{output, "", "", ""},
                     "is the name of a shared object; --emit static makes a static library, call it .a");
  for (const pipeline::FrontOptions& part : pipeline::parts_of(o.build.methods.front().front))
    if (part.target.traits().device_code)
      throw Diagnostic(ExitCode::usage, {}, fmt::format("--emit static is for CPUs, not for {}", part.target.str()))
          .note("code for GPUs needs the driver, a shared library, which a static program cannot load; build a shared object");
  const std::string prefix = o.prefix.empty() ? emit::header_prefix(file.stem().string()) : o.prefix;
  if (emit::header_prefix(prefix) != prefix)
    throw Diagnostic(ExitCode::usage, {}, fmt::format("'{}' cannot begin names in C", prefix))
        .note("--prefix takes letters, digits and underscores, no digit first, and nothing that the ABI's names begin with");
  return prefix;
}

}  // namespace

Run add_build(CLI::App& app) {
  auto o = std::make_shared<Options>();
  o->front.add_to(app, true);
  add_option(app, "-o,--output", o->build.output,
             "path of the artifact; default: the model's name with .so (static: .a), in the current directory");
  add_option(app, "--emit", o->emit,
             "shared: a shared object, to be loaded; static (CPU): a static library and a header, to be linked into programs")
      .one_of({"shared", "static"});
  add_option(app, "--prefix", o->prefix, "with --emit static: prefix of its names in C (NAME_get_api); default: the file's name");
  add_option(app, "--header", o->header,
             "standalone: NAME.h has all that programs need; shared: it includes aotc/loader.h (static: aotc/aotc.h), for programs with "
             "many models")
      .one_of({"standalone", "shared"});
  std::vector<std::string> modes;
  std::string said;
  for (const pipeline::Mode& m : pipeline::kModes) {
    modes.emplace_back(m.name);
    said += fmt::format("{}{}: {}", said.empty() ? "" : "; ", m.name, m.text);
  }
  add_custom_operators(app, o->operators);
  add_option(app, "--mode", o->mode, said).one_of(modes);
  add_option(app, "--tune-budget", o->build.tune_budget_s, "seconds that max-autotune may measure; default: 60").not_negative();
  add_option(app, "--tuning-db", o->build.tuning_db, "tuning database (JSON) to read, and with max-autotune to extend");
  add_flag(app, "--error-on-tuning-miss", o->build.error_on_tuning_miss,
           "fail if the tuning database lacks kernels that could be tuned, and name them");
  add_option(app, "-j,--jobs", o->build.jobs, "parallel compiles; default: all processors").not_negative();
  o->cache.add_to(app);
  add_option(app, "--keep", o->build.keep_dir, "leave the plan, every generated source and the compiler lines as a script in this folder");
  add_flag(app, "--weights-file", o->weights_file, "put the weights in a file beside the artifact (default above 1 GB)");
  add_flag(app, "--own-weights", o->build.own_weights,
           "CPU: when a model is loaded, copy its weights into huge pages of the process, unless the program passes "
           "AOTC_MODEL_SHARED_WEIGHTS: faster runs, for memory and time to load");
  return [o](const Common& common) {
    const CustomProcesses custom = define(o->operators);
    o->build.methods = o->front.methods();
    o->build.cache = o->cache.get();
    o->build.judge = whole_errors();
    for (const pipeline::Mode& m : pipeline::kModes)
      if (m.name == o->mode) o->build.mode = m;
    if (o->weights_file) o->build.weights_in_file = true;
    if (o->build.output.empty() && o->front.models.size() > 1)
      throw Diagnostic(ExitCode::usage, {},
                       fmt::format("where does the artifact go? name it: -o model.{}", o->emit == "static" ? "a" : "so"));
    if (o->build.output.empty())
      o->build.output = std::filesystem::path(o->build.methods.front().front.model).stem().string() + (o->emit == "static" ? ".a" : ".so");
    o->build.prefix = static_prefix(*o, o->build.output);
    o->build.header_includes = o->header == "shared";
    nlohmann::json report;
    watched(common.quiet || common.json, [&](const pipeline::Events& events) {
      for (pipeline::MethodOptions& m : o->build.methods) choose_precision(m.front, o->build.output, events);
      report = pipeline::build(o->build, events);
    });
    if (common.json)
      print_result(report, o->build.prefix.empty() ? about(common, ArtifactFile(o->build.output)) : about(common));
    else if (!common.quiet)
      summary(report);
    return 0;
  };
}

}  // namespace aotc::cli
