// Random expressions against brute force: construction, simplify, intervals and proofs at every point of small domains.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>

#include "sym/expr.h"

using namespace aotc;

namespace {

/// An expression as written, evaluated without any rule of Expr.
struct Tree {
  enum Kind { constant, symbol, add, sub, mul, div, rem, min, max } kind;
  int64_t value = 0;
  SymId sym{};
  std::vector<Tree> args;
};
using Point = std::vector<int64_t>;

std::optional<int64_t> evaluate(const Tree& t, const Point& p) {
  if (t.kind == Tree::constant) return t.value;
  if (t.kind == Tree::symbol) return p[idx(t.sym)];
  auto a = evaluate(t.args[0], p), b = evaluate(t.args[1], p);
  if (!a || !b) return std::nullopt;
  switch (t.kind) {
    case Tree::add: return *a + *b;
    case Tree::sub: return *a - *b;
    case Tree::mul: return *a * *b;
    case Tree::min: return std::min(*a, *b);
    case Tree::max: return std::max(*a, *b);
    default: break;
  }
  if (*b == 0) return std::nullopt;
  int64_t q = *a / *b;
  if (*a % *b != 0 && (*a < 0) != (*b < 0)) --q;
  return t.kind == Tree::div ? q : *a - q * *b;
}

Expr build(const Tree& t) {
  if (t.kind == Tree::constant) return t.value;
  if (t.kind == Tree::symbol) return Expr::symbol(t.sym);
  const Expr a = build(t.args[0]), b = build(t.args[1]);
  switch (t.kind) {
    case Tree::add: return a + b;
    case Tree::sub: return a - b;
    case Tree::mul: return a * b;
    case Tree::min: return min(a, b);
    case Tree::max: return max(a, b);
    case Tree::div: return b.is(0) ? a : floordiv(a, b);
    default: return b.is(0) ? a : mod(a, b);
  }
}

bool divides_by_constant_zero(const Tree& t) {
  if (t.args.empty()) return false;
  if ((t.kind == Tree::div || t.kind == Tree::rem) && build(t.args[1]).is(0)) return true;
  return divides_by_constant_zero(t.args[0]) || divides_by_constant_zero(t.args[1]);
}

struct Domain {
  SymTable syms;
  std::vector<Point> points;
};

/// Three shape symbols, three loops over them (one over an expression), one value symbol.
Domain domain(std::mt19937& rng) {
  auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(rng); };
  Domain d;
  for (int i = 0; i < 3; ++i) {
    SymInfo s;
    s.name = std::string(1, static_cast<char>('A' + i));
    s.min = pick(-1, 3);
    s.max = s.min + pick(0, 3);
    s.multiple_of = pick(1, 2);
    d.syms.add(s);
  }
  auto sym = [](uint32_t i) { return Expr::symbol(static_cast<SymId>(i)); };
  const Expr extents[] = {sym(0), pick(0, 1) ? sym(1) : Expr(pick(1, 5)), floordiv(sym(2) + 1, 2) + pick(0, 1), sym(0) * 2};
  for (int i = 0; i < 4; ++i) {
    SymInfo s;
    s.name = std::string(1, static_cast<char>('i' + i));
    s.kind = i < 3 ? SymKind::loop : SymKind::value;
    s.extent = extents[i];
    d.syms.add(s);
  }
  Point p(7);
  auto fill = [&](auto& self, uint32_t n) -> void {
    if (n == 7) {
      d.points.push_back(p);
      return;
    }
    const SymInfo& s = d.syms[static_cast<SymId>(n)];
    int64_t hi = s.max;
    if (s.extent) hi = s.extent->eval([&](SymId x) { return p[idx(x)]; }) - 1;
    for (int64_t v = s.min; v <= hi; ++v) {
      if (v % s.multiple_of) continue;
      p[n] = v;
      self(self, n + 1);
    }
  };
  fill(fill, 0);
  std::shuffle(d.points.begin(), d.points.end(), rng);
  if (d.points.size() > 400) d.points.resize(400);
  return d;
}

Tree random_tree(std::mt19937& rng, int depth) {
  auto pick = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(rng); };
  if (depth == 0 || pick(0, 7) == 0) {
    if (pick(0, 2) == 0) return {Tree::constant, pick(-3, 12), {}, {}};
    return {Tree::symbol, 0, static_cast<SymId>(pick(0, 6)), {}};
  }
  static constexpr Tree::Kind kKinds[] = {Tree::add, Tree::add, Tree::add, Tree::sub, Tree::mul, Tree::mul, Tree::mul,
                                          Tree::div, Tree::div, Tree::rem, Tree::rem, Tree::min, Tree::max};
  const Tree::Kind k = kKinds[pick(0, 12)];
  Tree t{k, 0, {}, {random_tree(rng, depth - 1), random_tree(rng, depth - 1)}};
  if ((k == Tree::div || k == Tree::rem) && pick(0, 3) != 0) {
    t.args[1] = pick(0, 1) ? Tree{Tree::constant, pick(1, 6), {}, {}} : Tree{Tree::symbol, 0, static_cast<SymId>(pick(0, 2)), {}};
  }
  // index-like: (x*n + y) / n
  if ((k == Tree::div || k == Tree::rem) && pick(0, 1)) {
    const Tree y = t.args[1];
    t.args[0] = Tree{Tree::add, 0, {}, {Tree{Tree::mul, 0, {}, {t.args[0], y}}, random_tree(rng, 1)}};
  }
  return t;
}

}  // namespace

TEST_CASE("random expressions keep their value and proofs hold") {
  const char* chosen = std::getenv("AOTC_SEED");
  const unsigned seed = chosen ? static_cast<unsigned>(std::atoi(chosen)) : 1;
  INFO("seed " << seed);
  std::mt19937 rng(seed);
  int proofs = 0, shorter = 0;
  for (int round = 0; round < 150; ++round) {
    const Domain d = domain(rng);
    for (int n = 0; n < 12; ++n) {
      const Tree ta = random_tree(rng, 4), tb = random_tree(rng, 2);
      if (divides_by_constant_zero(ta) || divides_by_constant_zero(tb)) continue;
      const Expr a = build(ta), b = build(tb), s = d.syms.simplify(a);
      INFO("round " << round << " a = " << a.str(d.syms) << "  simplified " << s.str(d.syms) << "  b = " << b.str(d.syms));
      REQUIRE(parse_expr(a.str(d.syms), d.syms) == a);
      if (s.str(d.syms).size() < a.str(d.syms).size()) ++shorter;
      const Interval i = d.syms.interval(a);
      const bool eq = d.syms.proves_eq(a, b), ne = d.syms.proves_ne(a, b), le = d.syms.proves_le(a, b), lt = d.syms.proves_lt(b, a);
      const int64_t by = 1 + n % 5;
      const bool divisible = d.syms.proves_divisible(a, by);
      proofs += eq + ne + le + lt + (divisible && by > 1);
      for (const Point& p : d.points) {
        const auto want = evaluate(ta, p), other = evaluate(tb, p);
        if (!want) continue;
        auto value_of = [&](SymId x) { return std::optional<int64_t>(p[idx(x)]); };
        std::string where;
        for (uint32_t k = 0; k < p.size(); ++k) where += fmt::format(" {}={}", d.syms[static_cast<SymId>(k)].name, p[k]);
        INFO("at" << where);
        const auto got = a.try_eval(value_of), simple = s.try_eval(value_of);
        REQUIRE(got == want);
        REQUIRE(simple == want);
        REQUIRE(i.min <= *want);
        REQUIRE(*want <= i.max);
        if (divisible) REQUIRE(*want % by == 0);
        if (!other) continue;
        if (eq) REQUIRE(*want == *other);
        if (ne) REQUIRE(*want != *other);
        if (le) REQUIRE(*want <= *other);
        if (lt) REQUIRE(*other < *want);
      }
    }
  }
  CHECK(proofs > 300);
  CHECK(shorter > 100);
}
