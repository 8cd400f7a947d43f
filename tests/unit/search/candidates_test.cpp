#include "search/candidates.h"

#include <catch2/catch.hpp>

#include "aotc/detail/library_abi.h"

namespace aotc::search {
namespace {

Target avx512() {
  Target t;
  t.isas = {Isa::avx512};
  return t;
}

TEST_CASE("every contract has a candidate that fits, and all that fit are legal configurations", "[search]") {
  for (int64_t m : {0, 1, 7, 32, 64, 128, 3136, 100000})
    for (int64_t k : {0, 1, 63, 768, 4096, 70000})
      for (int64_t n : {1, 64, 4096})
        for (bool weight : {false, true}) {
          GemmContract c;
          c.m = m, c.n = n, c.k = k, c.b_constant = weight;
          INFO(key_of(c));
          const auto all = candidates(c, avx512());
          REQUIRE(!all.empty());
          REQUIRE(all.front().fit.ok);
          for (const Candidate& x : all) {
            const auto& g = std::get<plan::GemmChoice>(x.choice);
            CHECK(g.mc > 0);
            CHECK(g.nc % AOTC_PANEL_N == 0);
            CHECK((g.kc > 0 && g.kc % 2 == 0));
            CHECK((g.kp >= g.kc && g.kp % g.kc == 0));
            if (!x.fit.ok) CHECK(!x.fit.why.empty());
          }
        }
}

TEST_CASE("skinny products keep all rows in one block and have work for every thread", "[search]") {
  GemmContract c;
  c.m = 32, c.n = 4096, c.k = 4096, c.b_constant = true;
  const auto g = std::get<plan::GemmChoice>(candidates(c, avx512()).front().choice);
  CHECK(g.mc >= 32);
  CHECK(g.kp >= 4096);
  CHECK(4096 / g.nc >= 4);
}

TEST_CASE("convolutions and attention always fit", "[search]") {
  for (int64_t c : {1, 3, 64, 2048})
    for (int64_t hw : {1, 7, 56, 224})
      for (int64_t kernel : {1, 3, 7})
        for (int64_t groups : {int64_t{1}, c}) {
          ConvContract v;
          v.c = c, v.co = c, v.groups = groups;
          v.in = v.out = {1, hw, hw};
          v.kernel = {1, kernel, kernel};
          INFO(key_of(v));
          REQUIRE(candidates(v, avx512()).front().fit.ok);
          for (const Candidate& x : candidates(v, avx512())) {
            const auto& g = std::get<plan::ConvChoice>(x.choice);
            CHECK((g.mc > 0 && g.nc % AOTC_PANEL_N == 0 && g.kc % 2 == 0 && g.kp % g.kc == 0 && g.kp > 0));
          }
        }
  for (int64_t stride : {2, 16, 512, 4096})  // transposed: by phases where a tile of all phases fits
    for (int64_t co : {1, 64}) {
      ConvContract v;
      v.c = 64, v.co = co, v.transposed = true;
      v.in = {1, 1, 50}, v.kernel = {1, 1, 2 * stride}, v.stride = {1, 1, stride}, v.out = {1, 1, 51 * stride};
      INFO(key_of(v));
      const auto all = candidates(v, avx512());
      REQUIRE(all.front().fit.ok);
      CHECK((std::get<plan::ConvChoice>(all.front().choice).algo == AOTC_CONV_PHASES) == (stride <= 512));
    }
  for (int64_t q : {1, 5, 128, 4096})
    for (int64_t e : {1, 64, 512}) {
      AttnContract a;
      a.heads = 8, a.kv_heads = 2, a.q_len = q, a.kv_len = 1000, a.e = a.ev = e;
      INFO(key_of(a));
      REQUIRE(candidates(a, avx512()).front().fit.ok);
    }
}

}  // namespace
}  // namespace aotc::search
