#pragma once
// The search: contracts of a module's kernels, their candidates, what the tuning database knows of them, and a Measurer for the rest.
#include <functional>

#include "plan/build.h"
#include "search/measurer.h"
#include "search/tuning_db.h"

namespace aotc::search {

struct TuneOptions {
  Goal goal;
  Measurer* measurer = nullptr;  ///< null: take only what the database has
  double budget_s = 60;          ///< for measuring and judging together; the costliest contracts come first
  int candidates = 10;           ///< at most so many a contract
  std::function<void(size_t done, size_t total, const std::string& what)> progress;
  std::string program;  ///< names it with its weights; empty: accuracy is not traded for time (trades.h)
};

/// A contract with something to search that neither the database nor a measurement decided: the cost model does.
struct Unmeasured {
  std::string contract, why;
};

struct TuneResult {
  Tuned tuned;
  std::vector<Unmeasured> missing;
  Trades trades;
};

/// Looks each contract up in `db`, measures what is missing and puts it there. A choice other than the cost model's is taken only when it
/// was faster in alternating rounds of its own, and all that were taken together only when the whole module was. `syms`: one symbol table a
/// variant (its ranges and tune sizes); the first is the one that the whole is measured with.
TuneResult tune(const loop::Module& module, const std::vector<SymTable>& syms, const TuneOptions& options, TuningDb& db);

/// What build_plans calls: tuned decisions first, else the cost model's. Copies `tuned`.
plan::ChooseFn chooser(Tuned tuned);

}  // namespace aotc::search
