#include "stored.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "about.h"
#include "judge.h"
#include "npy.h"
#include "references_file.h"

namespace aotc::cli {

namespace {

/// --max-error, --rtol, --atol.
void add_allowed(CLI::App& app, Allowed& allowed) {
  add_option(
      app, "--max-error,--tolerance", allowed.max_error,
      "relative L2 error that an output may have against float64 (of stored outputs: against them), in place of the limit that depends on "
      "eager PyTorch; default for stored outputs without eager ones: 1e-4 for float32, 1e-2 for float16, 3e-2 for bfloat16")
      .not_negative();
  add_option(app, "--rtol", allowed.rtol,
             "instead, for each element: |got - expected| <= --atol + this * |expected|, as numpy.testing.assert_allclose")
      .not_negative();
  add_option(app, "--atol", allowed.atol, "see --rtol; if only one of them is given, the other is 0").not_negative();
}

}  // namespace

void add_stored(CLI::App& app, Stored& stored, bool compares, const std::string& more_of_inputs) {
  add_option(app, "--inputs", stored.inputs, "folder with NAME.npy for each input" + more_of_inputs);
  add_option(app, "--device", stored.device, "-1: the CPU, N: GPU N; default: GPU 0 if the artifact has code for it, else the CPU");
  add_method(app, stored.method);
  if (!compares) return;
  add_option(app, "--expected", stored.expected,
             "folder with NAME.npy for each output: compared within --max-error or, if NAME.eager.npy is beside it (aotc references), used "
             "as float64 reference within the limits of references.json");
  add_allowed(app, stored.allowed);
}

std::string stored_file(const std::string& folder, const std::string& name, const char* kind) {
  std::string file = name;
  for (char& c : file)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.') c = '_';
  return (std::filesystem::path(folder) / (file + kind + ".npy")).string();
}

std::vector<NamedFile> stored_files(const Stored& stored) {
  std::vector<NamedFile> files;
  std::error_code ec;
  for (const auto& [option, folder] : {std::pair("--inputs", stored.inputs), std::pair("--expected", stored.expected)})
    for (std::filesystem::recursive_directory_iterator it(folder, ec), end; !folder.empty() && !ec && it != end; it.increment(ec))
      files.push_back({option, it->path().string()});
  return files;
}

HostTensor read_input(const std::string& file, const Io& io) {
  HostTensor t = read_npy(file);
  if (t.dtype == io.dtype) return t;
  throw Diagnostic(Loc{file, "", "", ""}, fmt::format("holds {}; input '{}' is {}", dtype_name(t.dtype), io.name, dtype_name(io.dtype)));
}

std::vector<HostTensor> stored_inputs(const std::string& folder, const Artifact& artifact) {
  std::vector<HostTensor> inputs;
  for (const Io& io : artifact.inputs()) inputs.push_back(read_input(stored_file(folder, io.name), io));
  return inputs;
}

namespace {

/// Throws Diagnostic (bad_input), which names both, where the references are of another archive than the artifact.
void require_same_archive(const Stored& stored, const ReferencesFile& references, const Artifact& artifact) {
  const std::string id = archive_id(artifact.metadata());
  if (references.source == id) return;
  throw Diagnostic(Loc{(std::filesystem::path(stored.expected) / "references.json").string(), "", "", ""},
                   fmt::format("the references are of the archive with id {}; {} was built from {}", references.source, artifact.path(),
                               id.empty() ? "one whose id it does not say" : "another, with id " + id))
      .note("make them anew: aotc references " + artifact.path() + " --against model.pt2 -o DIR");
}

/// What to think of references that do not fit the artifact; empty: they do.
std::string doubt_of(const Stored& stored, const ReferencesFile& references, const Artifact& artifact) {
  const std::string computes = computes_of(artifact.metadata());
  if (references.computes == computes) return {};
  return fmt::format("{} is of an artifact with {}; {} has {}", stored.expected,
                     references.computes.empty() ? "weights as they are" : references.computes, artifact.path(),
                     computes.empty() ? "weights as they are" : computes);
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
                   const Promise& promise, const Allowed& allowed) {
  if (!references) {
    Row row = judge(name, "stored", got, e.eager, e.truth, e.bound, promise);
    judge_by(row, got, e.eager, e.truth, allowed);
    if (allowed.any()) return row;
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
  judge_by(row, got, e.eager, e.truth, allowed);
  if (std::fabs(e.bound.err_eager - known->second.err_eager) > 1e-6 * known->second.err_eager + 1e-300 ||
      e.bound.lost != known->second.lost) {
    row.pass = false;
    row.why = fmt::format("{}.npy or {}.eager.npy is not what aotc references wrote: they are {:.3g} apart, references.json says {:.3g}",
                          name, name, e.bound.err_eager, known->second.err_eager);
  }
  return row;
}

}  // namespace

Verdict verify_stored(const std::string& path, const Stored& stored) {
  if (stored.inputs.empty() || stored.expected.empty())
    throw Diagnostic(ExitCode::usage, {},
                     "--inputs DIR and --expected DIR go together: .npy files with what the model takes and should give");
  const Artifact artifact(path, stored.method, stored.check_weights, stored.device, 0, {}, stored.weights_budget);
  const std::unique_ptr<search::Device> device = search::make_device(artifact.info().device);
  Session session(artifact, stored.threads, 0, device.get());
  const std::vector<HostTensor> inputs = stored_inputs(stored.inputs, artifact);
  session.bind(inputs);
  session.run();
  session.wait();
  const std::vector<HostTensor> got = session.outputs();
  const Promise promise = promise_of(artifact.metadata());
  const std::optional<ReferencesFile> references = read_references_file(stored.expected);
  if (references) require_same_archive(stored, *references, artifact);
  Verdict v;
  v.doubt = references ? doubt_of(stored, *references, artifact) : std::string();
  if (!v.doubt.empty()) fmt::print(stderr, "aotc: warning: {}\n", v.doubt);
  bool older = false;
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string& name = artifact.outputs()[i].name;
    if (std::filesystem::exists(stored_file(stored.expected, name, ".eager"))) {
      older = !references;
      v.rows.push_back(judge_expected(name, got[i], expected_of(stored.expected, name, promise), references, promise, stored.allowed));
    } else {
      const HostTensor truth = read_npy(stored_file(stored.expected, name));
      v.rows.push_back(judge(name, "stored", got[i], truth, usual_tolerance(got[i].dtype)));
      judge_by(v.rows.back(), got[i], truth, truth, stored.allowed);
    }
  }
  if (older)
    fmt::print(stderr,
               "aotc: warning: {} has no references.json, as references of an older aotc: what is allowed is taken from its files\n",
               stored.expected);
  return v;
}

}  // namespace aotc::cli
