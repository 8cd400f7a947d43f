#include "check.h"

using namespace aotc;
using namespace aotc::loop;
using aotc::loop::test::check;

TEST_CASE("a chain that reads its input twice is one kernel with one load") {
  const auto c = check(R"(
input %x : float32[1000] "x"
%a = relu(%x) : float32[1000]
%c = full() {value=2.0} : float32[1000]
%m = mul(%a, %c) : float32[1000]
%y = add(%a, %m) : float32[1000]
output %y "y"
)");
  REQUIRE(c.calls() == 1);
  const auto& k = std::get<LoopKernel>(c.m.kernels.raw()[0]);
  int loads = 0;
  for (const Inst& i : k.insts) loads += i.kind == InstKind::load;
  REQUIRE(loads == 1);
  REQUIRE(k.outer.size() == 1);
  REQUIRE(k.inner.empty());
}

namespace {
const char* kSoftmaxLayerNorm = R"(
sym S [0, 4096]
input %x : float32[S, 24] "x"
const %w : float32[24] "w"
%c = full() {value=0.125} : float32[S, 24]
%a = mul(%x, %c) : float32[S, 24]
%m = reduce(%a) {kind="max", dims=[1]} : float32[S]
%mr = reshape(%m) : float32[S, 1]
%me = expand(%mr) : float32[S, 24]
%d = sub(%a, %me) : float32[S, 24]
%e = exp(%d) : float32[S, 24]
%s = reduce(%e) {kind="sum", dims=[1]} : float32[S]
%sr = reshape(%s) : float32[S, 1]
%se = expand(%sr) : float32[S, 24]
%p = div(%e, %se) : float32[S, 24]
%y = add(%p, %x) : float32[S, 24]
%sum = reduce(%y) {kind="sum", dims=[1]} : float32[S]
%n = full() {value=0.0416666666} : float32[S]
%mean = mul(%sum, %n) : float32[S]
%meanr = reshape(%mean) : float32[S, 1]
%meane = expand(%meanr) : float32[S, 24]
%cen = sub(%y, %meane) : float32[S, 24]
%sq = mul(%cen, %cen) : float32[S, 24]
%vs = reduce(%sq) {kind="sum", dims=[1]} : float32[S]
%v = mul(%vs, %n) : float32[S]
%r = rsqrt(%v) : float32[S]
%rr = reshape(%r) : float32[S, 1]
%re = expand(%rr) : float32[S, 24]
%o = mul(%cen, %re) : float32[S, 24]
%w1 = reshape(%w) : float32[1, 24]
%we = expand(%w1) : float32[S, 24]
%ow = mul(%o, %we) : float32[S, 24]
output %ow "y"
)";
}

TEST_CASE("softmax and layer norm of one row are one kernel") {
  const auto c = check(kSoftmaxLayerNorm, {{5}, {1}, {0}});
  REQUIRE(c.calls() == 1);
  const auto& k = std::get<LoopKernel>(c.m.kernels.raw()[0]);
  REQUIRE(k.inner.size() == 1);
  REQUIRE(k.lanes == LaneAxis::inner);
  int locals = 0;
  for (const Param& p : k.params) locals += p.role == ParamRole::local;
  REQUIRE(locals == 1);
}

TEST_CASE("bias, activation, scale and residual are the epilogue of a product") {
  const auto c = check(R"(
sym B [1, 64]
input %x : float32[B, 3, 16] "x"
input %res : float32[B, 3, 32] "res"
const %w : float32[32, 16] "w"
const %b : float32[32] "b"
%wt = permute(%w) {perm=[1, 0]} : float32[16, 32]
%w3 = reshape(%wt) : float32[1, 16, 32]
%we = expand(%w3) : float32[B, 16, 32]
%m = matmul(%x, %we) : float32[B, 3, 32]
%b1 = reshape(%b) : float32[1, 1, 32]
%be = expand(%b1) : float32[B, 3, 32]
%y = add(%m, %be) : float32[B, 3, 32]
%t = tanh(%y) : float32[B, 3, 32]
%z = add(%t, %res) : float32[B, 3, 32]
%h = reshape(%z) : float32[B, 3, 4, 8]
%p = permute(%h) {perm=[0, 2, 1, 3]} : float32[B, 4, 3, 8]
output %p "p"
)",
                       {{2}, {1}});
  REQUIRE(c.calls() == 1);
  const auto& k = std::get<MatmulKernel>(c.m.kernels.raw()[0]);
  REQUIRE(k.batch.empty());
  REQUIRE(k.b_constant);
}

TEST_CASE("products feed each other: gate and up") {
  const auto c = check(R"(
sym B [1, 64]
input %x : float32[B, 16] "x"
const %g : float32[16, 24] "g"
const %u : float32[16, 24] "u"
const %d : float32[24, 16] "d"
%a = matmul(%x, %g) : float32[B, 24]
%s = sigmoid(%a) : float32[B, 24]
%silu = mul(%a, %s) : float32[B, 24]
%b = matmul(%x, %u) : float32[B, 24]
%h = mul(%silu, %b) : float32[B, 24]
%o = matmul(%h, %d) : float32[B, 16]
%r = add(%o, %x) : float32[B, 16]
output %r "r"
)",
                       {{3}});
  REQUIRE(c.calls() == 3);
}

TEST_CASE("attention by hand: scores, mask and softmax") {
  const auto c = check(R"(
sym S [1, 64]
input %q : float32[2, S, 16] "q"
input %k : float32[2, S, 16] "k"
input %v : float32[2, S, 16] "v"
%q4 = reshape(%q) : float32[2, S, 4, 4]
%qp = permute(%q4) {perm=[0, 2, 1, 3]} : float32[2, 4, S, 4]
%k4 = reshape(%k) : float32[2, S, 4, 4]
%kp = permute(%k4) {perm=[0, 2, 3, 1]} : float32[2, 4, 4, S]
%v4 = reshape(%v) : float32[2, S, 4, 4]
%vp = permute(%v4) {perm=[0, 2, 1, 3]} : float32[2, 4, S, 4]
%m = matmul(%qp, %kp) : float32[2, 4, S, S]
%c = full() {value=0.5} : float32[2, 4, S, S]
%a = mul(%m, %c) : float32[2, 4, S, S]
%x = reduce(%a) {kind="max", dims=[3]} : float32[2, 4, S]
%x1 = reshape(%x) : float32[2, 4, S, 1]
%xe = expand(%x1) : float32[2, 4, S, S]
%d = sub(%a, %xe) : float32[2, 4, S, S]
%e = exp(%d) : float32[2, 4, S, S]
%s = reduce(%e) {kind="sum", dims=[3]} : float32[2, 4, S]
%s1 = reshape(%s) : float32[2, 4, S, 1]
%se = expand(%s1) : float32[2, 4, S, S]
%p = div(%e, %se) : float32[2, 4, S, S]
%o = matmul(%p, %vp) : float32[2, 4, S, 4]
%op = permute(%o) {perm=[0, 2, 1, 3]} : float32[2, S, 4, 4]
%or = reshape(%op) : float32[2, S, 16]
output %or "o"
)",
                       {{3}, {1}});
  REQUIRE(c.calls() == 3);
}

TEST_CASE("fused attention reads and writes through views") {
  const auto c = check(R"(
sym S [1, 64]
input %q : float32[2, S, 16] "q"
input %k : float32[2, S, 8] "k"
input %v : float32[2, S, 8] "v"
input %mask : float32[2, 1, 1, S] "mask"
%q4 = reshape(%q) : float32[2, S, 4, 4]
%qp = permute(%q4) {perm=[0, 2, 1, 3]} : float32[2, 4, S, 4]
%k4 = reshape(%k) : float32[2, S, 2, 4]
%kp = permute(%k4) {perm=[0, 2, 1, 3]} : float32[2, 2, S, 4]
%v4 = reshape(%v) : float32[2, S, 2, 4]
%vp = permute(%v4) {perm=[0, 2, 1, 3]} : float32[2, 2, S, 4]
%o = attention(%qp, %kp, %vp, %mask) {scale=0.5} : float32[2, 4, S, 4]
%op = permute(%o) {perm=[0, 2, 1, 3]} : float32[2, S, 4, 4]
%or = reshape(%op) : float32[2, S, 16]
output %or "o"
)",
                       {{3}, {1}});
  REQUIRE(c.calls() == 1);
}

TEST_CASE("reductions over middle and all dims, argmax, scan") {
  check(R"(
sym S [1, 64]
input %x : float32[2, S, 6] "x"
%a = reduce(%x) {kind="sum", dims=[1]} : float32[2, 6]
output %a "a"
%b = reduce(%x) {kind="sum", dims=[0, 1, 2]} : float32[]
output %b "b"
%c = reduce(%x) {kind="argmax", dims=[1]} : int64[2, 6]
output %c "c"
%d = scan(%x) {kind="sum", dim=1} : float32[2, S, 6]
output %d "d"
%e = scan(%x) {kind="sum", dim=2} : float32[2, S, 6]
%f = mul(%e, %x) : float32[2, S, 6]
output %f "f"
%g = reduce(%x) {kind="prod", dims=[0, 2]} : float32[S]
%h = exp(%g) : float32[S]
output %h "h"
%i = scan_arg(%x) {kind="max", dim=2} : int64[2, S, 6]
output %i "i"
)",
        {{4}, {1}});
}

TEST_CASE("cat: parts are computed in place; a rotated half is inlined") {
  const auto c = check(R"(
sym S [1, 64]
input %x : float32[2, S, 8] "x"
input %old : float32[2, 5, 8] "old"
input %cos : float32[2, S, 8] "cos"
%lo = slice(%x) {dim=2, start=0} : float32[2, S, 4]
%hi = slice(%x) {dim=2, start=4} : float32[2, S, 4]
%neg = neg(%hi) : float32[2, S, 4]
%rot = cat(%neg, %lo) {dim=2} : float32[2, S, 8]
%a = mul(%x, %cos) : float32[2, S, 8]
%r = add(%a, %rot) : float32[2, S, 8]
%kv = cat(%old, %r) {dim=1} : float32[2, S + 5, 8]
output %kv "kv"
)",
                       {{3}, {1}});
  REQUIRE(c.calls() == 2);
}

TEST_CASE("indices: embedding, gather, negative indices") {
  const auto c = check(R"(
sym S [1, 64]
input %i : int64[2, S] "i"
const %t : float32[5, 8] "table"
const %p : float32[64, 8] "positions"
%e = index(%t, %i) {dims=[0], out_pos=0} : float32[2, S, 8]
%ps = slice(%p) {dim=0, start=0} : float32[S, 8]
%p1 = reshape(%ps) : float32[1, S, 8]
%pe = expand(%p1) : float32[2, S, 8]
%y = add(%e, %pe) : float32[2, S, 8]
%m = reduce(%y) {kind="max", dims=[2]} : float32[2, S]
%m1 = reshape(%m) : float32[2, S, 1]
%me = expand(%m1) : float32[2, S, 8]
%z = sub(%y, %me) : float32[2, S, 8]
output %z "z"
%two = full() {value=2} : int64[2, S]
%n = sub(%i, %two) : int64[2, S]
%g = index(%t, %n) {dims=[1], out_pos=1} : float32[5, 2, S]
output %g "g"
%i3 = reshape(%i) : int64[2, S, 1]
%ge = gather(%y, %i3) {dim=2} : float32[2, S, 1]
output %ge "ge"
)",
                       {{3}, {1}});
}

TEST_CASE("padding and windows are masked reads") {
  check(R"(
sym N [1, 8]
input %x : float32[N, 2, 6, 7] "x"
%p = pad(%x) {lo=[0, 0, 1, 2], value=0.5} : float32[N, 2, 8, 10]
output %p "p"
%w = window(%x) {kernel=[3, 3], stride=[2, 2], padding=[1, 1], dilation=[1, 1], value=-inf} : float32[N, 2, 3, 4, 3, 3]
%m = reduce(%w) {kind="max", dims=[4, 5]} : float32[N, 2, 3, 4]
output %m "m"
%r = relu(%p) : float32[N, 2, 8, 10]
%s = slice(%r) {dim=3, start=1, step=2} : float32[N, 2, 8, 4]
%f = flip(%s) {dims=[3]} : float32[N, 2, 8, 4]
output %f "f"
)",
        {{2}, {1}});
}

TEST_CASE("convolution with batch norm, relu and residual") {
  const auto c = check(R"(
sym N [1, 8]
input %x : float32[N, 4, 5, 6] "x"
const %w : float32[4, 2, 3, 3] "w"
const %s : float32[4] "s"
%c = conv(%x, %w) {stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=2} : float32[N, 4, 5, 6]
%s1 = reshape(%s) : float32[1, 4, 1, 1]
%se = expand(%s1) : float32[N, 4, 5, 6]
%m = mul(%c, %se) : float32[N, 4, 5, 6]
%a = add(%m, %x) : float32[N, 4, 5, 6]
%r = relu(%a) : float32[N, 4, 5, 6]
output %r "r"
)",
                       {{2}, {1}});
  REQUIRE(c.calls() == 1);
}

TEST_CASE("whole-tensor algorithms, aliases of outputs and 16-bit floats") {
  check(R"(
sym S [2, 64]
input %x : float32[S, 6] "x"
%v, %i = sort(%x) {dim=1, descending=true} : float32[S, 6], int64[S, 6]
output %v "v"
%j = cast(%i) : float32[S, 6]
output %j "j"
output %x "same"
output %v "again"
%xt = permute(%x) {perm=[1, 0]} : float32[6, S]
output %xt "xt"
%h = cast(%x) : bfloat16[S, 6]
%hh = mul(%h, %h) : bfloat16[S, 6]
output %hh "hh"
%tv, %ti = topk(%x) {dim=0, k=2} : float32[2, 6], int64[2, 6]
output %tv "tv"
)",
        {{3}, {2}});
}

TEST_CASE("equal layers share kernels") {
  std::string text = "sym B [1, 8]\ninput %x0 : float32[B, 16] \"x\"\n";
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i), o = std::to_string(i + 1);
    text += "const %w" + n + " : float32[16, 16] \"w" + n + "\"\n%m" + n + " = matmul(%x" + n + ", %w" + n + ") : float32[B, 16]\n%r" + n +
            " = relu(%m" + n + ") : float32[B, 16]\n%s" + n + " = reduce(%r" + n + ") {kind=\"sum\", dims=[1]} : float32[B]\n%t" + n +
            " = reshape(%s" + n + ") : float32[B, 1]\n%e" + n + " = expand(%t" + n + ") : float32[B, 16]\n%x" + o + " = div(%r" + n +
            ", %e" + n + ") : float32[B, 16]\n";
  }
  const auto c = check(text + "output %x4 \"y\"\n", {{2}});
  REQUIRE(c.calls() == 8);
  REQUIRE(c.kernels() == 2);
}

TEST_CASE("a product used in slices has a segment for each") {
  const auto c = check(R"(
sym B [1, 8]
input %x : float32[B, 16] "x"
const %w : float32[16, 21] "w"
const %b : float32[8] "b"
%m = matmul(%x, %w) : float32[B, 21]
%q = slice(%m) {dim=1, start=0} : float32[B, 8]
%k = slice(%m) {dim=1, start=8} : float32[B, 12]
%v = slice(%m) {dim=1, start=20} : float32[B, 1]
%b1 = reshape(%b) : float32[1, 8]
%be = expand(%b1) : float32[B, 8]
%qb = add(%q, %be) : float32[B, 8]
%q4 = reshape(%qb) : float32[B, 2, 4]
%qp = permute(%q4) {perm=[1, 0, 2]} : float32[2, B, 4]
output %qp "q"
%kt = tanh(%k) : float32[B, 12]
%s = reduce(%kt) {kind="sum", dims=[1]} : float32[B]
output %kt "k"
output %s "s"
output %v "v"
)",
                       {{3}, {1}});
  REQUIRE(c.calls() == 2);
  REQUIRE(std::get<MatmulKernel>(c.m.kernels.raw()[0]).segments.size() == 3);
}

TEST_CASE("independent kernels over one domain are one") {
  const auto c = check(R"(
sym B [1, 8]
input %x : float32[B, 16] "x"
input %y : float32[B, 16] "y"
%a = exp(%x) : float32[B, 16]
%b = sin(%x) : float32[B, 16]
%s = reduce(%y) {kind="sum", dims=[1]} : float32[B]
%m = reduce(%y) {kind="max", dims=[1]} : float32[B]
output %a "a"
output %b "b"
output %s "s"
output %m "m"
)",
                       {{3}, {1}});
  REQUIRE(c.calls() == 2);
}

TEST_CASE("group norm: statistics and one pass over the values") {
  const auto c = check(R"(
sym N [1, 8]
input %x : float32[N, 6, 5, 4] "x"
const %w : float32[1, 6, 1, 1] "w"
%g = reshape(%x) : float32[N, 2, 60]
%s = reduce(%g) {kind="sum", dims=[2]} : float32[N, 2]
%c = full() {value=0.0166666} : float32[N, 2]
%m = mul(%s, %c) : float32[N, 2]
%m1 = reshape(%m) : float32[N, 2, 1]
%me = expand(%m1) : float32[N, 2, 60]
%d = sub(%g, %me) : float32[N, 2, 60]
%q = mul(%d, %d) : float32[N, 2, 60]
%v = reduce(%q) {kind="sum", dims=[2]} : float32[N, 2]
%r = rsqrt(%v) : float32[N, 2]
%r1 = reshape(%r) : float32[N, 2, 1]
%re = expand(%r1) : float32[N, 2, 60]
%n = mul(%d, %re) : float32[N, 2, 60]
%n4 = reshape(%n) : float32[N, 6, 5, 4]
%we = expand(%w) : float32[N, 6, 5, 4]
%y = mul(%n4, %we) : float32[N, 6, 5, 4]
output %y "y"
)",
                       {{2}, {1}});
  REQUIRE(c.calls() == 2);
}

TEST_CASE("tensors without elements") {
  check(R"(
input %x : float32[3, 0] "x"
%s = reduce(%x) {kind="sum", dims=[1]} : float32[3]
output %s "s"
%c = scan(%x) {kind="sum", dim=1} : float32[3, 0]
output %c "c"
%p = pad(%x) {lo=[0, 1], value=2} : float32[3, 2]
output %p "p"
%y = cat(%x, %p) {dim=1} : float32[3, 2]
output %y "y"
)");
}

TEST_CASE("a normalised row that is then summed across rows is stored once") {
  const auto c = check(R"(
sym B [1, 8]
sym S [1, 64]
input %x : float32[B, S, 12] "x"
input %k : float32[B, S, 12] "k"
%s = reduce(%x) {kind="max", dims=[2]} : float32[B, S]
%s1 = reshape(%s) : float32[B, S, 1]
%se = expand(%s1) : float32[B, S, 12]
%d = sub(%x, %se) : float32[B, S, 12]
%e = exp(%d) : float32[B, S, 12]
%t = reduce(%e) {kind="sum", dims=[2]} : float32[B, S]
%t1 = reshape(%t) : float32[B, S, 1]
%te = expand(%t1) : float32[B, S, 12]
%p = div(%e, %te) : float32[B, S, 12]
%m = mul(%p, %k) : float32[B, S, 12]
%y = reduce(%m) {kind="sum", dims=[1]} : float32[B, 12]
output %y "y"
)",
                       {{2, 3}, {1, 1}});
  REQUIRE(c.calls() == 2);
  REQUIRE(c.m.buffers.size() == 4);
}
