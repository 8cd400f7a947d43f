// The order in which a block's instructions are written: valid whatever the block, and with few values live.
#include "loop/live.h"

#include <algorithm>
#include <map>
#include <set>

#include "check.h"

using namespace aotc;
using namespace aotc::loop;
using aotc::loop::test::check;

namespace {

constexpr int kEnough = 16;

const LoopKernel& only_loop(const Module& m) {
  REQUIRE(m.kernels.size() == 1);
  return std::get<LoopKernel>(m.kernels.raw()[0]);
}

const Block& largest(const LoopKernel& k) {
  return *std::max_element(k.blocks.begin(), k.blocks.end(),
                           [](const Block& a, const Block& b) { return a.insts.size() < b.insts.size(); });
}

/// Each instruction once, after what it uses; loads before the stores that they stood before.
void require_valid(const LoopKernel& k, const Block& b, const std::vector<InstId>& order) {
  REQUIRE(std::set<InstId>(order.begin(), order.end()) == std::set<InstId>(b.insts.begin(), b.insts.end()));
  REQUIRE(order.size() == b.insts.size());
  std::map<InstId, size_t> was, is;
  for (size_t i = 0; i < order.size(); ++i) was[b.insts[i]] = i, is[order[i]] = i;
  for (InstId id : order) {
    for (InstId a : k.insts[id].args)
      if (is.count(a)) REQUIRE(is.at(a) < is.at(id));
    if (k.insts[id].mask != kNone<InstId> && is.count(k.insts[id].mask)) REQUIRE(is.at(k.insts[id].mask) < is.at(id));
    if (k.insts[id].kind != InstKind::store) continue;
    for (InstId other : order)
      if ((k.insts[other].kind == InstKind::load || k.insts[other].kind == InstKind::store) && was.at(other) < was.at(id))
        REQUIRE(is.at(other) < is.at(id));
  }
}

/// A value of `count` inputs, chosen by %n from the first that it names on: the last is used first.
std::string chosen(int count) {
  std::string s = "input %n : float32[1000] \"n\"\n";
  for (int i = 0; i < count; ++i) s += fmt::format("input %x{0} : float32[1000] \"x{0}\"\n", i);
  for (int i = 0; i < count; ++i)
    s += fmt::format("%k{0} = full() {{value={0}.0}} : float32[1000]\n%c{0} = eq(%n, %k{0}) : bool[1000]\n", i);
  s += fmt::format("%r{0} = where(%c{0}, %x{0}, %n) : float32[1000]\n", count - 1);
  for (int i = count - 2; i >= 0; --i) s += fmt::format("%r{0} = where(%c{0}, %x{0}, %r{1}) : float32[1000]\n", i, i + 1);
  return s;
}

}  // namespace

TEST_CASE("a chain of choices holds one chosen value, not all that it may choose from") {
  for (const char* tail : {"output %r0 \"r\"\n", "%t = trunc(%n) : float32[1000]\noutput %r0 \"r\"\noutput %t \"t\"\n"}) {
    const auto c = check(chosen(60) + tail);
    const LoopKernel& k = only_loop(c.m);
    const Block& b = largest(k);
    REQUIRE(most_live(k, b, b.insts) > 60);
    const std::vector<InstId> order = order_of_few_live(k, b, kEnough);
    require_valid(k, b, order);
    REQUIRE(most_live(k, b, order) <= 8);
  }
}

TEST_CASE("blocks whose values fit the registers stay as they are") {
  const auto c = check(chosen(6) + "output %r0 \"r\"\n");
  const LoopKernel& k = only_loop(c.m);
  REQUIRE(order_of_few_live(k, largest(k), kEnough) == largest(k).insts);
}

TEST_CASE("what a row's later block uses is live to the end of its own") {
  const auto c = check(R"(
input %a : float32[40,300] "a"
%r = reduce(%a) {kind=max, dims=[1]} : float32[40]
%s = exp(%r) : float32[40]
%m = reshape(%s) : float32[40,1]
%e = expand(%m) : float32[40,300]
%d = sub(%a, %e) : float32[40,300]
output %d "d"
)");
  const LoopKernel& k = only_loop(c.m);
  for (const Block& b : k.blocks) require_valid(k, b, order_of_few_live(k, b, 0));
}
