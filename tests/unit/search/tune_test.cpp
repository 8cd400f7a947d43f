#include "search/tune.h"

#include <unistd.h>
#include <catch2/catch.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace aotc::search {
namespace {

Contract small_gemm() {
  GemmContract c;
  c.m = 4, c.n = 64, c.k = 32, c.b_constant = true;
  return c;
}

std::string temp_file(const char* name) {
  return (std::filesystem::temp_directory_path() / fmt::format("aotc-{}{}", getpid(), name)).string();
}

TEST_CASE("contracts and choices survive JSON, and malformed ones are refused with a path", "[search]") {
  ConvContract v;
  v.c = 8, v.co = 16, v.in = {1, 9, 9}, v.out = {1, 9, 9}, v.kernel = {1, 3, 3}, v.pad = {0, 1, 1};
  AttnContract a;
  a.heads = 4, a.kv_heads = 2, a.masked = true;
  for (const Contract& c : {small_gemm(), Contract(v), Contract(a)}) {
    const auto back = contract_from(to_json(c));
    REQUIRE(back);
    CHECK(key_of(*back) == key_of(c));
    CHECK(to_json(*back) == to_json(c));
  }
  for (const plan::Choice& c : {plan::Choice(plan::GemmChoice{}), plan::Choice(plan::ConvChoice{}), plan::Choice(plan::AttnChoice{})}) {
    const auto back = choice_from(to_json(c));
    REQUIRE(back);
    CHECK(*back == c);
  }
  auto bad = to_json(plan::Choice(plan::GemmChoice{}));
  bad["nc"] = 33;
  CHECK(choice_from(bad).why() == "$.nc: must be a multiple of the panel width");
  bad["nc"] = "x";
  CHECK(choice_from(bad).why() == "$.nc: out of range");
  CHECK(!choice_from(nlohmann::json::array()));
  CHECK(!contract_from(nlohmann::json{{"kind", "fft"}}));
}

TEST_CASE("the tuning database keeps the faster record and gives the same bytes", "[search]") {
  const std::string path = temp_file(".json");
  CHECK(TuningDb::load(path).size() == 0);
  TuningDb a, b;
  const Hardware hw{"some cpu", 2};
  plan::GemmChoice slow, fast;
  fast.nc = 64;
  a.put("x", hw, "lib", {slow, 20, 20, 3});
  a.put("y", hw, "lib", {slow, 5, 9, 3});
  b.put("x", hw, "lib", {fast, 10, 20, 3});
  b.put("y", hw, "lib", {fast, 7, 9, 3});
  a.merge(b);
  a.save(path);
  const TuningDb c = TuningDb::load(path);
  REQUIRE(c.size() == 2);
  CHECK(c.find("x", hw, "lib")->choice == plan::Choice(fast));
  CHECK(c.find("y", hw, "lib")->choice == plan::Choice(slow));
  CHECK(!c.find("x", {"some cpu", 1}, "lib"));
  CHECK(!c.find("x", hw, "other library"));
  std::ofstream(path) << R"({"version": 1, "records": [{"contract": 3}]})";
  CHECK_THROWS_AS(TuningDb::load(path), Diagnostic);
  std::ofstream(path) << "not json";
  CHECK_THROWS_AS(TuningDb::load(path), Diagnostic);
  std::remove(path.c_str());
}

TEST_CASE("candidates are measured; a worker that crashes, hangs up or babbles is a lost candidate", "[search]") {
  const auto ns = measure_here(small_gemm(), plan::GemmChoice{}, Isa::avx2, 1, 0.002);
  REQUIRE(ns);
  CHECK(*ns > 0);
  CHECK(!measure_here(small_gemm(), plan::AttnChoice{}, Isa::avx2, 1, 0.002));
  MeasureProcess crash({"/bin/sh", "-c", "read x; kill -SEGV $$"});
  CHECK(crash.measure(small_gemm(), plan::GemmChoice{}, Isa::avx2, 1, 0.002).why() == "the worker crashed");
  CHECK(crash.measure(small_gemm(), plan::GemmChoice{}, Isa::avx2, 1, 0.002).why() == "the worker crashed");
  MeasureProcess babble({"/bin/sh", "-c", "read x; echo hello; read x; echo '{\"ns\": 5}'"});
  CHECK(!babble.measure(small_gemm(), plan::GemmChoice{}, Isa::avx2, 1, 0.002));
  CHECK(*babble.measure(small_gemm(), plan::GemmChoice{}, Isa::avx2, 1, 0.002) == 5);
  MeasureProcess none({"/does/not/exist"});
  CHECK(!none.measure(small_gemm(), plan::GemmChoice{}, Isa::avx2, 1, 0.002));
}

TEST_CASE("tuning fills the database and the chooser follows it", "[search]") {
  loop::Module module;
  loop::MatmulKernel k;
  k.m = 16, k.n = 64, k.k = 32;
  k.a.col_stride = 1, k.a.row_stride = 32, k.b.col_stride = 1, k.b.row_stride = 64;
  k.b_constant = true;
  k.segments.push_back({0, 64, {}});
  const auto id = module.kernels.push(k);
  module.calls.push_back({id, {}, "call"});
  TuneOptions options;
  options.target.isas = {Isa::avx2};
  options.target.threads_hint = 1;
  options.measure = true;
  options.budget_s = 0.5;
  // A worker that says that the third candidate is the fastest.
  options.worker_command = {"/bin/sh", "-c",
                            "while true; do for t in 100 90 50 95 95 95 95 95; do read x || exit; echo \"{\\\"ns\\\": $t}\"; done; done"};
  TuningDb db;
  const Tuned tuned = tune(module, {SymTable{}}, options, db);
  REQUIRE(tuned.size() == 1);
  CHECK(db.size() == 1);
  const auto expected = candidates(contract_of(k, SymTable{}), options.target).at(2).choice;
  CHECK(chooser(options.target, tuned)(module.kernels[id], SymTable{}) == expected);
  options.measure = false;
  CHECK(tune(module, {SymTable{}}, options, db).size() == 1);
  TuningDb empty;
  CHECK(tune(module, {SymTable{}}, options, empty).empty());
}

}  // namespace
}  // namespace aotc::search
