#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "about.h"
#include "artifact.h"
#include "baseline.h"
#include "ci_verbs.h"
#include "difference.h"
#include "dims.h"
#include "timing.h"

namespace aotc::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string a, b, method;
  std::vector<std::string> dims;
  int threads = 1;
  double seconds = 1;
  bool bench = false;
};

/// Of the steps of a run by their label, the n-th of one label apart: microseconds.
std::map<std::string, double> step_times(const Artifact& artifact, const Options& o, search::Device* device,
                                         const std::vector<HostTensor>& inputs) {
  Session session(artifact, o.threads, AOTC_CONTEXT_PROFILE, device);
  session.bind(inputs);
  Profile profile;
  time_steps(session, o.seconds / 4, profile);
  std::map<size_t, std::pair<std::string, double>> in_order;
  const json measured = profile_json(profile);
  for (const json& s : measured.at("steps"))
    in_order[s.at("step").get<size_t>()] = {s.at("label").get<std::string>(), s.at("us").get<double>()};
  std::map<std::string, double> out;
  std::map<std::string, int> seen;
  for (const auto& [_, step] : in_order) {
    const int n = seen[step.first]++;
    out[n == 0 ? step.first : fmt::format("{} #{}", step.first, n + 1)] = step.second;
  }
  return out;
}

/// A method of both, in turns.
json times_of(const Options& o, const std::string& method) {
  const Artifact a(o.a, method), b(o.b, method, false, a.info().device);
  const std::unique_ptr<search::Device> device = a.info().device == AOTC_DEVICE_HOST ? nullptr : search::make_device(a.info().device);
  std::vector<HostTensor> inputs = made_inputs(a, parse_dims(o.dims, a.metadata()));
  json j = {{"method", method}, {"sizes", sizes_of(a, inputs)}};
  Session sa(a, o.threads, 0, device.get()), sb(b, o.threads, 0, device.get());
  try {
    bind_made_inputs(sa, inputs), sb.bind(inputs);
  } catch (const Diagnostic& d) {
    j["why"] = std::string("not timed: the inputs of ") + o.a + " do not suit both: " + d.message();
    return j;
  }
  double a_us = 0, b_us = 0;
  const Ratio r = time_in_turns(sa, sb, o.seconds, std::numeric_limits<double>::infinity(), &a_us, &b_us);
  j["a_us"] = a_us, j["b_us"] = b_us, j["ratio"] = r.value, j["low"] = r.low, j["high"] = std::isfinite(r.high) ? json(r.high) : json();
  j["confidence"] = kConfidence;
  const std::map<std::string, double> steps_a = step_times(a, o, device.get(), inputs), steps_b = step_times(b, o, device.get(), inputs);
  std::map<std::string, double> all = steps_a;
  all.insert(steps_b.begin(), steps_b.end());
  j["steps"] = json::array();
  for (const auto& [label, _] : all) {
    json step = {{"label", label}};
    if (steps_a.count(label)) step["a_us"] = steps_a.at(label);
    if (steps_b.count(label)) step["b_us"] = steps_b.at(label);
    j["steps"].push_back(step);
  }
  return j;
}

void print_times(const json& times) {
  for (const json& t : times) {
    const std::string method = t.at("method").get<std::string>();
    if (t.contains("why")) {
      fmt::print("times\n  {}: {}\n", method, t["why"].get<std::string>());
      continue;
    }
    fmt::print("times\n  {}: {:.1f} us -> {:.1f} us, {:.3f} times as long ({:.0f} %: {:.3f} to {})\n", method, t.at("a_us").get<double>(),
               t.at("b_us").get<double>(), t.at("ratio").get<double>(), kConfidence * 100, t.at("low").get<double>(),
               t.at("high").is_null() ? "any number" : fmt::format("{:.3f}", t["high"].get<double>()));
    for (const json& s : t.at("steps")) {
      const auto us = [&](const char* key) {
        return s.contains(key) ? fmt::format("{:10.1f} us", s[key].get<double>()) : fmt::format("{:>13}", "-");
      };
      fmt::print("  {} -> {}  {}\n", us("a_us"), us("b_us"), s.at("label").get<std::string>());
    }
  }
}

int run(const Options& o, const Common& common) {
  const json changes = differences(o.a, o.b);
  const ArtifactFile a(o.a), b(o.b);
  json j = {{"same", changes.empty()}, {"a", artifact_json(a)}, {"b", artifact_json(b)}, {"changes", changes}};
  if (o.bench) {
    j["times"] = json::array();
    const std::vector<std::string> others = b.methods();
    for (const std::string& m : a.methods())
      if ((o.method.empty() || o.method == m) && std::find(others.begin(), others.end(), m) != others.end())
        j["times"].push_back(times_of(o, m));
    if (j["times"].empty())
      throw Diagnostic(ExitCode::usage, {},
                       o.method.empty() ? "the artifacts have no method in common" : "they have not both a method '" + o.method + "'");
  }
  if (common.json) {
    print_result(j, about(common));
  } else {
    if (!common.quiet) fmt::print("{}", changes.empty() ? "the artifacts are the same\n" : differences_text(changes));
    if (o.bench) print_times(j["times"]);
  }
  return changes.empty() ? 0 : static_cast<int>(ExitCode::failed);
}

}  // namespace

Run add_diff(CLI::App& app) {
  auto o = std::make_shared<Options>();
  add_option(app, "a", o->a, "model.so, the old one").required();
  add_option(app, "b", o->b, "model.so, the new one").required();
  const Option bench = add_flag(app, "--bench", o->bench, "also time both in alternation, and their steps");
  add_option(app, "--method", o->method, "with --bench: only this method; default: all that both have").needs(bench);
  add_option(app, "--dim", o->dims, "with --bench: NAME=SIZE, fixes a dimension (repeatable)").needs(bench);
  add_option(app, "--threads", o->threads, "with --bench: threads of a run").range(1, 1024).needs(bench);
  add_option(app, "--seconds", o->seconds, "with --bench: seconds to measure each method").positive().needs(bench);
  return [o](const Common& common) { return run(*o, common); };
}

}  // namespace aotc::cli
