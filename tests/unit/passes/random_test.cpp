#include "random_graph.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "graph/text.h"
#include "graph/verify.h"
#include "passes/passes.h"

using namespace aotc;

namespace {

std::vector<std::vector<HostTensor>> results(const Graph& g) {
  std::vector<std::vector<HostTensor>> all;
  for (int64_t size : {1, 2, 5}) all.push_back(interpret(g, test::random_inputs(g, size, 3), {true}));
  return all;
}

void require_same(const std::vector<std::vector<HostTensor>>& a, const std::vector<std::vector<HostTensor>>& b) {
  for (size_t s = 0; s < a.size(); ++s)
    for (size_t o = 0; o < a[s].size(); ++o) {
      REQUIRE(a[s][o].dims == b[s][o].dims);
      const auto* x = reinterpret_cast<const double*>(a[s][o].bytes.data());
      const auto* y = reinterpret_cast<const double*>(b[s][o].bytes.data());
      for (int64_t i = 0; i < a[s][o].elems(); ++i) {
        const bool same = (std::isnan(x[i]) && std::isnan(y[i])) || std::fabs(x[i] - y[i]) <= 2e-5 * std::max(1.0, std::fabs(x[i]));
        if (!same) FAIL("output " << o << " element " << i << ": " << x[i] << " and " << y[i]);
      }
    }
}

int runs() {
  const char* n = std::getenv("AOTC_RANDOM_RUNS");  // a longer run by hand
  return n ? std::atoi(n) : 60;
}

}  // namespace

TEST_CASE("passes keep what random graphs compute") {
  for (int seed = 1; seed <= runs(); ++seed) {
    test::RandomOptions o;
    o.nodes = 10 + seed % 40;
    o.symbolic = seed % 3 != 0;
    o.dtype = seed % 7 == 0 ? DType::f64 : DType::f32;
    Graph g = test::RandomGraph(static_cast<uint32_t>(seed), o).build();
    const std::string text = print(g);
    INFO("seed " << seed << "\n" << text);
    verify(g, "the generator");
    const auto want = results(g);
    passes::PassContext ctx;
    for (const passes::Pass& p : passes::pass_list()) {
      passes::run_pass(p, g, ctx);
      INFO("after " << p.name << "\n" << print(g));
      require_same(want, results(g));
    }
  }
}
