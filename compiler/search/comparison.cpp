#include "search/comparison.h"

#include <algorithm>
#include <limits>

namespace aotc::search {

namespace {

constexpr double kFaster = 0.99;  ///< of default's time, by which what is kept must win
constexpr double kSettled = 1;    ///< by which what is left of it must win again

/// Without group `g` and what needs it.
Kept without(const std::vector<Group>& groups, Kept kept, size_t g) {
  kept[g] = false;
  for (size_t i = 0; i < groups.size(); ++i)
    if (kept[i] && std::find(groups[i].needs.begin(), groups[i].needs.end(), g) != groups[i].needs.end())
      kept = without(groups, std::move(kept), i);
  return kept;
}

bool any(const Kept& kept) { return std::find(kept.begin(), kept.end(), true) != kept.end(); }

bool is_traded(const Trades& trades, const std::string& contract) {
  return std::any_of(trades.tried.begin(), trades.tried.end(), [&](const Trade& t) { return t.taken && t.contract == contract; });
}

}  // namespace

std::string str(const std::vector<Group>& groups, const Kept& kept) {
  std::string text;
  for (size_t i = 0; i < groups.size(); ++i)
    if (kept[i]) text += (text.empty() ? "" : " ") + groups[i].name;
  return text;
}

ComparisonRecord compare_with_default(const std::vector<Group>& groups, const TimeKept& times, const Budget& budget,
                                      const ComparisonRecord& known) {
  ComparisonRecord record;
  const Kept none(groups.size());
  double took = 0;  // of the last round that was measured, building included
  /// What `known` has of the round that comes next.
  const auto known_round = [&](const std::vector<Kept>& sets) {
    const size_t at = record.tried.size();
    if (at + sets.size() > known.tried.size()) return false;
    for (size_t i = 0; i < sets.size(); ++i)
      if (known.tried[at + i].kept != str(groups, sets[i])) return false;
    record.tried.insert(record.tried.end(), known.tried.begin() + static_cast<ptrdiff_t>(at),
                        known.tried.begin() + static_cast<ptrdiff_t>(at + sets.size()));
    return true;
  };
  const auto measure = [&](const std::vector<Kept>& sets) {
    const double before = budget.left();
    std::vector<Kept> all = {none};
    all.insert(all.end(), sets.begin(), sets.end());
    const std::vector<Timing> t = times(all);
    took = before - budget.left();
    for (size_t i = 0; i < sets.size() && i + 1 < t.size(); ++i) {
      const bool ran = t[0].error.empty() && t[i + 1].error.empty() && t[i + 1].ratio > 0;
      record.tried.push_back({str(groups, sets[i]), t[i + 1].ns, t[0].ns, ran ? t[i + 1].ratio : 0});
    }
  };
  /// The fastest of `sets`, which has to win by `by`; nothing of them where none does, or none ran.
  const auto fastest = [&](const std::vector<Kept>& sets, double by) -> std::pair<size_t, bool> {
    const size_t first = record.tried.size();
    if (!known_round(sets)) measure(sets);
    size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = first; i < record.tried.size(); ++i)
      if (record.tried[i].ratio > 0 && record.tried[i].ratio < least) least = record.tried[i].ratio, best = i - first;
    return {best, least < by};
  };
  Kept kept(groups.size(), true);
  bool faster = any(kept) && fastest({kept}, kFaster).second;
  while (!faster && any(kept)) {
    std::vector<Kept> fewer;
    for (size_t g = 0; g < groups.size(); ++g) {
      if (!kept[g]) continue;
      Kept next = without(groups, kept, g);
      if (any(next) && std::find(fewer.begin(), fewer.end(), next) == fewer.end()) fewer.push_back(std::move(next));
    }
    if (fewer.empty() || (took > 0 && budget.left() < took)) {
      record.complete = fewer.empty();
      kept = none;
      break;
    }
    const auto [best, won] = fastest(fewer, kFaster);
    kept = fewer[best];
    faster = won && fastest({kept}, kSettled).second;
  }
  record.kept = str(groups, kept);
  record.taken_back = str(groups, [&] {
    Kept back = kept;
    back.flip();
    return back;
  }());
  return record;
}

Kept kept_of(const ComparisonRecord& record, const std::vector<Group>& groups) {
  const std::string names = " " + record.kept + " ";
  Kept kept;
  for (const Group& g : groups) kept.push_back(names.find(" " + g.name + " ") != std::string::npos);
  return kept;
}

Tuned without_groups(const Jobs& jobs, Tuned tuned, const Trades& trades, bool kernels, bool traded) {
  for (auto& [contract, d] : tuned) {
    const auto job = jobs.find(contract);
    if (job == jobs.end() || (is_traded(trades, contract) ? traded : kernels)) continue;
    if (!(d.choice == job->second.decision.choice)) d.choice = job->second.decision.choice, d.by = "comparison with default";
  }
  return tuned;
}

bool differs(const Jobs& jobs, const Tuned& tuned, const Trades& trades) {
  return std::any_of(tuned.begin(), tuned.end(), [&](const auto& t) {
    const auto job = jobs.find(t.first);
    return job != jobs.end() && !is_traded(trades, t.first) && !(t.second.choice == job->second.decision.choice);
  });
}

}  // namespace aotc::search
