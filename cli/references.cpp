#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "about.h"
#include "artifact.h"
#include "base/file.h"
#include "cli.h"
#include "custom_operators.h"
#include "import/reference.h"
#include "judge.h"
#include "npy.h"
#include "references_file.h"
#include "sizes.h"
#include "stored.h"

namespace aotc::cli {
namespace {

struct Options {
  std::string artifact, method, against, folder;
  std::vector<std::string> dims;
  int threads = 1;
  uint64_t seed = 0;
  CustomOperators operators;
};

std::string folder_of(const Options& o, const char* name) { return made_folder((std::filesystem::path(o.folder) / name).string()); }

int run(const Options& o, const Common& common) {
  ArtifactFile artifact(o.artifact);  // not run: this machine may lack its device
  artifact.choose_method(o.method);
  const nlohmann::json meta = artifact.metadata();
  const CustomProcesses custom = define(o.operators);
  const Against original = against(o.against, artifact);
  if (!original.doubt.empty())
    throw Diagnostic(Loc{o.against, "", "", ""}, original.doubt).note("references of another archive say nothing about the artifact");
  const import::Program program = as_built(original.program, meta);
  const auto reference = import::make_reference(program, {false, o.threads});
  std::vector<HostTensor> eager;
  const std::vector<HostTensor> inputs =
      draw_inputs(program, choose_sizes(program, parse_dims(o.dims, meta)), o.seed, [&](const std::vector<HostTensor>& drawn) {
        try {
          eager = reference->run(drawn);
        } catch (const Diagnostic& d) {
          if (d.code() != ExitCode::failed) throw;
          return std::optional(d.message());
        }
        return std::optional<std::string>();
      });
  const std::vector<HostTensor> exact = import::make_reference(program, {true, o.threads})->run(inputs);
  const Promise promise = promise_of(meta);
  const auto bf16 =
      promise.bf16 && promise.max_error == 0 ? import::make_reference(program, {.threads = o.threads, .bf16 = true}) : nullptr;
  const std::vector<HostTensor> rounded = bf16 ? bf16->run(inputs) : std::vector<HostTensor>();
  const std::vector<std::string> int8_rows = int8_row_weights(meta);
  const auto int8 = int8_rows.empty() ? nullptr : import::make_reference(program, {.threads = o.threads, .int8_rows = int8_rows});
  const std::vector<HostTensor> of_int8 = int8 ? int8->run(inputs) : std::vector<HostTensor>();
  const nlohmann::json &in = meta.at("inputs"), &out = meta.at("outputs");
  if (inputs.size() != in.size() || eager.size() < out.size())
    throw Diagnostic(Loc{o.artifact, "", "", ""}, "has other inputs or outputs than the archive")
        .note("was the artifact built from this archive?");
  require_apart({"-o", o.folder, {".npy", "references.json"}}, {{"artifact", o.artifact}, {"--against", o.against}});
  const std::string in_folder = folder_of(o, "inputs"), out_folder = folder_of(o, "expected");
  for (size_t i = 0; i < in.size(); ++i) write_npy(stored_file(in_folder, in[i].at("name").get<std::string>()), inputs[i]);
  ReferencesFile notes{original.program.source_id, computes_of(meta), {}};
  for (size_t i = 0; i < out.size(); ++i) {  // states come after the outputs
    const std::string name = out[i].at("name").get<std::string>();
    write_npy(stored_file(out_folder, name), exact[i]);
    write_npy(stored_file(out_folder, name, ".eager"), eager[i]);
    if (bf16) write_npy(stored_file(out_folder, name, ".eager_bf16"), rounded.at(i));
    if (int8) write_npy(stored_file(out_folder, name, ".eager_int8"), of_int8.at(i));
    notes.outputs[name] = bound_of(eager[i], bf16 ? &rounded.at(i) : nullptr, int8 ? &of_int8.at(i) : nullptr, exact[i], promise);
  }
  write_references_file(out_folder, notes);
  if (common.json)
    print_result({{"inputs", in_folder}, {"expected", out_folder}}, about(common, artifact));
  else if (!common.quiet)
    fmt::print("{} inputs in {}, {} outputs (fp64, and eager beside them) in {}\n", in.size(), in_folder, out.size(), out_folder);
  return 0;
}

}  // namespace

Run add_references(CLI::App& app) {
  auto o = std::make_shared<Options>();
  add_option(app, "artifact", o->artifact, "model.so; it is not run").required();
  add_option(app, "--against", o->against, "the model.pt2 that it was built from").required();
  add_option(app, "-o,--output", o->folder, "folder for inputs/ and expected/").required();
  add_option(app, "--dim", o->dims, "NAME=SIZE: fixes a dimension (repeatable)");
  add_method(app, o->method);
  add_custom_operators(app, o->operators);
  add_option(app, "--seed", o->seed, "of the inputs");
  add_option(app, "--threads", o->threads, "threads of LibTorch").range(1, 1024);
  return [o](const Common& common) { return run(*o, common); };
}

}  // namespace aotc::cli
