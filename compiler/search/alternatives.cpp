#include "search/alternatives.h"

#include <algorithm>
#include <sstream>

namespace aotc::search {

namespace {

constexpr double kSeems = 0.992;  ///< of the time of what the build does by itself, by which an alternative must win among the others
constexpr double kWins = 0.99;    ///< by which what is taken must win again
constexpr double kNoisy = 0.5;    ///< of the spread that a gain must exceed where turns were not compared
constexpr double kErrors = 2;     ///< of a ratio that a gain must exceed
constexpr double kLeastSeconds = 0.2;

bool ran(const Timing& t) { return t.error.empty() && t.ns > 0; }

/// Whether `other` takes clearly less time than `own`, the first of those that were timed with it.
bool faster(const Timing& other, const Timing& own, double by) {
  if (!ran(other) || !ran(own)) return false;
  if (other.ratio > 0) return other.ratio < by && 1 - other.ratio > kErrors * other.ratio_error;
  const double ratio = other.ns / own.ns;
  return ratio < by && 1 - ratio > kNoisy * std::max(other.spread, own.spread);
}

}  // namespace

const AlternativeRow& row_of(Alternative a) {
  return *std::find_if(std::begin(kAlternatives), std::end(kAlternatives), [&](const AlternativeRow& r) { return r.what == a; });
}

bool Alternatives::skips(std::string_view pass) const {
  return std::any_of(std::begin(kAlternatives), std::end(kAlternatives),
                     [&](const AlternativeRow& r) { return has(r.what) && r.skipped_pass == pass; });
}

void Alternatives::apply(loop::FusionRules& rules) const {
  for (const AlternativeRow& r : kAlternatives)
    if (has(r.what) && r.fuse) r.fuse(rules);
}

void Alternatives::apply(plan::StripRules& rules) const {
  for (const AlternativeRow& r : kAlternatives)
    if (has(r.what) && r.plan) r.plan(rules);
}

void Alternatives::apply(plan::PlanOptions& options) const {
  apply(options.strips);
  if (has(Alternative::launches_apart)) options.join = false;
}

std::string Alternatives::str() const {
  std::string text;
  for (const AlternativeRow& r : kAlternatives)
    if (has(r.what)) text += fmt::format("{}{}", text.empty() ? "" : " ", r.name);
  return text;
}

Result<Alternatives> Alternatives::parse(std::string_view text) {
  Alternatives out;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const auto row =
        std::find_if(std::begin(kAlternatives), std::end(kAlternatives), [&](const AlternativeRow& r) { return r.name == word; });
    if (row == std::end(kAlternatives)) {
      std::string known;
      for (const AlternativeRow& r : kAlternatives) known += fmt::format("{}{}", known.empty() ? "" : ", ", r.name);
      return Result<Alternatives>::fail(fmt::format("'{}' is no alternative; there are {}", word, known));
    }
    out = out.with(row->what);
  }
  return out;
}

AlternativesRecord choose_alternatives(const std::vector<Alternative>& differing, const TimeAlternatives& times, const Budget& budget) {
  AlternativesRecord record;
  if (differing.empty()) return record;
  std::vector<Alternatives> sets = {{}};
  for (Alternative a : differing) {
    sets.push_back(Alternatives().with(a));
    record.tried.push_back({std::string(row_of(a).name), 0, 0, false, "it was not faster"});
  }
  const auto unmeasured = [&](const std::string& why) {
    for (AlternativesRecord::Tried& t : record.tried) t.taken = false, t.why = why;
    record.complete = false;
    return record;
  };
  if (budget.left() < kLeastSeconds) return unmeasured("the time ran out");
  const std::vector<Timing> alone = times(sets, budget.left() / 2);
  if (alone.size() != sets.size() || !ran(alone[0])) return unmeasured("the whole was not measured");
  std::vector<size_t> won;
  for (size_t i = 0; i < differing.size(); ++i) {
    AlternativesRecord::Tried& t = record.tried[i];
    t.ns = alone[i + 1].ns, t.own_ns = alone[0].ns;
    if (!alone[i + 1].error.empty()) t.why = "lost when it was measured: " + alone[i + 1].error;
    if (faster(alone[i + 1], alone[0], kSeems)) won.push_back(i);
  }
  if (won.empty()) return record;
  std::stable_sort(won.begin(), won.end(), [&](size_t a, size_t b) { return record.tried[a].ns < record.tried[b].ns; });
  sets = {{}, Alternatives().with(differing[won[0]])};
  if (won.size() > 1) {
    Alternatives all;
    for (size_t i : won) all = all.with(differing[i]);
    sets.push_back(all);
  }
  for (size_t i : won) record.tried[i].why = "it did not win again";
  if (budget.left() < kLeastSeconds) return unmeasured("the time ran out");
  const std::vector<Timing> again = times(sets, budget.left() / 2);
  if (again.size() != sets.size() || !ran(again[0])) return unmeasured("the whole was not measured again");
  size_t best = 0;
  for (size_t i = 1; i < sets.size(); ++i)
    if (faster(again[i], again[0], kWins) && (best == 0 || again[i].ns < again[best].ns)) best = i;
  if (best == 0) return record;
  for (size_t i : won) {
    AlternativesRecord::Tried& t = record.tried[i];
    t.taken = sets[best].has(differing[i]);
    t.why = t.taken ? "the whole is faster with it" : "faster alone, not beside the others";
  }
  return record;
}

}  // namespace aotc::search
