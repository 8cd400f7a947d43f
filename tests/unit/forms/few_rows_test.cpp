// Products of few rows on GPUs take in what lies around them: a second product of the same rows, the rows' norm, and what reads their
// results in pairs. What that computes is what the graph says; where anyone else reads what would not be stored, all stays apart.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "forms/joining_passes.h"
#include "forms/list.h"
#include "forms/rules.h"
#include "graph/interp.h"
#include "graph/scalar.h"
#include "graph/text.h"
#include "loop/interp.h"
#include "loop/lower.h"
#include "loop/text.h"
#include "loop/verify.h"
#include "plan/module_passes.h"

namespace aotc::forms {
namespace {

/// A norm, gate and up, and what they are multiplied to. Outputs: those and `more`.
template <class Rows>
std::string gated(const Rows& rows, const std::string& more = "") {
  return fmt::format(R"(graph @m
input %x : float32[{0}, 64] "x"
const %w : float32[48, 64] "w"
const %v : float32[48, 64] "v"
const %s : float32[64] "s"
%sq = mul(%x, %x)
%sum = reduce(%sq) {{kind=sum, dims=[1]}}
%one = reshape(%sum) : float32[{0}, 1]
%r = rsqrt(%one)
%re = expand(%r) : float32[{0}, 64]
%n = mul(%x, %re)
%s1 = reshape(%s) : float32[1, 64]
%se = expand(%s1) : float32[{0}, 64]
%y = mul(%n, %se)
%wt = permute(%w) {{perm=[1, 0]}}
%vt = permute(%v) {{perm=[1, 0]}}
%g = matmul(%y, %wt)
%u = matmul(%y, %vt)
%a = tanh(%g)
%z = mul(%a, %u)
output %z "z"
{1})",
                     rows, more);
}

/// Three heads of eight channels, rotated by positions, the heads outermost. `half`: how far apart the channels of a pair are said to be.
std::string rotated(int rows, int half = 4, const std::string& more = "") {
  return fmt::format(R"(graph @m
input %x : float32[{0}, 64] "x"
input %c : float32[{0}, 8] "cos"
input %s : float32[{0}, 8] "sin"
const %w : float32[24, 64] "w"
%wt = permute(%w) {{perm=[1, 0]}}
%y = matmul(%x, %wt)
%y3 = reshape(%y) : float32[{0}, 3, 8]
%t = permute(%y3) {{perm=[1, 0, 2]}}
%a = slice(%t) {{dim=2, start=0}} : float32[3, {0}, {1}]
%b = slice(%t) {{dim=2, start={1}}} : float32[3, {0}, {2}]
%n = neg(%b)
%r = cat(%n, %a) {{dim=2}}
%c1 = reshape(%c) : float32[1, {0}, 8]
%ce = expand(%c1) : float32[3, {0}, 8]
%s1 = reshape(%s) : float32[1, {0}, 8]
%se = expand(%s1) : float32[3, {0}, 8]
%tc = mul(%t, %ce)
%rs = mul(%r, %se)
%z = add(%tc, %rs)
output %z "z"
{3})",
                     rows, half, 8 - half, more);
}

/// The same of images in one position: rows and heads are one loop.
std::string rotated_images(int rows) {
  return fmt::format(R"(graph @m
input %x : float32[{0}, 64] "x"
input %c : float32[1, 1, 8] "cos"
input %s : float32[1, 1, 8] "sin"
const %w : float32[24, 64] "w"
%wt = permute(%w) {{perm=[1, 0]}}
%y = matmul(%x, %wt)
%t = reshape(%y) : float32[{0}, 3, 8]
%a = slice(%t) {{dim=2, start=0}} : float32[{0}, 3, 4]
%b = slice(%t) {{dim=2, start=4}} : float32[{0}, 3, 4]
%n = neg(%b)
%r = cat(%n, %a) {{dim=2}}
%ce = expand(%c) : float32[{0}, 3, 8]
%se = expand(%s) : float32[{0}, 3, 8]
%tc = mul(%t, %ce)
%rs = mul(%r, %se)
%z = add(%tc, %rs)
output %z "z"
)",
                     rows);
}

/// Three heads of a row as the row of a cache that `at` says; the cache's other rows are 7.
std::string cached(const std::string& at, int rows = 1, const std::string& more = "") {
  return fmt::format(R"(graph @m
input %x : float32[{0}, 64] "x"
const %w : float32[24, 64] "w"
const %at : int64[{0}] "at" = {1}
state %keys : float32[3, 5, 8] "keys" updated %kept = [{2}]
%wt = permute(%w) {{perm=[1, 0]}}
%y = matmul(%x, %wt)
%y3 = reshape(%y) : float32[{0}, 3, 8]
%t = permute(%y3) {{perm=[1, 0, 2]}}
%kept = index_put(%keys, %t, %at) {{dims=[1], out_pos=1, accumulate=false}}
%z = neg(%kept)
output %z "z"
{3})",
                     rows, at, fmt::join(std::vector<int>(120, 7), ", "), more);
}

HostTensor numbers(const TensorType& t, uint64_t& seed) {
  HostTensor h;
  h.dtype = t.dtype;
  for (const Expr& e : t.dims) h.dims.push_back(*e.as_const());
  h.bytes.resize(static_cast<size_t>(h.elems() * dtype_bytes(t.dtype)));
  for (int64_t i = 0; i < h.elems(); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const double v = static_cast<double>(seed >> 11) / 4503599627370496.0 - 1;
    store_f64(t.dtype, &v, h.bytes.data() + i * dtype_bytes(t.dtype), 1);
  }
  return h;
}

double at(const HostTensor& t, int64_t i) {
  double v;
  load_f64(t.dtype, t.bytes.data() + i * dtype_bytes(t.dtype), &v, 1);
  return v;
}

/// The module after the passes, whose results are the graph's.
loop::Module joined(const std::string& text) {
  const Graph g = parse_graph(text, "test");
  const Machine machine = machine_of(std::string("sm_90a"));
  loop::Module m = loop::lower(g, rules_of(machine));
  pair_products(m, {machine, {}});
  finish_mates(m, {machine, {}});
  compute_rows_in_products(m, {machine, {}});
  fuse_puts(m, {machine, {}});
  loop::verify(m, "test");
  const std::string printed = loop::print(m);
  CHECK(loop::print(loop::parse_module(printed, "test")) == printed);
  uint64_t seed = 1;
  std::vector<HostTensor> inputs;
  for (const InputInfo& in : g.inputs) inputs.push_back(numbers(g.type(in.value), seed));
  const auto want = interpret(g, inputs), got = loop::interpret(m, g, inputs);
  REQUIRE(want.size() == got.size());
  for (size_t o = 0; o < want.size(); ++o)
    for (int64_t i = 0; i < want[o].elems(); ++i) REQUIRE(std::fabs(at(want[o], i) - at(got[o], i)) < 1e-4);
  for (const loop::Kernel& k : m.kernels) {
    const std::vector<Candidate> all = candidates({k, m.syms, machine, {}});
    CHECK(!all.empty());
    CHECK(all.front().fit);
  }
  return m;
}

}  // namespace

TEST_CASE("gate and up are one product, in which the norm of one row is computed") {
  const loop::Module m = joined(gated(1));
  REQUIRE(m.calls.size() == 1);
  const auto& k = std::get<loop::MatmulKernel>(m.kernels[m.calls[0].kernel]);
  CHECK(k.twin);
  CHECK(k.a.prologue);
  CHECK(m.buffers.size() == 5);
}

TEST_CASE("sizes with the same joined calls share a list") {
  std::string text = gated("s");
  text.insert(text.find('\n') + 1, "sym s [1, 64]\n");
  const Graph g = parse_graph(text, "test");
  const Machine machine = machine_of(std::string("sm_90a"));
  loop::Module m = loop::lower(g, rules_of(machine));
  m.other_calls.push_back(m.calls);
  SymTable one = m.syms;
  one.edit(*m.syms.find("s")).max = 1;
  const auto first = plan::join_calls_for(m, 0, one, {machine, {}});
  REQUIRE(first == size_t{1});
  CHECK(m.other_calls[1].size() < m.calls.size());
  CHECK(plan::join_calls_for(m, 0, one, {machine, {}}) == first);
  CHECK(!plan::join_calls_for(m, 0, m.syms, {machine, {}}));
  CHECK(m.other_calls.size() == 2);
  loop::verify(m, "test");
}

TEST_CASE("many rows have a norm of their own") {
  const loop::Module m = joined(gated(8));
  CHECK(m.calls.size() == 2);
}

TEST_CASE("what others read is stored") {
  CHECK(joined(gated(1, "output %a \"a\"\n")).calls.size() == 2);
  const loop::Module m = joined(gated(1, "output %y \"y\"\n"));
  CHECK(m.calls.size() == 2);
}

TEST_CASE("a rotation is finished by the product of what it rotates") {
  for (const std::string& graph : {rotated(1), rotated_images(1)}) {
    const loop::Module m = joined(graph);
    REQUIRE(m.calls.size() == 1);
    const auto& k = std::get<loop::MatmulKernel>(m.kernels[m.calls[0].kernel]);
    CHECK(k.segments[0].mates == 4);
    CHECK(m.buffers.size() == 5);
  }
}

TEST_CASE("rows that are several are rotated by a step of their own") {
  CHECK(joined(rotated(3)).calls.size() > 1);
  CHECK(joined(rotated_images(2)).calls.size() > 1);
}

TEST_CASE("the row of a cache is stored there by the product that computes it") {
  for (const char* at : {"[3]", "[0]", "[-1]", "[-5]"}) {
    const loop::Module m = joined(cached(at));
    CHECK(m.calls.size() == 2);
    CHECK(std::holds_alternative<loop::MatmulKernel>(m.kernels[m.calls[0].kernel]));
  }
}

TEST_CASE("several rows, which may name one place, and caches whose old content is read later are written by a step of their own") {
  CHECK(joined(cached("[3, 3]", 2)).calls.size() == 3);
  CHECK(joined(cached("[3]", 1, "%old = exp(%keys)\noutput %old \"old\"\n")).calls.size() > 2);
  CHECK(joined(cached("[3]", 1, "output %t \"t\"\n")).calls.size() > 2);
}

TEST_CASE("what is read elsewhere than in pairs, or by others, is stored") {
  CHECK(joined(rotated(1, 3)).calls.size() > 1);
  CHECK(joined(rotated(1, 4, "output %t \"t\"\n")).calls.size() > 1);
}

}  // namespace aotc::forms
