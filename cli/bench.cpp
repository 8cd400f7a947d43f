#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "artifact.h"
#include "cli.h"
#include "import/reference.h"
#include "load_once.h"
#include "sizes.h"

namespace aotc::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string artifact, against;
  std::vector<std::string> dims;
  int threads = 1, rounds = 5;
  double seconds = 1.0;
  bool profile = false;
};

double microseconds(Clock::time_point from) { return std::chrono::duration<double, std::micro>(Clock::now() - from).count(); }

double percentile(std::vector<double> sorted, double p) {
  return sorted.empty() ? 0 : sorted[std::min(sorted.size() - 1, static_cast<size_t>(p * static_cast<double>(sorted.size())))];
}

/// Sizes for an artifact alone: by the names in its own signature.
std::vector<HostTensor> inputs_without_archive(const Artifact& artifact, const std::map<std::string, int64_t>& given) {
  std::vector<HostTensor> inputs;
  for (const Io& io : artifact.inputs()) {
    HostTensor t;
    t.dtype = io.dtype;
    for (const IoDim& d : io.dims) {
      auto it = given.find(d.symbol);
      t.dims.push_back(d.value >= 0 ? d.value : it != given.end() ? it->second : std::clamp<int64_t>(8, d.min, d.max));
    }
    t.bytes.assign(static_cast<size_t>(t.elems() * dtype_bytes(t.dtype)), std::byte{0});
    // zeros are valid indices and masks; floats get values without denormals so that time is what real data take
    if (io.dtype == DType::f32)
      for (int64_t i = 0; i < t.elems(); ++i)
        reinterpret_cast<float*>(t.bytes.data())[i] = static_cast<float>((i * 2654435761u) % 2048) / 1024.0f - 1.0f;
    inputs.push_back(std::move(t));
  }
  return inputs;
}

void time_runs(Session& session, double seconds, std::vector<double>& out) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (int i = 0; i < 3 || Clock::now() < end; ++i) {
    const auto t = Clock::now();
    session.run();
    out.push_back(microseconds(t));
  }
}

nlohmann::json percentiles(std::vector<double>& us) {
  std::sort(us.begin(), us.end());
  return {{"p50_us", percentile(us, 0.50)},
          {"p95_us", percentile(us, 0.95)},
          {"p99_us", percentile(us, 0.99)},
          {"min_us", us.front()},
          {"runs", us.size()}};
}

nlohmann::json profile(const Artifact& artifact, const std::vector<HostTensor>& inputs, int threads);

int run(const Options& o, const Common& common) {
  const std::map<std::string, int64_t> dims = parse_dims(o.dims);
  const Artifact artifact(o.artifact);
  Session session(artifact, o.threads);
  std::vector<HostTensor> inputs = inputs_without_archive(artifact, dims);
  std::optional<import::Program> program;  // outlives eager
  std::unique_ptr<import::Reference> eager;
  const Result<LoadOnce> once = load_once(o.artifact, o.threads, inputs);
  if (!once) throw Diagnostic(Loc{o.artifact, "", "", ""}, once.why());
  session.bind(inputs);
  session.run();

  std::vector<double> ours, theirs;
  if (!o.against.empty()) {
    program = program_of(o.against, artifact);
    inputs = import::make_inputs(*program, choose_sizes(*program, dims), 0);
    session.bind(inputs);
    session.run();
    eager = import::make_reference(*program, {false, o.threads});
    for (int i = 0; i < 2; ++i) eager->run(inputs);
  }
  for (int round = 0; round < o.rounds; ++round) {  // interleaved: drift of the machine hits both
    time_runs(session, o.seconds / o.rounds, ours);
    if (!eager) continue;
    const auto end = Clock::now() + std::chrono::duration<double>(o.seconds / o.rounds);
    for (int i = 0; i < 2 || Clock::now() < end; ++i) {
      const auto t = Clock::now();
      eager->run(inputs);
      theirs.push_back(microseconds(t));
    }
  }

  const aotc_context_info info = session.info();
  nlohmann::json j = percentiles(ours);
  j["first_call_us"] = once->first_call_us;
  j["load_us"] = once->load_us;
  j["peak_rss_bytes"] = once->peak_rss_bytes;
  j["base_rss_bytes"] = once->base_rss_bytes;
  j["arena_bytes"] = info.arena_bytes;
  j["scratch_bytes"] = info.scratch_bytes;
  aotc_model_info model = {};
  model.struct_size = sizeof model;
  artifact.check(artifact.api().model_get_info(artifact.model(), &model), "model_get_info");
  j["weights_bytes"] = model.weights_bytes;
  j["target"] = model.target;
  j["threads"] = o.threads;
  j["variant"] = info.variant ? info.variant : "";
  nlohmann::json shapes;
  for (size_t i = 0; i < inputs.size(); ++i) shapes[artifact.inputs()[i].name] = inputs[i].dims;
  j["inputs"] = shapes;
  if (eager) {
    j["eager"] = percentiles(theirs);
    j["eager_over_aotc"] = j["eager"]["p50_us"].get<double>() / j["p50_us"].get<double>();
  }
  if (o.profile) j["profile"] = profile(artifact, inputs, o.threads);
  if (common.json) {
    fmt::print("{}\n", j.dump(1));
    return 0;
  }
  fmt::print("{} ({}, {} thread{})\n", o.artifact, model.target, o.threads, o.threads == 1 ? "" : "s");
  fmt::print("  p50 {:.1f} us, p95 {:.1f}, p99 {:.1f}, min {:.1f} over {} runs\n", j["p50_us"].get<double>(), j["p95_us"].get<double>(),
             j["p99_us"].get<double>(), j["min_us"].get<double>(), ours.size());
  fmt::print(
      "  load {:.2f} ms, first call {:.2f} ms, weights {:.1f} MB, arena {:.2f} MB, peak memory of a process that loads and runs it once "
      "{:.1f} MB\n",
      once->load_us / 1e3, once->first_call_us / 1e3, static_cast<double>(model.weights_bytes) / 1e6,
      static_cast<double>(info.arena_bytes) / 1e6, static_cast<double>(once->peak_rss_bytes) / 1e6);
  if (eager)
    fmt::print("  eager (LibTorch, op by op) p50 {:.1f} us: {:.2f}x the artifact's\n", j["eager"]["p50_us"].get<double>(),
               j["eager_over_aotc"].get<double>());
  if (o.profile)
    for (const auto& step : j["profile"])
      fmt::print("  {:10.1f} us {:5.1f} %  {}\n", step["us"].get<double>(), step["share"].get<double>() * 100,
                 step["label"].get<std::string>());
  return 0;
}

/// Median time of every step over some runs, the slowest first.
nlohmann::json profile(const Artifact& artifact, const std::vector<HostTensor>& inputs, int threads) {
  Session session(artifact, threads, AOTC_CONTEXT_PROFILE);
  session.bind(inputs);
  std::vector<std::vector<double>> times;
  std::vector<std::string> labels;
  for (int run = 0; run < 12; ++run) {
    session.run();
    const std::vector<aotc_profile_step> steps = session.profile();
    times.resize(steps.size());
    labels.resize(steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      if (run >= 2) times[i].push_back(static_cast<double>(steps[i].ns) / 1e3);
      labels[i] = steps[i].label ? steps[i].label : "";
    }
  }
  double total = 0;
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < times.size(); ++i) {
    std::sort(times[i].begin(), times[i].end());
    order.emplace_back(percentile(times[i], 0.5), i);
    total += order.back().first;
  }
  std::sort(order.rbegin(), order.rend());
  nlohmann::json out = nlohmann::json::array();
  for (const auto& [us, i] : order) out.push_back({{"step", i}, {"label", labels[i]}, {"us", us}, {"share", total > 0 ? us / total : 0}});
  return out;
}

}  // namespace

Run add_bench(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("artifact", o->artifact, "model.so")->required();
  app.add_option("--against", o->against, "the model.pt2: its eager run (LibTorch) is timed beside, in turns, on the same inputs");
  app.add_option("--dim", o->dims, "NAME=SIZE: fixes a dimension (repeatable)");
  app.add_option("--threads", o->threads, "threads of the run")->check(CLI::Range(1, 1024));
  app.add_option("--seconds", o->seconds, "time to measure for")->check(CLI::PositiveNumber);
  app.add_flag("--profile", o->profile, "time of every step");
  return [o](const Common& common) { return run(*o, common); };
}

}  // namespace aotc::cli
