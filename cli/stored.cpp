#include "stored.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "judge.h"
#include "npy.h"
#include "references_file.h"

namespace aotc::cli {

void add_stored(CLI::App& app, Stored& stored, bool compares) {
  app.add_option("--inputs", stored.inputs,
                 "folder with NAME.npy for each input" + std::string(compares ? "; with --against also a folder of such folders" : ""));
  app.add_option("--device", stored.device, "-1: the CPU, n: that GPU; default: the best that the artifact has code for");
  add_method(app, stored.method);
  if (!compares) return;
  app.add_option(
      "--expected", stored.expected,
      "folder with NAME.npy for each output: compared within --tolerance or, where NAME.eager.npy stands beside it (aotc references), "
      "taken as the fp64 truth within what references.json says");
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

namespace {

/// What to think of references that do not fit the artifact; empty: they do.
std::string doubt_of(const Stored& stored, const ReferencesFile& references, const Artifact& artifact) {
  const nlohmann::json meta = artifact.metadata();
  const std::string id = meta.contains("source") ? meta["source"].at("id").get<std::string>() : "";
  if (references.source != id)
    return fmt::format("{} is of another archive than {} was built from (its id is {}; this one has {})", stored.expected, artifact.path(),
                       id, references.source);
  const std::string computes = computes_of(meta);
  if (references.computes != computes)
    return fmt::format("{} is of an artifact with {}; {} has {}", stored.expected,
                       references.computes.empty() ? "weights as they are" : references.computes, artifact.path(),
                       computes.empty() ? "weights as they are" : computes);
  return {};
}

/// The files of one output with the truth of fp64.
struct Expected {
  HostTensor truth, eager;
  Bound bound;  ///< of the files
};
Expected expected_of(const std::string& folder, const std::string& name, const Promise& promise) {
  Expected e{read_npy(stored_file(folder, name)), read_npy(stored_file(folder, name, ".eager")), {}};
  std::optional<HostTensor> bf16, int8;
  if (const std::string file = stored_file(folder, name, ".eager_bf16");
      promise.bf16 && promise.max_error == 0 && std::filesystem::exists(file))
    bf16 = read_npy(file);
  if (const std::string file = stored_file(folder, name, ".eager_int8"); promise.int8_rows && std::filesystem::exists(file))
    int8 = read_npy(file);
  e.bound = bound_of(e.eager, bf16 ? &*bf16 : nullptr, int8 ? &*int8 : nullptr, e.truth, promise);
  return e;
}

/// Within what references.json says. Without it nothing says that truth and eager are what LibTorch gave: they are not far from each other.
Row judge_expected(const std::string& name, const HostTensor& got, const Expected& e, const std::optional<ReferencesFile>& references,
                   const Promise& promise) {
  if (!references) {
    Row row = judge(name, "stored", got, e.eager, e.truth, e.bound, promise);
    if (const double most = usual_tolerance(got.dtype); row.pass && e.bound.err_eager > most && epsilon(got.dtype) > 0) {
      row.pass = false;
      row.why =
          fmt::format("{}.eager.npy is {:.3g} away from {}.npy, and no references.json says that it was so", name, e.bound.err_eager, name);
    }
    return row;
  }
  const auto known = references->outputs.find(name);
  if (known == references->outputs.end())
    throw Diagnostic(ExitCode::bad_input, {}, fmt::format("references.json has no output '{}'", name));
  Row row = judge(name, "stored", got, e.eager, e.truth, known->second, promise);
  if (std::fabs(e.bound.err_eager - known->second.err_eager) > 1e-6 * known->second.err_eager + 1e-300 ||
      e.bound.lost != known->second.lost) {
    row.pass = false;
    row.why = fmt::format("{}.npy or {}.eager.npy is not what aotc references wrote: they are {:.3g} apart, references.json says {:.3g}",
                          name, name, e.bound.err_eager, known->second.err_eager);
  }
  return row;
}

}  // namespace

int verify_stored(const std::string& path, const Stored& stored, const Common& common) {
  if (stored.inputs.empty() || stored.expected.empty())
    throw Diagnostic(ExitCode::usage, {},
                     "--inputs DIR and --expected DIR go together: .npy files with what the model takes and should give");
  const Artifact artifact(path, stored.method, stored.check_weights, stored.device);
  const std::unique_ptr<search::Device> device = search::make_device(artifact.info().device);
  Session session(artifact, stored.threads, 0, device.get());
  const std::vector<HostTensor> inputs = stored_inputs(stored.inputs, artifact);
  session.bind(inputs);
  session.run();
  session.wait();
  const std::vector<HostTensor> got = session.outputs();
  const Promise promise = promise_of(artifact.metadata());
  const std::optional<ReferencesFile> references = read_references_file(stored.expected);
  const std::string doubt = references ? doubt_of(stored, *references, artifact) : std::string();
  if (!doubt.empty()) fmt::print(stderr, "aotc: warning: {}\n", doubt);
  bool older = false;
  std::vector<Row> rows;
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string& name = artifact.outputs()[i].name;
    if (!stored.tolerance && std::filesystem::exists(stored_file(stored.expected, name, ".eager"))) {
      older = !references;
      rows.push_back(judge_expected(name, got[i], expected_of(stored.expected, name, promise), references, promise));
    } else {
      const HostTensor truth = read_npy(stored_file(stored.expected, name));
      rows.push_back(judge(name, "stored", got[i], truth, stored.tolerance.value_or(usual_tolerance(got[i].dtype))));
    }
  }
  if (older)
    fmt::print(stderr,
               "aotc: warning: {} has no references.json, as references of an older aotc: what is allowed is taken from its files\n",
               stored.expected);
  return report(rows, common, doubt);
}

}  // namespace aotc::cli
