#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "about.h"
#include "artifact.h"
#include "base/file.h"
#include "cli.h"
#include "npy.h"
#include "stored.h"

namespace aotc::cli {
namespace {

struct Options {
  std::string artifact, method, output_dir;
  std::vector<std::string> inputs;
  int threads = 1;
  std::string weights;
  uint64_t weights_budget = 0;
  bool check_weights = false, flush_denormals = false;
};

std::string file_name(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.') c = '_';
  return name + ".npy";
}

/// --input, by the input's name. Names that the artifact does not have are refused before those that are missing.
std::map<std::string, std::string> input_files(const Options& o, const Artifact& artifact) {
  std::map<std::string, std::string> files;
  for (const std::string& arg : o.inputs) {
    const size_t eq = arg.find('=');
    if (eq == std::string::npos || eq == 0) throw Diagnostic(ExitCode::usage, {}, "--input wants NAME=FILE.npy, not '" + arg + "'");
    if (!files.emplace(arg.substr(0, eq), arg.substr(eq + 1)).second)
      throw Diagnostic(ExitCode::usage, {}, "--input " + arg.substr(0, eq) + " is given twice");
  }
  std::string names;
  std::map<std::string, std::string> unknown = files;
  for (const Io& io : artifact.inputs()) names += (names.empty() ? "" : ", ") + io.name, unknown.erase(io.name);
  if (!unknown.empty())
    throw Diagnostic(ExitCode::usage, {}, "--input " + unknown.begin()->first + ": there is no input of that name")
        .note("the inputs are " + names);
  for (const Io& io : artifact.inputs())
    if (!files.count(io.name))
      throw Diagnostic(ExitCode::usage, {}, "input '" + io.name + "' is missing")
          .note("give --input " + io.name + "=FILE.npy; the inputs are " + names);
  return files;
}

std::vector<HostTensor> read_inputs(const std::map<std::string, std::string>& files, const Artifact& artifact) {
  std::vector<HostTensor> tensors;
  for (const Io& io : artifact.inputs()) tensors.push_back(read_input(files.at(io.name), io));
  return tensors;
}

std::string output_file(const Options& o, const Io& output) {
  return (std::filesystem::path(o.output_dir) / file_name(output.name)).string();
}

/// No output takes the place of what is read.
void check_outputs(const Options& o, const std::map<std::string, std::string>& files, const Artifact& artifact) {
  std::vector<NamedFile> written, read = {{"artifact", o.artifact}};
  for (const Io& io : artifact.outputs()) written.push_back({"--output-dir", output_file(o, io)});
  for (const auto& [name, file] : files) read.push_back({"--input " + name, file});
  require_apart(written, read);
}

}  // namespace

Run add_run(CLI::App& app) {
  auto o = std::make_shared<Options>();
  add_option(app, "artifact", o->artifact, "model.so").required();
  add_option(app, "-i,--input", o->inputs, "NAME=FILE.npy, once per input");
  add_option(app, "-o,--output-dir", o->output_dir, "folder for the outputs, NAME.npy each").required();
  add_option(app, "--threads", o->threads, "threads of the run").range(1, 1024);
  add_method(app, o->method);
  add_weights_file(app, o->weights);
  add_weights_budget(app, o->weights_budget);
  add_check_weights(app, o->check_weights);
  add_flag(app, "--flush-denormals", o->flush_denormals, "run with AOTC_CONTEXT_FLUSH_DENORMALS: denormal numbers count as 0");
  return [o](const Common& common) {
    const Artifact artifact(o->artifact, o->method, o->check_weights, AOTC_DEVICE_DEFAULT, 0, o->weights, o->weights_budget);
    const std::map<std::string, std::string> files = input_files(*o, artifact);
    check_outputs(*o, files, artifact);
    const std::vector<HostTensor> inputs = read_inputs(files, artifact);
    Session session(artifact, o->threads, o->flush_denormals ? AOTC_CONTEXT_FLUSH_DENORMALS : 0);
    session.bind(inputs);
    session.run();
    made_folder(o->output_dir);
    nlohmann::json result = nlohmann::json::array();
    for (size_t i = 0; i < artifact.outputs().size(); ++i) {
      const HostTensor& t = session.outputs()[i];
      const std::string path = output_file(*o, artifact.outputs()[i]);
      write_npy(path, t);
      result.push_back({{"name", artifact.outputs()[i].name}, {"file", path}, {"dtype", dtype_name(t.dtype)}, {"shape", t.dims}});
      if (!common.quiet && !common.json)
        fmt::print("{} {}{} -> {}\n", artifact.outputs()[i].name, dtype_name(t.dtype), nlohmann::json(t.dims).dump(), path);
    }
    if (common.json) print_result({{"outputs", result}}, about(common, artifact));
    return 0;
  };
}

}  // namespace aotc::cli
