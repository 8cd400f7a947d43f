#include "search/alternatives.h"

#include <unistd.h>
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>

namespace aotc::search {
namespace {

/// Times of sets, by their text; all else takes 1000 ns. The second time `again` stands before `first`.
struct Scripted {
  std::map<std::string, double> first, again;
  double spread = 0;
  std::vector<std::vector<std::string>> asked;
  TimeAlternatives times() {
    return [this](const std::vector<Alternatives>& sets, double) {
      std::vector<Timing> out;
      asked.emplace_back();
      for (const Alternatives& s : sets) {
        asked.back().push_back(s.str());
        const auto of = [&](const std::map<std::string, double>& m, double otherwise) {
          const auto it = m.find(s.str());
          return it == m.end() ? otherwise : it->second;
        };
        const double ns = of(first, 1000);
        out.push_back({asked.size() > 1 ? of(again, ns) : ns, spread, ns < 0 ? "it crashed" : ""});
      }
      return out;
    };
  }
};

std::string taken(const AlternativesRecord& r) {
  Alternatives out;
  for (const auto& t : r.tried)
    if (t.taken)
      for (const AlternativeRow& row : kAlternatives)
        if (row.name == t.name) out = out.with(row.what);
  return out.str();
}

const std::vector<Alternative> kThree = {Alternative::stores_far, Alternative::prologues_apart, Alternative::strips_low};

TEST_CASE("an alternative is taken that wins among all and beside what the build does by itself", "[search]") {
  Scripted s;
  s.first = {{"stores_far", 500}};
  const AlternativesRecord r = choose_alternatives(kThree, s.times(), Budget(60));
  CHECK(taken(r) == "stores_far");
  CHECK(r.complete);
  CHECK(s.asked == std::vector<std::vector<std::string>>{{"", "stores_far", "prologues_apart", "strips_low"}, {"", "stores_far"}});
  CHECK(r.tried[0].ns == 500);
  CHECK(r.tried[0].own_ns == 1000);
  CHECK(r.tried[1].why == "it was not faster");
}

TEST_CASE("alternatives that win are tried together, and the best alone stays where that is faster", "[search]") {
  Scripted s;
  s.first = {{"stores_far", 800}, {"strips_low", 900}, {"stores_far strips_low", 750}};
  CHECK(taken(choose_alternatives(kThree, s.times(), Budget(60))) == "stores_far strips_low");
  s.asked.clear();
  s.again = {{"stores_far strips_low", 850}};
  const AlternativesRecord r = choose_alternatives(kThree, s.times(), Budget(60));
  CHECK(taken(r) == "stores_far");
  CHECK(r.tried[2].why == "faster alone, not beside the others");
}

TEST_CASE("what wins once, or by no more than the noise, or crashes, is left", "[search]") {
  Scripted s;
  s.first = {{"stores_far", 900}};
  s.again = {{"stores_far", 995}};
  CHECK(taken(choose_alternatives(kThree, s.times(), Budget(60))).empty());
  s.asked.clear(), s.again.clear(), s.spread = 0.3;
  CHECK(taken(choose_alternatives(kThree, s.times(), Budget(60))).empty());
  s.asked.clear(), s.spread = 0, s.first = {{"strips_low", -1}};
  const AlternativesRecord r = choose_alternatives(kThree, s.times(), Budget(60));
  CHECK(taken(r).empty());
  CHECK(r.tried[2].why == "lost when it was measured: it crashed");
}

TEST_CASE("without time nothing is asked, and the record says that it is not complete", "[search]") {
  Scripted s;
  const AlternativesRecord r = choose_alternatives(kThree, s.times(), Budget(0));
  CHECK(s.asked.empty());
  CHECK_FALSE(r.complete);
  CHECK(r.tried.at(0).why == "the time ran out");
  CHECK(choose_alternatives({}, s.times(), Budget(0)).complete);
}

TEST_CASE("names of alternatives are read as they are written, others are refused", "[search]") {
  Alternatives all;
  for (const AlternativeRow& row : kAlternatives) all = all.with(row.what);
  REQUIRE(Alternatives::parse(all.str()));
  CHECK(*Alternatives::parse(all.str()) == all);
  CHECK_FALSE(Alternatives::parse("")->any());
  CHECK(all.skips("split_reductions"));
  CHECK_FALSE(all.skips("dce"));
  CHECK_FALSE(Alternatives().skips(""));
  const auto wrong = Alternatives::parse("stores_far rows_inverted");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.why().find("'rows_inverted' is no alternative; there are stores_far, ") == 0);
}

TEST_CASE("an alternative leaves a pass out or changes what fusion or plans go by, and no set of others does", "[search]") {
  const plan::StripRules own;
  const auto changes = [&](const Alternatives& set) {
    loop::FusionRules fusion;
    fusion.prologue = [](DType, uint32_t) { return Fit::yes(); };
    plan::StripRules strips;
    set.apply(fusion), set.apply(strips);
    return std::pair(!fusion.prologue(DType::f32, 0), strips.handed_of_l2 != own.handed_of_l2 || strips.kept_of_l2 != own.kept_of_l2);
  };
  CHECK(changes({}) == std::pair(false, false));
  for (const AlternativeRow& row : kAlternatives) {
    INFO(row.name);
    CHECK(row.name == row_of(row.what).name);
    CHECK(changes(Alternatives().with(row.what)) == std::pair(row.fuse != nullptr, row.plan != nullptr));
    const bool elsewhere = row.what == Alternative::stores_far || row.what == Alternative::launches_apart;
    CHECK((row.fuse != nullptr) + (row.plan != nullptr) + !row.skipped_pass.empty() == (elsewhere ? 0 : 1));
    plan::PlanOptions options;
    Alternatives().with(row.what).apply(options);
    CHECK(options.join == (row.what != Alternative::launches_apart));
  }
}

TEST_CASE("records of alternatives go through the tuning database", "[search]") {
  const std::string path = (std::filesystem::temp_directory_path() / fmt::format("aotc-{}alternatives.json", getpid())).string();
  AlternativesRecord r;
  r.tried = {{"stores_far", 500, 1000, true, "the whole is faster with it"}, {"strips_low", 1001, 1000, false, "it was not faster"}};
  r.complete = false, r.seconds = 1.5;
  TuningDb db, other;
  db.put_program("p", "m", kernel_library_hash(), r);
  db.save(path);
  other.merge(TuningDb::load(path));
  REQUIRE(other.find_program<AlternativesRecord>("p", "m", kernel_library_hash()));
  CHECK(*other.find_program<AlternativesRecord>("p", "m", kernel_library_hash()) == r);
  CHECK_FALSE(other.find_program<AlternativesRecord>("q", "m", kernel_library_hash()));
  std::ifstream in(path);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  text.replace(text.find("strips_low"), 10, "rows_inverted");
  std::ofstream(path) << text;
  CHECK_THROWS_WITH(TuningDb::load(path), Catch::Contains("'rows_inverted' is no alternative"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace aotc::search
