#pragma once
// max-autotune: the best candidates of each contraction of a module, measured in a child process within a budget.
#include <functional>

#include "search/choose.h"
#include "search/measure.h"
#include "search/tuning_db.h"

namespace aotc::search {

struct TuneOptions {
  Target target;
  bool measure = false;                     ///< false: take only what the database has
  double budget_s = 60;                     ///< for all contracts together; the costliest ones come first
  int candidates = 8;                       ///< at most so many a contract
  std::vector<std::string> worker_command;  ///< empty: this executable with measure-worker
  std::function<void(size_t done, size_t total, const std::string& what)> progress;
};

/// Looks each contraction up in `db`, measures what is missing and puts it there. `syms`: one symbol table a variant (its ranges and tune
/// sizes). The result goes to chooser().
Tuned tune(const loop::Module& module, const std::vector<SymTable>& syms, const TuneOptions& options, TuningDb& db);

}  // namespace aotc::search
