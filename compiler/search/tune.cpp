#include "search/tune.h"

#include <algorithm>
#include <chrono>

namespace aotc::search {

namespace {

/// A contract of the module with its candidates, and how much of a run it is.
struct Job {
  Contract contract;
  std::vector<Candidate> candidates;
  double weight = 0;  ///< estimated nanoseconds a run, over all calls
};

template <class Kernel>
void add_job(std::map<std::string, Job>& jobs, const Kernel& k, const SymTable& syms, size_t calls, const Target& target) {
  const auto contract = contract_of(k, syms);
  auto [it, fresh] = jobs.try_emplace(key_of(contract));
  Job& job = it->second;
  if (fresh) {
    job.contract = contract;
    job.candidates = candidates(contract, target);
    std::erase_if(job.candidates, [](const Candidate& c) { return !c.fit.ok; });
  }
  if (!job.candidates.empty()) job.weight += job.candidates.front().cost * static_cast<double>(calls);
}

}  // namespace

Tuned tune(const loop::Module& module, const std::vector<SymTable>& syms, const TuneOptions& options, TuningDb& db) {
  std::vector<size_t> calls(module.kernels.size(), 0);
  for (const loop::Call& c : module.calls) ++calls[idx(c.kernel)];
  std::map<std::string, Job> jobs;
  for (size_t i = 0; i < module.kernels.size(); ++i)
    for (const SymTable& table : syms) {
      const loop::Kernel& kernel = module.kernels.raw()[i];
      if (const auto* m = std::get_if<loop::MatmulKernel>(&kernel)) add_job(jobs, *m, table, calls[i], options.target);
      if (const auto* v = std::get_if<loop::ConvKernel>(&kernel)) add_job(jobs, *v, table, calls[i], options.target);
      if (const auto* a = std::get_if<loop::AttentionKernel>(&kernel)) add_job(jobs, *a, table, calls[i], options.target);
    }

  Tuned tuned;
  if (options.target.isas.empty()) return tuned;
  const Isa isa = options.target.isas.back();
  const int threads = std::max(1, options.target.threads_hint);
  const Hardware hw = this_hardware(isa, threads);
  const std::string library = kernel_library_hash();
  std::vector<std::pair<const std::string*, const Job*>> missing;
  double total = 0;
  for (const auto& [key, job] : jobs) {
    if (const TuningRecord* r = db.find(key, hw, library))
      tuned[key] = r->choice;
    else if (job.candidates.size() > 1)
      missing.emplace_back(&key, &job), total += job.weight;
  }
  const auto native = native_isas();
  if (!options.measure || std::find(native.begin(), native.end(), isa) == native.end()) return tuned;

  std::stable_sort(missing.begin(), missing.end(), [](const auto& a, const auto& b) { return a.second->weight > b.second->weight; });
  const auto start = std::chrono::steady_clock::now();
  auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  MeasureProcess worker(options.worker_command);
  size_t done = 0;
  for (const auto& [key, job] : missing) {
    if (spent() > options.budget_s) break;
    if (options.progress) options.progress(done++, missing.size(), *key);
    // Each contract's share of what is left, by its part in a run; the quickest few are still worth a look.
    const double share = std::max(0.02 * options.budget_s, (options.budget_s - spent()) * job->weight / std::max(total, 1.0));
    total -= job->weight;
    const size_t n = std::min<size_t>(job->candidates.size(), static_cast<size_t>(options.candidates));
    // Rounds over all candidates, so that a noisy moment of the machine does not hit one alone; the quietest counts.
    constexpr int kRounds = 3;
    const double each = std::clamp(share / static_cast<double>(n) / kRounds / 1.5, 0.004, 0.1);
    std::vector<double> quietest(n, 0);
    std::vector<bool> lost(n, false);
    for (int round = 0; round < kRounds; ++round)
      for (size_t i = 0; i < n; ++i) {
        if (lost[i] || (spent() > options.budget_s && (round > 0 || i >= 2))) continue;
        const auto ns = worker.measure(job->contract, job->candidates[i].choice, isa, threads, each);
        lost[i] = !ns;  // a lost candidate is ordinary
        if (ns) quietest[i] = quietest[i] > 0 ? std::min(quietest[i], *ns) : *ns;
      }
    TuningRecord best;
    for (size_t i = 0; i < n; ++i) {
      if (lost[i] || quietest[i] <= 0) continue;
      if (i == 0) best.default_ns = quietest[i];
      ++best.measured;
      // Less than three percent is noise: the cost model's order decides.
      if (best.measured == 1 || quietest[i] < 0.97 * best.ns) best.choice = job->candidates[i].choice, best.ns = quietest[i];
    }
    if (best.measured < 2) continue;
    db.put(*key, hw, library, best);
    tuned[*key] = best.choice;
  }
  if (options.progress) options.progress(missing.size(), missing.size(), "");
  return tuned;
}

}  // namespace aotc::search
