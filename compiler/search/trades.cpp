#include "search/trades.h"

#include <algorithm>
#include <cmath>

#include "emit/toolchain.h"
#include "loop/text.h"
#include "search/jobs.h"

namespace aotc::search {

namespace {

using forms::Candidate;
using forms::Decision;

constexpr double kShare = 0.9;        ///< of the bound: other inputs than the samples need some of it
constexpr size_t kMostChoices = 4;    ///< that are measured of a contract, beside the accurate one
constexpr size_t kMostTrades = 20;    ///< that are judged: each has a plan of its own in the artifact that judges
constexpr double kLeastPart = 0.003;  ///< of a run by estimate, below which a contract is not worth judging

using Flags = std::vector<bool>;  ///< by trade: taken

bool allows_all(const Machine& machine) { return machine.winograd4 && machine.strassen; }
Machine allowing(Machine machine) {
  machine.winograd4 = machine.strassen = true;
  return machine;
}

/// A contract's decision where less accurate choices are allowed: the accurate choice `own` first, then those that only this allows.
/// Nothing where there is none.
std::optional<Decision> loosened(const loop::Module& module, const Job& job, const Machine& allowed, const forms::Choice& own) {
  const Decision all = forms::decide({module.kernels[job.subject.kernel], *job.subject.syms, allowed});
  const auto of = [](const Decision& d, const forms::Choice& choice) {
    return std::find_if(d.candidates.begin(), d.candidates.end(), [&](const Candidate& c) { return c.choice == choice; });
  };
  Decision d = all;
  d.candidates.clear();
  if (const auto it = of(all, own); it != all.candidates.end()) d.candidates.push_back(*it);
  if (d.candidates.empty()) return std::nullopt;
  for (const Candidate& c : all.candidates) {
    if (!c.fit) continue;
    const auto it = of(job.decision, c.choice);
    if (it != job.decision.candidates.end() && !it->fit) d.candidates.push_back(c);
  }
  if (d.candidates.size() == 1) return std::nullopt;
  d.choice = own;
  return d;
}

forms::Choice own_choice(const std::string& contract, const Job& job, const Tuned& tuned) {
  const auto it = tuned.find(contract);
  return it == tuned.end() ? job.decision.choice : it->second.choice;
}

/// What the judgement depends on: the program with its weights, its kernels and the sizes that it is tuned for.
std::string program_of(const loop::Module& module, const Jobs& jobs, const TuneOptions& options) {
  std::string text = loop::print(module);
  for (const auto& [contract, job] : jobs) text += "\n" + contract;
  return fmt::format("{} {:016x}", options.program, emit::hash_bytes(text));
}

/// The decision for a trade that the database has; nothing where this aotc has no such choice any more.
std::optional<Decision> decision_of(const loop::Module& module, const Jobs& jobs, const Machine& allowed, const Tuned& tuned,
                                    const Trade& t) {
  const auto job = jobs.find(t.contract);
  if (job == jobs.end()) return std::nullopt;
  std::optional<Decision> d = loosened(module, job->second, allowed, own_choice(t.contract, job->second, tuned));
  if (!d) return std::nullopt;
  for (Candidate& c : d->candidates)
    if (c.choice == t.choice) {
      d->choice = t.choice, d->by = "tuning database";
      c.measured_ns = t.ns;
      return d;
    }
  return std::nullopt;
}

/// Judges sets of trades, and takes the best that holds.
class Trader {
 public:
  Trader(const loop::Module& module, const std::vector<SymTable>& syms, const TuneOptions& options, const Tuned& accurate,
         std::vector<Decision> decisions, std::vector<double> gains, Trades& trades)
      : options_(options), accurate_(accurate), decisions_(std::move(decisions)), gains_(std::move(gains)), trades_(trades) {
    for (const SymTable& table : syms) {
      const Jobs of_table = jobs_of(module, {table}, options.machine);
      const bool concerned =
          std::any_of(trades.tried.begin(), trades.tried.end(), [&](const Trade& t) { return of_table.count(t.contract); });
      if (concerned) tables_.push_back(&table);
    }
  }

  Tuned with(const Flags& flags) const {
    Tuned t = accurate_;
    for (size_t i = 0; i < flags.size(); ++i)
      if (flags[i]) t[trades_.tried[i].contract] = decisions_[i];
    return t;
  }

  /// Fails with what keeps it from being told.
  Result<Flags> run() {
    const size_t n = trades_.tried.size();
    std::vector<Flags> sets = {Flags(n), Flags(n, true)};
    for (size_t i = 0; n > 1 && i < n; ++i) sets.emplace_back(n), sets.back()[i] = true;
    Result<std::vector<WholeError>> e = errors(sets);
    if (!e) return Result<Flags>::fail(e.why());
    for (size_t i = 0; i < n; ++i) {
      const double alone = (*e)[n > 1 ? 2 + i : 1].l2, base = (*e)[0].l2;
      trades_.tried[i].error = std::sqrt(std::max(0.0, alone * alone - base * base));
    }
    if (holds((*e)[1])) return settle(sets[1], (*e)[1]);
    // Errors of steps add up in squares: those first that gain most for theirs.
    std::vector<size_t> order(n);
    for (size_t i = 0; i < n; ++i) order[i] = i;
    const auto square = [&](size_t i) { return trades_.tried[i].error * trades_.tried[i].error; };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return gains_[a] * square(b) > gains_[b] * square(a); });
    std::vector<Flags> firsts = {Flags(n)};
    for (size_t i = 0; i + 1 < n; ++i) firsts.push_back(firsts.back()), firsts.back()[order[i]] = true;
    e = errors(firsts);
    if (!e) return Result<Flags>::fail(e.why());
    size_t best = 0;
    for (size_t i = 1; i < firsts.size(); ++i)
      if (holds((*e)[i])) best = i;
    return settle(firsts[best], (*e)[best]);
  }

 private:
  static bool holds(const WholeError& e) { return e.l2 <= kShare * e.bound; }
  Flags settle(const Flags& flags, const WholeError& e) {
    trades_.error = e.l2, trades_.bound = e.bound;
    for (size_t i = 0; i < flags.size(); ++i) {
      trades_.tried[i].taken = flags[i];
      trades_.tried[i].why =
          flags[i] ? "faster, and the outputs stay within the bound" : "faster, but the error would come too near the bound";
    }
    return flags;
  }
  /// For each set the worst of all variants that it concerns.
  Result<std::vector<WholeError>> errors(const std::vector<Flags>& sets) {
    std::vector<Tuned> tuned;
    for (const Flags& f : sets) tuned.push_back(with(f));
    std::vector<WholeError> worst(sets.size());
    for (const SymTable* table : tables_) {
      const Result<std::vector<WholeError>> e = options_.measurer->errors(*table, tuned);
      if (!e) return e;
      for (size_t i = 0; i < worst.size(); ++i)
        if (worst[i].bound == 0 || (*e)[i].l2 * worst[i].bound > worst[i].l2 * (*e)[i].bound) worst[i] = (*e)[i];
    }
    return worst;
  }

  const TuneOptions& options_;
  const Tuned& accurate_;
  std::vector<Decision> decisions_;
  std::vector<double> gains_;
  Trades& trades_;
  std::vector<const SymTable*> tables_;
};

/// A contract and what it may be computed by.
struct Chance {
  const std::string* contract;
  const Job* job;
  Decision decision;
};

std::vector<Chance> chances(const loop::Module& module, const Jobs& jobs, const Machine& machine, const Tuned& tuned) {
  std::vector<Chance> all;
  double run = 0;
  for (const auto& [contract, job] : jobs) run += job.weight;
  for (const auto& [contract, job] : jobs)
    if (std::optional<Decision> d =
            job.weight < kLeastPart * run ? std::nullopt : loosened(module, job, allowing(machine), own_choice(contract, job, tuned)))
      all.push_back({&contract, &job, std::move(*d)});
  std::stable_sort(all.begin(), all.end(), [](const Chance& a, const Chance& b) { return a.job->weight > b.job->weight; });
  if (all.size() > kMostTrades) all.resize(kMostTrades);
  return all;
}

/// Measures and judges; the trades are complete where it returns true, to be kept.
bool trade(const loop::Module& module, const std::vector<SymTable>& syms, const TuneOptions& options, double seconds,
           const std::vector<Chance>& all, TuneResult& result) {
  double total = 0, left = seconds;
  for (const Chance& c : all) total += c.job->weight;
  std::vector<Decision> decisions;
  std::vector<double> gains;
  for (const Chance& c : all) {
    if (options.progress) options.progress(decisions.size(), all.size(), *c.contract + ", less accurate");
    const double share = std::min(4.0, std::max(0.05, left * c.job->weight / std::max(total, 1.0)));
    left -= share, total -= c.job->weight;
    TuningRecord record;
    const Job job{c.job->subject, c.decision, c.job->weight, c.job->calls};
    Decision d = search_one(job, *options.measurer, 1 + kMostChoices, share, &record);
    if (record.measured == 0 || d.choice == c.decision.choice) continue;
    result.trades.tried.push_back({*c.contract, d.choice, record.ns, record.default_ns, 0, false, ""});
    gains.push_back((record.default_ns - record.ns) * c.job->calls);
    decisions.push_back(std::move(d));
  }
  if (decisions.empty()) return true;
  const Tuned accurate = result.tuned;
  Trader trader(module, syms, options, accurate, std::move(decisions), std::move(gains), result.trades);
  const Result<Flags> flags = trader.run();
  if (!flags) {
    for (Trade& t : result.trades.tried) t.why = "not judged: " + flags.why();
    return false;
  }
  if (std::find(flags->begin(), flags->end(), true) == flags->end()) return true;
  Tuned traded = trader.with(*flags);
  if (whole_gains(syms.front(), options, accurate, traded, true)) {
    result.tuned = std::move(traded);
    return true;
  }
  for (Trade& t : result.trades.tried)
    if (t.taken) t.taken = false, t.why = "the whole is not faster with it";
  result.trades.error = result.trades.bound = 0;
  return true;
}

}  // namespace

bool can_trade(const loop::Module& module, const std::vector<SymTable>& syms, const Machine& machine) {
  return !machine.is_gpu() && !allows_all(machine) && !chances(module, jobs_of(module, syms, machine), machine, {}).empty();
}

void trade_accuracy(const loop::Module& module, const std::vector<SymTable>& syms, const TuneOptions& options, double seconds, TuningDb& db,
                    TuneResult& result) {
  if (options.program.empty() || options.machine.is_gpu() || allows_all(options.machine)) return;
  const Jobs jobs = jobs_of(module, syms, options.machine);
  const std::string hardware = options.machine.str(), library = kernel_library_hash(), program = program_of(module, jobs, options);
  if (const Trades* known = db.find_trades(program, hardware, library)) {
    Tuned traded = result.tuned;
    bool all = true;
    for (const Trade& t : known->tried) {
      std::optional<Decision> d = decision_of(module, jobs, allowing(options.machine), result.tuned, t);
      if (t.taken && d) traded[t.contract] = std::move(*d);
      all = all && d.has_value();
    }
    if (all) {
      result.trades = *known;
      result.tuned = std::move(traded);
      return;
    }
  }
  const std::vector<Chance> all = chances(module, jobs, options.machine, result.tuned);
  if (all.empty() || !options.measurer || options.budget_s <= 0) return;
  if (trade(module, syms, options, seconds, all, result)) db.put_trades(program, hardware, library, result.trades);
}

}  // namespace aotc::search
