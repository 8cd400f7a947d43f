#include "search/whole.h"

#include <algorithm>
#include <cmath>

namespace aotc::search {

namespace {

using forms::Candidate;
using forms::Decision;

constexpr double kNear = 1.1;        ///< times the best by itself, up to which a choice may be the better one in the whole
constexpr size_t kOfContract = 2;    ///< choices beside the one that won
constexpr size_t kSets = 6;          ///< in one artifact: each has a plan of its own
constexpr double kLeastPart = 0.02;  ///< of the time of all contracts, below which the whole does not tell a contract's choices apart
constexpr double kSeems = 0.996;     ///< of the whole's time, by which a choice must win among the others
constexpr double kWins = 0.995;      ///< by which all that did must win together
constexpr double kLeastSeconds = 1;  ///< that are worth beginning with

/// A choice in the place of the one that a contract has.
struct Other {
  std::string contract;
  Candidate candidate;
};

double ns_of(const Decision& d, const forms::Choice& choice) {
  const auto it = std::find_if(d.candidates.begin(), d.candidates.end(), [&](const Candidate& c) { return c.choice == choice; });
  return it == d.candidates.end() ? 0 : it->measured_ns;
}

/// Those of the heaviest contracts first, the fastest by themselves first.
std::vector<Other> others_of(const SymTable& syms, const Jobs& jobs, const Measured& measured, const Tuned& tuned) {
  std::vector<std::pair<double, std::string>> heavy;
  double all = 0;
  for (const auto& [contract, job] : jobs) {
    const auto record = measured.find(contract);
    const double ns = job.calls * (record == measured.end() ? job.weight / std::max(job.calls, 1.0) : record->second.ns);
    all += ns;
    if (record != measured.end() && job.subject.syms == &syms) heavy.emplace_back(ns, contract);
  }
  std::stable_sort(heavy.begin(), heavy.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Other> out;
  for (const auto& [ns, contract] : heavy) {
    if (ns < kLeastPart * all) break;
    const Decision& d = tuned.at(contract);
    const double own = ns_of(d, d.choice);
    std::vector<Candidate> near;
    for (const Candidate& c : d.candidates)
      if (c.fit && c.measured_ns > 0 && c.measured_ns <= kNear * own && !(c.choice == d.choice)) near.push_back(c);
    std::stable_sort(near.begin(), near.end(), [](const Candidate& a, const Candidate& b) { return a.measured_ns < b.measured_ns; });
    for (size_t i = 0; i < std::min(near.size(), kOfContract); ++i) out.push_back({contract, near[i]});
  }
  return out;
}

Tuned with(Tuned tuned, const Other& o) {
  Decision& d = tuned.at(o.contract);
  d.choice = o.candidate.choice, d.by = "measured in the whole";
  return tuned;
}

bool all_ran(const std::vector<Timing>& times, size_t sets) {
  return times.size() == sets && std::all_of(times.begin(), times.end(), [](const Timing& t) { return t.error.empty() && t.ns > 0; });
}

}  // namespace

void choose_in_whole(const std::vector<SymTable>& syms, const Jobs& jobs, const TuneOptions& options, const Budget& budget,
                     Measured& measured, TuneResult& result) {
  if (!options.measurer) return;
  const std::vector<Other> all = others_of(syms.front(), jobs, measured, result.tuned);
  double took = 0;  // of the last round, building included
  for (size_t begin = 0; begin < all.size() && budget.left() > std::max(kLeastSeconds, took); begin += kSets - 1) {
    const double before = budget.left();
    const size_t end = std::min(all.size(), begin + kSets - 1);
    if (options.progress) options.progress(begin, all.size(), "choices in the whole");
    std::vector<Tuned> sets = {result.tuned};
    for (size_t i = begin; i < end; ++i) sets.push_back(with(result.tuned, all[i]));
    const std::vector<Timing> times =
        options.measurer->measure_whole(syms.front(), sets, std::min(budget.left() / 2, 2 * whole_seconds(options)));
    if (!all_ran(times, sets.size())) return;
    std::map<std::string, size_t> best;  // of each contract
    for (size_t i = begin; i < end; ++i) {
      const double ns = times[i - begin + 1].ns;
      if (ns >= kSeems * times[0].ns) continue;
      const auto [it, fresh] = best.try_emplace(all[i].contract, i);
      if (!fresh && ns < times[it->second - begin + 1].ns) it->second = i;
    }
    took = before - budget.left();
    if (best.empty()) continue;
    Tuned together = result.tuned;
    for (const auto& [contract, i] : best) together = with(std::move(together), all[i]);
    const std::vector<Timing> again = options.measurer->measure_whole(syms.front(), {result.tuned, together}, whole_seconds(options));
    took = before - budget.left();
    if (!all_ran(again, 2) || again[1].ns >= kWins * again[0].ns) continue;
    result.tuned = std::move(together);
    for (const auto& [contract, i] : best) {
      TuningRecord& r = measured.at(contract);
      r.choice = all[i].candidate.choice, r.ns = all[i].candidate.measured_ns;
    }
  }
}

}  // namespace aotc::search
