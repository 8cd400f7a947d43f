#pragma once
// The last comparison of a build that measures (search/comparison.h): the whole as it was decided beside what default makes of the program,
// whole artifacts in turns, and what is taken back after it.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pipeline/measuring.h"
#include "pipeline/pipeline.h"
#include "pipeline/stages.h"
#include "search/comparison.h"

namespace aotc::pipeline {

/// What was decided for a part.
struct Decided {
  search::TuneResult& result;
  FrontOptions& options;  ///< with the alternatives that were taken
  Front& front;           ///< made with them
  bool& own_weights;      ///< whether the model copies its weights; false: default's way, or what was asked for
  bool asked_weights;     ///< it would by default as well
};

/// What of it is not default's, each to be taken back by itself.
std::vector<search::Group> groups_of(const Decided& d, const Goal& goal);

/// `program` with what was decided: of which program the comparison is, and of what.
std::string comparison_key(const std::string& program, const Decided& d, const Goal& goal);

/// Measures within about `seconds`; at least one round, however long building takes. Goes on with `known` (compare_with_default).
search::ComparisonRecord measure_comparison(const std::vector<search::Group>& groups, const Decided& d, const MeasuringOptions& measuring,
                                            double seconds, const search::ComparisonRecord& known, const Events& events);

/// Takes back what the record does not keep: choices become the cost model's, the front is made anew without alternatives.
void keep_only(const search::ComparisonRecord& record, const std::vector<search::Group>& groups, Decided d, const Goal& goal,
               const Events& events, Stages& stages);

/// As reports and `explain` tell it: {kept taken_back complete tried: [{kept us default_us ratio}]}.
nlohmann::json comparison_json(const search::ComparisonRecord& record);

}  // namespace aotc::pipeline
