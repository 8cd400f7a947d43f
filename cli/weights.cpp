#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "about.h"
#include "artifact.h"
#include "ci_verbs.h"
#include "import/read_archive.h"
#include "npy.h"
#include "pipeline/exchange.h"
#include "progress.h"

namespace aotc::cli {
namespace {

struct Options {
  std::vector<std::string> models, replaced;
  std::string artifact, output, kernels;
  int jobs = 0;
};

/// Which archive each method's weights come from: "FILE" for all, "NAME=FILE" each, or the programs of one archive by their names.
std::vector<pipeline::OtherWeights::Archive> archives_of(const std::vector<std::string>& models, const ArtifactFile& artifact) {
  std::vector<pipeline::OtherWeights::Archive> all;
  std::error_code ec;
  for (const std::string& arg : models) {
    const size_t eq = std::filesystem::exists(arg, ec) ? std::string::npos : arg.find('=');
    const std::string name = eq == std::string::npos ? "" : arg.substr(0, eq), file = eq == std::string::npos ? arg : arg.substr(eq + 1);
    if (name.empty() && models.size() > 1)
      throw Diagnostic(ExitCode::usage, {}, fmt::format("'{}' has no name: with several programs each is NAME=FILE", arg))
          .note(fmt::format("aotc weights prefill=a.pt2 decode=b.pt2 --for {}", artifact.path()));
    const std::vector<std::string> programs = import::programs_of(file);
    if (programs.size() == 1)
      all.push_back({name, file, ""});
    else if (!name.empty())
      all.push_back({name, file, name});
    else
      for (const std::string& p : programs) all.push_back({p, file, p});
  }
  return all;
}

/// --set NAME=FILE.npy
std::map<std::string, ConstData> replaced_of(const std::vector<std::string>& given) {
  std::map<std::string, ConstData> all;
  for (const std::string& arg : given) {
    const size_t eq = arg.find('=');
    if (eq == std::string::npos || eq == 0)
      throw Diagnostic(ExitCode::usage, {}, fmt::format("--set '{}' is not NAME=FILE.npy", arg)).note("--set encoder.bias=bias.npy");
    const std::string file = arg.substr(eq + 1);
    const auto tensor = std::make_shared<const HostTensor>(read_npy(file));
    ConstData c{file, {tensor->dtype, {tensor->dims.begin(), tensor->dims.end()}}, tensor, tensor->bytes.data(), tensor->bytes.size()};
    if (!all.emplace(arg.substr(0, eq), std::move(c)).second)
      throw Diagnostic(ExitCode::usage, {}, fmt::format("--set gives '{}' twice", arg.substr(0, eq)));
  }
  return all;
}

}  // namespace

Run add_weights(CLI::App& app) {
  auto o = std::make_shared<Options>();
  add_option(app, "model", o->models,
             "a .pt2 of the same program with other weights; for an artifact of several methods NAME=FILE each, as with build")
      .required();
  add_option(app, "--for", o->artifact, "the artifact to make the file for; it is read and not changed, and none of its code runs")
      .required();
  add_option(app, "-o,--output", o->output, "path of the weights file; default: the model's name with .weights, in the current directory");
  add_option(app, "--set", o->replaced, "NAME=FILE.npy: other values for a parameter or buffer, by its name in the .pt2; repeatable")
      .repeated();
  add_option(app, "--kernels", o->kernels, "the kernels.json that the artifact was built with, if any");
  add_option(app, "-j,--jobs", o->jobs, "threads; default: all processors").not_negative();
  return [o](const Common& common) {
    const ArtifactFile artifact(o->artifact);
    if (!artifact.has_metadata() || !artifact.metadata().contains("weights_layout"))
      throw Diagnostic(Loc{.file = o->artifact}, "was built by an aotc that does not say how its weights are stored")
          .note("build it again");
    const auto archives = archives_of(o->models, artifact);
    const std::string output = o->output.empty() ? std::filesystem::path(archives.front().file).stem().string() + ".weights" : o->output;
    pipeline::OtherWeights given{archives, replaced_of(o->replaced), nullptr, o->artifact, output, o->jobs};
    if (!o->kernels.empty()) given.own = pipeline::load_own_kernels(o->kernels);
    nlohmann::json result;
    watched(common.quiet || common.json, [&](const pipeline::Events& events) {
      result = pipeline::write_weights_for(artifact.metadata().at("weights_layout"), given, events);
    });
    if (common.json)
      print_result(result, about(common, artifact));
    else if (!common.quiet)
      fmt::print("{}\n  {} weights for {}, {:.1f} MB, layout {}, in {:.2f} s\n", output, result.at("weights").get<size_t>(), o->artifact,
                 result.at("bytes").get<double>() / 1e6, result.at("layout").get<std::string>(), result.at("seconds").get<double>());
    return 0;
  };
}

}  // namespace aotc::cli
