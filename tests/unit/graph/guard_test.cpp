// What guards say of sizes together.
#include <catch2/catch.hpp>

#include "graph/graph.h"
#include "graph/infer.h"

using namespace aotc;

TEST_CASE("equal sizes are followed along chains, whatever the order in which they are stated") {
  Graph g;
  std::vector<Expr> s;
  for (int i = 0; i < 4; ++i) s.push_back(Expr::symbol(g.syms.add({.name = "s" + std::to_string(i)})));
  const auto equal = [&](int a, int b) { g.guards.push_back({ShapeGuard::Kind::eq, s[a], s[b], "test"}); };
  equal(1, 0);
  equal(3, 2);
  equal(2, 1);
  CHECK(holds(g, ShapeGuard::Kind::eq, s[3] * 2, s[0] * 2));
  CHECK(holds(g, ShapeGuard::Kind::eq, s[3] * s[1], s[2] * s[0]));
  equal(0, 3);  // a round of them ends, too
  CHECK(holds(g, ShapeGuard::Kind::eq, s[3] * s[1], s[2] * s[0]));
  CHECK_FALSE(holds(g, ShapeGuard::Kind::eq, s[3] + 1, s[0]));
}
