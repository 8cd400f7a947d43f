#include "baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "about.h"
#include "base/file.h"
#include "timing.h"

namespace aotc::cli {
namespace {

using nlohmann::json;

constexpr double kBlockUs = 4000;  // of runs of one before the other's turn
constexpr int kLongest = 8;        // times the seconds that were asked for

/// "5%" or 0.05.
std::string share_of_time(std::string& text) {
  const bool percent = !text.empty() && text.back() == '%';
  const std::string number = percent ? text.substr(0, text.size() - 1) : text;
  double v = 0;
  if (!read_number(number, v) || !std::isfinite(v) || v < 0) return fmt::format("'{}' is not a share of the time, as 5% or 0.05", text);
  text = fmt::format("{:.17g}", percent ? v / 100 : v);
  return {};
}

/// The median of a block's runs, without its first where there are others: that one finds the other program's data in the caches.
double block(Session& session, int runs) {
  std::vector<double> us;
  time_runs(session, 0, runs, us);
  if (us.size() > 2) us.erase(us.begin());
  return median_of(us);
}

json earlier_bench(const std::string& path) {
  json j;
  try {
    j = json::parse(read_file(path));
    if (j.at("about").at("verb").get<std::string>() == "bench" && !j.at("block_p50_us").empty()) return j;
  } catch (const json::exception&) {}
  throw Diagnostic(Loc{path, "", "", ""}, "is neither an artifact nor what bench --json writes")
      .note("make one with: aotc bench model.so --json > baseline.json");
}

/// Throws Diagnostic where the times are not of the same thing.
void require_alike(const std::string& path, const json& before, const json& now, const json& machine) {
  const auto differ = [&](const std::string& what, const json& a, const json& b) {
    if (a == b) return;
    throw Diagnostic(Loc{path, "", "", ""}, fmt::format("its times are of another {}: {}, here {}", what, a.dump(), b.dump()))
        .note(
            "times of an earlier bench can be held against those of the same machine, threads and sizes; an artifact can be timed beside, "
            "anywhere: --baseline old.so");
  };
  differ("processor", before.at("about").at("machine").value("cpu", json()), machine.value("cpu", json()));
  for (const auto& [key, what] :
       {std::pair("threads", "number of threads"), std::pair("device", "device"), std::pair("inputs", "size of inputs")})
    differ(what, before.value(key, json()), now.value(key, json()));
}

json ratio_json(const Ratio& r, double max_regression) {
  json j = {{"ratio", r.value},
            {"low", r.low},
            {"confidence", kConfidence},
            {"samples", r.samples},
            {"max_regression", max_regression},
            {"verdict", slowdown_name(judge_slowdown(r, max_regression))}};
  j["high"] = std::isfinite(r.high) ? json(r.high) : json();
  return j;
}

/// The same inputs suit both.
void require_same_inputs(const Artifact& baseline, const Artifact& artifact) {
  const auto text = [](const Artifact& a) {
    std::string t;
    for (const Io& io : a.inputs()) t += fmt::format("{}{} {}", t.empty() ? "" : ", ", dtype_name(io.dtype), io.name);
    return t.empty() ? "none" : t;
  };
  const bool same = std::equal(baseline.inputs().begin(), baseline.inputs().end(), artifact.inputs().begin(), artifact.inputs().end(),
                               [](const Io& a, const Io& b) { return a.dtype == b.dtype && a.dims.size() == b.dims.size(); });
  if (!same)
    throw Diagnostic(ExitCode::usage, Loc{baseline.path(), "", "", ""},
                     fmt::format("takes other inputs ({}) than {} ({})", text(baseline), artifact.path(), text(artifact)));
}

}  // namespace

void add_baseline(CLI::App& app, BaselineOptions& o) {
  add_option(app, "--baseline", o.file,
             "an artifact to time in alternation with this one, or the output of an earlier bench --json on this machine (FILE.json): exit "
             "code 1 if the whole 99 % confidence interval of the slowdown is above --max-regression");
  add_option(app, "--max-regression", o.max_regression,
             "with --baseline: the slowdown that is allowed, as 5% or 0.05; set it below the one that you want to catch; default: 5%")
      .transform(share_of_time, "SHARE");
}

Ratio time_in_turns(Session& baseline, Session& program, double seconds, double max_regression, double* baseline_us, double* program_us) {
  const double one = std::max(block(baseline, 3), block(program, 3));
  const int runs = std::clamp(static_cast<int>(kBlockUs / std::max(one, 0.01)), 1, 2000);
  constexpr size_t kLeast = 16;  // pairs: below that the interval is open
  std::vector<std::pair<double, double>> pairs;
  std::vector<double> of_baseline, of_program;
  const auto start = Clock::now();
  for (double until = seconds;; until = std::min(until * 1.5, seconds * kLongest)) {
    while (pairs.size() < kLeast || microseconds(start) < until * 1e6) {
      const bool first = pairs.size() % 2 == 0;  // whose turn is first changes: what comes second may find the machine warmer
      double b = 0, p = 0;
      if (first) b = block(baseline, runs);
      p = block(program, runs);
      if (!first) b = block(baseline, runs);
      pairs.emplace_back(b, p);
      of_baseline.push_back(b), of_program.push_back(p);
    }
    const Ratio r = paired_ratio(pairs);
    if (judge_slowdown(r, max_regression) == Slowdown::undecided && until < seconds * kLongest) continue;
    *baseline_us = median_of(of_baseline), *program_us = median_of(of_program);
    return r;
  }
}

json against_baseline(const BaselineOptions& o, const json& bench, const Artifact& artifact, Session& session,
                      const std::vector<HostTensor>& inputs, double seconds, uint32_t context_flags, uint32_t model_flags) {
  if (!is_shared_object(o.file)) {
    const json before = earlier_bench(o.file);
    require_alike(o.file, before, bench, machine_json());
    const Ratio r =
        unpaired_ratio(before.at("block_p50_us").get<std::vector<double>>(), bench.at("block_p50_us").get<std::vector<double>>());
    json j = ratio_json(r, o.max_regression);
    j["how"] = "stored", j["file"] = o.file, j["p50_us"] = before.at("p50_us"), j["own_p50_us"] = bench.at("p50_us");
    if (before["about"].contains("artifact")) j["artifact"] = before["about"]["artifact"];
    return j;
  }
  const Artifact other(o.file, artifact.method() == "forward" ? "" : artifact.method(), false, artifact.info().device, model_flags);
  require_same_inputs(other, artifact);
  const std::unique_ptr<search::Device> device =
      artifact.info().device == AOTC_DEVICE_HOST ? nullptr : search::make_device(artifact.info().device);
  Session baseline(other, bench.at("threads").get<int>(), context_flags, device.get());
  baseline.bind(inputs);
  double baseline_us = 0, own_us = 0;
  const Ratio r = time_in_turns(baseline, session, seconds, o.max_regression, &baseline_us, &own_us);
  json j = ratio_json(r, o.max_regression);
  j["how"] = "in turns", j["file"] = o.file, j["p50_us"] = baseline_us, j["own_p50_us"] = own_us, j["artifact"] = artifact_json(other);
  return j;
}

int report_baseline(const json& j, const Common& common) {
  const std::string verdict = j.at("verdict").get<std::string>();
  const std::string high = j.at("high").is_null() ? "any number" : fmt::format("{:.3f}", j["high"].get<double>());
  const std::string text =
      fmt::format("{} p50 {:.1f} us, this {:.1f}: {:.3f} times as long ({:.0f} %: {:.3f} to {}, {} {}); {:g} is allowed: {}",
                  j.at("file").get<std::string>(), j.at("p50_us").get<double>(), j.at("own_p50_us").get<double>(),
                  j.at("ratio").get<double>(), kConfidence * 100, j.at("low").get<double>(), high, j.at("samples").dump(),
                  j.at("how") == "stored" ? "blocks each" : "pairs in turns", 1 + j.at("max_regression").get<double>(), verdict);
  if (!common.json && !common.quiet) fmt::print("  baseline {}\n", text);
  if (verdict == "not slower") return 0;
  const bool slower = verdict == "slower";
  fmt::print(stderr, "{}: {}: {}\n", common.program, slower ? "error" : "warning",
             slower ? "slower than the baseline: " + text
                    : "undecided whether it is slower than the baseline, because of noise (try more --seconds): " + text);
  return slower ? static_cast<int>(ExitCode::failed) : 0;
}

}  // namespace aotc::cli
