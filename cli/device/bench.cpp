#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "about.h"
#include "base/file.h"
#include "baseline.h"
#include "cupti.h"
#include "device/device.h"
#include "dims.h"
#include "roofline.h"
#include "stored.h"
#include "timing.h"

namespace aotc::cli {
namespace {

struct Options {
  std::string artifact;
  Stored stored;
  std::vector<std::string> dims;
  double seconds = 1.0;
  int contexts = 0;
  std::string trace;
  BaselineOptions baseline;
  bool profile = false, graphs = false, no_graphs = false;
};

/// Of o.contexts contexts that share the model's weights, each with tensors and, on a GPU, a stream of its own.
nlohmann::json at_once(const Options& o, const Artifact& artifact, uint32_t flags, const std::vector<HostTensor>& inputs) {
  std::vector<std::unique_ptr<search::Device>> devices;
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<Session*> all;
  for (int i = 0; i < o.contexts; ++i) {
    devices.push_back(search::make_device(artifact.info().device));
    sessions.push_back(std::make_unique<Session>(artifact, o.stored.threads, flags, devices.back().get()));
    all.push_back(sessions.back().get());
    all.back()->bind(inputs);
    for (int warm = 0; warm < 3; ++warm) all.back()->run(), all.back()->wait();
  }
  nlohmann::json j = together(all, o.seconds);
  j["arena_bytes_each"] = all.front()->info().arena_bytes;
  return j;
}

int run(const Options& o, const Common& common) {
  require_apart({{"--trace", o.trace}}, {{"artifact", o.artifact}, {"--baseline", o.baseline.file}});
  require_apart({{"--trace", o.trace}}, stored_files(o.stored));
  if (!o.trace.empty()) require_place_for_file(o.trace);
  const Artifact artifact(o.artifact, o.stored.method, o.stored.check_weights, o.stored.device, 0, {}, o.stored.weights_budget);
  const aotc_model_info model = artifact.info();
  const bool on_cpu = model.device == AOTC_DEVICE_HOST;
  uint32_t flags = 0;
  if (o.graphs) flags |= AOTC_CONTEXT_GRAPHS;
  if (o.no_graphs) flags |= AOTC_CONTEXT_NO_GRAPHS;
  const std::unique_ptr<search::Device> device = search::make_device(model.device);
  std::vector<HostTensor> inputs =
      o.stored.inputs.empty() ? made_inputs(artifact, parse_dims(o.dims, artifact.metadata())) : stored_inputs(o.stored.inputs, artifact);
  Session session(artifact, o.stored.threads, flags, device.get());
  if (o.stored.inputs.empty())
    bind_made_inputs(session, inputs);
  else
    session.bind(inputs);
  std::vector<double> us;
  time_runs(session, o.seconds / 10, 3, us);
  us.clear();
  time_runs(session, o.seconds, 10, us);
  const std::vector<double> blocks = block_medians(us, kStoredBlocks);  // before percentiles sorts them
  nlohmann::json j = percentiles(us);
  j["block_p50_us"] = blocks;
  j["threads"] = o.stored.threads;
  for (size_t i = 0; i < inputs.size(); ++i) j["inputs"][artifact.inputs()[i].name] = inputs[i].dims;
  j["target"] = model.target;
  j["sizes"] = sizes_of(artifact, inputs);
  j["device"] = model.device;
  j["arena_bytes"] = session.info().arena_bytes;
  j["weights_bytes"] = model.weights_bytes;
  if (model.weights_streamed) j["weights_streamed"] = model.weights_streamed;
  j["graphs"] = session.info().graphs;
  if (!on_cpu) j["queued"] = queued(session, o.seconds);
  if (o.contexts > 0) j["together"] = at_once(o, artifact, flags, inputs);
  Profile steps;
  if (o.profile || !o.trace.empty()) {
    Session profiled(artifact, o.stored.threads, AOTC_CONTEXT_PROFILE | (flags & AOTC_CONTEXT_NO_GRAPHS), device.get());
    profiled.bind(inputs);
    time_steps(profiled, o.seconds, steps);
    j["profile"] = profile_json(steps);
    if (!on_cpu) take_off_marks(j["profile"], queued_as_graph(artifact, o.stored.threads, device.get(), inputs, o.seconds / 4));
    add_roofline(j["profile"], artifact, session, inputs, peaks_of(artifact, session, o.stored.threads, inputs));
  }
  if (!o.baseline.file.empty()) j["baseline"] = against_baseline(o.baseline, j, artifact, session, inputs, o.seconds, flags, 0);
  if (j.contains("profile")) {
    nlohmann::json events = nlohmann::json::array();
    if (!on_cpu) {
      const Result<KernelTrace> kernels = trace_kernels(artifact, o.stored.threads, flags, device.get(), inputs);
      j["kernels"] = kernels_json(kernels);
      events = kernel_events(kernels);
    }
    if (!o.trace.empty()) write_trace(o.trace, steps, j["profile"], events, o.artifact);
  }
  if (common.json) {
    print_result(j, about(common, artifact));
    return j.contains("baseline") ? report_baseline(j["baseline"], common) : 0;
  }
  fmt::print("{} ({}{})\n  p50 {:.1f} us, p95 {:.1f}, p99 {:.1f}, min {:.1f} over {} runs\n", o.artifact, model.target,
             session.info().graphs > 0 ? ", as a graph" : "", j["p50_us"].get<double>(), j["p95_us"].get<double>(),
             j["p99_us"].get<double>(), j["min_us"].get<double>(), us.size());
  print_sizes(j["sizes"]);
  print_streamed(model);
  if (!on_cpu) print_queued(j["queued"]);
  if (o.contexts > 0) print_together(j["together"]);
  if (j.contains("profile")) print_profile(j["profile"], j["p50_us"]);
  if (j.contains("kernels")) print_kernels(j["kernels"]);
  return j.contains("baseline") ? report_baseline(j["baseline"], common) : 0;
}

}  // namespace

Run add_device_bench(CLI::App& app) {
  auto o = std::make_shared<Options>();
  add_option(app, "artifact", o->artifact, "model.so").required();
  add_stored(app, o->stored, false);
  add_option(app, "--dim", o->dims, "NAME=SIZE: fixes a dimension (repeatable), without --inputs");
  add_option(app, "--threads", o->stored.threads, "CPU: threads of the run").range(1, 1024);
  add_option(app, "--seconds", o->seconds, "time to measure for").positive();
  add_weights_budget(app, o->stored.weights_budget);
  add_baseline(app, o->baseline);
  add_option(app, "--contexts", o->contexts, "also run this many contexts at once, one thread each").range(1, 1024);
  add_flag(app, "--profile", o->profile,
           "time of every step, GFLOP/s, GB/s and share of the roofline; on a GPU between events, so that steps do not overlap");
  add_option(app, "--trace", o->trace, "also write the steps of one run as FILE.json for chrome://tracing or Perfetto");
  add_flag(app, "--graphs", o->graphs, "GPU: runs as CUDA graphs, whatever the artifact's mode");
  add_flag(app, "--no-graphs", o->no_graphs, "GPU: steps are launched one by one, whatever the artifact's mode");
  return [o](const Common& common) { return run(*o, common); };
}

}  // namespace aotc::cli
