#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "artifact.h"
#include "base/file.h"
#include "bisect.h"
#include "captured.h"
#include "cli.h"
#include "custom_operators.h"
#include "import/other_inputs.h"
#include "import/read_archive.h"
#include "junit.h"
#include "known_values.h"
#include "oracles.h"
#include "pipeline/pipeline.h"
#include "sizes.h"
#include "stored.h"

namespace aotc::cli {
namespace {

struct Options {
  std::string artifact, method, inputs;
  std::vector<std::string> against;  ///< FILE, or NAME=FILE of a method
  std::vector<std::string> dims;
  std::optional<int> samples;
  std::optional<double> max_loss;
  int threads = 1;
  std::string weights;
  uint64_t weights_budget = 0;
  bool check_weights = false, flush_denormals = false;
  Allowed allowed;
  CustomOperators operators;
  BisectOptions bisect;
};

constexpr int kSamples = 3;

/// Runs the artifact and the archive's program on the same inputs.
class Comparison {
 public:
  /// states: what each run begins with, as the archive's buffers have it (with_states); of those that are missing the artifact's own.
  Comparison(const Options& o, const Common& common, const Artifact& artifact, const import::Program& archive,
             std::map<std::string, HostTensor> states = {})
      : o_(o),
        common_(common),
        artifact_(artifact),
        states_(std::move(states)),
        oracles_(archive, artifact, o.threads, o.max_loss),
        program_(oracles_.program()),
        session_(artifact, o.threads, o.flush_denormals ? AOTC_CONTEXT_FLUSH_DENORMALS : 0) {}

  const import::Program& program() const { return program_; }
  bool accepts(const std::vector<HostTensor>& inputs) const { return session_.accepts(inputs); }

  /// Sizes at the ends of the archive's ranges that it takes and the artifact refuses are rows that fail. False where the artifact takes
  /// none.
  bool takes_ends(const std::map<std::string, int64_t>& dims) {
    bool any = false, missed = false;
    for (const auto& sizes : range_ends(program_, dims)) {
      if (accepts(import::make_shapes(program_, sizes))) {
        any = true;
        continue;
      }
      const std::string said = artifact_.api().last_error();
      if (!eager_runs(import::make_inputs(program_, sizes, 0))) continue;
      rows_.push_back(refused(sizes_text(program_, sizes), said));
      missed = true;
    }
    return any || !missed;
  }

  /// Inputs that the model refuses are drawn again: by assertions of its own, by indices out of range that eager PyTorch refuses, too.
  void drawn(const std::map<SymId, int64_t>& sizes, uint64_t seed) {
    const std::string text = sizes_text(program_, sizes);
    say(text);
    std::vector<HostTensor> want;
    int attempts = 0;
    const std::vector<HostTensor> inputs = draw_inputs(program_, sizes, seed, [&](const std::vector<HostTensor>& drawn) {
      const bool example = attempts++ == 0 && seed == 0 && import::have_example_sizes(program_, drawn);
      if (const std::optional<Refusal> refused = run(drawn)) {
        if (refused->status == AOTC_STATUS_INDEX_OUT_OF_RANGE && (example || eager_runs(drawn)))
          throw Diagnostic(ExitCode::failed, Loc{o_.artifact, "", "", ""},
                           fmt::format("the artifact refuses {} ({}): {}",
                                       example ? "the archive's example" : "inputs that eager PyTorch takes", text, refused->why));
        return std::optional(refused->why);
      }
      try {
        want = oracles_.eager(drawn);
      } catch (const Diagnostic& d) {
        if (d.code() != ExitCode::failed) throw;
        return std::optional(d.message());
      }
      return std::optional<std::string>();
    });
    judge_outputs(text, inputs, want);
  }

  void given(const std::string& text, const std::vector<HostTensor>& inputs) {
    say(text);
    if (const std::optional<Refusal> refused = run(inputs))
      throw Diagnostic(ExitCode::failed, Loc{o_.artifact, "", "", ""}, fmt::format("the model refuses {}: {}", text, refused->why));
    judge_outputs(text, inputs, oracles_.eager(inputs));
  }

  const std::vector<Row>& rows() const { return rows_; }
  std::map<std::string, double> row_errors() const { return oracles_.row_errors(); }
  /// The first result that departs, on whatever inputs; nothing where all pass, or only sizes are refused.
  const std::optional<Departed>& departed() const { return departed_; }

 private:
  void say(const std::string& text) {
    ++sample_;
    if (!common_.quiet && !common_.json) fmt::print(stderr, "verify: sample {} ({})\n", sample_, text);
  }

  /// Whether the operators take these inputs, as their dims are.
  bool eager_runs(const std::vector<HostTensor>& inputs) {
    try {
      oracles_.eager(inputs);
      return true;
    } catch (const Diagnostic&) { return false; }
  }

  std::optional<Refusal> run(const std::vector<HostTensor>& inputs) {
    session_.reset_states();
    session_.write_states(states_);
    session_.bind(inputs);
    return session_.run_unless_refused();
  }

  void judge_outputs(const std::string& text, const std::vector<HostTensor>& inputs, const std::vector<HostTensor>& want) {
    const std::vector<Row> rows = oracles_.judge(text, inputs, results_of(session_, artifact_), want, o_.allowed);
    const auto failed = std::find_if(rows.begin(), rows.end(), [](const Row& row) { return !row.pass; });
    if (failed != rows.end() && !departed_) departed_ = Departed{*failed, inputs, static_cast<size_t>(failed - rows.begin())};
    rows_.insert(rows_.end(), rows.begin(), rows.end());
  }
  const Options& o_;
  const Common& common_;
  const Artifact& artifact_;
  const std::map<std::string, HostTensor> states_;
  Oracles oracles_;
  const import::Program& program_;
  Session session_;
  std::vector<Row> rows_;
  std::optional<Departed> departed_;
  int sample_ = 0;
};

/// --inputs: the folder, where it has NAME.npy files or is a captured run, or each of its folders.
std::vector<std::string> input_folders(const Options& o) {
  namespace fs = std::filesystem;
  if (o.inputs.empty() || is_captured(o.inputs)) return {o.inputs};
  std::vector<std::string> folders;
  std::error_code ec;
  for (fs::directory_iterator it(o.inputs, ec), end; !ec && it != end; it.increment(ec))
    if (it->is_directory(ec) && it->path().filename().string()[0] != '.') folders.push_back(it->path().string());
  if (ec) throw Diagnostic(ExitCode::io, Loc{o.inputs, "", "", ""}, "cannot be read: " + ec.message());
  std::sort(folders.begin(), folders.end());
  if (folders.empty()) folders.push_back(o.inputs);
  return folders;
}

void compare_samples(const Options& o, const Artifact& artifact, Comparison& comparison) {
  const import::Program& program = comparison.program();
  const auto accepted = [&](const std::map<SymId, int64_t>& sizes) { return comparison.accepts(import::make_shapes(program, sizes)); };
  const std::map<std::string, int64_t> dims = parse_dims(o.dims, artifact.metadata());
  if (!comparison.takes_ends(dims)) return;
  const auto samples = sample_sizes(program, dims, o.samples.value_or(kSamples), accepted);
  const std::vector<HostTensor> example = import::example_inputs(program), first = import::make_shapes(program, samples.front());
  // Seed 0 has the example's numbers where it has the example's sizes.
  const bool same = std::equal(first.begin(), first.end(), example.begin(), example.end(),
                               [](const HostTensor& a, const HostTensor& b) { return a.dims == b.dims; });
  if (example.size() == first.size() && !same && o.dims.empty() && comparison.accepts(example))
    comparison.given("the archive's example inputs", example);
  uint64_t seed = 0;
  for (const auto& sizes : samples) comparison.drawn(sizes, seed++);
}

/// Adds what was compared of a method and, with --bisect, where it first departs. archive: of the comparison.
void add_comparison(const Options& o, const Common& common, const Artifact& artifact, const import::Program& archive,
                    const Comparison& comparison, bool several, Verdict& v) {
  const auto is_method = [&](const Departure& d) { return d.method == (several ? artifact.method() : ""); };
  for (Row r : comparison.rows()) {
    if (several) r.method = artifact.method();
    v.rows.push_back(std::move(r));
  }
  for (const auto& [weight, error] : comparison.row_errors()) v.row_errors[weight] = std::max(v.row_errors[weight], error);
  if (o.bisect.folder.empty() || !comparison.departed()) return;
  if (std::any_of(v.departures.begin(), v.departures.end(), is_method)) return;
  BisectOptions bisect = o.bisect;
  bisect.threads = o.threads, bisect.flush_denormals = o.flush_denormals, bisect.allowed = o.allowed, bisect.max_loss = o.max_loss;
  if (several) bisect.folder = (std::filesystem::path(bisect.folder) / artifact.method()).string();
  v.departures.push_back(find_departure(bisect, common, artifact, archive, *comparison.departed()));
  if (several) v.departures.back().method = artifact.method();
}

void compare_runs(const Options& o, const Common& common, const Artifact& artifact, const import::Program& archive, bool several,
                  Verdict& v) {
  std::vector<std::string> given;
  for (const std::string& folder : input_folders(o)) {
    if (!is_captured(folder)) {
      given.push_back(folder);
      continue;
    }
    const Captured run = read_captured(folder);
    if (run.method != artifact.method()) continue;
    if (run.inputs.size() != artifact.inputs().size())
      throw Diagnostic(Loc{folder, "", "", ""},
                       fmt::format("has {} inputs; the artifact has {}", run.inputs.size(), artifact.inputs().size()));
    import::Program program = archive;
    program.data = with_states(std::move(program.data), run);
    Comparison comparison(o, common, artifact, program, run.states);
    comparison.given(folder, run.inputs);
    add_comparison(o, common, artifact, program, comparison, several, v);
  }
  if (given.empty() && !o.samples) return;
  Comparison comparison(o, common, artifact, archive);
  for (const std::string& folder : given)
    if (!o.inputs.empty()) comparison.given(folder, stored_inputs(folder, artifact));
  if (o.inputs.empty() || o.samples) compare_samples(o, artifact, comparison);
  add_comparison(o, common, artifact, archive, comparison, several, v);
}

/// What each method that is verified is compared with.
std::map<std::string, std::string> archives_of(const Options& o, const std::vector<std::string>& methods) {
  std::map<std::string, std::string> files;
  std::string every, known;
  for (const std::string& m : methods) known += (known.empty() ? "" : ", ") + m;
  for (const std::string& arg : o.against) {
    std::error_code ec;
    const size_t eq = arg.find('=');
    if (eq == std::string::npos || std::filesystem::exists(arg, ec)) {
      if (!every.empty())
        throw Diagnostic(ExitCode::usage, {}, "--against is given twice without a method's name; NAME=FILE says whose it is");
      every = arg;
    } else if (std::find(methods.begin(), methods.end(), arg.substr(0, eq)) == methods.end()) {
      throw Diagnostic(ExitCode::usage, {}, fmt::format("--against {}: there is no method '{}'", arg, arg.substr(0, eq)))
          .note("the methods are " + known);
    } else {
      files[arg.substr(0, eq)] = arg.substr(eq + 1);
    }
  }
  const std::vector<std::string> all = o.method.empty() ? methods : std::vector<std::string>{o.method};
  const bool for_all = !every.empty() && (all.size() == 1 || import::programs_of(every).size() > 1);
  std::map<std::string, std::string> out;
  for (const std::string& m : all) {
    if (files.count(m))
      out[m] = files[m];
    else if (for_all)
      out[m] = every;
    else
      throw Diagnostic(ExitCode::usage, {}, fmt::format("what is method '{}' compared with? give --against {}=FILE.pt2", m, m))
          .note("the methods are " + known + "; --method NAME verifies one");
  }
  return out;
}

/// Adds the rows of a method.
void verify_method(const Options& o, const Common& common, const std::string& method, const std::string& pt2, bool several, Verdict& v) {
  const Artifact artifact(o.artifact, method, o.check_weights, AOTC_DEVICE_DEFAULT, 0, o.weights, o.weights_budget);
  Against original = against(pt2, artifact);
  if (!o.weights.empty()) original.doubt.clear();  // the archive of other weights is another
  if (!original.doubt.empty()) fmt::print(stderr, "aotc: warning: {}\n", original.doubt);
  try {
    compare_runs(o, common, artifact, original.program, several, v);
  } catch (Diagnostic& d) {
    if (original.doubt.empty() || d.code() == ExitCode::io) throw;
    // Not the artifact's fault: the archive beside it is another.
    Diagnostic other(ExitCode::bad_input, d.loc(), d.message());
    for (const std::string& note : d.notes()) other.note(note);
    other.note(original.doubt);
    throw other;
  }
  if (!original.doubt.empty()) v.doubt += (v.doubt.empty() ? "" : "; ") + original.doubt;
}

Verdict run(const Options& o, const Common& common) {
  const std::vector<std::string> methods = ArtifactFile(o.artifact).methods();
  const CustomProcesses custom = define(o.operators);
  if (!o.method.empty()) ArtifactFile(o.artifact).choose_method(o.method);  // refuses one that is not there
  Verdict v;
  const std::map<std::string, std::string> archives = archives_of(o, methods);
  for (const std::string& method : methods)
    if (const auto it = archives.find(method); it != archives.end()) verify_method(o, common, method, it->second, methods.size() > 1, v);
  if (v.rows.empty() && !o.inputs.empty())
    throw Diagnostic(Loc{o.inputs, "", "", ""}, "has runs of other methods alone, and none of those that are verified");
  return v;
}

}  // namespace

Run add_verify(CLI::App& app) {
  auto o = std::make_shared<Options>();
  add_option(app, "artifact", o->artifact, "model.so").required();
  add_option(app, "--against", o->against,
             "the model.pt2 that it was built from; for an artifact with several methods NAME=FILE each (repeatable), or the file that "
             "holds all their programs")
      .repeated();
  auto stored = std::make_shared<Stored>();
  add_stored(app, *stored, true, "; with --against also a captured run (AOTC_CAPTURE), or a folder of such folders");
  add_option(app, "--dim", o->dims, "NAME=SIZE: fixes a dimension (repeatable); the others are sampled over their range");
  add_option(app, "--samples", o->samples,
             "number of random sets of sizes and inputs, in addition to the example inputs of the program; default: 3, with --inputs none")
      .range(1, 1000);
  add_option(app, "--threads", o->threads, "threads of the artifact and of eager PyTorch").range(1, 1024);
  add_option(app, "--max-loss", o->max_loss,
             "with --against, for an artifact built with --weights: relative L2 error that the rounded weights may add to an output; "
             "default: 5 times its --max-weight-error")
      .positive();
  add_custom_operators(app, o->operators);
  add_weights_file(app, o->weights);
  add_weights_budget(app, o->weights_budget);
  add_check_weights(app, o->check_weights);
  add_flag(app, "--flush-denormals", o->flush_denormals, "run the artifact with AOTC_CONTEXT_FLUSH_DENORMALS");
  add_option(app, "--bisect", o->bisect.folder,
             "with --against: if an output fails, find the first wrong value of the program, and write operands and results of its "
             "operator into this folder (inputs, expected, got)");
  add_option(app, "--kernels", o->bisect.kernels, "with --bisect: the kernels.json that the artifact was built with");
  auto junit = std::make_shared<std::string>();
  add_junit(app, *junit);
  return [o, stored, junit](const Common& common) {
    const bool files = !stored->inputs.empty();
    if (o->against.empty() && !files)
      throw Diagnostic(ExitCode::usage, {}, "what is it compared with? give --against model.pt2, or --inputs DIR and --expected DIR");
    if (o->against.empty() && !o->bisect.folder.empty())
      throw Diagnostic(ExitCode::usage, {}, "--bisect looks into the original program: give --against model.pt2");
    if (o->bisect.folder.empty() && !o->bisect.kernels.empty()) throw Diagnostic(ExitCode::usage, {}, "--kernels is for --bisect");
    require_apart({{"--junit", *junit}}, stored_files(*stored));
    if (!o->bisect.folder.empty()) require_apart({"--bisect", o->bisect.folder, {".npy", "departure.json"}}, stored_files(*stored));
    for (const std::string& a : o->against)  // FILE, or NAME=FILE
      for (const std::string& file : {a, a.substr(a.find('=') + 1)}) require_apart({{"--junit", *junit}}, {{"--against", file}});
    stored->weights_budget = o->weights_budget;
    const auto compared = [&](const std::string& path, const Common& with) {
      if (o->against.empty()) return verify_stored(path, *stored);
      if (!stored->expected.empty())
        throw Diagnostic(ExitCode::usage, {}, "--against and --expected exclude each other: one of them says what is expected");
      o->inputs = stored->inputs, o->method = stored->method, o->allowed = stored->allowed;
      return run(*o, with);
    };
    return with_junit(*junit, o->artifact, common, compared);
  };
}

}  // namespace aotc::cli
