#include "pipeline/alternatives.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "emit/toolchain.h"
#include "forms/list.h"
#include "pipeline/tuning.h"
#include "plan/text.h"
#include "plan/verify.h"

namespace aotc::pipeline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using search::Alternative;
using search::Alternatives;
using search::Timing;

/// The fronts and artifacts of sets of alternatives, each made once.
class Artifacts {
 public:
  Artifacts(const FrontOptions& options, const Front& own, const MeasuringOptions& measuring)
      : options_(options), own_(own), measuring_(measuring), own_plan_(plan_of({})) {}
  ~Artifacts() {
    std::error_code ec;
    for (const auto& [set, path] : paths_) fs::remove(path, ec);
  }
  Artifacts(const Artifacts&) = delete;

  /// Whether the plan is another one than that of what the build does by itself.
  bool differ(const Alternatives& set) { return plan_of(set) != own_plan_; }

  std::vector<Timing> times(const std::vector<Alternatives>& sets, double seconds) {
    const search::Budget budget(seconds);  // building included
    std::vector<std::string> paths;
    try {
      for (const Alternatives& set : sets) paths.push_back(path_of(set));
    } catch (const Diagnostic& d) { return std::vector<Timing>(sets.size(), {0, 0, d.message()}); }
    const SymTable syms = tuned_sizes(own_);
    return time_in_turns({&own_.graph, &own_.module, &syms, {}}, paths, measuring_, std::max(kLeastSeconds, budget.left()));
  }

 private:
  static constexpr double kLeastSeconds = 0.2;  ///< of a few runs each, whatever building took
  static bool needs_front(const Alternatives& set) { return set.any() && !(set == Alternatives().with(Alternative::stores_far)); }

  static SymTable tuned_sizes(const Front& f) {
    const auto ranges = ranges_of(f);
    return ranges.empty() ? f.module.syms : plan::narrowed(f.module.syms, ranges.front());
  }

  const Front& front_of(const Alternatives& set) {
    if (!needs_front(set)) return own_;
    auto it = fronts_.find(set);
    if (it == fronts_.end()) {
      FrontOptions options = options_;
      options.alternatives = set;
      options.print_ir_after.clear(), options.dump_dir.clear();
      it = fronts_.emplace(set, run_front(options, {})).first;
    }
    return it->second;
  }

  static plan::ChooseFn choose_of(const Alternatives& set) {
    return with_alternatives([](const forms::Site& site) { return forms::decide(site); }, set);
  }

  std::string plan_of(const Alternatives& set) {
    const Front& f = front_of(set);
    plan::PlanOptions options;
    options.variants = ranges_of(f);
    options.goal = measuring_.goal;
    options.choose = choose_of(set);
    set.apply(options);
    return plan::print(plan::build_plans(f.graph, f.module, options));
  }

  const std::string& path_of(const Alternatives& set) {
    const auto it = paths_.find(set);
    if (it != paths_.end()) return it->second;
    const Front& f = front_of(set);
    const SymTable syms = tuned_sizes(f);
    const std::string path = (fs::path(measuring_.work_dir) / fmt::format("alternative{}.so", paths_.size())).string();
    build_whole({&f.graph, &f.module, &syms, choose_of(set), set}, measuring_, path);
    return paths_.emplace(set, path).first->second;
  }

  const FrontOptions& options_;
  const Front& own_;
  const MeasuringOptions& measuring_;
  std::map<Alternatives, Front> fronts_;
  const std::string own_plan_;
  std::map<Alternatives, std::string> paths_;
};

}  // namespace

std::string alternatives_key(const FrontOptions& options, const Front& f) {
  std::string sizes = fmt::format("{} {}", options.precision.mode, plan::print(make_plans(f, options.target, nullptr)));
  return fmt::format("{} {} {:016x}", f.program.source_id, f.stored_weights.storage.str(), emit::hash_bytes(sizes));
}

search::AlternativesRecord measure_alternatives(const FrontOptions& options, const Front& f, const MeasuringOptions& measuring,
                                                double seconds, const Events& events) {
  const search::Budget budget(seconds);
  Artifacts artifacts(options, f, measuring);
  std::vector<Alternative> differing;
  double took = 0;  // of the last plan
  bool all = true;
  for (const search::AlternativeRow& row : search::kAlternatives) {
    const double left = budget.left();
    // Each that differs is built as well, which takes longer.
    if (left < 0.5 * seconds || left < 2 * took) {
      all = false;
      break;
    }
    if (events.progress) events.progress(differing.size(), std::size(search::kAlternatives), fmt::format("{}: {}", row.name, row.text));
    if (artifacts.differ(Alternatives().with(row.what))) differing.push_back(row.what);
    took = left - budget.left();
  }
  search::AlternativesRecord record = search::choose_alternatives(
      differing, [&](const std::vector<Alternatives>& sets, double s) { return artifacts.times(sets, s); }, budget);
  record.complete = record.complete && all;
  record.seconds = seconds;
  return record;
}

void take_alternatives(const search::AlternativesRecord& record, FrontOptions& options, Front& f, const Events& events, Stages& stages) {
  Alternatives taken;
  for (const search::AlternativesRecord::Tried& t : record.tried)
    if (const auto a = Alternatives::parse(t.name); a && t.taken) taken = taken.with(*a);
  options.alternatives = taken;
  if (taken.any()) f = run_front(options, events, stages, nullptr);
}

json alternatives_json(const search::AlternativesRecord& record) {
  json tried = json::array(), taken = json::array();
  for (const search::AlternativesRecord::Tried& t : record.tried) {
    tried.push_back(
        {{"name", t.name}, {"us", std::round(t.ns) / 1e3}, {"own_us", std::round(t.own_ns) / 1e3}, {"taken", t.taken}, {"why", t.why}});
    if (t.taken) taken.push_back(t.name);
  }
  return {{"taken", taken}, {"tried", tried}, {"complete", record.complete}};
}

}  // namespace aotc::pipeline
