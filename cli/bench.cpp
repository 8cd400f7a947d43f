#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "about.h"
#include "artifact.h"
#include "base/file.h"
#include "baseline.h"
#include "cli.h"
#include "cupti.h"
#include "custom_operators.h"
#include "import/reference.h"
#include "load_once.h"
#include "roofline.h"
#include "sizes.h"
#include "stored.h"
#include "timing.h"

namespace aotc::cli {
namespace {

constexpr double kDenormalsMatter = 1.3;  // times; less is noise

struct Options {
  std::string artifact, method, against, inputs, trace;
  std::vector<std::string> dims;
  BaselineOptions baseline;
  int threads = 1, rounds = 5;
  double seconds = 1.0;
  std::string weights;
  uint64_t weights_budget = 0;
  bool profile = false, check_weights = false, flush_denormals = false, own_weights = false;
  CustomOperators operators;
};

/// What denormals cost, said of a run that keeps them and one that flushes them.
nlohmann::json denormals_json(bool flushed, double p50, double other_p50) {
  nlohmann::json j = {{"flushed", flushed}};
  if (other_p50 > 0) j[flushed ? "kept_p50_us" : "flushed_p50_us"] = other_p50;
  if (other_p50 > 0) j["kept_over_flushed"] = flushed ? other_p50 / p50 : p50 / other_p50;
  return j;
}

void print_denormals(const nlohmann::json& d) {
  const double ratio = d.value("kept_over_flushed", 0.0);
  std::string said = d["flushed"].get<bool>() ? "flushed to zero (AOTC_CONTEXT_FLUSH_DENORMALS)" : "kept";
  if (d["flushed"].get<bool>())
    said += ratio > kDenormalsMatter ? fmt::format(": {:.1f}x as fast as with them", ratio) : ": of no use on these numbers";
  else if (ratio > kDenormalsMatter)
    said += fmt::format(", and met: {:.1f}x as fast with --flush-denormals, in a program with AOTC_CONTEXT_FLUSH_DENORMALS", ratio);
  else
    said += "; flushing them (--flush-denormals) makes no difference on these numbers";
  fmt::print("  denormals {}\n", said);
}

int run(const Options& o, const Common& common) {
  require_apart({{"--trace", o.trace}}, {{"artifact", o.artifact}, {"--against", o.against}, {"--baseline", o.baseline.file}});
  if (!o.trace.empty()) require_place_for_file(o.trace);
  const uint32_t model_flags = o.own_weights ? AOTC_MODEL_OWN_WEIGHTS : 0;
  const Artifact artifact(o.artifact, o.method, o.check_weights, AOTC_DEVICE_DEFAULT, model_flags, o.weights, o.weights_budget);
  const std::map<std::string, int64_t> dims = parse_dims(o.dims, artifact.metadata());
  const aotc_model_info model = artifact.info();
  const bool on_cpu = model.device == AOTC_DEVICE_HOST;
  if (!on_cpu && o.flush_denormals) throw Diagnostic(ExitCode::usage, {}, "--flush-denormals is for CPU artifacts");
  const uint32_t flush = AOTC_CONTEXT_FLUSH_DENORMALS, flags = o.flush_denormals ? flush : 0;
  const std::unique_ptr<search::Device> device = on_cpu ? nullptr : search::make_device(model.device);
  Session session(artifact, o.threads, flags, device.get());
  std::unique_ptr<Session> other, profiled;  // with the other treatment of denormals; with times
  if (on_cpu) other = std::make_unique<Session>(artifact, o.threads, flags ^ flush);
  if (o.profile || !o.trace.empty()) profiled = std::make_unique<Session>(artifact, o.threads, flags | AOTC_CONTEXT_PROFILE, device.get());
  if (!o.inputs.empty() && !dims.empty()) throw Diagnostic(ExitCode::usage, {}, "--inputs has sizes of its own: leave out --dim");
  std::vector<HostTensor> inputs = o.inputs.empty() ? made_inputs(artifact, dims) : stored_inputs(o.inputs, artifact);
  std::optional<Against> original;  // outlives eager
  std::unique_ptr<import::Reference> eager;
  std::vector<double> ours, theirs, others;
  Profile steps;
  CustomProcesses custom;
  if (!o.against.empty()) {
    custom = define(o.operators);
    original = against(o.against, artifact);
    if (!original->doubt.empty()) fmt::print(stderr, "aotc: warning: {}\n", original->doubt);
    if (o.inputs.empty()) inputs = import::make_inputs(original->program, choose_sizes(original->program, dims), 0);
  }
  if (o.inputs.empty()) {
    bind_made_inputs(session, inputs);
  } else {
    session.bind(inputs);
    session.run();
    session.wait();
  }
  const Result<LoadOnce> once = load_once(o.artifact, o.threads, model_flags, artifact.method_index(), inputs);
  if (!once) fmt::print(stderr, "aotc: warning: load time, first call and peak memory are not known: a run on zeros: {}\n", once.why());
  if (original) {
    eager = import::make_reference(original->program, {false, o.threads});
    for (int i = 0; i < 2; ++i) eager->run(inputs);
  }
  for (Session* s : {other.get(), profiled.get()})
    if (s) s->bind(inputs), s->run();
  for (int round = 0; round < o.rounds; ++round) {  // interleaved: drift of the machine hits all
    time_runs(session, o.seconds / o.rounds, 3, ours);
    if (other) time_runs(*other, o.seconds / o.rounds / 10, 1, others);
    if (profiled) time_steps(*profiled, o.seconds / o.rounds, steps);
    if (!eager) continue;
    const auto end = Clock::now() + std::chrono::duration<double>(o.seconds / o.rounds);
    for (int i = 0; i < 2 || Clock::now() < end; ++i) {
      const auto t = Clock::now();
      eager->run(inputs);
      theirs.push_back(microseconds(t));
    }
  }

  const aotc_context_info info = session.info();
  const std::vector<double> blocks = block_medians(ours, kStoredBlocks);  // before percentiles sorts them
  nlohmann::json j = percentiles(ours);
  j["block_p50_us"] = blocks;
  if (once) {
    j["first_call_us"] = once->first_call_us;
    j["load_us"] = once->load_us;
    j["peak_rss_bytes"] = once->peak_rss_bytes;
    j["base_rss_bytes"] = once->base_rss_bytes;
  }
  j["arena_bytes"] = info.arena_bytes;
  j["scratch_bytes"] = info.scratch_bytes;
  j["weights_bytes"] = model.weights_bytes;
  if (model.weights_streamed) j["weights_streamed"] = model.weights_streamed;
  j["target"] = model.target;
  j["threads"] = o.threads;
  j["variant"] = info.variant ? info.variant : "";
  nlohmann::json shapes;
  for (size_t i = 0; i < inputs.size(); ++i) shapes[artifact.inputs()[i].name] = inputs[i].dims;
  j["inputs"] = shapes;
  j["sizes"] = sizes_of(artifact, inputs);
  if (eager) {
    j["eager"] = percentiles(theirs);
    j["eager_over_aotc"] = j["eager"]["p50_us"].get<double>() / j["p50_us"].get<double>();
  }
  if (on_cpu) j["denormals"] = denormals_json(o.flush_denormals, j["p50_us"], percentiles(others)["p50_us"]);
  if (!on_cpu) j["queued"] = queued(session, o.seconds / o.rounds);
  if (profiled) {
    j["profile"] = profile_json(steps);
    if (!on_cpu) take_off_marks(j["profile"], queued_as_graph(artifact, o.threads, device.get(), inputs, o.seconds / o.rounds / 4));
    add_roofline(j["profile"], artifact, session, inputs, peaks_of(artifact, session, o.threads, inputs));
  }
  if (!o.baseline.file.empty()) j["baseline"] = against_baseline(o.baseline, j, artifact, session, inputs, o.seconds, flags, model_flags);
  nlohmann::json events = nlohmann::json::array();
  if (profiled && !on_cpu) {
    const Result<KernelTrace> kernels = trace_kernels(artifact, o.threads, flags, device.get(), inputs);
    j["kernels"] = kernels_json(kernels);
    events = kernel_events(kernels);
  }
  if (!o.trace.empty()) write_trace(o.trace, steps, j["profile"], events, o.artifact);
  if (common.json) {
    print_result(j, about(common, artifact));
    return j.contains("baseline") ? report_baseline(j["baseline"], common) : 0;
  }
  fmt::print("{} ({}, {} thread{})\n", o.artifact, model.target, o.threads, o.threads == 1 ? "" : "s");
  fmt::print("  p50 {:.1f} us, p95 {:.1f}, p99 {:.1f}, min {:.1f} over {} runs\n", j["p50_us"].get<double>(), j["p95_us"].get<double>(),
             j["p99_us"].get<double>(), j["min_us"].get<double>(), ours.size());
  print_sizes(j["sizes"]);
  print_streamed(model);
  const std::string first =
      once ? fmt::format("load {:.2f} ms, first call {:.2f} ms, ", once->load_us / 1e3, once->first_call_us / 1e3) : "";
  const std::string peak = once ? fmt::format(", peak memory of a process that loads and runs it once {:.1f} MB",
                                              static_cast<double>(once->peak_rss_bytes) / 1e6)
                                : "";
  fmt::print("  {}weights {:.1f} MB, arena {:.2f} MB{}\n", first, static_cast<double>(model.weights_bytes) / 1e6,
             static_cast<double>(info.arena_bytes) / 1e6, peak);
  if (eager)
    fmt::print("  eager (LibTorch, op by op) p50 {:.1f} us: {:.2f}x the artifact's\n", j["eager"]["p50_us"].get<double>(),
               j["eager_over_aotc"].get<double>());
  if (on_cpu) print_denormals(j["denormals"]);
  if (!on_cpu) print_queued(j["queued"]);
  if (profiled) print_profile(j["profile"], j["p50_us"]);
  if (j.contains("kernels")) print_kernels(j["kernels"]);
  return j.contains("baseline") ? report_baseline(j["baseline"], common) : 0;
}

}  // namespace

Run add_bench(CLI::App& app) {
  auto o = std::make_shared<Options>();
  add_option(app, "artifact", o->artifact, "model.so").required();
  add_option(app, "--against", o->against, "the model.pt2: time eager PyTorch (LibTorch) too, in alternation, on the same inputs");
  add_option(app, "--inputs", o->inputs, "folder with NAME.npy for each input: measure on these; default: drawn inputs");
  add_option(app, "--dim", o->dims, "NAME=SIZE: fixes a dimension (repeatable)");
  add_option(app, "--threads", o->threads, "threads of the run").range(1, 1024);
  add_option(app, "--seconds", o->seconds, "time to measure for").positive();
  add_baseline(app, o->baseline);
  add_method(app, o->method);
  add_custom_operators(app, o->operators);
  add_weights_file(app, o->weights);
  add_weights_budget(app, o->weights_budget);
  add_check_weights(app, o->check_weights);
  add_flag(app, "--profile", o->profile,
           "time of every step (mean of the middle half of the runs, so that steps add up), GFLOP/s, GB/s and share of the roofline");
  add_option(app, "--trace", o->trace, "also write the steps of one run as FILE.json for chrome://tracing or Perfetto");
  add_flag(app, "--flush-denormals", o->flush_denormals, "run with AOTC_CONTEXT_FLUSH_DENORMALS");
  add_flag(app, "--own-weights", o->own_weights, "load with AOTC_MODEL_OWN_WEIGHTS: copy the weights into huge pages");
  return [o](const Common& common) { return run(*o, common); };
}

}  // namespace aotc::cli
