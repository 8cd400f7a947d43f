#include "search/trades.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "emit/toolchain.h"
#include "loop/text.h"
#include "search/jobs.h"

namespace aotc::search {

namespace {

using forms::Candidate;
using forms::Decision;

/// Of the bound, by samples: other inputs need some of it.
constexpr double kShares[] = {0.7, 0.8, 0.9};
constexpr double kTradeGain = 0.985;  ///< that a contract must win, as kGain of the others: the whole is measured as well
constexpr double kReferenceShare = 0.4, kJudgingShare = 0.4;  ///< of what is left of the time, at most
constexpr size_t kMostChoices = 6;                            ///< that are measured of a contract, beside the accurate one
constexpr double kHopeful = 1.25;                             ///< times the accurate choice's estimate, above which nothing is tried
constexpr size_t kMostTrades = 20;                            ///< that are judged: each has a plan of its own in the artifact that judges
constexpr double kLeastPart = 0.003;                          ///< of a run by estimate, below which a contract is not worth judging

using Flags = std::vector<bool>;  ///< by trade: taken

bool allows_all(const Numerics& numerics) { return numerics.winograd4 && numerics.strassen; }
/// What trades may lose beyond what the goal does.
Numerics allowing(Numerics numerics) {
  numerics.winograd4 = numerics.strassen = true;
  numerics.f32_matmul = F32Matmul::high;
  return numerics;
}
/// Without what has the most error.
Numerics mildly(const Numerics& numerics) {
  Numerics mild = allowing(numerics);
  mild.f32_matmul = numerics.f32_matmul;
  return mild;
}

bool fits(const Decision& d, const forms::Choice& choice) {
  return std::any_of(d.candidates.begin(), d.candidates.end(), [&](const Candidate& c) { return c.fit && c.choice == choice; });
}

/// The decision of a contract where results may lose more.
Decision losing(const loop::Module& module, const Job& job, const Machine& machine, const Numerics& numerics) {
  return forms::decide({module.kernels[job.subject.kernel], *job.subject.syms, machine, numerics});
}

/// A contract's decision where less accurate choices are allowed: the accurate choice `own` first, then those that only this allows, of the
/// milder ones and of the others in turns. Nothing where there is none.
std::optional<Decision> loosened(const loop::Module& module, const Job& job, const Goal& goal, const forms::Choice& own) {
  const Decision all = losing(module, job, goal.machine, allowing(goal.numerics)),
                 mild = losing(module, job, goal.machine, mildly(goal.numerics));
  const auto of = [](const Decision& d, const forms::Choice& choice) {
    return std::find_if(d.candidates.begin(), d.candidates.end(), [&](const Candidate& c) { return c.choice == choice; });
  };
  Decision d = all;
  d.candidates.clear();
  if (const auto it = of(all, own); it != all.candidates.end()) d.candidates.push_back(*it);
  if (d.candidates.empty()) return std::nullopt;
  const double hopeful = kHopeful * d.candidates.front().cost_ns;
  std::vector<Candidate> kinds[2];
  for (const Candidate& c : all.candidates)
    if (c.fit && c.cost_ns <= hopeful && !fits(job.decision, c.choice)) kinds[fits(mild, c.choice) ? 0 : 1].push_back(c);
  for (size_t i = 0; i < std::max(kinds[0].size(), kinds[1].size()); ++i)
    for (const std::vector<Candidate>& kind : kinds)
      if (i < kind.size()) d.candidates.push_back(kind[i]);
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
std::optional<Decision> decision_of(const loop::Module& module, const Jobs& jobs, const Goal& goal, const Tuned& tuned, const Trade& t) {
  const auto job = jobs.find(t.contract);
  if (job == jobs.end()) return std::nullopt;
  std::optional<Decision> d = loosened(module, job->second, goal, own_choice(t.contract, job->second, tuned));
  if (!d) return std::nullopt;
  for (Candidate& c : d->candidates)
    if (c.choice == t.choice) {
      d->choice = t.choice, d->by = "tuning database";
      c.measured_ns = t.ns;
      return d;
    }
  return std::nullopt;
}

/// The variants' tables whose contracts are of concern.
template <class Concern>
std::vector<const SymTable*> concerned(const loop::Module& module, const std::vector<SymTable>& syms, const Goal& goal,
                                       const Concern& concern) {
  std::vector<const SymTable*> out;
  for (const SymTable& table : syms)
    if (concern(jobs_of(module, {table}, goal))) out.push_back(&table);
  return out;
}

double limit(const WholeError& e) { return kShares[std::clamp(e.samples, 1, 3) - 1] * e.bound; }
bool holds(const WholeError& e) { return e.l2 <= limit(e); }

/// What a contract may be computed by: the fastest choice, and the fastest of the milder ones; the same where there is none.
struct Option {
  Decision best, milder;
  double gain;  ///< of the best, nanoseconds a run
};

/// `d`, which chose a trade, with the fastest milder choice that it measured and that wins as well.
Decision milder(const loop::Module& module, const Job& job, const Goal& goal, const Decision& d) {
  const Decision mild = losing(module, job, goal.machine, mildly(goal.numerics));
  if (fits(mild, d.choice)) return d;
  const Candidate& own = d.candidates.front();
  const Candidate* best = nullptr;
  for (const Candidate& c : d.candidates)
    if (&c != &own && c.fit && c.measured_ns > 0 && c.measured_ns < kTradeGain * own.measured_ns && fits(mild, c.choice) &&
        (!best || c.measured_ns < best->measured_ns))
      best = &c;
  Decision out = d;
  if (best) out.choice = best->choice;
  return out;
}

/// Judges sets of trades, and takes the best that holds.
class Trader {
 public:
  Trader(const loop::Module& module, const std::vector<SymTable>& syms, const TuneOptions& options, const Budget& budget,
         const Tuned& accurate, std::vector<Option> choices, Trades& trades)
      : options_(options),
        budget_(budget),
        accurate_(accurate),
        choices_(std::move(choices)),
        trades_(trades),
        tables_(concerned(module, syms, options.goal, [&](const Jobs& jobs) {
          return std::any_of(trades.tried.begin(), trades.tried.end(), [&](const Trade& t) { return jobs.count(t.contract) > 0; });
        })) {}

  Tuned with(const Flags& flags) const {
    Tuned t = accurate_;
    for (size_t i = 0; i < flags.size(); ++i)
      if (flags[i]) t[trades_.tried[i].contract] = choices_[i].best;
    return t;
  }

  /// All of them where they hold together, or the milder ones; else of these the first ones by gain for error, of those that were judged
  /// alone in time. Fails with what keeps it from being told.
  Result<Flags> run() {
    using R = Result<Flags>;
    const size_t n = choices_.size();
    const Flags none(n);
    const Result<std::vector<WholeError>> whole = errors({none, Flags(n, true)});
    if (!whole) return R::fail(whole.why());
    if (whole->size() < 2) return R::fail("the time ran out");
    const double base = whole->front().l2;
    if (n == 1) trades_.tried[0].error = added(whole->back(), base);
    if (holds(whole->back())) return settle(Flags(n, true), whole->back(), n);
    if (take_milder()) {
      const Result<std::vector<WholeError>> mild = errors({Flags(n, true)});
      if (!mild) return R::fail(mild.why());
      if (n == 1) trades_.tried[0].error = added(mild->front(), base);
      if (holds(mild->front())) return settle(Flags(n, true), mild->front(), n);
    }
    if (n == 1) return settle(none, whole->front(), n);

    // The heaviest first, should the time end; errors of steps add up in squares.
    std::vector<size_t> order(n);
    for (size_t i = 0; i < n; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return choices_[x].gain > choices_[y].gain; });
    std::vector<Flags> alone;
    for (size_t i : order) alone.push_back(none), alone.back()[i] = true;
    const Result<std::vector<WholeError>> each = errors(alone);
    if (!each) return R::fail(each.why());
    order.resize(each->size());
    for (size_t i = 0; i < order.size(); ++i) trades_.tried[order[i]].error = added((*each)[i], base);
    const auto square = [&](size_t i) { return trades_.tried[i].error * trades_.tried[i].error; };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t x, size_t y) { return choices_[x].gain * square(y) > choices_[y].gain * square(x); });
    return first_of(order, base, whole->front());
  }

 private:
  static double added(const WholeError& e, double base) { return std::sqrt(std::max(0.0, e.l2 * e.l2 - base * base)); }

  /// False where there are none.
  bool take_milder() {
    bool any = false;
    for (size_t i = 0; i < choices_.size(); ++i) {
      Option& o = choices_[i];
      Trade& t = trades_.tried[i];
      if (o.milder.choice == o.best.choice) continue;
      any = true;
      const auto it = std::find_if(o.milder.candidates.begin(), o.milder.candidates.end(),
                                   [&](const Candidate& c) { return c.choice == o.milder.choice; });
      o.gain *= std::max(0.0, t.accurate_ns - it->measured_ns) / (t.accurate_ns - t.ns);
      o.best = o.milder;
      t.choice = o.best.choice, t.ns = std::min(it->measured_ns, t.accurate_ns);
    }
    return any;
  }

  /// The longest beginning of `order` that holds: as many as should by the sum of squares, one more, and fewer.
  Result<Flags> first_of(const std::vector<size_t>& order, double base, const WholeError& none) {
    size_t most = 0;
    double squares = base * base;
    for (size_t i : order) {
      squares += trades_.tried[i].error * trades_.tried[i].error;
      if (squares > limit(none) * limit(none)) break;
      ++most;
    }
    std::vector<size_t> counts;
    for (size_t c : {most, most + 1, most - std::min<size_t>(most, 1), most / 2, most / 4})
      if (c > 0 && c <= order.size() && std::find(counts.begin(), counts.end(), c) == counts.end()) counts.push_back(c);
    std::vector<Flags> firsts;
    for (size_t c : counts) {
      firsts.emplace_back(choices_.size());
      for (size_t i = 0; i < c; ++i) firsts.back()[order[i]] = true;
    }
    if (firsts.empty()) return settle(Flags(choices_.size()), none, order.size());
    const Result<std::vector<WholeError>> e = errors(firsts);
    if (!e) return Result<Flags>::fail(e.why());
    std::optional<size_t> best;
    for (size_t i = 0; i < e->size(); ++i)
      if (holds((*e)[i]) && (!best || counts[i] > counts[*best])) best = i;
    return best ? settle(firsts[*best], (*e)[*best], order.size()) : settle(Flags(choices_.size()), none, order.size());
  }

  /// judged: how many were, alone or together.
  Flags settle(const Flags& flags, const WholeError& e, size_t judged) {
    const bool any = std::find(flags.begin(), flags.end(), true) != flags.end();
    trades_.error = any ? e.l2 : 0, trades_.bound = any ? e.bound : 0;
    trades_.complete = trades_.complete && judged == flags.size();
    for (size_t i = 0; i < flags.size(); ++i) {
      Trade& t = trades_.tried[i];
      t.taken = flags[i];
      t.why = flags[i]                                ? "faster, and the outputs stay within the bound"
              : judged < flags.size() && t.error == 0 ? "not judged: the time ran out"
                                                      : "faster, but the error would come too near the bound";
    }
    return flags;
  }

  /// For each set, of the first ones that there is time for, the worst of all variants that it concerns.
  Result<std::vector<WholeError>> errors(const std::vector<Flags>& sets) {
    std::vector<Tuned> tuned;
    for (const Flags& f : sets) tuned.push_back(with(f));
    std::vector<WholeError> worst(sets.size());
    for (size_t t = 0; t < tables_.size(); ++t) {
      if (options_.progress) options_.progress(t, tables_.size(), fmt::format("errors of {} sets of choices", worst.size()));
      const double seconds = (budget_.left() - whole_seconds(options_)) / static_cast<double>(tables_.size() - t);
      tuned.resize(worst.size());
      const Result<std::vector<WholeError>> e = options_.measurer->errors(*tables_[t], tuned, seconds);
      if (!e) return e;
      worst.resize(std::min(worst.size(), e->size()));
      for (size_t i = 0; i < worst.size(); ++i)
        if (worst[i].bound == 0 || (*e)[i].l2 * limit(worst[i]) > worst[i].l2 * limit((*e)[i])) worst[i] = (*e)[i];
    }
    return worst;
  }

  const TuneOptions& options_;
  const Budget& budget_;
  const Tuned& accurate_;
  std::vector<Option> choices_;
  Trades& trades_;
  std::vector<const SymTable*> tables_;
};

/// A contract and what it may be computed by.
struct Chance {
  const std::string* contract;
  const Job* job;
  Decision decision;
};

std::vector<Chance> chances(const loop::Module& module, const Jobs& jobs, const Goal& goal, const Tuned& tuned) {
  std::vector<Chance> all;
  double run = 0;
  for (const auto& [contract, job] : jobs) run += job.weight;
  for (const auto& [contract, job] : jobs)
    if (std::optional<Decision> d =
            job.weight < kLeastPart * run ? std::nullopt : loosened(module, job, goal, own_choice(contract, job, tuned)))
      all.push_back({&contract, &job, std::move(*d)});
  std::stable_sort(all.begin(), all.end(), [](const Chance& a, const Chance& b) { return a.job->weight > b.job->weight; });
  if (all.size() > kMostTrades) all.resize(kMostTrades);
  return all;
}

/// Gets the references ready; returns the seconds of `budget` to keep for judging and for the whole both ways.
double prepare(const loop::Module& module, const std::vector<SymTable>& syms, const TuneOptions& options, const Budget& budget,
               const std::vector<Chance>& all) {
  const std::vector<const SymTable*> tables = concerned(module, syms, options.goal, [&](const Jobs& of_table) {
    return std::any_of(all.begin(), all.end(), [&](const Chance& c) { return of_table.count(*c.contract) > 0; });
  });
  const double seconds = kReferenceShare * budget.left() / static_cast<double>(tables.size());
  double set_s = 0;
  for (size_t t = 0; t < tables.size(); ++t) {
    if (options.progress) options.progress(t, tables.size(), "outputs in fp64 to compare with");
    if (const Result<double> s = options.measurer->references(*tables[t], seconds); s) set_s += *s;  // errors will tell why not
  }
  return std::min(set_s * static_cast<double>(all.size() + 7), kJudgingShare * budget.left()) + 1.5 * whole_seconds(options);
}

/// Measures and judges; true where what it found is to be kept.
bool trade(const loop::Module& module, const std::vector<SymTable>& syms, const TuneOptions& options, const Budget& budget,
           const std::vector<Chance>& all, TuneResult& result) {
  const double judging_s = prepare(module, syms, options, budget, all);
  const auto left = [&] { return budget.left() - judging_s; };
  double total = 0;
  for (const Chance& c : all) total += c.job->weight;
  std::vector<Option> choices;
  for (size_t i = 0; i < all.size(); ++i) {
    const Chance& c = all[i];
    if (left() <= 0) {
      result.trades.complete = false;
      break;
    }
    if (options.progress) options.progress(i, all.size(), *c.contract + ", less accurate");
    const double share = std::clamp(left() * c.job->weight / std::max(total, 1.0), 0.05, 4.0);
    total -= c.job->weight;
    TuningRecord record;
    const Job job{c.job->subject, c.decision, c.job->weight, c.job->calls};
    Decision d = search_one(job, *options.measurer, 1 + kMostChoices, share, kTradeGain, &record);
    if (record.measured == 0 || d.choice == c.decision.choice) continue;
    result.trades.tried.push_back({*c.contract, d.choice, record.ns, record.default_ns, 0, false, ""});
    Decision mild = milder(module, *c.job, options.goal, d);
    choices.push_back({std::move(d), std::move(mild), (record.default_ns - record.ns) * c.job->calls});
  }
  if (choices.empty()) return true;
  const Tuned accurate = result.tuned;
  Trader trader(module, syms, options, budget, accurate, std::move(choices), result.trades);
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

/// What the database has of the program; nothing where a choice is none of the forms' any more.
std::optional<TuneResult> repeated(const loop::Module& module, const Jobs& jobs, const Goal& goal, const Trades& known,
                                   const TuneResult& result) {
  TuneResult out = result;
  for (const Trade& t : known.tried) {
    std::optional<Decision> d = decision_of(module, jobs, goal, result.tuned, t);
    if (!d) return std::nullopt;
    if (t.taken) out.tuned[t.contract] = std::move(*d);
  }
  out.trades = known;
  return out;
}

}  // namespace

bool trades_hold(const loop::Module& module, const std::vector<SymTable>& syms, const TuneOptions& options, const Trades& trades,
                 const Tuned& tuned) {
  const std::vector<const SymTable*> tables = concerned(module, syms, options.goal, [&](const Jobs& jobs) {
    return std::any_of(trades.tried.begin(), trades.tried.end(), [&](const Trade& t) { return t.taken && jobs.count(t.contract) > 0; });
  });
  return std::all_of(tables.begin(), tables.end(), [&](const SymTable* table) {
    const Result<std::vector<WholeError>> e = options.measurer->errors(*table, {tuned}, whole_seconds(options));
    return e && holds(e->front());
  });
}

void trade_accuracy(const loop::Module& module, const std::vector<SymTable>& syms, const TuneOptions& options, const Budget& budget,
                    TuningDb& db, TuneResult& result) {
  if (options.program.empty() || !options.goal.machine.traits().whole_programs || allows_all(options.goal.numerics)) return;
  const Jobs jobs = jobs_of(module, syms, options.goal);
  const std::string hardware = options.goal.str(), library = kernel_library_hash(), program = program_of(module, jobs, options);
  const bool measures = options.measurer && budget.left() > 0;
  if (const Trades* known = db.find_program<Trades>(program, hardware, library); known && (known->complete || !measures))
    if (std::optional<TuneResult> same = repeated(module, jobs, options.goal, *known, result)) {
      result = std::move(*same);
      return;
    }
  if (!measures) return;
  const std::vector<Chance> all = chances(module, jobs, options.goal, result.tuned);
  if (!all.empty() && trade(module, syms, options, budget, all, result)) db.put_program(program, hardware, library, result.trades);
}

}  // namespace aotc::search
