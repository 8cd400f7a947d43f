#include "pipeline/comparison.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "emit/toolchain.h"
#include "forms/list.h"
#include "pipeline/tuning.h"
#include "plan/verify.h"

namespace aotc::pipeline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using search::Alternatives;
using search::Group;
using search::Kept;
using search::Timing;

constexpr double kLeastSeconds = 0.3;     ///< of a round, whatever building took
constexpr double kRoundShare = 0.5;       ///< of what is left, at most, for one round
constexpr double kLeastOfVariant = 1.01;  ///< of default's time: a variant that is slower decides, not the mean of all

bool has(const std::vector<Group>& groups, const Kept& kept, std::string_view name) {
  for (size_t i = 0; i < groups.size(); ++i)
    if (groups[i].name == name) return kept[i];
  return false;
}

Alternatives alternatives_of(const std::vector<Group>& groups, const Kept& kept) {
  Alternatives out;
  for (const search::AlternativeRow& row : search::kAlternatives)
    if (has(groups, kept, row.name)) out = out.with(row.what);
  return out;
}

search::Tuned tuned_of(const std::vector<Group>& groups, const Kept& kept, const Front& f, const search::TuneResult& result,
                       const Goal& goal) {
  return search::without_groups(search::jobs_of(f.module, tables_of(f), goal), result.tuned, result.trades, has(groups, kept, "kernels"),
                                has(groups, kept, "trades"));
}

/// Artifacts of sets of groups, a variant's sizes each, gone with this.
class Artifacts {
 public:
  Artifacts(const std::vector<Group>& groups, const Decided& d, const MeasuringOptions& measuring)
      : groups_(groups), decided_(d), measuring_(measuring) {}
  ~Artifacts() {
    std::error_code ec;
    for (const auto& [set, path] : paths_) fs::remove(path, ec);
  }
  Artifacts(const Artifacts&) = delete;

  std::vector<Timing> times(const std::vector<Kept>& sets, double seconds) {
    const search::Budget budget(seconds);
    const size_t variants = tables_of(decided_.front).size();
    std::vector<std::vector<std::string>> paths(variants);
    try {
      for (const Kept& set : sets)
        for (size_t v = 0; v < variants; ++v) paths[v].push_back(path_of(set, v));
    } catch (const Diagnostic& d) { return std::vector<Timing>(sets.size(), {0, 0, d.message(), 0}); }
    const double each_s = std::max(kLeastSeconds, budget.left()) / static_cast<double>(variants);
    std::vector<Timing> all(sets.size(), {0, 0, "", 1});
    std::vector<double> slowest(sets.size());
    for (size_t v = 0; v < variants; ++v) {
      const SymTable syms = tables_of(decided_.front).at(v);
      const std::vector<Timing> of_variant =
          time_in_turns({&decided_.front.graph, &decided_.front.module, &syms, {}, {}}, paths[v], measuring_, each_s);
      for (size_t i = 0; i < sets.size(); ++i) {
        if (!of_variant[i].error.empty()) all[i].error = of_variant[i].error;
        all[i].ns += of_variant[i].ns;
        all[i].ratio *= std::pow(of_variant[i].ratio, 1.0 / static_cast<double>(variants));
        slowest[i] = std::max(slowest[i], of_variant[i].ratio);
      }
    }
    for (size_t i = 0; i < sets.size(); ++i)
      if (slowest[i] > kLeastOfVariant) all[i].ratio = slowest[i];
    return all;
  }

 private:
  const Front& front_of(const Alternatives& set) {
    if (set == decided_.options.alternatives) return decided_.front;
    auto it = fronts_.find(set);
    if (it == fronts_.end()) {
      FrontOptions options = decided_.options;
      options.alternatives = set;
      options.print_ir_after.clear(), options.dump_dir.clear();
      it = fronts_.emplace(set, run_front(options, {})).first;
    }
    return it->second;
  }

  const std::string& path_of(const Kept& set, size_t variant) {
    const auto it = paths_.find({set, variant});
    if (it != paths_.end()) return it->second;
    const Alternatives alternatives = alternatives_of(groups_, set);
    const Front& f = front_of(alternatives);
    const plan::ChooseFn choose =
        with_alternatives(search::chooser(tuned_of(groups_, set, f, decided_.result, measuring_.goal)), alternatives);
    const SymTable syms = tables_of(f).at(variant);
    const std::string path = (fs::path(measuring_.work_dir) / fmt::format("compared{}.so", paths_.size())).string();
    build_whole({&f.graph, &f.module, &syms, choose, alternatives, decided_.asked_weights || has(groups_, set, "weights")}, measuring_,
                path);
    return paths_.emplace(std::pair(set, variant), path).first->second;
  }

  const std::vector<Group>& groups_;
  const Decided& decided_;
  const MeasuringOptions& measuring_;
  std::map<Alternatives, Front> fronts_;
  std::map<std::pair<Kept, size_t>, std::string> paths_;
};

bool any_traded(const search::Trades& trades) {
  return std::any_of(trades.tried.begin(), trades.tried.end(), [](const search::Trade& t) { return t.taken; });
}

}  // namespace

std::vector<Group> groups_of(const Decided& d, const Goal& goal) {
  std::vector<Group> groups;
  std::vector<size_t> alternatives;
  for (const search::AlternativeRow& row : search::kAlternatives)
    if (d.options.alternatives.has(row.what)) alternatives.push_back(groups.size()), groups.push_back({std::string(row.name), {}});
  if (any_traded(d.result.trades)) groups.push_back({"trades", alternatives});
  if (search::differs(search::jobs_of(d.front.module, tables_of(d.front), goal), d.result.tuned, d.result.trades))
    groups.push_back({"kernels", {}});
  if (d.own_weights && !d.asked_weights && !d.front.graph.constants.empty()) groups.push_back({"weights", {}});
  return groups;
}

std::string comparison_key(const std::string& program, const Decided& d, const Goal& goal) {
  const search::Jobs jobs = search::jobs_of(d.front.module, tables_of(d.front), goal);
  std::string text = d.options.alternatives.str();
  for (const auto& [contract, decision] : d.result.tuned)
    if (const auto job = jobs.find(contract); job != jobs.end() && !(job->second.decision.choice == decision.choice))
      text += "\n" + contract + ": " + forms::str(decision.choice);
  return fmt::format("{} {:016x}", program, emit::hash_bytes(text));
}

search::ComparisonRecord measure_comparison(const std::vector<Group>& groups, const Decided& d, const MeasuringOptions& measuring,
                                            double seconds, const search::ComparisonRecord& known, const Events& events) {
  const search::Budget budget(seconds);
  Artifacts artifacts(groups, d, measuring);
  return search::compare_with_default(
      groups,
      [&](const std::vector<Kept>& sets) {
        if (events.progress) events.progress(0, 1, fmt::format("beside default: {}", search::str(groups, sets.back())));
        return artifacts.times(sets, kRoundShare * budget.left());
      },
      budget, known);
}

void keep_only(const search::ComparisonRecord& record, const std::vector<Group>& groups, Decided d, const Goal& goal, const Events& events,
               Stages& stages) {
  const Kept kept = search::kept_of(record, groups);
  if (std::find(kept.begin(), kept.end(), false) == kept.end()) return;
  d.own_weights = d.asked_weights || has(groups, kept, "weights");
  if (const Alternatives left = alternatives_of(groups, kept); !(left == d.options.alternatives)) {
    d.options.alternatives = left;
    d.front = run_front(d.options, events, stages, nullptr);
  }
  d.result.tuned = tuned_of(groups, kept, d.front, d.result, goal);
  if (has(groups, kept, "trades")) return;
  for (search::Trade& t : d.result.trades.tried)
    if (t.taken) t.taken = false, t.why = "taken back: the whole was not faster than default's";
  d.result.trades.error = d.result.trades.bound = 0;
}

json comparison_json(const search::ComparisonRecord& record) {
  json tried = json::array();
  for (const search::ComparisonRecord::Tried& t : record.tried)
    tried.push_back({{"kept", t.kept}, {"us", std::round(t.ns) / 1e3}, {"default_us", std::round(t.own_ns) / 1e3}, {"ratio", t.ratio}});
  return {{"kept", record.kept}, {"taken_back", record.taken_back}, {"tried", tried}, {"complete", record.complete}};
}

}  // namespace aotc::pipeline
