#include <catch2/catch.hpp>

#include "sym/expr.h"
#include "sym/parts.h"
#include "sym/sym_error.h"

using namespace aotc;

namespace {

struct Fixture {
  SymTable t;
  SymId shape(const char* name, int64_t min = 1, int64_t max = kInf, int64_t multiple = 1) {
    SymInfo i;
    i.name = name, i.min = min, i.max = max, i.multiple_of = multiple;
    return t.add(i);
  }
  SymId loop(const char* name, Expr extent, SymKind kind = SymKind::loop) {
    SymInfo i;
    i.name = name, i.kind = kind, i.extent = extent;
    return t.add(i);
  }
  Fixture() {
    shape("B");
    shape("S");
    shape("H", 4, 512);
    shape("E", 8, 4096, 8);
    loop("b", e("B"));
    loop("s", e("S"));
    loop("i", 12);
    loop("k", 64);
    loop("f", 3072);
    loop("oh", e("floordiv(H - 1, 2) + 1"));
    loop("ow", e("floordiv(H - 1, 2) + 1"));
    loop("x", e("E"));
    loop("v", e("B*S"), SymKind::value);
  }
  Expr e(const char* text) { return parse_expr(text, t); }
  std::string simple(const char* text) { return t.simplify(e(text)).str(t); }
  bool le(const char* a, const char* b) { return t.proves_le(e(a), e(b)); }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "construction") {
  CHECK(e("2*B + S*B*3 - 4 - B").str(t) == "B*S*3 + B - 4");
  CHECK(e("(B + 1)*(B - 1)").str(t) == "B*B - 1");
  CHECK(e("B - B").is(0));
  CHECK(e("floordiv(6*B + 7, 3)").str(t) == "B*2 + 2");
  CHECK(e("floordiv(floordiv(B, 4) + 1, 3)").str(t) == "floordiv(B + 4, 12)");
  CHECK(e("floordiv(-7, 2)").is(-4));
  CHECK(e("mod(-7, 2)").is(1));
  CHECK(e("mod(-7, -4)").is(-3));
  CHECK(e("floordiv(B*S*4 + B*2, B*2)").str(t) == "S*2 + 1");
  CHECK(e("floordiv(B*S, S*8)").str(t) == "floordiv(B, 8)");
  CHECK(e("mod(B*S, S*8)").str(t) == "S*mod(B, 8)");
  CHECK(e("mod(mod(B, 24), 8)").str(t) == "mod(B, 8)");
  CHECK(e("floordiv(mod(B, 24), 8)").str(t) == "mod(floordiv(B, 8), 3)");
  CHECK(e("max(B + 3, max(S, B))").str(t) == "max(B + 3, S)");
  CHECK(e("max(B, S)") == e("max(S, B)"));
  CHECK(align_up(e("B*64"), 64) == e("B*64"));
  CHECK(ceildiv(e("B"), 4).str(t) == "floordiv(B + 3, 4)");
  CHECK(e("B*S + 3").linear_coefficient(*t.find("S"))->str(t) == "B");
  CHECK(!e("floordiv(S, 2) + S").linear_coefficient(*t.find("S")));
  CHECK(e("B*S + floordiv(S, 2)").substitute({{*t.find("S"), e("4*B")}, {*t.find("B"), 3}}).str(t) == "B*14");
  CHECK_THROWS_AS(Expr(INT64_MAX) + 1, InternalError);
  for (const char* bad : {"", "B +", "Z", "B)", "floordiv(B, 0)", "foo(B, 1)", "99999999999999999999"}) CHECK_THROWS_AS(e(bad), Diagnostic);
  for (const char deep : {'(', '-'}) CHECK_THROWS_AS(e(std::string(100000, deep).c_str()), Diagnostic);
}

TEST_CASE_METHOD(Fixture, "expressions that multiply out or double are refused before they are made") {
  CHECK(sym::parts(e("7")) == 1);
  CHECK(sym::parts(e("2*B*S + max(B, 3)")) == 3 + 2 + 2 + 1);
  Expr sum = 1;
  for (int i = 0; i < 40; ++i) sum += floordiv(e("B") * (i + 2) + 1, i + 3);
  const auto power = [](const Expr& x, int n) {
    Expr r = 1;
    for (int i = 0; i < n; ++i) r *= x;
    return r;
  };
  CHECK(sym::parts(power(sum, 2)) < sym::kMostParts);
  CHECK_THROWS_AS(power(sum, 8), SymError);
  Expr doubled = e("B");
  const auto nest = [&] {
    for (int i = 0; i < 60; ++i) doubled = max(floordiv(doubled, 3) - 7, 0) + min(floordiv(doubled + 2, 3) - 7, 0);
  };
  CHECK_THROWS_AS(nest(), SymError);
  CHECK(sym::parts(doubled) <= sym::kMostParts);
}

TEST_CASE_METHOD(Fixture, "division by symbolic and constant extents") {
  CHECK(simple("floordiv(b*S + s, S)") == "b");
  CHECK(simple("mod(b*S + s, S)") == "s");
  CHECK(simple("floordiv(b*S*12 + s*12 + i, S*12)") == "b");
  CHECK(simple("mod(b*S*12 + s*12 + i, S*12)") == "s*12 + i");
  CHECK(simple("floordiv(mod(b*S*12 + s*12 + i, S*12), 12)") == "s");
  CHECK(simple("floordiv(i*64 + k, 64)") == "i");
  CHECK(simple("mod(i*64 + k, 128)") == "k + mod(i, 2)*64");
  CHECK(simple("floordiv(i*64 + k, 128)") == "floordiv(i, 2)");
  CHECK(simple("floordiv(oh*(floordiv(H - 1, 2) + 1) + ow, floordiv(H - 1, 2) + 1)") == "oh");
  CHECK(simple("mod(oh*(floordiv(H - 1, 2) + 1) + ow, floordiv(H - 1, 2) + 1)") == "ow");
  CHECK(simple("mod(b*E + x, E)") == "x");
  CHECK(simple("mod(b*E + k, 8)") == "mod(k, 8)");
  CHECK(simple("mod(E, 4)") == "0");
  CHECK(simple("floordiv(E, 8)*8") == "E");
  CHECK(simple("floordiv(v, S)*S + mod(v, S)") == "v");
  CHECK(simple("floordiv(k - 64, 64)") == "-1");
  CHECK(simple("floordiv(E, floordiv(E, 8))") == "8");
  CHECK(simple("floordiv(E + 3, floordiv(E, 2))") == "2");
  CHECK(simple("floordiv(E + 5, floordiv(E, 2))") == "floordiv(E + 5, floordiv(E, 2))");
  CHECK(simple("floordiv(S, floordiv(S, 2))") == "floordiv(S, floordiv(S, 2))");
}

TEST_CASE_METHOD(Fixture, "recombination") {
  CHECK(simple("64*floordiv(f, 64) + mod(f, 64)") == "f");
  CHECK(simple("640*b*floordiv(f, 64) + 10*b*mod(f, 64) + 3") == "b*f*10 + 3");
  CHECK(simple("1536*floordiv(f, 1536) + 64*mod(floordiv(f, 64), 24) + mod(f, 64)") == "f");
  CHECK(simple("64*mod(floordiv(f, 64), 24) + mod(f, 64)") == "mod(f, 1536)");
  CHECK(simple("S*floordiv(v, S) + mod(v, S) + B") == "B + v");
  CHECK(simple("(floordiv(H - 1, 2) + 1)*floordiv(v, floordiv(H - 1, 2) + 1) + mod(v, floordiv(H - 1, 2) + 1)") == "v");
  CHECK(simple("floordiv(f, 64*48)*48 + floordiv(mod(f, 64*48), 64)") == "floordiv(f, 64)");
  CHECK(simple("S + mod(-S, 64)") == "-floordiv(-S, 64)*64");
  CHECK(simple("floordiv(3*S + 3*mod(-S, 64), 64)") == "-floordiv(-S, 64)*3");
  CHECK(simple("S + mod(-B, 64)") == "S + mod(-B, 64)");
}

TEST_CASE_METHOD(Fixture, "proofs") {
  CHECK(le("b*S + s", "B*S - 1"));
  CHECK(!le("b*S + s", "B*S - 2"));
  CHECK(le("0", "b*S + s"));
  CHECK(le("S", "B*S"));
  CHECK(le("b*S*12 + s*12 + i", "B*S*12 - 1"));
  CHECK(le("2*floordiv(H - 1, 2)", "H - 1"));
  CHECK(le("2*oh", "H - 1"));
  CHECK(!le("2*oh", "H - 2"));
  CHECK(le("mod(v, S)", "S - 1"));
  CHECK(le("min(B, S)", "B"));
  CHECK(le("B", "max(B, S)"));
  CHECK(le("max(2*oh - 1, 0)", "H - 1"));
  CHECK(t.proves_lt(e("floordiv(v, S)"), e("B")));
  CHECK(t.proves_ne(e("2*B"), e("2*S + 1")));
  CHECK(t.proves_divisible(e("E*3 + 16"), 8));
  CHECK(!t.proves_divisible(e("E*3 + 4"), 8));
  CHECK(t.proves_eq(e("floordiv(b*S + s, S)*S + s"), e("b*S + s")));
  const Interval i = t.interval(e("2*oh - 3"));
  CHECK(i.min == -3);
  CHECK(i.max == 2 * 255 - 3);
}

TEST_CASE_METHOD(Fixture, "hints") {
  CHECK(t.hint(e("B*2")) == 256);
  CHECK(t.hint(e("H")) == 512);
  t.edit(*t.find("B")).tune = {1, 8};
  CHECK(t.hint(e("B*2 + b")) == 23);
}

TEST_CASE_METHOD(Fixture, "simplify speed", "[.bench]") {
  const Expr a = e("floordiv(b*S*12*64 + s*12*64 + i*64 + k, 64)"), c = e("64*mod(floordiv(f, 64), 24) + mod(f, 64)");
  size_t n = 0;
  for (int i = 0; i < 20000; ++i) n += t.simplify(a).terms().size() + t.simplify(c).terms().size();
  CHECK(n == 20000 * 4);
}
