#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "artifact.h"
#include "cli.h"
#include "npy.h"

namespace aotc::cli {
namespace {

struct Options {
  std::string artifact, output_dir;
  std::vector<std::string> inputs;
  int threads = 1;
  bool check_weights = false, flush_denormals = false;
};

std::string file_name(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.') c = '_';
  return name + ".npy";
}

std::vector<HostTensor> read_inputs(const Options& o, const Artifact& artifact) {
  std::map<std::string, std::string> files;
  for (const std::string& arg : o.inputs) {
    const size_t eq = arg.find('=');
    if (eq == std::string::npos || eq == 0) throw Diagnostic(ExitCode::usage, {}, "--input wants NAME=FILE.npy, not '" + arg + "'");
    if (!files.emplace(arg.substr(0, eq), arg.substr(eq + 1)).second)
      throw Diagnostic(ExitCode::usage, {}, "--input " + arg.substr(0, eq) + " is given twice");
  }
  std::vector<HostTensor> tensors;
  std::string names;
  for (const Io& io : artifact.inputs()) names += (names.empty() ? "" : ", ") + io.name;
  for (const Io& io : artifact.inputs()) {
    auto it = files.find(io.name);
    if (it == files.end())
      throw Diagnostic(ExitCode::usage, {}, "input '" + io.name + "' is missing")
          .note("give --input " + io.name + "=FILE.npy; the inputs are " + names);
    HostTensor t = read_npy(it->second);
    if (t.dtype != io.dtype)
      throw Diagnostic(Loc{it->second, "", "", ""},
                       fmt::format("holds {}; input '{}' is {}", dtype_name(t.dtype), io.name, dtype_name(io.dtype)));
    tensors.push_back(std::move(t));
    files.erase(it);
  }
  if (!files.empty())
    throw Diagnostic(ExitCode::usage, {}, "there is no input '" + files.begin()->first + "'").note("the inputs are " + names);
  return tensors;
}

}  // namespace

Run add_run(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("artifact", o->artifact, "model.so")->required();
  app.add_option("-i,--input", o->inputs, "NAME=FILE.npy, once an input");
  app.add_option("-o,--output-dir", o->output_dir, "folder for the outputs, NAME.npy each")->required();
  app.add_option("--threads", o->threads, "threads of the run")->check(CLI::Range(1, 1024));
  add_check_weights(app, o->check_weights);
  app.add_flag("--flush-denormals", o->flush_denormals,
               "run with AOTC_CONTEXT_FLUSH_DENORMALS: numbers too small for a full exponent count as 0");
  return [o](const Common& common) {
    const Artifact artifact(o->artifact, o->check_weights);
    const std::vector<HostTensor> inputs = read_inputs(*o, artifact);
    Session session(artifact, o->threads, o->flush_denormals ? AOTC_CONTEXT_FLUSH_DENORMALS : 0);
    session.bind(inputs);
    session.run();
    std::error_code ec;
    std::filesystem::create_directories(o->output_dir, ec);
    if (ec) throw Diagnostic(ExitCode::io, Loc{o->output_dir, "", "", ""}, "cannot be made: " + ec.message());
    nlohmann::json result = nlohmann::json::array();
    for (size_t i = 0; i < artifact.outputs().size(); ++i) {
      const HostTensor& t = session.outputs()[i];
      const std::string path = (std::filesystem::path(o->output_dir) / file_name(artifact.outputs()[i].name)).string();
      write_npy(path, t);
      result.push_back({{"name", artifact.outputs()[i].name}, {"file", path}, {"dtype", dtype_name(t.dtype)}, {"shape", t.dims}});
      if (!common.quiet && !common.json)
        fmt::print("{} {}{} -> {}\n", artifact.outputs()[i].name, dtype_name(t.dtype), nlohmann::json(t.dims).dump(), path);
    }
    if (common.json) fmt::print("{}\n", nlohmann::json{{"outputs", result}}.dump(1));
    return 0;
  };
}

}  // namespace aotc::cli
