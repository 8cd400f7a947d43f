#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "artifact.h"
#include "cli.h"
#include "compare.h"
#include "import/reference.h"
#include "pipeline/pipeline.h"
#include "sizes.h"

namespace aotc::cli {
namespace {

struct Options {
  std::string artifact, against;
  std::vector<std::string> dims;
  int samples = 3, threads = 1;
  bool check_weights = false, flush_denormals = false;
};

struct Row {
  std::string name, sizes;
  double err_aotc, err_eager, err_bf16, max_abs, max_rel, limit;  ///< err_bf16: of eager in bf16, where that is the bound; else -1
  bool pass;
  std::string why;                         ///< what is wrong where numbers do not say it
  std::optional<double> err_archive = {};  ///< where weights were rounded: against fp64 with the archive's own
};

double finite(double v) { return std::isfinite(v) ? v : 1e300; }  // JSON has no infinity

/// What the artifact promises of products of float32 (metadata's precision).
struct Promise {
  bool bf16 = false;     ///< some may multiply bf16
  double max_error = 0;  ///< what it was built for; 0: eager bf16's
};

/// The rule: err(aotc) <= 2 err(eager) + eps, both against fp64. Where products may multiply bf16, the error that the artifact was built
/// for or, where that is not named, that of eager in bf16 and the rounding of one number to bf16, is allowed, too. Integers and bools may
/// instead equal eager exactly (a tie that fp64 breaks the other way is no fault). bf16: eager's output, or null.
Row judge(std::string name, std::string sizes, const HostTensor& got, const HostTensor& eager, const HostTensor* bf16,
          const HostTensor& truth, const Promise& promise) {
  const Difference a = compare(got, truth), e = compare(eager, truth);
  double limit = 2 * e.l2 + epsilon(got.dtype), err_bf16 = -1;
  if (bf16) {
    err_bf16 = compare(*bf16, truth).l2;
    limit = std::max(limit, err_bf16 + (epsilon(got.dtype) > 0 ? epsilon(DType::bf16) / 2 : 0));
  }
  limit = std::max(limit, promise.max_error);
  bool pass = a.same_shape && a.l2 <= limit;
  if (!pass && a.same_shape && epsilon(got.dtype) == 0) pass = compare(got, eager).l2 == 0;
  Row row{std::move(name), std::move(sizes), a.l2, e.l2, err_bf16, a.max_abs, a.max_rel, limit, pass, {}};
  if (!a.same_shape) {
    row.err_aotc = row.max_abs = row.max_rel = INFINITY;
    row.why = fmt::format("the artifact gives dims [{}], the original graph [{}]", fmt::join(got.dims, ", "), fmt::join(truth.dims, ", "));
  } else if (!std::isfinite(a.l2)) {
    row.why = "infinite or not a number where the original graph is not, or the other way round";
  }
  return row;
}

Promise promise_of(const nlohmann::json& metadata) {
  if (!metadata.contains("precision")) return {};
  return {true, metadata["precision"].value("max_error", 0.0)};
}

/// The program that the artifact is to compute: that of the archive, with its weights rounded as the artifact's are.
auto as_built(const import::Program& program, const Artifact& artifact) -> import::Program {
  const nlohmann::json meta = artifact.metadata();
  if (!meta.contains("stored_weights")) return program;
  const nlohmann::json& w = meta["stored_weights"];
  return pipeline::with_stored_weights(program, {w.at("bits").get<int>(), w.at("group").get<int64_t>()},
                                       parse_cpu_target(meta.at("target").get<std::string>()));
}

std::vector<Row> compare_runs(const Options& o, const Common& common, const Artifact& artifact, const import::Program& archive) {
  const import::Program program = as_built(archive, artifact);
  const bool fewer_bits = artifact.metadata().contains("stored_weights");
  const auto eager = import::make_reference(program, {false, o.threads});
  const auto truth = import::make_reference(program, {true, o.threads});
  const auto original = fewer_bits ? import::make_reference(archive, {true, o.threads}) : nullptr;
  const Promise promise = promise_of(artifact.metadata());
  const auto bf16 =
      promise.bf16 && promise.max_error == 0 ? import::make_reference(program, {.threads = o.threads, .bf16 = true}) : nullptr;
  Session session(artifact, o.threads, o.flush_denormals ? AOTC_CONTEXT_FLUSH_DENORMALS : 0);

  const nlohmann::json described = artifact.metadata().at("states");
  std::vector<Row> rows;
  uint64_t seed = 0;
  const auto accepted = [&](const std::map<SymId, int64_t>& sizes) { return session.accepts(import::make_shapes(program, sizes)); };
  for (const auto& sizes : sample_sizes(program, parse_dims(o.dims), o.samples, accepted)) {
    const std::vector<HostTensor> inputs = import::make_inputs(program, sizes, seed++);
    const std::string text = sizes_text(program, sizes);
    if (!common.quiet && !common.json) fmt::print(stderr, "verify: sample {} ({})\n", seed, text);
    const std::vector<HostTensor> want = eager->run(inputs), exact = truth->run(inputs);
    const std::vector<HostTensor> rounded = bf16 ? bf16->run(inputs) : std::vector<HostTensor>();
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
      rows.push_back(judge(names[i], text, got[i], want[i], bf16 ? &rounded.at(i) : nullptr, exact[i], promise));
      if (original) rows.back().err_archive = compare(got[i], unrounded[i]).l2;
    }
  }
  return rows;
}

int run(const Options& o, const Common& common) {
  const Artifact artifact(o.artifact, o.check_weights);
  const Against original = against(o.against, artifact);
  if (!original.doubt.empty()) fmt::print(stderr, "aotc: warning: {}\n", original.doubt);
  std::vector<Row> rows;
  try {
    rows = compare_runs(o, common, artifact, original.program);
  } catch (Diagnostic& d) {
    if (original.doubt.empty()) throw;
    // Not the artifact's fault: the archive beside it is another.
    Diagnostic other(ExitCode::bad_input, d.loc(), d.message());
    for (const std::string& note : d.notes()) other.note(note);
    other.note(original.doubt);
    throw other;
  }

  const bool pass = !rows.empty() && std::all_of(rows.begin(), rows.end(), [](const Row& r) { return r.pass; });
  if (common.json) {
    nlohmann::json outputs = nlohmann::json::array();
    for (const Row& r : rows) {
      outputs.push_back({{"name", r.name},
                         {"sizes", r.sizes},
                         {"err_aotc", finite(r.err_aotc)},
                         {"err_eager", finite(r.err_eager)},
                         {"max_abs", finite(r.max_abs)},
                         {"max_rel", finite(r.max_rel)},
                         {"limit", finite(r.limit)},
                         {"pass", r.pass}});
      if (r.err_bf16 >= 0) outputs.back()["err_eager_bf16"] = finite(r.err_bf16);
      if (!r.why.empty()) outputs.back()["why"] = r.why;
      if (r.err_archive) outputs.back()["err_archive"] = finite(*r.err_archive);
    }
    fmt::print("{}\n", nlohmann::json{{"pass", pass}, {"source_matches", original.doubt.empty()}, {"outputs", outputs}}.dump(1));
  } else {
    if (!common.quiet || !pass)
      for (const Row& r : rows)
        fmt::print("{} {} [{}]: error against fp64 {:.3g}, eager {:.3g}{}, limit {:.3g}; max abs {:.3g}, max rel {:.3g}{}{}{}\n",
                   r.pass ? "ok  " : "FAIL", r.name, r.sizes, r.err_aotc, r.err_eager,
                   r.err_bf16 >= 0 ? fmt::format(" (in bf16 {:.3g})", r.err_bf16) : "", r.limit, r.max_abs, r.max_rel,
                   r.err_archive ? fmt::format("; against the weights before rounding {:.3g}", *r.err_archive) : "",
                   r.why.empty() ? "" : "; ", r.why);
    fmt::print("verify: {}{}\n", pass ? "pass" : "FAIL", original.doubt.empty() || pass ? "" : "; " + original.doubt);
  }
  return pass ? 0 : static_cast<int>(ExitCode::failed);
}

}  // namespace

Run add_verify(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("artifact", o->artifact, "model.so")->required();
  app.add_option("--against", o->against, "the model.pt2 that it was built from")->required();
  app.add_option("--dim", o->dims, "NAME=SIZE: fixes a dimension (repeatable); the others are sampled over their range");
  app.add_option("--samples", o->samples, "how many sets of sizes and inputs")->check(CLI::Range(1, 1000));
  app.add_option("--threads", o->threads, "threads of the artifact and of eager")->check(CLI::Range(1, 1024));
  add_check_weights(app, o->check_weights);
  app.add_flag("--flush-denormals", o->flush_denormals, "run the artifact with AOTC_CONTEXT_FLUSH_DENORMALS");
  return [o](const Common& common) { return run(*o, common); };
}

}  // namespace aotc::cli
