// 16-bit floats inside kernels: rounded where the graph has them, and nowhere twice.
#include "loop/rounding.h"
#include "check.h"

using namespace aotc;
using namespace aotc::loop;
using aotc::loop::test::check;

namespace {

int roundings(const Module& m) {
  int n = 0;
  for (const Kernel& k : m.kernels) {
    const auto& l = std::get<LoopKernel>(k);
    Representable r;
    for (size_t i = 0; i < l.insts.size(); ++i) n += r.must_round(l.insts, static_cast<InstId>(i));
  }
  return n;
}

}  // namespace

TEST_CASE("what is looked at is rounded: comparisons, whole parts, casts and bits agree with the graph") {
  for (const char* half : {"float16", "bfloat16"}) {
    const std::string h = half;
    const auto c =
        check("input %x : float32[4000] \"x\"\ninput %a : " + h + "[4000] \"a\"\ninput %b : " + h + "[4000] \"b\"\n" +
              "%h = cast(%x) : " + h + "[4000]\n%wide = cast(%h) : float32[4000]\n%same = eq(%wide, %x) : bool[4000]\n" +
              "%s = add(%a, %b) : " + h + "[4000]\n%p = mul(%s, %h) : " + h + "[4000]\n%gt = gt(%p, %b) : bool[4000]\n" +
              "%back = sub(%s, %b) : " + h + "[4000]\n%eq = eq(%back, %a) : bool[4000]\n" + "%c = full() {value=1000.0} : " + h +
              "[4000]\n%q = mul(%p, %c) : " + h + "[4000]\n%i = cast(%q) : int64[4000]\n" + "%bits = bitcast(%p) : int16[4000]\n" +
              "output %same \"same\"\noutput %gt \"gt\"\noutput %eq \"eq\"\noutput %i \"i\"\noutput %bits \"bits\"\n");
    REQUIRE(roundings(c.m) == 5);
  }
}

TEST_CASE("what is a number of the type already is not rounded") {
  const auto c = check(R"(
input %a : bfloat16[1000] "a"
input %b : bfloat16[1000] "b"
input %n : int8[1000] "n"
%r = relu(%a) : bfloat16[1000]
%m = maximum(%r, %b) : bfloat16[1000]
%g = neg(%m) : bfloat16[1000]
%f = floor(%g) : bfloat16[1000]
%i = cast(%n) : bfloat16[1000]
%p = gt(%f, %i) : bool[1000]
%y = where(%p, %f, %i) : bfloat16[1000]
output %y "y"
)");
  REQUIRE(c.calls() == 1);
  REQUIRE(roundings(c.m) == 0);
}

TEST_CASE("a rounding that a store makes is made once") {
  const auto c = check(R"(
input %a : float16[1000] "a"
input %b : float16[1000] "b"
%s = add(%a, %b) : float16[1000]
%w = cast(%s) : float32[1000]
output %s "s"
output %w "w"
)");
  REQUIRE(roundings(c.m) == 1);
}

namespace {

/// How many products are rounded, and how many there are, in this graph's kernels.
std::pair<size_t, size_t> rounded_products(const char* text) {
  const auto c = check(text);
  size_t rounded = 0, products = 0;
  for (const Kernel& k : c.m.kernels) {
    const auto& l = std::get<LoopKernel>(k);
    const std::vector<bool> r = products_to_round(l);
    for (size_t i = 0; i < l.insts.size(); ++i) {
      const Inst& x = l.insts[static_cast<InstId>(i)];
      rounded += r[i];
      products += x.kind == InstKind::op && x.op == Op::mul;
      REQUIRE((!r[i] || x.op == Op::mul));
    }
  }
  return {rounded, products};
}

}  // namespace

TEST_CASE("products are rounded before a difference is made of them: from a row's largest, from numbers in memory, from another product") {
  const auto [of_row, all] = rounded_products(R"(
input %a : float32[30,40] "a"
%half = full() {value=0.3} : float32[30,40]
%y = mul(%a, %half) : float32[30,40]
%r = reduce(%y) {kind=max, dims=[1]} : float32[30]
%m = reshape(%r) : float32[30,1]
%e = expand(%m) : float32[30,40]
%z = sub(%y, %e) : float32[30,40]
output %z "z"
)");
  REQUIRE(of_row >= 1);
  REQUIRE(all >= of_row);

  REQUIRE(rounded_products(R"(
input %a : float32[30,40] "a"
input %b : float32[30,40] "b"
input %m : float32[30,40] "m"
%y = mul(%a, %b) : float32[30,40]
%v = sub(%m, %y) : float32[30,40]
output %v "v"
)")
              .first == 1);
  REQUIRE(rounded_products(R"(
input %a : float64[30,40] "a"
input %b : float64[30,40] "b"
%y = mul(%a, %a) : float64[30,40]
%w = mul(%b, %b) : float64[30,40]
%t = sub(%y, %w) : float64[30,40]
output %t "t"
)") == std::pair<size_t, size_t>{2, 2});
  REQUIRE(rounded_products(R"(
input %a : float32[30,40] "a"
input %b : float32[30,40] "b"
%n = neg(%b) : float32[30,40]
%y = mul(%a, %b) : float32[30,40]
%w = mul(%n, %a) : float32[30,40]
%t = add(%y, %w) : float32[30,40]
output %t "t"
)") == std::pair<size_t, size_t>{2, 2});
}

TEST_CASE("products may stay whole in sums, beside constants, and with a constant beside the element's own values") {
  const auto [rounded, all] = rounded_products(R"(
input %a : float32[30,40] "a"
input %b : float32[30,40] "b"
%y = mul(%a, %b) : float32[30,40]
%s = add(%y, %a) : float32[30,40]
%w = mul(%b, %b) : float32[30,40]
%t = add(%y, %w) : float32[30,40]
%one = full() {value=1.0} : float32[30,40]
%u = sub(%y, %one) : float32[30,40]
%rate = full() {value=0.3} : float32[30,40]
%step = mul(%b, %rate) : float32[30,40]
%v = sub(%a, %step) : float32[30,40]
output %v "v"
output %s "s"
output %t "t"
output %u "u"
)");
  REQUIRE(rounded == 0);
  REQUIRE(all >= 3);
}
