#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "artifact.h"
#include "cli.h"
#include "import/reference.h"
#include "judge.h"
#include "pipeline/pipeline.h"
#include "sizes.h"
#include "stored.h"

namespace aotc::cli {
namespace {

struct Options {
  std::string artifact, against;
  std::vector<std::string> dims;
  int samples = 3, threads = 1;
  bool check_weights = false, flush_denormals = false;
};

/// Whether the operators take these inputs, as their dims are.
bool runs(import::Reference& eager, const std::vector<HostTensor>& inputs) {
  try {
    eager.run(inputs);
    return true;
  } catch (const Diagnostic&) { return false; }
}

std::vector<Row> compare_runs(const Options& o, const Common& common, const Artifact& artifact, const import::Program& archive,
                              std::map<std::string, double>& row_errors) {
  const import::Program program = as_built(archive, artifact.metadata());
  const bool fewer_bits = artifact.metadata().contains("stored_weights");
  const auto eager = import::make_reference(program, {false, o.threads});
  const auto truth = import::make_reference(program, {true, o.threads});
  const auto original = fewer_bits ? import::make_reference(archive, {true, o.threads}) : nullptr;
  const Promise promise = promise_of(artifact.metadata());
  const auto bf16 =
      promise.bf16 && promise.max_error == 0 ? import::make_reference(program, {.threads = o.threads, .bf16 = true}) : nullptr;
  std::map<std::string, import::RowError> lost;
  const std::vector<std::string> int8_rows = int8_row_weights(artifact.metadata());
  const auto int8 =
      int8_rows.empty() ? nullptr : import::make_reference(program, {.threads = o.threads, .int8_rows = int8_rows, .row_errors = &lost});
  Session session(artifact, o.threads, o.flush_denormals ? AOTC_CONTEXT_FLUSH_DENORMALS : 0);

  const nlohmann::json described = artifact.metadata().at("states");
  std::vector<Row> rows;
  uint64_t seed = 0;
  const auto accepted = [&](const std::map<SymId, int64_t>& sizes) { return session.accepts(import::make_shapes(program, sizes)); };
  const std::map<std::string, int64_t> dims = parse_dims(o.dims);
  bool any = false;
  for (const auto& sizes : range_ends(program, dims)) {
    if (accepted(sizes)) {
      any = true;
      continue;
    }
    const std::string said = artifact.api().last_error();
    if (runs(*eager, import::make_inputs(program, sizes, 0))) rows.push_back(refused(sizes_text(program, sizes), said));
  }
  if (!any && !rows.empty()) return rows;
  for (const auto& sizes : sample_sizes(program, dims, o.samples, accepted)) {
    const std::vector<HostTensor> inputs = import::make_inputs(program, sizes, seed++);
    const std::string text = sizes_text(program, sizes);
    if (!common.quiet && !common.json) fmt::print(stderr, "verify: sample {} ({})\n", seed, text);
    const std::vector<HostTensor> want = eager->run(inputs), exact = truth->run(inputs);
    const std::vector<HostTensor> rounded = bf16 ? bf16->run(inputs) : std::vector<HostTensor>();
    const std::vector<HostTensor> of_int8 = int8 ? int8->run(inputs) : std::vector<HostTensor>();
    session.reset_states();
    session.bind(inputs);
    session.run();
    std::vector<HostTensor> got = session.outputs();
    std::vector<std::string> names;
    for (const Io& io : artifact.outputs()) names.push_back(io.name);
    std::vector<HostTensor> states = session.states();
    for (size_t i = 0; i < states.size(); ++i) {
      if (!described.at(i).value("updated", true)) continue;  // the caller's to change
      names.push_back("state " + described.at(i).at("name").get<std::string>());
      got.push_back(std::move(states[i]));
    }
    if (got.size() != want.size() || exact.size() != want.size())
      throw Diagnostic(Loc{o.artifact, "", "", ""}, fmt::format("has {} outputs and states; the archive has {}", got.size(), want.size()))
          .note("was the artifact built from this archive?");
    const std::vector<HostTensor> unrounded = original ? original->run(inputs) : std::vector<HostTensor>{};
    for (size_t i = 0; i < got.size(); ++i) {
      rows.push_back(
          judge(names[i], text, got[i], want[i], bf16 ? &rounded.at(i) : nullptr, int8 ? &of_int8.at(i) : nullptr, exact[i], promise));
      if (original) rows.back().err_archive = compare(got[i], unrounded[i]).l2;
    }
  }
  for (const auto& [weight, e] : lost) row_errors[weight] = e.all > 0 ? std::sqrt(e.lost / e.all) : 0;
  return rows;
}

int run(const Options& o, const Common& common) {
  const Artifact artifact(o.artifact, o.check_weights);
  const Against original = against(o.against, artifact);
  if (!original.doubt.empty()) fmt::print(stderr, "aotc: warning: {}\n", original.doubt);
  std::vector<Row> rows;
  std::map<std::string, double> row_errors;
  try {
    rows = compare_runs(o, common, artifact, original.program, row_errors);
  } catch (Diagnostic& d) {
    if (original.doubt.empty()) throw;
    // Not the artifact's fault: the archive beside it is another.
    Diagnostic other(ExitCode::bad_input, d.loc(), d.message());
    for (const std::string& note : d.notes()) other.note(note);
    other.note(original.doubt);
    throw other;
  }

  return report(rows, common, original.doubt, row_errors);
}

}  // namespace

Run add_verify(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("artifact", o->artifact, "model.so")->required();
  app.add_option("--against", o->against, "the model.pt2 that it was built from");
  auto stored = std::make_shared<Stored>();
  add_stored(app, *stored, true);
  app.add_option("--dim", o->dims, "NAME=SIZE: fixes a dimension (repeatable); the others are sampled over their range");
  app.add_option("--samples", o->samples, "how many sets of sizes and inputs")->check(CLI::Range(1, 1000));
  app.add_option("--threads", o->threads, "threads of the artifact and of eager")->check(CLI::Range(1, 1024));
  add_check_weights(app, o->check_weights);
  app.add_flag("--flush-denormals", o->flush_denormals, "run the artifact with AOTC_CONTEXT_FLUSH_DENORMALS");
  return [o, stored](const Common& common) {
    if (o->against.empty() == stored->inputs.empty())
      throw Diagnostic(ExitCode::usage, {}, "what is it compared with? give --against model.pt2, or --inputs DIR and --expected DIR");
    return o->against.empty() ? verify_stored(o->artifact, *stored, common) : run(*o, common);
  };
}

}  // namespace aotc::cli
