#pragma once
// What was measured, for builds: the tuning database and the measurements that extend it.
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pipeline/clock.h"
#include "pipeline/pipeline.h"
#include "pipeline/stages.h"
#include "search/tune.h"

namespace aotc::pipeline {

using Warn = std::function<void(const std::string&)>;

/// The ranges of the symbols in each variant.
std::vector<std::vector<plan::SymRange>> ranges_of(const Front& f);

/// A symbol table a variant, with its ranges and tuned sizes; at least one.
std::vector<SymTable> tables_of(const Front& f);

struct PartTuning {
  search::TuneResult result;
  search::AlternativesRecord alternatives;
  search::ComparisonRecord comparison;  ///< nothing was tried: all is as default makes it, or nobody measured
  bool own_weights = false;             ///< CPU: models copy their weights to huge pages
  double seconds = 0;                   ///< of measuring and judging, building what is measured included
};

/// What the tuning database knows of this program and its kernels and, in a mode that searches, what is measured now. `f` and `options` are
/// made anew with the alternatives that are taken. Throws Diagnostic for what is missing with error_on_tuning_miss.
PartTuning tuned_decisions(const BuildOptions& o, FrontOptions& options, Front& f, Stages& stages, const Goal& goal,
                           const std::string& work_dir, PhaseClock& clock, const Events& events, const Warn& warn);
/// As reports tell it: {budget_s seconds}; seconds of the wall clock, building what was measured included.
nlohmann::json tuning_json(const PartTuning& tuning, double budget_s);

/// As reports and `explain` tell it: {error bound steps: [{contract choice us accurate_us error taken why}]}.
nlohmann::json trades_json(const search::Trades& trades);
/// As reports tell it: [{contract why}].
nlohmann::json not_measured(const std::vector<search::Unmeasured>& missing);

}  // namespace aotc::pipeline
