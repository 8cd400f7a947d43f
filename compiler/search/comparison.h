#pragma once
// The last comparison of a search: the whole with all that was decided otherwise than by default, beside what default makes. Decisions are
// taken back until the whole is faster than that; in the end nothing is left of them.
#include <functional>
#include <string>
#include <vector>

#include "search/jobs.h"

namespace aotc::search {

/// Decisions that are taken back at once.
struct Group {
  std::string name;           ///< a row of kGroups, or an alternative's
  std::vector<size_t> needs;  ///< groups without which it is not kept
};
struct GroupRow {
  std::string_view name, text;
};
/// Beside those of alternatives.h, each of which is a group.
constexpr GroupRow kGroups[] = {
    {"kernels", "choices that were faster when they were measured"},
    {"trades", "faster and less accurate choices, which were judged beside the alternatives"},
    {"weights", "the model's own copy of its weights, in huge pages"},
};

/// By group.
using Kept = std::vector<bool>;
/// The groups' names that `kept` has, "kernels weights"; "" is what default makes.
std::string str(const std::vector<Group>& groups, const Kept& kept);

/// Whole artifacts in turns, the first of `sets` keeps nothing. Failing and crashing are timings as well.
using TimeKept = std::function<std::vector<Timing>(const std::vector<Kept>& sets)>;

/// All of it first; while what is kept is not faster, it is tried without each of its groups, and the fastest of these is kept. What is
/// taken back so has to win again. Where the budget ends first nothing is kept, and the record is not complete. `known`, an incomplete
/// record of the same groups, is gone on with: its rounds are not measured again.
ComparisonRecord compare_with_default(const std::vector<Group>& groups, const TimeKept& times, const Budget& budget,
                                      const ComparisonRecord& known = {});

/// What the record keeps of the groups that there are now.
Kept kept_of(const ComparisonRecord& record, const std::vector<Group>& groups);

/// `tuned` with the cost model's choices in the place of those that are not kept, which `trades` tells apart.
Tuned without_groups(const Jobs& jobs, Tuned tuned, const Trades& trades, bool kernels, bool traded);

/// Whether `tuned` has choices that are neither the cost model's nor traded.
bool differs(const Jobs& jobs, const Tuned& tuned, const Trades& trades);

}  // namespace aotc::search
