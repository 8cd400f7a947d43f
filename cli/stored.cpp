#include "stored.h"

#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "judge.h"
#include "npy.h"

namespace aotc::cli {

void add_stored(CLI::App& app, Stored& stored, bool compares) {
  app.add_option("--inputs", stored.inputs, "folder with NAME.npy for each input");
  app.add_option("--device", stored.device, "-1: the CPU, n: that GPU; default: the best that the artifact has code for");
  if (!compares) return;
  app.add_option(
      "--expected", stored.expected,
      "folder with NAME.npy for each output: compared within --tolerance or, where NAME.eager.npy stands beside it (aotc references), "
      "taken as the fp64 truth for the usual rule");
  app.add_option("--tolerance", stored.tolerance,
                 "relative L2 error that is allowed; default 1e-4 for float32, 1e-2 and 3e-2 for 16-bit floats");
}

std::string stored_file(const std::string& folder, const std::string& name, const char* kind) {
  std::string file = name;
  for (char& c : file)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.') c = '_';
  return (std::filesystem::path(folder) / (file + kind + ".npy")).string();
}

std::vector<HostTensor> stored_inputs(const std::string& folder, const Artifact& artifact) {
  std::vector<HostTensor> inputs;
  for (const Io& io : artifact.inputs()) {
    const std::string path = stored_file(folder, io.name);
    HostTensor t = read_npy(path);
    if (t.dtype != io.dtype)
      throw Diagnostic(Loc{path, "", "", ""},
                       fmt::format("holds {}; input '{}' is {}", dtype_name(t.dtype), io.name, dtype_name(io.dtype)));
    inputs.push_back(std::move(t));
  }
  return inputs;
}

int verify_stored(const std::string& path, const Stored& stored, const Common& common) {
  if (stored.inputs.empty() || stored.expected.empty())
    throw Diagnostic(ExitCode::usage, {},
                     "--inputs DIR and --expected DIR go together: .npy files with what the model takes and should give");
  const Artifact artifact(path, stored.check_weights, stored.device);
  const std::unique_ptr<search::Device> device = search::make_device(artifact.info().device);
  Session session(artifact, stored.threads, 0, device.get());
  const std::vector<HostTensor> inputs = stored_inputs(stored.inputs, artifact);
  session.bind(inputs);
  session.run();
  session.wait();
  const std::vector<HostTensor> got = session.outputs();
  const Promise promise = promise_of(artifact.metadata());
  std::vector<Row> rows;
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string& name = artifact.outputs()[i].name;
    const HostTensor truth = read_npy(stored_file(stored.expected, name));
    const std::string eager = stored_file(stored.expected, name, ".eager"), rounded = stored_file(stored.expected, name, ".eager_bf16");
    if (!stored.tolerance && std::filesystem::exists(eager)) {
      std::optional<HostTensor> bf16;
      if (promise.bf16 && promise.max_error == 0 && std::filesystem::exists(rounded)) bf16 = read_npy(rounded);
      std::optional<HostTensor> int8;
      if (const std::string file = stored_file(stored.expected, name, ".eager_int8"); promise.int8_rows && std::filesystem::exists(file))
        int8 = read_npy(file);
      rows.push_back(judge(name, "stored", got[i], read_npy(eager), bf16 ? &*bf16 : nullptr, int8 ? &*int8 : nullptr, truth, promise));
    } else {
      rows.push_back(judge(name, "stored", got[i], truth, stored.tolerance.value_or(usual_tolerance(got[i].dtype))));
    }
  }
  return report(rows, common);
}

}  // namespace aotc::cli
