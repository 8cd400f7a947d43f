#include "search/comparison.h"

#include <unistd.h>
#include <catch2/catch.hpp>

#include <filesystem>

namespace aotc::search {
namespace {

/// Ratios of sets to default, by their text; all else takes as long as default.
struct Scripted {
  std::vector<Group> groups;
  std::map<std::string, double> ratios;
  std::vector<std::string> asked;  ///< of each round, "a b | a | b"
  TimeKept times() {
    return [this](const std::vector<Kept>& sets) {
      CHECK(str(groups, sets.at(0)).empty());
      std::vector<Timing> out = {{1000, 0, "", 1}};
      asked.emplace_back();
      for (size_t i = 1; i < sets.size(); ++i) {
        const std::string name = str(groups, sets[i]);
        asked.back() += (i > 1 ? " | " : "") + name;
        const auto it = ratios.find(name);
        const double ratio = it == ratios.end() ? 1 : it->second;
        out.push_back({1000 * ratio, 0, ratio < 0 ? "it crashed" : "", ratio});
      }
      return out;
    };
  }
  ComparisonRecord compare(double seconds = 60) { return compare_with_default(groups, times(), Budget(seconds)); }
};

const std::vector<Group> kThree = {{"trades", {}}, {"kernels", {}}, {"weights", {}}};

TEST_CASE("what is faster than default is kept as it is, after one round", "[search]") {
  Scripted s{kThree, {{"trades kernels weights", 0.9}}, {}};
  const ComparisonRecord r = s.compare();
  CHECK(r.kept == "trades kernels weights");
  CHECK(r.taken_back.empty());
  CHECK(r.complete);
  CHECK(s.asked == std::vector<std::string>{"trades kernels weights"});
  REQUIRE(r.tried.size() == 1);
  CHECK(r.tried[0].ratio == 0.9);
  CHECK(r.tried[0].own_ns == 1000);
}

TEST_CASE("the group without which the whole is fastest is taken back, and what is left wins again", "[search]") {
  Scripted s{kThree, {{"trades kernels weights", 1.02}, {"trades weights", 0.95}, {"trades kernels", 0.98}}, {}};
  const ComparisonRecord r = s.compare();
  CHECK(r.kept == "trades weights");
  CHECK(r.taken_back == "kernels");
  CHECK(s.asked ==
        std::vector<std::string>{"trades kernels weights", "kernels weights | trades weights | trades kernels", "trades weights"});
}

TEST_CASE("groups go one after the other until nothing is left of what default is level with", "[search]") {
  Scripted s{kThree, {{"kernels weights", 0.999}, {"trades weights", 1.01}}, {}};
  const ComparisonRecord r = s.compare();
  CHECK(r.kept.empty());
  CHECK(r.taken_back == "trades kernels weights");
  CHECK(r.complete);
  CHECK(s.asked ==
        std::vector<std::string>{"trades kernels weights", "kernels weights | trades weights | trades kernels", "weights | kernels"});
}

TEST_CASE("what wins once and not again is taken back as well", "[search]") {
  Scripted s{{{"kernels", {}}, {"weights", {}}}, {}, {}};
  int rounds = 0;
  const TimeKept times = s.times();
  const ComparisonRecord r = compare_with_default(
      s.groups,
      [&](const std::vector<Kept>& sets) {
        s.ratios = {{"weights", ++rounds == 2 ? 0.9 : 1.1}};
        return times(sets);
      },
      Budget(60));
  CHECK(r.kept.empty());
  CHECK(s.asked == std::vector<std::string>{"kernels weights", "weights | kernels", "weights"});
}

TEST_CASE("a group goes with the one that it needs", "[search]") {
  Scripted s{{{"stores_far", {}}, {"trades", {0}}, {"kernels", {}}}, {{"kernels", 0.9}, {"stores_far kernels", 0.95}}, {}};
  const ComparisonRecord r = s.compare();
  CHECK(r.kept == "kernels");
  CHECK(s.asked.at(1) == "kernels | stores_far kernels | stores_far trades");
}

TEST_CASE("what does not run is not kept, nor what there is no time to look at", "[search]") {
  Scripted crashing{kThree, {{"trades kernels weights", -1}, {"trades weights", 0.9}}, {}};
  CHECK(crashing.compare().kept == "trades weights");
  CHECK(crashing.compare().tried.at(0).ratio == 0);
  Scripted slow{kThree, {{"trades weights", 0.9}}, {}};
  const ComparisonRecord r = slow.compare(-1);
  CHECK(r.kept.empty());
  CHECK_FALSE(r.complete);
  CHECK(slow.asked.size() == 1);
}

TEST_CASE("a comparison goes on where its time ran out, a round a time at least", "[search]") {
  const std::map<std::string, double> ratios = {{"kernels weights", 0.999}, {"trades weights", 1.01}, {"weights", 0.9}};
  Scripted whole{kThree, ratios, {}};
  const ComparisonRecord wanted = whole.compare();
  Scripted slow{kThree, ratios, {}};
  ComparisonRecord r;
  for (size_t builds = 1; r.tried.empty() || !r.complete; ++builds) {
    r = compare_with_default(slow.groups, slow.times(), Budget(-1), r);
    REQUIRE(slow.asked.size() >= builds);
  }
  CHECK(r == wanted);
  CHECK(slow.asked == whole.asked);
  Scripted other{{{"kernels", {}}}, {{"kernels", 0.9}}, {}};  // of other groups: nothing of it counts
  CHECK(compare_with_default(other.groups, other.times(), Budget(60), wanted).tried.front().kept == "kernels");
}

TEST_CASE("a record keeps those of the groups that there are", "[search]") {
  ComparisonRecord r;
  r.kept = "kernels weights";
  CHECK(kept_of(r, kThree) == Kept{false, true, true});
  CHECK(kept_of(r, {{"weight", {}}, {"kernels", {}}}) == Kept{false, true});
}

TEST_CASE("records of comparisons go through the tuning database", "[search]") {
  const std::string path = (std::filesystem::temp_directory_path() / fmt::format("aotc-{}comparisons.json", getpid())).string();
  ComparisonRecord r;
  r.tried = {{"kernels weights", 1010, 1000, 1.01}, {"kernels", 900, 1000, 0.9}};
  r.kept = "kernels", r.taken_back = "weights", r.complete = false;
  TuningDb db, other;
  db.put_program("p", "m", kernel_library_hash(), r);
  db.save(path);
  other.merge(TuningDb::load(path));
  REQUIRE(other.find_program<ComparisonRecord>("p", "m", kernel_library_hash()));
  CHECK(*other.find_program<ComparisonRecord>("p", "m", kernel_library_hash()) == r);
  CHECK_FALSE(other.find_program<ComparisonRecord>("q", "m", kernel_library_hash()));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace aotc::search
