#include "roofline.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/diagnostic.h"
#include "base/file.h"
#include "json_text.h"
#include "sym/expr.h"

namespace aotc::cli {
namespace {

using nlohmann::json;

/// The demands of the steps of the variant that ran.
const json* demands_of(const json& metadata, const Session& session, bool on_cpu, size_t steps) {
  const aotc_context_info info = session.info();
  const auto of_part = [&](const json& part, const std::string& target) -> const json* {
    if ((target.rfind("sm_", 0) != 0) != on_cpu || !part.contains("explain")) return nullptr;
    for (const json& v : part.at("explain").at("variants"))
      if (v.at("name") == (info.variant ? info.variant : "") && v.contains("demands") && v["demands"].size() == steps) return &v["demands"];
    return nullptr;
  };
  if (const json* d = of_part(metadata, metadata.value("first_target", metadata.at("target").get<std::string>()))) return d;
  if (const auto parts = metadata.find("parts"); parts != metadata.end())
    for (const json& p : *parts)
      if (const json* d = of_part(p, p.at("target").get<std::string>())) return d;
  return nullptr;
}

/// Numbers of demands at the sizes of a run.
class Sizes {
 public:
  Sizes(const Artifact& artifact, const std::vector<HostTensor>& inputs, const json& metadata) {
    for (const json& s : metadata.at("symbols")) {
      SymInfo i;
      i.name = s.at("name").get<std::string>();
      syms_.add(i);
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      for (size_t d = 0; d < inputs[i].dims.size(); ++d)
        if (const auto s = syms_.find(artifact.inputs()[i].dims[d].symbol)) values_[*s] = inputs[i].dims[d];
  }
  std::optional<double> of(const json& number) const {
    if (number.is_number()) return number.get<double>();
    const auto value = parse_expr(number.get<std::string>(), syms_).try_eval([&](SymId s) -> std::optional<int64_t> {
      const auto it = values_.find(s);
      return it == values_.end() ? std::nullopt : std::optional(it->second);
    });
    return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
  }

 private:
  SymTable syms_;
  std::map<SymId, int64_t> values_;
};

}  // namespace

Peaks peaks_of(const Artifact& artifact, const Session& session, int threads, const std::vector<HostTensor>& inputs) {
  const aotc_model_info model = artifact.info();
  if (model.device != AOTC_DEVICE_HOST) return gpu_peaks(model.device, artifact.metadata().value("f32_matmul", ""));
  uint64_t touched = model.weights_bytes + session.info().arena_bytes;
  for (const HostTensor& t : inputs) touched += t.bytes.size();
  return measure_cpu(threads, model.target, touched);
}

void add_roofline(json& profile, const Artifact& artifact, const Session& session, const std::vector<HostTensor>& inputs,
                  const Peaks& peaks) {
  const json metadata = artifact.metadata();
  const json* const demands = demands_of(metadata, session, artifact.info().device == AOTC_DEVICE_HOST, profile.at("steps").size());
  if (!demands) return;
  const Sizes sizes(artifact, inputs, metadata);
  profile["peaks"] = {{"text", peaks.text}, {"gflops", json::object()}, {"operations_gflops", peaks.operations}, {"gbytes", peaks.bytes}};
  for (const auto& [type, rate] : peaks.products) profile["peaks"]["gflops"][type] = rate * 2;
  for (json& step : profile["steps"]) {
    const json& d = demands->at(step.at("step").get<size_t>());
    const auto products = sizes.of(d.value("products", json(0))), operations = sizes.of(d.at("operations")), read = sizes.of(d.at("read")),
               written = sizes.of(d.at("written"));
    const double ns = step.at("us").get<double>() * 1e3;
    if (!products || !operations || !read || !written || ns <= 0) continue;
    step["gflops"] = (2 * *products + *operations) / ns;
    step["gbytes"] = (*read + *written) / ns;
    const auto rate = peaks.products.find(d.value("in", ""));
    const std::pair<const char*, double> least[] = {{"products", rate == peaks.products.end() ? 0 : *products / rate->second},
                                                    {"operations", peaks.operations > 0 ? *operations / peaks.operations : 0},
                                                    {"memory", peaks.bytes > 0 ? (*read + *written) / peaks.bytes : 0}};
    const auto most =
        *std::max_element(std::begin(least), std::end(least), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most.second > 0) step["roofline"] = most.second / ns, step["bound"] = most.first;
  }
}

void write_trace(const std::string& path, const Profile& runs, const json& profile, const json& kernels, const std::string& artifact) {
  std::vector<const Profile::OneRun*> order;
  for (const Profile::OneRun& r : runs.runs) order.push_back(&r);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->us < b->us; });
  json events = json::array();
  events.push_back({{"ph", "M"}, {"pid", 1}, {"name", "process_name"}, {"args", {{"name", artifact}}}});
  const int32_t most = runs.threads.empty() ? 1 : *std::max_element(runs.threads.begin(), runs.threads.end());
  for (int32_t t = 1; t <= most; ++t)
    events.push_back({{"ph", "M"}, {"pid", 1}, {"tid", t}, {"name", "thread_name"}, {"args", {{"name", fmt::format("thread {}", t)}}}});
  double at = 0;
  for (size_t s = 0; !order.empty() && s < runs.labels.size(); ++s) {
    const double us = order[order.size() / 2]->steps[s];
    json event = {{"ph", "X"}, {"pid", 1}, {"name", runs.labels[s]}, {"ts", at}, {"dur", us}, {"args", {{"step", s}}}};
    for (const json& step : profile.at("steps"))
      for (const char* key : {"gflops", "gbytes", "roofline", "bound"})
        if (step.at("step") == s && step.contains(key)) event["args"][key] = step[key];
    for (int32_t t = 1; t <= runs.threads[s]; ++t) {
      event["tid"] = t;
      events.push_back(event);
    }
    at += us;
  }
  events.insert(events.end(), kernels.begin(), kernels.end());
  require_place_for_file(path);
  const std::string aside = fmt::format("{}.{}.tmp", path, getpid());
  {
    std::ofstream out(aside);
    out << json_text({{"displayTimeUnit", "ns"}, {"traceEvents", events}}) << "\n";
    if (!out.flush()) throw Diagnostic(ExitCode::io, {path, "", "", ""}, "the trace could not be written");
  }
  if (std::rename(aside.c_str(), path.c_str()) != 0)
    throw Diagnostic(ExitCode::io, {path, "", "", ""}, "the trace could not be put in its place");
}

}  // namespace aotc::cli
