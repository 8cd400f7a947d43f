#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "about.h"
#include "artifact.h"
#include "base/file.h"
#include "captured.h"
#include "cli.h"
#include "compare.h"
#include "npy.h"
#include "stored.h"

namespace aotc::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string folder, artifact, output_dir, weights;
  std::optional<int> threads, device;
  uint64_t weights_budget = 0;
  bool check_weights = false;
};

/// "INDEX_OUT_OF_RANGE", as captured runs have it.
std::string name_of(aotc_status status) {
#define AOTC_X(name, value, text) \
  if (status == value) return #name;
  AOTC_STATUS_LIST(AOTC_X)
#undef AOTC_X
  return fmt::format("status {}", status);
}

/// The place of an element in a tensor.
std::vector<int64_t> place_of(int64_t element, const std::vector<int64_t>& dims) {
  std::vector<int64_t> at(dims.size());
  for (size_t d = dims.size(); d-- > 0; element /= dims[d]) at[d] = element % dims[d];
  return at;
}

/// How an output of the replay differs from the captured one, bit for bit.
json difference(const std::string& name, const HostTensor& was, const HostTensor& is) {
  json j = {{"name", name}, {"same", was.dtype == is.dtype && was.dims == is.dims && was.bytes == is.bytes}};
  if (j["same"]) return j;
  if (was.dtype != is.dtype || was.dims != is.dims) {
    j["captured"] = {{"dtype", dtype_name(was.dtype)}, {"shape", was.dims}};
    j["replayed"] = {{"dtype", dtype_name(is.dtype)}, {"shape", is.dims}};
    return j;
  }
  const size_t bytes = static_cast<size_t>(dtype_bytes(was.dtype));
  int64_t first = -1, count = 0;
  for (int64_t i = 0; i < was.elems(); ++i) {
    if (std::memcmp(&was.bytes[static_cast<size_t>(i) * bytes], &is.bytes[static_cast<size_t>(i) * bytes], bytes) == 0) continue;
    if (count++ == 0) first = i;
  }
  const int64_t parts = is_complex(was.dtype) ? 2 : 1;
  j["elements"] = was.elems();
  j["differing"] = count;
  j["first"] = place_of(first, was.dims);
  j["captured"] = element(was, first * parts);
  j["replayed"] = element(is, first * parts);
  j["error"] = compare(is, was).l2;
  return j;
}

std::string text_of(const json& row) {
  const auto name = row.at("name").get<std::string>();
  if (row.at("same").get<bool>()) return name + ": the same bits";
  if (!row.contains("first")) return fmt::format("{}: {} was captured, {} now", name, row["captured"].dump(), row["replayed"].dump());
  return fmt::format("{}: {} of {} elements differ, the first at {}: {} was captured, {} now; error {:.3g}", name,
                     row["differing"].get<int64_t>(), row["elements"].get<int64_t>(), row["first"].dump(), row["captured"].dump(),
                     row["replayed"].dump(), row["error"].is_number() ? row["error"].get<double>() : NAN);
}

/// The artifact that ran, or the one that --artifact names.
std::string artifact_of(const Options& o, const Captured& captured) {
  if (!o.artifact.empty()) return o.artifact;
  std::error_code ec;
  const Diagnostic missing = Diagnostic(ExitCode::bad_input, Loc{o.folder, "", "", ""},
                                        fmt::format("{} is not the artifact that ran (id {})", captured.artifact, captured.id))
                                 .note("name it, or another to compare with: --artifact model.so");
  if (captured.id.empty() || !std::filesystem::is_regular_file(captured.artifact, ec)) throw missing;
  if (artifact_id(ArtifactFile(captured.artifact)) != captured.id) throw missing;
  return captured.artifact;
}

void write_outputs(const Options& o, const Artifact& artifact, const std::vector<HostTensor>& outputs) {
  made_folder(o.output_dir);
  for (size_t i = 0; i < outputs.size(); ++i) write_npy(stored_file(o.output_dir, artifact.outputs()[i].name), outputs[i]);
}

int replay(const Options& o, const Common& common) {
  const Captured captured = read_captured(o.folder);
  const Artifact artifact(artifact_of(o, captured), captured.method, o.check_weights, o.device.value_or(captured.device), 0, o.weights,
                          o.weights_budget);
  if (captured.weights_version > 0 && o.weights.empty())
    fmt::print(stderr, "{}: warning: the run had other weights than the artifact's (they were swapped): give them by --weights\n",
               common.program);
  const bool other = artifact_id(artifact) != captured.id;
  Session session(artifact, o.threads.value_or(std::max(1, captured.threads)), captured.flags & ~uint32_t{AOTC_CONTEXT_PROFILE});
  session.write_states(captured.states);
  const Refusal ended = session.attempt(captured.inputs);
  const std::string status = name_of(ended.status);
  json rows = json::array();
  bool same = captured.status == status;
  if (ended.status == AOTC_STATUS_OK) {
    const std::vector<HostTensor>& outputs = session.outputs();
    for (size_t i = 0; same && i < outputs.size(); ++i) {
      const std::string& name = artifact.outputs()[i].name;
      if (const auto was = captured.outputs.find(name); was != captured.outputs.end())
        rows.push_back(difference(name, was->second, outputs[i]));
      else
        rows.push_back({{"name", name},
                        {"same", false},
                        {"captured", nullptr},
                        {"replayed", {{"dtype", dtype_name(outputs[i].dtype)}, {"shape", outputs[i].dims}}}});
    }
    if (!o.output_dir.empty()) write_outputs(o, artifact, outputs);
  }
  for (const json& row : rows) same = same && row.at("same").get<bool>();
  const std::string was = captured.status.value_or("did not end");
  if (common.json) {
    print_result({{"same", same},
                  {"same_artifact", !other},
                  {"captured", {{"status", captured.status ? json(was) : json(nullptr)}, {"message", captured.message}}},
                  {"replayed", {{"status", status}, {"message", ended.why}}},
                  {"outputs", rows}},
                 about(common, artifact));
  } else if (!common.quiet) {
    if (other) fmt::print("{} is another artifact than the one that ran\n", artifact.path());
    if (captured.status == status)
      fmt::print("{}{}\n", status, ended.why.empty() ? "" : ", as captured: " + ended.why);
    else
      fmt::print("captured: {}{}\nreplayed: {}{}\n", was, captured.message.empty() ? "" : ": " + captured.message, status,
                 ended.why.empty() ? "" : ": " + ended.why);
    for (const json& row : rows) fmt::print("{}\n", text_of(row));
  }
  return same ? 0 : static_cast<int>(ExitCode::failed);
}

}  // namespace

Run add_replay(CLI::App& app) {
  auto o = std::make_shared<Options>();
  add_option(app, "run", o->folder, "the folder of a captured run (AOTC_CAPTURE)").required();
  add_option(app, "--artifact", o->artifact, "another artifact of the program, or the same at another place; default: the one that ran");
  add_option(app, "-o,--output-dir", o->output_dir, "folder for the outputs of the replay, NAME.npy each");
  add_option(app, "--threads", o->threads, "threads of the run; default: as captured").range(1, 1024);
  add_option(app, "--device", o->device, "-1: the CPU, N: GPU N; default: as captured");
  add_weights_file(app, o->weights);
  add_weights_budget(app, o->weights_budget);
  add_check_weights(app, o->check_weights);
  return [o](const Common& common) {
    if (char* const folder = std::getenv("AOTC_CAPTURE"))
      *folder = 0;  // of the shell: not of the replay; what aotc-device links lists no unsetenv
    if (!o->output_dir.empty()) require_apart({"--output-dir", o->output_dir, {".npy"}}, captured_files("run", o->folder));
    return replay(*o, common);
  };
}

}  // namespace aotc::cli
