#include <catch2/catch.hpp>
#include <random>

#include "aotc/detail/plan_format.h"
#include "plan/memory.h"
#include "plan/packing.h"
#include "plan/slots.h"

using namespace aotc;
using namespace aotc::plan;

namespace {

int64_t run_code(const std::vector<int64_t>& code, size_t begin, size_t end, const std::vector<int64_t>& symbols,
                 const std::vector<int64_t>& slots) {
  std::vector<int64_t> st;
  for (size_t i = begin; i < end; ++i) {
    const int64_t op = code[i];
    if (op <= AOTC_X_SLOT) {
      const auto w = code[++i];
      st.push_back(op == AOTC_X_CONST ? w : op == AOTC_X_SYM ? symbols.at(static_cast<size_t>(w)) : slots.at(static_cast<size_t>(w)));
      continue;
    }
    const int64_t b = st.back();
    st.pop_back();
    int64_t& a = st.back();
    const int64_t q = b ? (a % b != 0 && (a < 0) != (b < 0) ? a / b - 1 : a / b) : 0;
    switch (op) {
      case AOTC_X_ADD: a += b; break;
      case AOTC_X_SUB: a -= b; break;
      case AOTC_X_MUL: a *= b; break;
      case AOTC_X_FLOORDIV: a = q; break;
      case AOTC_X_MOD: a -= q * b; break;
      case AOTC_X_MIN: a = std::min(a, b); break;
      default: a = std::max(a, b); break;
    }
  }
  REQUIRE(st.size() == 1);
  return st[0];
}

SymTable two_symbols() {
  SymTable t;
  for (const char* n : {"batch", "seq"}) {
    SymInfo s;
    s.name = n, s.min = 1, s.max = 512;
    t.add(s);
  }
  return t;
}

}  // namespace

TEST_CASE("packing never overlaps and stays near the bound") {
  std::mt19937 rng(7);
  for (int round = 0; round < 20; ++round) {
    const int steps = 40;
    std::vector<LiveRange> lives;
    std::vector<int64_t> sizes;
    for (int i = 0; i < steps; ++i) {  // a net: each step makes something, most of it dies soon
      const int length = rng() % 8 == 0 ? 12 : 1 + static_cast<int>(rng() % 3);
      lives.push_back({i, std::min(steps, i + 1 + length)});
      sizes.push_back(64 * (1 + static_cast<int64_t>(rng() % 40)));
    }
    const Packed p = pack_intervals(lives, sizes);
    for (size_t i = 0; i < lives.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (overlap(lives[i], lives[j])) REQUIRE((p.offsets[i] + sizes[i] <= p.offsets[j] || p.offsets[j] + sizes[j] <= p.offsets[i]));
    CHECK(static_cast<double>(p.bytes) <= 1.1 * static_cast<double>(largest_live_set(lives, sizes)));
  }
}

TEST_CASE("symbolic offsets hold for every shape") {
  const SymTable t = two_symbols();
  std::mt19937 rng(3);
  const char* sizes[] = {
      "batch*seq*3072", "batch*seq*seq*48", "batch*768*4", "batch*seq*12288", "seq*100", "4096", "floordiv(seq - 1, 2)*batch*4 + 4"};
  for (int round = 0; round < 10; ++round) {
    std::vector<MemoryItem> items;
    for (int i = 0; i < 30; ++i) items.push_back({parse_expr(sizes[rng() % 7], t), {i, i + 1 + static_cast<int>(rng() % 6)}, std::nullopt});
    const MemoryPlan p = plan_memory(items, t);
    for (int64_t batch : {1, 3, 8, 512}) {
      for (int64_t seq : {1, 17, 64, 500}) {
        auto at = [&](const Expr& e) { return e.eval([&](SymId s) { return idx(s) == 0 ? batch : seq; }); };
        for (size_t i = 0; i < items.size(); ++i) {
          const int64_t o = at(p.offsets[i]), end = o + at(items[i].bytes);
          REQUIRE(o % kArenaAlign == 0);
          REQUIRE(end <= at(p.arena_bytes));
          for (size_t j = 0; j < i; ++j)
            if (overlap(items[i].live, items[j].live)) REQUIRE((end <= at(p.offsets[j]) || at(p.offsets[j]) + at(items[j].bytes) <= o));
        }
      }
    }
  }
}

TEST_CASE("in-place items share an offset") {
  const SymTable t = two_symbols();
  const Expr n = parse_expr("batch*1024", t);
  const MemoryPlan p = plan_memory({{n, {0, 1}, std::nullopt}, {n, {1, 2}, 0}, {n, {2, 3}, 1}, {n, {1, 3}, std::nullopt}}, t);
  CHECK(p.offsets[0] == p.offsets[1]);
  CHECK(p.offsets[1] == p.offsets[2]);
  CHECK(p.arena_bytes == n * 2);
}

TEST_CASE("slots: shared, evaluated in order") {
  const SymTable t = two_symbols();
  SlotTable slots({SymId{0}, SymId{1}});
  const Expr e = parse_expr("max(batch*seq*48 - 5, 64*floordiv(seq + 63, 64)) - floordiv(seq + 63, 64)*batch*seq", t);
  const int32_t a = slots.slot(e), b = slots.slot(parse_expr("floordiv(seq + 63, 64)", t));
  CHECK(slots.slot(e) == a);
  CHECK(slots.slot(Expr(0)) != slots.slot(Expr(7)));
  std::vector<int64_t> values;
  const std::vector<int64_t> symbols = {3, 100};
  for (const auto& s : slots.slots()) values.push_back(run_code(slots.code(), s.begin, s.end, symbols, values));
  auto want = [&](const Expr& x) { return x.eval([&](SymId s) { return symbols[idx(s)]; }); };
  CHECK(values[static_cast<size_t>(a)] == want(e));
  CHECK(values[static_cast<size_t>(b)] == 2);
  const auto code = slots.encode(e);
  CHECK(run_code(code, 0, code.size(), symbols, {}) == want(e));
  CHECK_THROWS_AS(SlotTable({SymId{0}}).slot(e), InternalError);
}

TEST_CASE("slots: the stack does not grow with sums and products of what is nested") {
  const Expr a = Expr::symbol(SymId{0}), b = Expr::symbol(SymId{1});
  Expr e = b;
  for (int i = 0; i < 60; ++i) e = a + b * 3 - floordiv(min(e * a, a * 2 + 900), 3);
  const SlotTable slots({SymId{0}, SymId{1}});
  const std::vector<int64_t> symbols = {3, 100};
  const auto code = slots.encode(e);
  CHECK(run_code(code, 0, code.size(), symbols, {}) == e.eval([&](SymId s) { return symbols[idx(s)]; }));
  Expr deep = b;
  for (int i = 0; i < 60; ++i) deep = floordiv(a + i, deep);
  CHECK_THROWS_AS(slots.encode(deep), Diagnostic);
}
