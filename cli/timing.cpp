#include "timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "dims.h"
#include "sym/expr.h"

namespace aotc::cli {
namespace {

double percentile(std::vector<double> sorted, double p) {
  return sorted.empty() ? 0 : sorted[std::min(sorted.size() - 1, static_cast<size_t>(p * static_cast<double>(sorted.size())))];
}

constexpr int64_t kUsualSize = 8;

/// Of a symbol in the metadata: the first that it was tuned for, else a small one.
int64_t usual_size(const nlohmann::json& symbol) {
  if (symbol.contains("tune") && !symbol["tune"].empty()) return symbol["tune"].at(0).get<int64_t>();
  const int64_t min = symbol.at("min").get<int64_t>(), multiple = symbol.value("multiple_of", int64_t{1});
  const int64_t max = symbol.at("max").is_null() ? std::max(min, kUsualSize) : symbol["max"].get<int64_t>();
  const int64_t v = std::clamp(kUsualSize, min, max), below = v - v % multiple;
  return below < min ? below + multiple : below;
}

}  // namespace

nlohmann::json sizes_of(const Artifact& artifact, const std::vector<HostTensor>& inputs) {
  nlohmann::json sizes = nlohmann::json::object();
  for (size_t i = 0; i < inputs.size(); ++i)
    for (size_t d = 0; d < inputs[i].dims.size(); ++d)
      if (const IoDim& dim = artifact.inputs()[i].dims[d]; dim.value < 0) sizes[dim.symbol] = inputs[i].dims[d];
  return sizes;
}

void print_streamed(const aotc_model_info& model) {
  if (model.weights_streamed == 0) return;
  fmt::print("  of {:.1f} MB of weights each run copies {:.1f} MB to the GPU\n", static_cast<double>(model.weights_bytes) / 1e6,
             static_cast<double>(model.weights_streamed) / 1e6);
}

void print_sizes(const nlohmann::json& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes.items()) text += fmt::format(" {}={}", name, size.get<int64_t>());
  fmt::print("  sizes{}\n", text.empty() ? " all fixed" : text + "; others with --dim NAME=SIZE");
}

std::vector<HostTensor> made_inputs(const Artifact& artifact, const std::map<std::string, int64_t>& given) {
  std::set<std::string> known;
  for (const Io& io : artifact.inputs())
    for (const IoDim& d : io.dims)
      if (d.value < 0) known.insert(d.symbol);
  check_dims(given, known);
  SymTable syms;
  std::map<SymId, int64_t> sizes;
  for (const nlohmann::json& s : artifact.metadata().at("symbols")) {
    SymInfo info;
    info.name = s.at("name").get<std::string>();
    const auto it = given.find(info.name);
    sizes[syms.add(info)] = it == given.end() ? usual_size(s) : it->second;
  }
  const auto size_of = [&](const IoDim& d) -> int64_t {
    if (d.value >= 0) return d.value;
    if (const auto it = given.find(d.symbol); it != given.end()) return it->second;
    const auto value = parse_expr(d.symbol, syms).try_eval([&](SymId s) -> std::optional<int64_t> {
      const auto it = sizes.find(s);
      return it == sizes.end() ? std::nullopt : std::optional(it->second);
    });
    return value.value_or(std::clamp<int64_t>(kUsualSize, d.min, d.max));
  };
  std::vector<HostTensor> inputs;
  for (const Io& io : artifact.inputs()) {
    HostTensor t;
    t.dtype = io.dtype;
    for (const IoDim& d : io.dims) t.dims.push_back(size_of(d));
    t.bytes.assign(static_cast<size_t>(t.elems() * dtype_bytes(t.dtype)), std::byte{0});
    // zeros are valid indices and masks; floats get values without denormals so that time is what real data take
    if (io.dtype == DType::f32)
      for (int64_t i = 0; i < t.elems(); ++i)
        reinterpret_cast<float*>(t.bytes.data())[i] = static_cast<float>((i * 2654435761u) % 2048) / 1024.0f - 1.0f;
    if (io.dtype == DType::f16 || io.dtype == DType::bf16)  // of magnitudes from 0.5 to 2, of either sign
      for (int64_t i = 0; i < t.elems(); ++i) {
        const uint32_t bits = static_cast<uint32_t>(i) * 2654435761u >> 16,
                       half = io.dtype == DType::f16 ? 0x3800u + bits % 2048 : 0x3f00u + bits % 256;
        reinterpret_cast<uint16_t*>(t.bytes.data())[i] = static_cast<uint16_t>(half | (bits & 0x8000));
      }
    inputs.push_back(std::move(t));
  }
  return inputs;
}

void bind_made_inputs(Session& session, std::vector<HostTensor>& inputs) {
  session.bind(inputs);
  if (!session.run_unless_refused()) return;
  for (HostTensor& t : inputs) {
    if (!is_int(t.dtype)) continue;
    std::fill(t.bytes.begin(), t.bytes.end(), std::byte{0});
    for (size_t at = 0; at < t.bytes.size(); at += dtype_bytes(t.dtype)) t.bytes[at] = std::byte{1};  // little endian
  }
  session.bind(inputs);
  try {
    session.run();
    session.wait();
  } catch (Diagnostic& d) {
    d.note("give inputs that the model takes: --inputs DIR, with NAME.npy for each");
    throw;
  }
}

void time_runs(Session& session, double seconds, int least, std::vector<double>& out) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (int i = 0; i < least || Clock::now() < end; ++i) {
    const auto t = Clock::now();
    session.run();
    session.wait();
    out.push_back(microseconds(t));
  }
}

nlohmann::json percentiles(std::vector<double>& us) {
  std::sort(us.begin(), us.end());
  return {{"p50_us", percentile(us, 0.50)},
          {"p95_us", percentile(us, 0.95)},
          {"p99_us", percentile(us, 0.99)},
          {"min_us", us.empty() ? 0 : us.front()},
          {"runs", us.size()}};
}

void time_steps(Session& session, double seconds, Profile& out) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (int i = 0; i < 4 || Clock::now() < end; ++i) {
    const auto t = Clock::now();
    session.run();
    session.wait();
    Profile::OneRun run{microseconds(t), {}};
    const std::vector<aotc_profile_step> steps = session.profile();
    out.labels.resize(steps.size());
    out.threads.resize(steps.size(), 1);
    for (size_t s = 0; s < steps.size(); ++s) {
      run.steps.push_back(static_cast<double>(steps[s].ns) / 1e3);
      out.labels[s] = steps[s].label ? steps[s].label : "";
      out.threads[s] = std::max(out.threads[s], steps[s].threads);
    }
    if (i >= 1) out.runs.push_back(std::move(run));  // the first after something else ran
  }
}

nlohmann::json queued(Session& session, double seconds) {
  constexpr int kRuns = 64;  // the stream never runs dry, nor are so many queued that the driver makes the caller wait
  std::vector<double> each, submit;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (int round = 0; round < 3 || Clock::now() < end; ++round) {
    const auto t = Clock::now();
    for (int i = 0; i < kRuns; ++i) {
      const auto one = Clock::now();
      session.run();
      submit.push_back(microseconds(one));
    }
    session.wait();
    each.push_back(microseconds(t) / kRuns);
  }
  std::sort(each.begin(), each.end()), std::sort(submit.begin(), submit.end());
  return {{"run_us", percentile(each, 0.5)}, {"submit_p50_us", percentile(submit, 0.5)}, {"submit_p99_us", percentile(submit, 0.99)}};
}

double queued_as_graph(const Artifact& artifact, int threads, search::Device* device, const std::vector<HostTensor>& inputs,
                       double seconds) {
  Session chain(artifact, threads, AOTC_CONTEXT_GRAPHS, device);
  chain.bind(inputs);
  for (int i = 0; i < 3; ++i) chain.run(), chain.wait();
  return queued(chain, seconds).at("run_us");
}

void print_queued(const nlohmann::json& q) {
  fmt::print("  queued back to back {:.1f} us a run; a call returns after {:.1f} us (p99 {:.1f})\n", q.at("run_us").get<double>(),
             q.at("submit_p50_us").get<double>(), q.at("submit_p99_us").get<double>());
}

nlohmann::json together(const std::vector<Session*>& sessions, double seconds) {
  struct Times {
    std::vector<double> run, submit;
    std::exception_ptr failed;
  };
  std::vector<Times> of(sessions.size());
  const auto begin = Clock::now();
  const auto work = [&](size_t i) {
    try {
      const auto end = begin + std::chrono::duration<double>(seconds);
      while (Clock::now() < end) {
        const auto t = Clock::now();
        sessions[i]->run();
        of[i].submit.push_back(microseconds(t));
        sessions[i]->wait();
        of[i].run.push_back(microseconds(t));
      }
    } catch (...) { of[i].failed = std::current_exception(); }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < sessions.size(); ++i) threads.emplace_back(work, i);
  for (std::thread& t : threads) t.join();
  const double us = microseconds(begin);
  std::vector<double> run, submit;
  for (const Times& t : of) {
    if (t.failed) std::rethrow_exception(t.failed);
    run.insert(run.end(), t.run.begin(), t.run.end());
    submit.insert(submit.end(), t.submit.begin(), t.submit.end());
  }
  nlohmann::json j = percentiles(run);
  j["contexts"] = sessions.size();
  j["submit"] = percentiles(submit);
  j["runs_per_second"] = static_cast<double>(run.size()) * 1e6 / us;
  return j;
}

void print_together(const nlohmann::json& t) {
  fmt::print("  {} contexts at once: {:.0f} runs a second, p50 {:.1f} us, p99 {:.1f}; a call returns after {:.1f} us (p99 {:.1f})\n",
             t.at("contexts").get<int>(), t.at("runs_per_second").get<double>(), t.at("p50_us").get<double>(), t.at("p99_us").get<double>(),
             t.at("submit").at("p50_us").get<double>(), t.at("submit").at("p99_us").get<double>());
}

nlohmann::json profile_json(Profile p) {
  std::sort(p.runs.begin(), p.runs.end(), [](const auto& a, const auto& b) { return a.us < b.us; });
  const size_t from = p.runs.size() / 4, to = std::max(from + 1, p.runs.size() - from), n = to - from;
  double whole = 0, inside = 0;
  std::vector<double> us(p.labels.size(), 0);
  for (size_t r = from; r < to; ++r) {
    whole += p.runs[r].us / static_cast<double>(n);
    for (size_t s = 0; s < us.size(); ++s) us[s] += p.runs[r].steps[s] / static_cast<double>(n);
  }
  std::vector<size_t> order(us.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return us[a] > us[b]; });
  nlohmann::json steps = nlohmann::json::array();
  for (const size_t s : order) {
    inside += us[s];
    steps.push_back({{"step", s}, {"label", p.labels[s]}, {"us", us[s]}, {"share", whole > 0 ? us[s] / whole : 0}});
  }
  return {{"statistic", "mean of the middle half of the runs"},
          {"runs", n},
          {"run_us", whole},
          {"outside_us", whole - inside},
          {"p50_us", p.runs[p.runs.size() / 2].us},
          {"steps", steps}};
}

void take_off_marks(nlohmann::json& p, double chain_us) {
  double inside = 0, sum = 0;
  for (const auto& s : p["steps"]) inside += s["us"].get<double>();
  const double mark = p["steps"].empty() ? 0 : std::max(0.0, inside - chain_us) / static_cast<double>(p["steps"].size());
  for (auto& s : p["steps"]) {
    const double us = s["us"];
    s["us"] = std::max(us - mark, us / 8);
    sum += s["us"].get<double>();
  }
  for (auto& s : p["steps"]) s["share"] = sum > 0 ? s["us"].get<double>() / sum : 0;
  p["marked_run_us"] = p["run_us"];
  p["chain_us"] = chain_us, p["mark_us"] = mark, p["run_us"] = sum, p["outside_us"] = 0;
}

void print_profile(const nlohmann::json& p, double p50) {
  const double whole = p["run_us"].get<double>(), outside = p["outside_us"].get<double>();
  const bool roofline = p.contains("peaks");
  const auto number = [](const nlohmann::json& step, const char* key, double factor, const char* unit) {
    return step.contains(key)
               ? fmt::format("{:9.{}f} {}", step[key].get<double>() * factor, step[key].get<double>() * factor < 10 ? 1 : 0, unit)
               : std::string(10 + std::string_view(unit).size(), ' ');
  };
  const auto row = [&](double us, const std::string& what, const nlohmann::json& step) {
    std::string rates;
    if (roofline)
      rates = number(step, "gflops", 1, "GFLOP/s") + number(step, "gbytes", 1, "GB/s") + number(step, "roofline", 100, "%") +
              fmt::format(" {:<11}", step.contains("bound") ? "of " + step["bound"].get<std::string>() : "");
    fmt::print("  {:10.1f} us {:5.1f} %{}  {}\n", us, us / whole * 100, rates, what);
  };
  fmt::print("  profile: {} ({} runs with measured steps, {:.1f} us each; p50 without measuring {:.1f})\n",
             p["statistic"].get<std::string>(), p["runs"].dump(), p.value("marked_run_us", whole), p50);
  if (p.contains("mark_us"))
    fmt::print("  steps: between events, less {:.2f} us each, so that they add up to a run queued as a graph ({:.1f} us)\n",
               p["mark_us"].get<double>(), p["chain_us"].get<double>());
  if (roofline) fmt::print("  roofline: the least time of a step's work by the time it took; {}\n", p["peaks"]["text"].get<std::string>());
  for (const auto& step : p["steps"]) row(step["us"].get<double>(), step["label"].get<std::string>(), step);
  if (outside > 0) row(outside, "outside of the steps: checks, pointers, waking threads", nlohmann::json::object());
  row(whole, "together", nlohmann::json::object());
}

}  // namespace aotc::cli
