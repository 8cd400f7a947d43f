#include "search/tune.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "search/jobs.h"
#include "search/trades.h"
#include "search/whole.h"

namespace aotc::search {

namespace {

using forms::Candidate;
using forms::Decision;

/// A faster choice must win by this much, twice: the first time among all, the second time beside the default alone.
constexpr double kGain = 0.97;
constexpr double kConfirmShare = 0.3;  ///< of a contract's seconds
constexpr double kFar = 2;             ///< times the best estimate
constexpr double kNoise = 0.05;        ///< half a spread, from which on the whole cannot tell smaller differences: others are at work
constexpr double kWholeShare = 0.3;    ///< of what is left of the budget after that, at most, for choices in the whole
constexpr double kTradeShare = 0.65;   ///< of the budget, at most, for trading accuracy for time

/// Whether no pick of its form has one of its values: what is measured is to differ in more than a block's width.
bool is_new(const std::vector<Candidate>& all, const std::vector<size_t>& picks, const Candidate& c) {
  for (size_t v = 0; v < c.choice.values.size(); ++v)
    if (std::none_of(picks.begin(), picks.end(),
                     [&](size_t p) { return all[p].choice.form == c.choice.form && all[p].choice.values[v] == c.choice.values[v]; }))
      return true;
  return false;
}

/// The most promising, the default first: every form that fits has its best two among them, or one where that should be far behind; of the
/// others those with a value of a field that none of these has come first.
std::vector<size_t> worth_measuring(const std::vector<Candidate>& all, size_t most) {
  std::vector<size_t> out;
  std::map<const forms::Form*, int> of_form;
  const auto add = [&](const auto& wanted) {
    for (size_t i = 0; i < all.size() && all[i].fit; ++i)
      if (std::find(out.begin(), out.end(), i) == out.end() && wanted(all[i])) out.push_back(i);
  };
  add([&](const Candidate& c) { return ++of_form[c.choice.form] <= (c.cost_ns > kFar * all[0].cost_ns ? 1 : 2); });
  add([&](const Candidate& c) { return out.size() < most && is_new(all, out, c); });
  add([&](const Candidate&) { return out.size() < most; });
  std::sort(out.begin(), out.end());
  if (out.size() > most) out.resize(most);
  return out;
}

/// What there may be to win, in nanoseconds a run: the contract's part of it, the less the further the next best choice is behind by
/// estimate.
double chance(const Job& job) {
  const std::vector<Candidate>& all = job.decision.candidates;
  const bool two = all.size() > 1 && all[1].fit && all[1].cost_ns > 0;
  return two ? job.weight * std::min(1.0, all[0].cost_ns / all[1].cost_ns) : job.weight;
}

/// The decision that a record stands for, or nothing where the choice is none of the form's for this kernel any more.
std::optional<Decision> decision_of(const Job& job, const TuningRecord& r) {
  for (const Candidate& c : job.decision.candidates) {
    if (!(c.choice == r.choice) || !c.fit) continue;
    Decision d = job.decision;
    d.choice = r.choice;
    d.by = "tuning database";
    for (Candidate& x : d.candidates) {
      if (x.choice == r.choice) x.measured_ns = r.ns;
      if (x.choice == job.decision.choice && !(r.choice == x.choice)) x.measured_ns = r.default_ns;
    }
    return d;
  }
  return std::nullopt;
}

/// Takes the cost model's choices back where the whole module is not faster with what was measured (a kernel by itself does not overlap its
/// neighbours, nor share caches with them), or not near enough to fp64 beside what was traded, or where the whole cannot tell.
void confirm_whole(const loop::Module& module, const std::vector<SymTable>& syms, const Jobs& jobs, const TuneOptions& options,
                   Measured& measured, TuneResult& result) {
  Tuned& tuned = result.tuned;
  Tuned before = tuned;
  bool differs = false;
  for (const auto& [contract, record] : measured) {
    const forms::Choice& own = jobs.at(contract).decision.choice;
    differs |= !(record.choice == own);
    before.at(contract).choice = own;
  }
  if (!differs) return;
  if (whole_gains(syms.front(), options, before, tuned, false) && trades_hold(module, syms, options, result.trades, tuned)) return;
  tuned = std::move(before);
  for (auto& [contract, record] : measured) record.choice = tuned.at(contract).choice, record.ns = record.default_ns;
}

}  // namespace

Jobs jobs_of(const loop::Module& module, const std::vector<SymTable>& syms, const Goal& goal) {
  std::vector<double> calls(module.kernels.size(), 0);
  for (const loop::Call& c : module.calls) ++calls[idx(c.kernel)];
  std::vector<double> others(module.kernels.size(), 0);  // of kernels that only some sizes call
  for (const std::vector<loop::Call>& list : module.other_calls)
    for (const loop::Call& c : list)
      if (calls[idx(c.kernel)] == 0) ++others[idx(c.kernel)];
  Jobs jobs;
  for (uint32_t k = 0; k < module.kernels.size(); ++k)
    for (const SymTable& table : syms) {
      const auto id = static_cast<loop::KernelId>(k);
      const forms::Site site{module.kernels[id], table, goal.machine, goal.numerics};
      if (others[k] > 0)
        if (const auto all = forms::candidates(site); all.empty() || !all.front().fit) continue;
      const std::string contract = forms::contract(site);
      if (contract.empty()) continue;
      auto [it, fresh] = jobs.try_emplace(contract, Job{{id, &table}, {}});
      if (fresh) it->second.decision = forms::decide(site);
      it->second.weight += it->second.decision.candidates.front().cost_ns * (calls[k] + others[k]);
      it->second.calls += calls[k] + others[k];
    }
  return jobs;
}

Decision search_one(const Job& job, Measurer& measurer, size_t most, double seconds, double gain, TuningRecord* record) {
  Decision d = job.decision;
  const std::vector<size_t> picks = worth_measuring(d.candidates, most);
  std::vector<forms::Choice> choices;
  for (size_t i : picks) choices.push_back(d.candidates[i].choice);
  const std::vector<Timing> times = measurer.measure(job.subject, choices, seconds * (1 - kConfirmShare));
  size_t best = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    Candidate& c = d.candidates[picks[i]];
    if (!times[i].error.empty()) {
      c.fit = refuse("lost when it was measured: {}", times[i].error);
      continue;
    }
    c.measured_ns = times[i].ns;
    ++record->measured;
    if (times[best].error.empty() && times[i].ns < times[best].ns) best = i;
    if (!times[best].error.empty()) best = i;
  }
  if (record->measured == 0) return job.decision;
  d.by = "measured";
  const bool default_ran = times[0].error.empty();
  if (best != 0 && default_ran) {
    bool taken = times[best].ns < gain * times[0].ns;
    if (taken) {
      const std::vector<Timing> again = measurer.measure(job.subject, {choices[0], choices[best]}, seconds * kConfirmShare);
      taken = again[0].error.empty() && again[1].error.empty() && again[1].ns < gain * again[0].ns;
      if (taken) d.candidates[picks[0]].measured_ns = again[0].ns, d.candidates[picks[best]].measured_ns = again[1].ns;
    }
    if (!taken) best = 0;
  }
  d.choice = choices[best];
  record->choice = d.choice;
  record->ns = d.candidates[picks[best]].measured_ns;
  record->default_ns = default_ran ? d.candidates[picks[0]].measured_ns : record->ns;
  return d;
}

double whole_seconds(const TuneOptions& options) { return std::clamp(0.1 * options.budget_s, 0.3, 4.0); }

bool whole_gains(const SymTable& syms, const TuneOptions& options, const Tuned& before, const Tuned& tuned, bool otherwise) {
  if (options.progress) options.progress(0, 1, "the whole, both ways");
  const std::vector<Timing> times = options.measurer->measure_whole(syms, {before, tuned}, whole_seconds(options));
  if (!times[0].error.empty() || !times[1].error.empty()) return otherwise;
  const double ratio = times[1].ns / times[0].ns, noise = std::max(times[0].spread, times[1].spread) / 2;
  if (noise > kNoise && std::fabs(ratio - 1) < noise) return otherwise;
  return ratio < kWholeGain;
}

TuneResult tune(const loop::Module& module, const std::vector<SymTable>& syms, const TuneOptions& options, TuningDb& db) {
  TuneResult result;
  const Jobs jobs = jobs_of(module, syms, options.goal);
  const std::string hardware = options.goal.str(), library = kernel_library_hash();
  for (const auto& [contract, job] : jobs) {
    const TuningRecord* r = db.find(contract, hardware, library);
    if (std::optional<Decision> known = r ? decision_of(job, *r) : std::nullopt) result.tuned[contract] = std::move(*known);
  }
  // First what wins most. What is traded needs no other choice.
  const Budget budget(options.budget_s);
  trade_accuracy(module, syms, options, Budget(kTradeShare * options.budget_s), db, result);
  struct Missing {
    const std::string* contract;
    const Job* job;
    double chance;
  };
  std::vector<Missing> missing;
  double total = 0;
  for (const auto& [contract, job] : jobs)
    if (!result.tuned.count(contract) && worth_measuring(job.decision.candidates, 2).size() > 1) {
      missing.push_back({&contract, &job, chance(job)});
      total += missing.back().chance;
    }
  std::stable_sort(missing.begin(), missing.end(), [](const Missing& a, const Missing& b) { return a.chance > b.chance; });
  const double kept_s = missing.empty() ? 0 : 1.5 * whole_seconds(options);
  const double alone_s = (1 - kWholeShare) * (budget.left() - kept_s), after_s = budget.left() - alone_s;
  const auto left = [&] { return budget.left() - after_s; };
  const double budget_s = left();
  size_t done = 0;
  Measured measured;
  for (const auto& [contract, job, of_total] : missing) {
    if (!options.measurer || left() <= 0) {
      result.missing.push_back({*contract, options.measurer ? "the time for measuring ran out" : "the tuning database does not have it"});
      continue;
    }
    if (options.progress) options.progress(done++, missing.size(), *contract);
    // Each contract's share of what is left, by what it may win; the quickest few are still worth a look.
    const double seconds = std::clamp(left() * of_total / std::max(total, 1.0), 0.02 * budget_s, 0.25 * budget_s);
    total -= of_total;
    TuningRecord record;
    Decision d = search_one(*job, *options.measurer, static_cast<size_t>(options.candidates), std::min(seconds, 4.0), kGain, &record);
    if (record.measured == 0) {
      result.missing.push_back({*contract, "no candidate ran when it was measured"});
      continue;
    }
    measured[*contract] = std::move(record);
    result.tuned[*contract] = std::move(d);
  }
  choose_in_whole(syms, jobs, options, Budget(budget.left() - kept_s), measured, result);
  confirm_whole(module, syms, jobs, options, measured, result);
  for (auto& [contract, record] : measured) db.put(contract, hardware, library, std::move(record));
  if (options.progress && options.measurer) options.progress(missing.size(), missing.size(), "");
  return result;
}

plan::ChooseFn chooser(Tuned tuned) {
  return [tuned = std::move(tuned)](const forms::Site& site) -> Decision {
    if (auto it = tuned.find(forms::contract(site)); it != tuned.end()) return it->second;
    return forms::decide(site);
  };
}

}  // namespace aotc::search
