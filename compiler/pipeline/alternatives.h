#pragma once
// The alternatives of a program (search/alternatives.h): whole artifacts made with and without them, timed in turns.
#include <nlohmann/json_fwd.hpp>

#include "pipeline/measuring.h"
#include "pipeline/pipeline.h"
#include "pipeline/stages.h"

namespace aotc::pipeline {

/// What decides which of them are faster: the archive, how its numbers are stored and multiplied, the sizes that are tuned for.
std::string alternatives_key(const FrontOptions& options, const Front& f);

/// Measures them for a part whose front is `f`; `seconds` for all of it, building included.
search::AlternativesRecord measure_alternatives(const FrontOptions& options, const Front& f, const MeasuringOptions& measuring,
                                                double seconds, const Events& events);

/// What the record took. `f` is made anew with it, unless it took none.
void take_alternatives(const search::AlternativesRecord& record, FrontOptions& options, Front& f, const Events& events, Stages& stages);

/// As reports and `explain` tell it: {taken complete tried: [{name us own_us taken why}]}.
nlohmann::json alternatives_json(const search::AlternativesRecord& record);

}  // namespace aotc::pipeline
