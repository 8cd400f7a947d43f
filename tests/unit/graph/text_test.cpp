#include "graph/text.h"

#include <catch2/catch.hpp>

#include "graph/builder.h"
#include "graph/infer.h"
#include "graph/verify.h"

using namespace aotc;

namespace {

const char kEverything[] = R"graph(graph @everything
sym batch [1, 64] multiple_of 2 tune [2, 8]
sym len [0, inf]
input %x : float32[batch, 8] "args[0]"
input %ids : int64[len] "kwargs['ids'].0" name "input.ids:0"
const %fc.weight : float32[8, 4] "fc.weight"
const %small : float32[4] "a \"quoted\" name" = [1, -2.5, inf, nan]
const %flags : bool[2] "flags" = [true, false]
const %empty : int64[0] "empty"
state %cache : float32[2, 4] "cache" updated %12 = [0, 0, 0, 0, 1, 1, 1, 1]
guard le len, batch*64 "ids fit"
%0 = matmul(%x, %fc.weight) : float32[batch, 4] @linear "model.py:3 in forward: self.fc(x)"
%1 = reshape(%small) : float32[1, 4]
%2 = expand(%1) : float32[batch, 4]
%3 = add(%0, %2) : float32[batch, 4]
%4 = full() {value=0.0} : float32[batch, 4]
%5 = maximum(%3, %4) : float32[batch, 4]
%6, %7 = topk(%5) {dim=1, k=2, largest=true, sorted=true} : float32[batch, 2], int64[batch, 2]
%8 = slice(%x) {dim=0, start=floordiv(batch, 2), step=1} : float32[floordiv(batch, 2), 8]
%9 = pad(%5) {lo=[1, 0], value=-inf} : float32[batch + 1, 4]
%10 = sym() {expr=batch*len} : int64[]
%11 = reduce(%6) {kind=max, dims=[1]} : float32[batch]
%12 = add(%cache, %cache) : float32[2, 4]
%13 = scatter(%5, %7, %6) {dim=1, reduce=sum, include_self=true} : float32[batch, 4]
output %13 "y" tree "[0]"
output %8 "half"
output %9 "padded"
output %10 "n"
output %11 "best" alias_input 0
output %flags "f" gradient_of "fc.weight"
output %empty "e"
)graph";

std::string error_of(const std::string& body) {
  try {
    parse_graph("graph @m\nsym b [1, 8]\nsym s [1, 8]\ninput %x : float32[b, 4] \"\"\ninput %i : int64[b] \"\"\n" + body, "bad.graph");
  } catch (const std::exception& e) { return e.what(); }
  return "no error";
}

}  // namespace

TEST_CASE("printing what was parsed gives the same text") {
  const Graph g = parse_graph(kEverything, "everything.graph");
  CHECK(print(g, {true}) == kEverything);
  CHECK(g.inputs[1].name == "input.ids:0");
  CHECK(g.inputs[1].tree_path == "kwargs['ids'].0");
  CHECK(g.syms[SymId{0}].multiple_of == 2);
  CHECK(g.constants.size() == 5);  // and the state's content
}

TEST_CASE("values are numbered in text order, and names made unique") {
  Graph g;
  Builder b(g);
  const ValueId x = g.add_input("x", {DType::f32, {4}});
  b.unary(Op::exp, x);  // the second use of ids does not shift the numbers
  g.nodes[g.order.back()].dead = true;
  g.compact();
  const ValueId c1 = b.constant({"w 1", {DType::f32, {0}}, nullptr, nullptr, 0}),
                c2 = b.constant({"w/1", {DType::f32, {0}}, nullptr, nullptr, 0});
  const ValueId y = b.cat({x, c1, c2}, 0);
  g.outputs.push_back({"y", y, "", -1});
  const std::string text = print(g);
  CHECK(text.find("%0 = cat(%x, %w_1, %w_1_1) {dim=0} : float32[4]") != std::string::npos);
  CHECK(print(parse_graph(text, "t")) == text);
}

TEST_CASE("inputs and outputs that are complex to the caller") {
  const std::string text =
      "graph @model\n"
      "input %z : float32[3, 2] \"\" complex\n"
      "%0 = neg(%z) : float32[3, 2]\n"
      "output %0 \"y\" complex\n";
  const Graph g = parse_graph(text, "t");
  CHECK(print(g) == text);
  CHECK(g.type(g.inputs[0]) == TensorType{DType::c64, {3}});
  CHECK(g.type(g.outputs[0]) == TensorType{DType::c64, {3}});
  Graph odd = g;
  odd.outputs[0].complex = false;
  CHECK(odd.type(odd.outputs[0]) == TensorType{DType::f32, {3, 2}});
  Graph wrong;
  wrong.add_input("x", {DType::f32, {3}});
  wrong.inputs[0].complex = true;
  CHECK_THROWS(verify(wrong, "the test"));
}

TEST_CASE("errors say the line and what was expected") {
  CHECK(error_of("%0 = nope(%x)") == "bad.graph: 6:6: unknown operator 'nope'\n  note: the line is: %0 = nope(%x)");
  struct Row {
    const char *body, *want;
  };
  const Row rows[] = {
      {"%0 = exp(%y)", "%y is not defined"},
      {"%x = exp(%x)", "%x is defined twice"},
      {"%0 = exp(%x) {colour=1}", "unknown attribute 'colour'"},
      {"%0 = exp(%x) junk", "unexpected text"},
      {"%0 = exp(%x, %x)", "takes 1 inputs, has 2"},
      {"%0 = exp(%i)", "does not take int64"},
      {"%0 = add(%x, %i)", "operand types differ"},
      {"%0 = cast(%x)", "needs its result type given"},
      {"%0 = reshape(%x) : float32[b, 5]", "element count"},
      {"%0 = reshape(%x) : float32[s, 4]", "needs a guard"},
      {"%0 = permute(%x) {perm=[0, 0]}", "not a permutation"},
      {"%0 = expand(%x) : float32[b, 8]", "a dim that is not 1"},
      {"%0 = slice(%x) {dim=1, start=2} : float32[b, 3]", "slice end"},
      {"%0 = slice(%x) {dim=2, start=2} : float32[b, 3]", "dim 2 is not within rank 2"},
      {"%0 = reduce(%x) {kind=sum, dims=[1, 0]}", "increasing"},
      {"%0 = reduce(%x) {kind=mean, dims=[1]}", "unknown reduction kind"},
      {"%0 = matmul(%x, %x)", "inner dim"},
      {"%0 = index(%x, %x) {dims=[0]}", "indices must be int64"},
      {"%0 = exp(%x) : float64[b, 4]", "the result is float32, not float64"},
      {"%0 = where(%x, %x, %x)", "condition is not bool"},
      {"%0 = conv(%x, %x)", "rank 3, 4 or 5"},
      {"%0 = full() {value=1} : float32[unknown]", "unknown"},
      {"const %c : int64[2] \"c\" = [1, 2, 3]", "too many elements"},
      {"const %c : int64[-2] \"c\"", "dims must be numbers"},
      {"const %c : int64[999999999, 999999999, 999999999] \"c\"", "too large"},
      {"output %x \"y\" alias_input 7", "aliases an input that does not exist"},
      {"output %q \"y\"", "%q is not defined"},
      {"hello", "expected graph, sym"},
  };
  for (const Row& r : rows) {
    INFO(r.body);
    CHECK_THAT(error_of(r.body), Catch::Contains(r.want));
  }
}

TEST_CASE("types are inferred where the text leaves them out") {
  const Graph g = parse_graph(R"(graph @m
sym b [1, 8]
input %x : float32[b, 3, 9, 8] ""
const %w : float32[6, 1, 3, 3] "w"
const %t : float32[3, 2, 3, 3] "t"
const %i : int64[5, 2] "i"
const %q : float32[2, 4, 7, 16] "q"
const %k : float32[2, 2, 5, 16] "k"
const %v : float32[2, 2, 5, 8] "v"
%0 = conv(%x, %w) {stride=[2, 1], padding=[1, 0], padding_hi=[0, 0], groups=3}
%1 = conv_transpose(%x, %t) {stride=[2, 2], output_padding=[1, 0]}
%2 = index(%x, %i) {dims=[2], out_pos=0}
%3 = index(%x, %i, %i) {dims=[1, 3], out_pos=1}
%4 = attention(%q, %k, %v) {scale=0.25}
%5 = reduce(%x) {kind=argmax, dims=[1, 3]}
%6 = permute(%x) {perm=[3, 0, 2, 1]}
%7 = cat(%x, %x) {dim=0}
%8 = gt(%x, %x)
output %0 "a"
)",
                              "test");
  const char* want[] = {
      "float32[b, 6, 4, 6]", "float32[b, 2, 20, 17]", "float32[5, 2, b, 3, 8]", "float32[b, 5, 2, 9]", "float32[2, 4, 7, 8]",
      "int64[b, 9]",         "float32[8, b, 9, 3]",   "float32[b*2, 3, 9, 8]",  "bool[b, 3, 9, 8]",
  };
  size_t i = 0;
  for (NodeId n : g.order) CHECK(print(g.type(g.nodes[n].outputs[0]), g.syms) == want[i++]);
}

TEST_CASE("the builder folds trivial views and records guards for what is not proved") {
  Graph g;
  Builder b(g);
  const SymId s = g.syms.add({"s", SymKind::shape, 1, 64}), t = g.syms.add({"t", SymKind::shape, 1, 64});
  const Expr es = Expr::symbol(s), et = Expr::symbol(t);
  const ValueId x = g.add_input("x", {DType::f32, {es, 6}}), y = g.add_input("y", {DType::f32, {et, 6}});
  CHECK(b.reshape(b.reshape(x, {es * 6}), {es, 6}) == x);
  CHECK(b.transpose(b.transpose(x, 0, 1), -1, -2) == x);
  CHECK(b.slice(x, 1, 0, 6) == x);
  CHECK(b.cast(x, DType::f32) == x);
  CHECK(b.expand(x, {es, 6}) == x);
  CHECK(b.cat({x}, 0) == x);
  CHECK(b.pad(x, {0, 0}, {0, 0}, 1) == x);
  CHECK(b.rank(b.expand(x, {2, es, 6})) == 3);
  CHECK(b.dims(b.select(x, 1, 3)) == Exprs{es});
  CHECK(b.dims(b.reduce_keep(ReduceKind::sum, x, {-1})) == Exprs{es, 1});
  CHECK(b.dims(b.squeeze(b.unsqueeze(x, -1), 2)) == Exprs{es, 6});
  CHECK(g.guards.empty());
  b.binary(Op::add, x, y);
  REQUIRE(g.guards.size() == 1);
  CHECK(g.guards[0].kind == ShapeGuard::Kind::eq);
  b.binary(Op::mul, x, y);
  CHECK(g.guards.size() == 1);
  CHECK_THROWS_AS(b.binary(Op::add, x, b.slice(x, 1, 0, 4)), InternalError);
  for (const InputInfo& in : g.inputs) g.outputs.push_back({in.name, in.value, "", -1});
  verify(g, "building");
  g.guards.clear();
  CHECK_THROWS_WITH(verify(g, "my_pass"), Catch::Contains("my_pass") && Catch::Contains("guard"));
}

TEST_CASE("compact restores the order after late nodes and drops erased ones") {
  Graph g;
  Builder b(g);
  const ValueId x = g.add_input("x", {DType::f32, {4}});
  const ValueId e = b.unary(Op::exp, x), n = b.unary(Op::neg, e), s = b.unary(Op::sin, x);
  g.outputs.push_back({"y", n, "", -1});
  g.replace_all_uses(e, s);
  g.nodes[g.values[e].node].dead = true;
  CHECK_THROWS_AS(verify(g, "x"), InternalError);
  g.compact();
  verify(g, "x");
  CHECK(g.order.size() == 2);
  CHECK(g.users()[idx(s)] == std::vector<NodeId>{g.values[n].node});
  CHECK(g.users()[idx(n)] == std::vector<NodeId>{kNone<NodeId>});
}
