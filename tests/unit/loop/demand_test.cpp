#include "loop/demand.h"

#include "check.h"

using namespace aotc;
using namespace aotc::loop;
using aotc::loop::test::check;

namespace {

/// The demand of a program's only call, at S = 3.
struct At3 {
  int64_t products, operations, read, written;
  DType in;
};
At3 demand_at_3(const char* graph) {
  const auto c = check(graph, {{3}, {1}});
  REQUIRE(c.calls() == 1);
  const Demand d = demand_of(c.m.kernels[c.m.calls[0].kernel]);
  const auto at = [](const Expr& e) { return e.eval([](SymId) { return int64_t{3}; }); };
  return {at(d.products), at(d.operations), at(d.read_bytes), at(d.written_bytes), d.in};
}

}  // namespace

TEST_CASE("demand: a row is read once, however often it is used, and a weight by all rows") {
  const At3 d = demand_at_3(R"(
sym S [1, 64]
input %x : float32[S, 24] "x"
const %w : float32[24] "w"
%w1 = reshape(%w) : float32[1, 24]
%we = expand(%w1) : float32[S, 24]
%a = mul(%x, %we) : float32[S, 24]
%m = reduce(%a) {kind="sum", dims=[1]} : float32[S]
%me = reshape(%m) : float32[S, 1]
%mm = expand(%me) : float32[S, 24]
%y = sub(%x, %mm) : float32[S, 24]
output %y "y"
)");
  REQUIRE(d.products == 0);
  REQUIRE(d.operations == 3 * 24 * 3);  // mul, sum, sub
  REQUIRE(d.read == (3 * 24 + 24) * 4);
  REQUIRE(d.written == 3 * 24 * 4);
}

TEST_CASE("demand: of a table the rows that are looked up, or the whole table") {
  const char* const lookup = R"(
sym S [1, 64]
input %i : int64[S] "i"
const %t : float32[{}, 8] "table"
%e = index(%t, %i) {{dims=[0], out_pos=0}} : float32[S, 8]
output %e "e"
)";
  REQUIRE(demand_at_3(fmt::format(fmt::runtime(lookup), 100).c_str()).read == 3 * 8 + 3 * 8 * 4);
  REQUIRE(demand_at_3(fmt::format(fmt::runtime(lookup), 2).c_str()).read == 3 * 8 + 2 * 8 * 4);
}

TEST_CASE("demand: products with their epilogue") {
  const At3 d = demand_at_3(R"(
sym S [1, 64]
input %x : bfloat16[S, 16] "x"
const %w : bfloat16[16, 32] "w"
%p = matmul(%x, %w) : bfloat16[S, 32]
%y = relu(%p) : bfloat16[S, 32]
output %y "y"
)");
  REQUIRE(d.in == DType::bf16);
  REQUIRE(d.products == 3 * 16 * 32);
  REQUIRE(d.operations >= 3 * 32);
  REQUIRE(d.read == (3 * 16 + 16 * 32) * 2);
  REQUIRE(d.written == 3 * 32 * 2);
}

TEST_CASE("demand: grouped convolutions meet a group's channels in every window") {
  const At3 d = demand_at_3(R"(
sym N [1, 8]
input %x : float32[N, 4, 5, 6] "x"
const %w : float32[8, 2, 3, 3] "w"
%c = conv(%x, %w) {stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=2} : float32[N, 8, 5, 6]
output %c "c"
)");
  REQUIRE(d.products == 3 * 8 * 5 * 6 * 2 * 9);
  REQUIRE(d.read == (3 * 4 * 5 * 6 + 8 * 2 * 9) * 4);
  REQUIRE(d.written == 3 * 8 * 5 * 6 * 4);
}

TEST_CASE("demand: attention reads its own part of joined projections") {
  const At3 d = demand_at_3(R"(
sym S [1, 64]
input %q : float32[2, S, 16] "q"
input %k : float32[2, S, 8] "k"
input %v : float32[2, S, 8] "v"
%q4 = reshape(%q) : float32[2, S, 4, 4]
%qp = permute(%q4) {perm=[0, 2, 1, 3]} : float32[2, 4, S, 4]
%k4 = reshape(%k) : float32[2, S, 2, 4]
%kp = permute(%k4) {perm=[0, 2, 1, 3]} : float32[2, 2, S, 4]
%v4 = reshape(%v) : float32[2, S, 2, 4]
%vp = permute(%v4) {perm=[0, 2, 1, 3]} : float32[2, 2, S, 4]
%o = attention(%qp, %kp, %vp) {scale=0.5} : float32[2, 4, S, 4]
output %o "o"
)");
  REQUIRE(d.products == 2 * 4 * 3 * 3 * (4 + 4));
  REQUIRE(d.read == (2 * 3 * 16 + 2 * 2 * 3 * 8) * 4);
  REQUIRE(d.written == 2 * 4 * 3 * 4 * 4);
}
