#include "search/tune.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "aotc/dtype.h"
#include "search/device.h"

namespace aotc::search {
namespace {

std::string temp_file(const char* name) {
  return (std::filesystem::temp_directory_path() / fmt::format("aotc-{}{}", getpid(), name)).string();
}

forms::Choice choice(const char* text) {
  const auto c = forms::parse_choice(text);
  REQUIRE(c);
  return *c;
}

loop::Module one_product() {
  loop::Module module;
  loop::MatmulKernel k;
  k.name = "mm";
  k.m = 16, k.n = 64, k.k = 32;
  k.a.col_stride = 1, k.a.row_stride = 32, k.b.col_stride = 1, k.b.row_stride = 64;
  k.b_constant = true;
  for (const char* name : {"a", "b"}) k.params.push({name, loop::ParamRole::input, DType::f32, {}});
  k.a.param = loop::ParamId{0}, k.b.param = loop::ParamId{1};
  k.segments.push_back({0, 64, {}});
  const auto id = module.kernels.push(k);
  module.calls.push_back({id, {}, "call", {}});
  return module;
}

/// Says that one candidate is faster by a factor; the rest take 100 ns. `confirmed`: also when it is measured beside the default alone. The
/// whole takes 1000 ns with the cost model's choices, `whole_ns` with what was measured.
struct Scripted final : Measurer {
  forms::Choice fast;
  double factor = 0.5;
  bool confirmed = true;
  double whole_ns = 900;
  std::string whole_error;
  int calls = 0, wholes = 0;
  std::vector<Timing> measure(const Subject&, const std::vector<forms::Choice>& choices, double) override {
    std::vector<Timing> out;
    for (const forms::Choice& c : choices) out.push_back({c == fast && (calls == 0 || confirmed) ? 100 * factor : 100, 0.01, ""});
    ++calls;
    return out;
  }
  std::vector<Timing> measure_whole(const SymTable&, const std::vector<Tuned>& sets, double) override {
    ++wholes;
    if (sets.size() != 2) return {};
    CHECK(!(sets[0].begin()->second.choice == fast));
    CHECK(sets[1].begin()->second.choice == fast);
    return {{1000, 0, ""}, {whole_ns, 0, whole_error}};
  }
};

}  // namespace

TEST_CASE("the tuning database keeps the faster record and gives the same bytes", "[search]") {
  const std::string path = temp_file(".json");
  CHECK(TuningDb::load(path).size() == 0);
  TuningDb a, b;
  const std::string machine = "some cpu avx512 2 threads";
  const forms::Choice slow = choice("attention q_block=32 kv_block=64"), fast = choice("attention q_block=14 kv_block=128");
  a.put("x", machine, "lib", {slow, 20, 20, 3});
  a.put("y", machine, "lib", {slow, 5, 9, 3});
  b.put("x", machine, "lib", {fast, 10, 20, 3});
  b.put("y", machine, "lib", {fast, 7, 9, 3});
  a.merge(b);
  a.save(path);
  const TuningDb c = TuningDb::load(path);
  REQUIRE(c.size() == 2);
  CHECK(c.find("x", machine, "lib")->choice == fast);
  CHECK(c.find("y", machine, "lib")->choice == slow);
  CHECK(!c.find("x", "another cpu", "lib"));
  CHECK(!c.find("x", machine, "other library"));
  std::ofstream(path) << R"({"version": 2, "records": [{"contract": 3}]})";
  CHECK_THROWS_AS(TuningDb::load(path), Diagnostic);
  std::ofstream(path) << "not json";
  CHECK_THROWS_AS(TuningDb::load(path), Diagnostic);
  std::remove(path.c_str());
}

TEST_CASE("choices of another kernel library that cannot be read stay in the tuning database", "[search]") {
  const std::string path = temp_file(".json"), again = temp_file(".json");
  const auto with = [](const std::string& library) {
    return fmt::format(R"({{"version": 2, "records": [{{"contract": "x", "machine": "m", "library": "{0}", "choice": "attention of_old=3",
      "ns": 1.0, "default_ns": 2.0, "measured": 3}}], "trades": [{{"program": "p", "machine": "m", "library": "{0}", "error": 0.0, "bound": 1.0,
      "tried": [{{"contract": "x", "choice": "of_old", "ns": 1.0, "accurate_ns": 2.0, "error": 0.0, "taken": true, "why": ""}}]}}]}})",
                       library);
  };
  std::ofstream(path) << with("another");
  TuningDb kept, all = TuningDb::load(path);
  CHECK(!all.find("x", "m", "another"));
  kept.put("y", "m", kernel_library_hash(), {choice("attention q_block=32 kv_block=64"), 5, 9, 3});
  kept.merge(all);
  kept.save(path);
  const auto text = [](const std::string& file) {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  CHECK(text(path).find("attention of_old=3") != std::string::npos);
  CHECK(text(path).find("\"choice\": \"of_old\"") != std::string::npos);
  const TuningDb c = TuningDb::load(path);
  CHECK(c.size() == 2);
  CHECK(c.find("y", "m", kernel_library_hash()));
  c.save(again);
  CHECK(text(again) == text(path));
  std::ofstream(path) << with(kernel_library_hash());
  CHECK_THROWS_AS(TuningDb::load(path), Diagnostic);
  std::remove(path.c_str()), std::remove(again.c_str());
}

TEST_CASE("a faster candidate is taken when it wins twice, and stays in the database", "[search]") {
  const loop::Module module = one_product();
  const SymTable syms;
  const Machine machine = machine_of(Isa::avx2, 1);
  const forms::Site site{module.kernels[loop::KernelId{0}], syms, machine, {}};
  const forms::Decision by_cost = forms::decide(site);
  Scripted measurer;
  measurer.fast = by_cost.candidates.at(1).choice;
  TuneOptions options;
  options.goal = {machine, {}};
  options.measurer = &measurer;
  options.budget_s = 1;
  TuningDb db;
  const TuneResult found = tune(module, {syms}, options, db);
  REQUIRE(found.tuned.size() == 1);
  CHECK(db.size() == 1);
  CHECK(measurer.calls == 2);
  const forms::Decision d = chooser(found.tuned)(site);
  CHECK(d.choice == measurer.fast);
  CHECK(d.by == "measured");
  CHECK(d.candidates.at(1).measured_ns == 50);
  CHECK(d.candidates.at(0).measured_ns == 100);
  options.measurer = nullptr;
  const TuneResult known = tune(module, {syms}, options, db);
  CHECK(chooser(known.tuned)(site).choice == measurer.fast);
  CHECK(known.missing.empty());
  TuningDb empty;
  const TuneResult nothing = tune(module, {syms}, options, empty);
  CHECK(nothing.tuned.empty());
  REQUIRE(nothing.missing.size() == 1);
  CHECK(nothing.missing[0].why == "the tuning database does not have it");
  options.measurer = &measurer;
  options.budget_s = 0;
  const TuneResult late = tune(module, {syms}, options, empty);
  CHECK(late.tuned.empty());
  REQUIRE(late.missing.size() == 1);
  CHECK(late.missing[0].why == "the time for measuring ran out");
}

namespace {

/// Candidates take 100 ns by themselves; the whole takes `first_ns` of 1000 with `better` among others, `again_ns` beside what there was.
struct InWhole final : Measurer {
  forms::Choice better;
  double first_ns = 900, again_ns = 900;
  size_t largest = 0;
  bool seen = false;
  std::vector<Timing> measure(const Subject&, const std::vector<forms::Choice>& choices, double) override {
    seen |= std::find(choices.begin(), choices.end(), better) != choices.end();
    return std::vector<Timing>(choices.size(), {100, 0.01, ""});
  }
  std::vector<Timing> measure_whole(const SymTable&, const std::vector<Tuned>& sets, double) override {
    largest = std::max(largest, sets.size());
    std::vector<Timing> out;
    for (const Tuned& t : sets)
      out.push_back({t.begin()->second.choice == better ? sets.size() > 2 ? first_ns : again_ns : 1000, 0.01, ""});
    return out;
  }
};

}  // namespace

TEST_CASE("what is as fast by itself is told apart in the whole, and has to win twice there", "[search]") {
  const loop::Module module = one_product();
  const std::vector<SymTable> syms(1);
  const Machine machine = machine_of(Isa::avx2, 1);
  const forms::Site site{module.kernels[loop::KernelId{0}], syms.front(), machine, {}};
  const forms::Decision by_cost = forms::decide(site);
  InWhole measurer;
  measurer.better = by_cost.candidates.at(1).choice;
  TuneOptions options;
  options.goal = {machine, {}};
  options.measurer = &measurer;
  options.budget_s = 20;
  const auto taken = [&](double first_ns, double again_ns) {
    measurer.first_ns = first_ns, measurer.again_ns = again_ns;
    TuningDb db;
    const TuneResult found = tune(module, syms, options, db);
    const TuneResult again = tune(module, syms, {{machine, {}}, nullptr}, db);
    CHECK(chooser(again.tuned)(site).choice == chooser(found.tuned)(site).choice);
    CHECK(again.missing.empty());
    return chooser(found.tuned)(site);
  };
  const forms::Decision won = taken(900, 900);
  CHECK(won.choice == measurer.better);
  CHECK(won.by == "measured in the whole");
  CHECK(measurer.seen);
  CHECK(measurer.largest == 3);  // what there was, and two others of the one contract
  CHECK(taken(900, 999).choice == by_cost.choice);
  CHECK(taken(999, 900).choice == by_cost.choice);
  options.budget_s = 0.5;  // no time for it
  CHECK(taken(900, 900).choice == by_cost.choice);
}

TEST_CASE("what wins by itself stays only where the whole module is not slower", "[search]") {
  const loop::Module module = one_product();
  const SymTable syms;
  const Machine machine = machine_of(Isa::avx2, 1);
  const forms::Site site{module.kernels[loop::KernelId{0}], syms, machine, {}};
  const forms::Choice by_cost = forms::decide(site).choice;
  Scripted measurer;
  measurer.fast = forms::decide(site).candidates.at(1).choice;
  TuneOptions options;
  options.goal = {machine, {}};
  options.measurer = &measurer;
  const auto taken = [&](double whole_ns, const std::string& error) {
    measurer.whole_ns = whole_ns, measurer.whole_error = error, measurer.calls = 0;
    TuningDb db;
    const TuneResult found = tune(module, {syms}, options, db);
    const TuneResult again = tune(module, {syms}, {{machine, {}}, nullptr}, db);
    CHECK(chooser(again.tuned)(site).choice == chooser(found.tuned)(site).choice);  // the database keeps the verdict
    return chooser(found.tuned)(site).choice;
  };
  CHECK(taken(900, "") == measurer.fast);
  CHECK(taken(1100, "") == by_cost);
  CHECK(taken(900, "the worker crashed") == by_cost);
  CHECK(measurer.wholes == 3);
}

TEST_CASE("a candidate that wins by noise once is not taken", "[search]") {
  const loop::Module module = one_product();
  const SymTable syms;
  const Machine machine = machine_of(Isa::avx2, 1);
  const forms::Site site{module.kernels[loop::KernelId{0}], syms, machine, {}};
  Scripted measurer;
  measurer.fast = forms::decide(site).candidates.at(1).choice;
  measurer.confirmed = false;
  TuneOptions options;
  options.goal = {machine, {}};
  options.measurer = &measurer;
  TuningDb db;
  const TuneResult found = tune(module, {syms}, options, db);
  CHECK(chooser(found.tuned)(site).choice == forms::decide(site).choice);
}

TEST_CASE("what kernels are measured on hides no keys and has no zeros, infinities or denormals among floats") {
  const std::unique_ptr<Device> cpu = make_device(-1);
  uint8_t shown[100] = {};
  cpu->fill(shown, sizeof shown, AOTC_DTYPE_BOOL);
  CHECK(std::all_of(std::begin(shown), std::end(shown), [](uint8_t b) { return b == 1; }));
  float numbers[100] = {};
  cpu->fill(numbers, sizeof numbers, AOTC_DTYPE_F32);
  CHECK(std::all_of(std::begin(numbers), std::end(numbers), [](float x) { return std::fabs(x) >= 0.5f && std::fabs(x) <= 1.0f; }));
  int64_t places[10] = {7};
  cpu->fill(places, sizeof places, AOTC_DTYPE_I64);
  CHECK(std::all_of(std::begin(places), std::end(places), [](int64_t x) { return x == 0; }));
}

}  // namespace aotc::search
