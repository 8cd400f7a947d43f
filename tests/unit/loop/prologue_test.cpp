// Prologues of contractions: what is computed there, what is not and why, the text form, and what the verifier refuses.
#include "check.h"
#include "loop/text.h"
#include "loop/verify.h"

using namespace aotc;
using namespace aotc::loop;
using aotc::loop::test::check;
using aotc::loop::test::Checked;

namespace {

const MatmulKernel& product_of(const Checked& c) {
  const MatmulKernel* found = nullptr;
  for (const Kernel& k : c.m.kernels)
    if (auto m = std::get_if<MatmulKernel>(&k)) found = m;
  REQUIRE(found);
  return *found;
}

/// Why a value has a buffer (or is computed in a prologue), by the name of its node.
std::string note_of(const Checked& c, const std::string& value) {
  for (const FusionNote& n : c.m.notes)
    if (c.g.values[n.value].name == value || (c.g.def(n.value) && c.g.def(n.value)->name == value)) return n.why;
  std::string all;
  for (const FusionNote& n : c.m.notes) all += c.g.values[n.value].name + ": " + n.why + "\n";
  return all;
}

bool has_prologue_note(const Checked& c) {
  for (const FusionNote& n : c.m.notes)
    if (n.prologue) return true;
  return false;
}

}  // namespace

TEST_CASE("scale and position of x are computed where the product packs it") {
  const auto c = check(R"(
sym B [1, 64]
input %x : float32[B, 5, 16] "x"
input %s : float32[B, 5, 16] "s"
const %pos : float32[5, 16] "pos"
const %w : float32[16, 64] "w"
%m = mul(%x, %s) : float32[B, 5, 16]
%p1 = reshape(%pos) : float32[1, 5, 16]
%pe = expand(%p1) : float32[B, 5, 16]
%y = add(%m, %pe) : float32[B, 5, 16]
%w3 = reshape(%w) : float32[1, 16, 64]
%we = expand(%w3) : float32[B, 16, 64]
%o = matmul(%y, %we) : float32[B, 5, 64]
%r = relu(%o) : float32[B, 5, 64]
output %r "r"
)",
                       {{2}, {1}, {7}});
  REQUIRE(c.calls() == 1);
  const MatmulKernel& k = product_of(c);
  CHECK(k.batch.empty());  // the batch became rows although x is computed
  REQUIRE(k.a.prologue);
  CHECK(!k.b.prologue);
  CHECK(k.b_constant);
  CHECK(has_prologue_note(c));
}

TEST_CASE("both operands of a product of run-time values") {
  const auto c = check(R"(
sym S [1, 64]
input %a : float32[3, 20, S] "a"
input %b : float32[3, S, 70] "b"
input %mask : float32[S, 70] "mask"
%one = full() {value=1.0} : float32[3, 20, S]
%a1 = add(%a, %one) : float32[3, 20, S]
%m1 = reshape(%mask) : float32[1, S, 70]
%me = expand(%m1) : float32[3, S, 70]
%bm = mul(%b, %me) : float32[3, S, 70]
%o = matmul(%a1, %bm) : float32[3, 20, 70]
output %o "o"
)",
                       {{9}, {1}, {33}});
  REQUIRE(c.calls() == 1);
  CHECK(product_of(c).a.prologue);
  CHECK(product_of(c).b.prologue);
}

TEST_CASE("integers dequantised on their way into a product") {
  const auto c = check(R"(
input %x : int8[7, 24] "x"
input %scale : float32[7] "scale"
const %w : float32[24, 96] "w"
%f = cast(%x) : float32[7, 24]
%s1 = reshape(%scale) : float32[7, 1]
%se = expand(%s1) : float32[7, 24]
%d = mul(%f, %se) : float32[7, 24]
%o = matmul(%d, %w) : float32[7, 96]
output %o "o"
)");
  REQUIRE(c.calls() == 1);
  CHECK(product_of(c).a.prologue);
}

TEST_CASE("rows of a table gathered straight into a product") {
  const auto c = check(R"(
sym B [1, 64]
input %ids : int64[B, 6] "ids"
const %table : float32[11, 16] "table"
const %w : float32[16, 80] "w"
%e = index(%table, %ids) {dims=[0], out_pos=0} : float32[B, 6, 16]
%w3 = reshape(%w) : float32[1, 16, 80]
%we = expand(%w3) : float32[B, 16, 80]
%o = matmul(%e, %we) : float32[B, 6, 80]
output %o "o"
)",
                       {{2}, {5}}, 11);
  REQUIRE(c.calls() == 1);
  CHECK(product_of(c).a.prologue);
}

TEST_CASE("parts joined and padded on their way into a product") {
  const auto c = check(R"(
sym B [1, 64]
input %x : float32[B, 10] "x"
input %y : float32[B, 6] "y"
const %w : float32[20, 128] "w"
%c = cat(%x, %y) {dim=1} : float32[B, 16]
%r = relu(%c) : float32[B, 16]
%p = pad(%r) {lo=[0, 1], value=0.5} : float32[B, 20]
%o = matmul(%p, %w) : float32[B, 128]
output %o "o"
)",
                       {{3}, {1}});
  REQUIRE(c.calls() == 1);
  CHECK(product_of(c).a.prologue);
}

TEST_CASE("slices of one product share the operand that it computes") {
  const auto c = check(R"(
sym B [1, 64]
input %x : float32[B, 16] "x"
input %y : float32[B, 16] "y"
const %w : float32[16, 96] "w"
%s = add(%x, %y) : float32[B, 16]
%o = matmul(%s, %w) : float32[B, 96]
%q = slice(%o) {dim=1, start=0} : float32[B, 32]
%k = slice(%o) {dim=1, start=32} : float32[B, 64]
%qr = relu(%q) : float32[B, 32]
%kt = tanh(%k) : float32[B, 64]
output %qr "q"
output %kt "k"
)",
                       {{3}, {1}});
  REQUIRE(c.calls() == 1);
  CHECK(product_of(c).segments.size() == 2);
  CHECK(product_of(c).a.prologue);
}

TEST_CASE("columns of one product on their way into another") {
  const auto c = check(R"(
input %x : float32[8, 16] "x"
input %y : float32[8, 16] "y"
const %w : float32[16, 48] "w"
const %u : float32[48, 96] "u"
%o = matmul(%x, %w) : float32[8, 48]
%q = slice(%o) {dim=1, start=0} : float32[8, 32]
%k = slice(%o) {dim=1, start=32} : float32[8, 16]
%c = cat(%q, %y) {dim=1} : float32[8, 48]
%r = relu(%c) : float32[8, 48]
%p = matmul(%r, %u) : float32[8, 96]
output %k "k"
output %p "p"
)");
  REQUIRE(c.calls() == 2);
  CHECK(has_prologue_note(c));
}

TEST_CASE("what is not computed in a prologue, and why") {
  SECTION("two readers") {
    const auto c = check(R"(
input %x : float32[8, 16] "x"
const %w : float32[16, 64] "w"
const %u : float32[16, 64] "u"
%s = tanh(%x) : float32[8, 16] @"s"
%o = matmul(%s, %w) : float32[8, 64]
%p = matmul(%s, %u) : float32[8, 64]
output %o "o"
output %p "p"
)");
    CHECK(c.calls() == 3);
    CHECK(!has_prologue_note(c));
  }
  SECTION("dear beside a narrow product") {
    const auto c = check(R"(
input %x : float32[8, 16] "x"
const %w : float32[16, 10] "w"
%s = tanh(%x) : float32[8, 16] @"s"
%o = matmul(%s, %w) : float32[8, 10]
output %o "o"
)");
    CHECK(c.calls() == 2);
    CHECK_THAT(note_of(c, "s"), Catch::Contains("it costs 12 an element, which serves 10 multiply-adds"));
  }
  SECTION("a normalised row") {
    const auto c = check(R"(
input %x : float32[8, 16] "x"
const %w : float32[16, 200] "w"
%s = reduce(%x) {kind="max", dims=[1]} : float32[8] @"most"
%s1 = reshape(%s) : float32[8, 1]
%se = expand(%s1) : float32[8, 16]
%d = sub(%x, %se) : float32[8, 16] @"d"
%o = matmul(%d, %w) : float32[8, 200]
output %o "o"
)");
    CHECK(c.calls() == 2);
    CHECK_THAT(note_of(c, "d"), Catch::Contains("the kernel of a reduction goes over its rows"));
  }
  SECTION("a row divided by a root of its squares") {
    const auto c = check(R"(
input %x : float32[8, 16] "x"
const %g : float32[16] "g"
const %w : float32[16, 200] "w"
%q = mul(%x, %x) : float32[8, 16]
%s = reduce(%q) {kind="sum", dims=[1]} : float32[8]
%t = rsqrt(%s) : float32[8]
%t1 = reshape(%t) : float32[8, 1]
%te = expand(%t1) : float32[8, 16]
%d = mul(%x, %te) : float32[8, 16]
%g1 = reshape(%g) : float32[1, 16]
%ge = expand(%g1) : float32[8, 16]
%n = mul(%d, %ge) : float32[8, 16] @"n"
%o = matmul(%n, %w) : float32[8, 200]
output %o "o"
)");
    CHECK(c.calls() == 2);
    CHECK_THAT(note_of(c, "n"), Catch::Contains("the kernel of a reduction goes over its rows"));
  }
  SECTION("the epilogue of the product before") {
    const auto c = check(R"(
input %x : float32[8, 16] "x"
const %w : float32[16, 64] "w"
const %u : float32[64, 64] "u"
%o = matmul(%x, %w) : float32[8, 64]
%r = relu(%o) : float32[8, 64]
%p = matmul(%r, %u) : float32[8, 64]
output %p "p"
)");
    CHECK(c.calls() == 2);
    CHECK(!has_prologue_note(c));
  }
  SECTION("parts that are computed in their place") {
    const auto c = check(R"(
input %x : float32[8, 16] "x"
const %w : float32[16, 32] "w"
const %u : float32[64, 64] "u"
%a = matmul(%x, %w) : float32[8, 32]
%xr = relu(%x) : float32[8, 16]
%b = matmul(%xr, %w) : float32[8, 32]
%c = cat(%a, %b) {dim=1} : float32[8, 64]
%p = matmul(%c, %u) : float32[8, 64]
output %p "p"
)");
    CHECK(c.calls() == 3);
  }
  SECTION("an output") {
    const auto c = check(R"(
input %x : float32[8, 16] "x"
const %w : float32[16, 64] "w"
%r = relu(%x) : float32[8, 16]
%p = matmul(%r, %w) : float32[8, 64]
output %r "r"
output %p "p"
)");
    CHECK(c.calls() == 2);
    CHECK(!has_prologue_note(c));
  }
  SECTION("across the rows") {
    const auto c = check(R"(
input %x : float32[16, 8] "x"
const %w : float32[16, 64] "w"
%r = relu(%x) : float32[16, 8] @"r"
%t = permute(%r) {perm=[1, 0]} : float32[8, 16]
%p = matmul(%t, %w) : float32[8, 64]
output %p "p"
)");
    CHECK(c.calls() == 2);
    CHECK_THAT(note_of(c, "r"), Catch::Contains("it is read across its rows"));
  }
}

TEST_CASE("a product with a prologue is printed and parsed; wrong ones are refused") {
  const auto c = check(R"(
input %x : float32[4, 6] "x"
const %w : float32[6, 32] "w"
%r = relu(%x) : float32[4, 6]
%o = matmul(%r, %w) : float32[4, 32]
output %o "o"
)");
  const std::string text = print(c.m);
  INFO(text);
  REQUIRE(text.find("a computed") != std::string::npos);
  REQUIRE(print(parse_module(text, "again")) == text);
  auto refused = [&](const std::string& from, const std::string& to) {
    std::string bad = text;
    const size_t at = bad.find(from);
    REQUIRE(at != std::string::npos);
    bad.replace(at, from.size(), to);
    INFO(bad);
    CHECK_THROWS(parse_module(bad, "bad"));
  };
  refused("operand[i0*6 + r0]", "operand[r0]");               // not the element that it stands for
  refused("param operand operand", "param operand output");   // no operand
  refused("operand float32[4, 6]", "operand float64[4, 6]");  // of another dtype
  refused("inner r0 [6]", "outer r0 [6]");                    // other loops
}
