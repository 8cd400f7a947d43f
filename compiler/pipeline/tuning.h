#pragma once
// What was measured, for builds: the tuning database and the measurements that extend it.
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pipeline/clock.h"
#include "pipeline/pipeline.h"
#include "search/tune.h"

namespace aotc::pipeline {

using Warn = std::function<void(const std::string&)>;

/// The ranges of the symbols in each variant.
std::vector<std::vector<plan::SymRange>> ranges_of(const Front& f);

/// What the tuning database knows of this module's kernels and, in a mode that searches, what is measured now. Throws Diagnostic for what
/// is missing with error_on_tuning_miss.
search::TuneResult tuned_decisions(const BuildOptions& o, const Front& f, const Target& target, const Machine& machine,
                                   const std::string& work_dir, PhaseClock& clock, const Events& events, const Warn& warn);

/// As reports and `explain` tell it: {error bound steps: [{contract choice us accurate_us error taken why}]}.
nlohmann::json trades_json(const search::Trades& trades);
/// As reports tell it: [{contract why}].
nlohmann::json not_measured(const std::vector<search::Unmeasured>& missing);

}  // namespace aotc::pipeline
