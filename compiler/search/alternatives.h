#pragma once
// What a build decides once for a whole program where more than one way is legal and the cost model cannot know which is faster: the caches
// and the pages that decide it are those of the run. Each alternative stands beside what a build does by itself; only whole artifacts tell.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "loop/rules.h"
#include "plan/build.h"
#include "search/jobs.h"

namespace aotc::search {

enum class Alternative : uint8_t {
  stores_far,
  prologues_apart,
  products_in_tiles,
  reductions_whole,
  strips_low,
  strips_more,
  launches_apart
};

struct AlternativeRow {
  Alternative what;
  std::string_view name, skipped_pass;  ///< the pass of passes/list.cpp that does not run; empty: all do
  std::string_view text;
  void (*fuse)(loop::FusionRules&) = nullptr;  ///< what the fusion does otherwise; null: nothing
  void (*plan)(plan::StripRules&) = nullptr;   ///< what plans do otherwise; null: nothing
};
constexpr AlternativeRow kAlternatives[] = {
    {Alternative::stores_far, "stores_far", "", "results of loops that fill twice L2 pass the caches by"},
    {Alternative::prologues_apart, "prologues_apart", "", "operands of products are computed by kernels of their own",
     [](loop::FusionRules& r) { r.prologue = [](DType, uint32_t) { return refuse("kernels of their own are faster in the whole"); }; }},
    {Alternative::products_in_tiles, "products_in_tiles", "products_in_lanes", "small products are multiplied in tiles, not in lanes"},
    {Alternative::reductions_whole, "reductions_whole", "split_reductions", "long reductions go in one step"},
    {Alternative::strips_low, "strips_low", "", "strips take half as much of L2", nullptr, [](plan::StripRules& r) { r.kept_of_l2 /= 2; }},
    {Alternative::strips_more, "strips_more", "", "strips of what L2 would hold as well", nullptr,
     [](plan::StripRules& r) { r.handed_of_l2 /= 6; }},
    {Alternative::launches_apart, "launches_apart", "", "small kernels of a GPU are launches of their own"},
};
const AlternativeRow& row_of(Alternative a);

/// A set of alternatives.
class Alternatives {
 public:
  Alternatives() = default;
  bool has(Alternative a) const { return bits_ >> static_cast<int>(a) & 1; }
  bool any() const { return bits_ != 0; }
  Alternatives with(Alternative a) const {
    Alternatives out = *this;
    out.bits_ |= 1u << static_cast<int>(a);
    return out;
  }
  Alternatives with(const Alternatives& others) const {
    Alternatives out = *this;
    out.bits_ |= others.bits_;
    return out;
  }
  bool skips(std::string_view pass) const;
  void apply(loop::FusionRules& rules) const;
  void apply(plan::StripRules& rules) const;
  void apply(plan::PlanOptions& options) const;
  std::string str() const;  ///< "stores_far products_apart"; empty where it has none
  /// Fails with the known names.
  static Result<Alternatives> parse(std::string_view text);
  friend bool operator==(const Alternatives&, const Alternatives&) = default;
  friend bool operator<(const Alternatives& a, const Alternatives& b) { return a.bits_ < b.bits_; }

 private:
  uint32_t bits_ = 0;
};

/// Of each set, of runs in turns: the whole artifact.
using TimeAlternatives = std::function<std::vector<Timing>(const std::vector<Alternatives>& sets, double seconds)>;

/// Measures each of `differing`, which are those that change the plan, beside what the build does by itself, then those that seem faster
/// together and the best of them alone: what is taken has won both times by more than the noise. Not complete where the time ran out.
AlternativesRecord choose_alternatives(const std::vector<Alternative>& differing, const TimeAlternatives& times, const Budget& budget);

}  // namespace aotc::search
