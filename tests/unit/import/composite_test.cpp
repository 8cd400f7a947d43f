// Operators without a rule of ours, taken apart by LibTorch's own kernels: the parts give what LibTorch gives for the whole.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "decompose/decompose.h"
#include "dense_meta.h"
#include "graph/interp.h"
#include "import/expand.h"
#include "import/operators.h"
#include "import/reference.h"

namespace aotc::import {
namespace {

using Args = std::vector<NamedArg>;

/// A program of one operator, its arguments' defaults from the schema.
struct Maker {
  Program p;
  void input(const std::string& name, std::vector<Expr> dims, DType t = DType::f32) {
    p.tensors[name] = dense_meta(t, std::move(dims));
    p.inputs.push_back({.kind = InputKind::user, .name = name});
  }
  PNode& node(const std::string& target, Args given, std::vector<Arg> results) {
    OpTable ops;
    const OpSchema* schema = ops.find(target);
    REQUIRE(schema);
    PNode n{.name = "call", .target = target, .args = {}, .results = std::move(results), .source = "model.py:7 in forward: call(x)"};
    for (const OpParam& q : schema->params) {
      const auto it = std::find_if(given.begin(), given.end(), [&](const NamedArg& a) { return a.name == q.name; });
      if (it != given.end())
        n.args.push_back(*it);
      else
        n.args.push_back({q.name, q.fallback.value_or(NoneArg{}), true});
    }
    p.nodes.push_back(std::move(n));
    return p.nodes.back();
  }
  void output(const std::string& name) { p.outputs.push_back({.kind = OutputKind::user, .value = TensorRef{name}}); }
};

TensorRef ref(const char* name) { return {name}; }

Graph lower(Program& p, Expander& e) {
  return decompose::decompose(p, [&](Program& program, const std::string& node) { return e.expand(program, node); });
}

std::vector<double> values(const HostTensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.elems(); ++i) {
    const std::byte* at = t.bytes.data() + i * dtype_bytes(t.dtype);
    const auto read = [at]<class E>(E v) {
      std::memcpy(&v, at, sizeof v);
      return static_cast<double>(v);
    };
    out.push_back(t.dtype == DType::f32   ? read(float{})
                  : t.dtype == DType::f64 ? read(double{})
                  : t.dtype == DType::i64 ? read(int64_t{})
                                          : read(uint8_t{}));
  }
  return out;
}

/// Runs the program before and after; the graph's interpreter against LibTorch, every output. Returns the operators it came apart into.
std::vector<std::string> check(const Program& whole) {
  REQUIRE(!decompose::find_unsupported(whole).empty());
  Program parts = whole;
  Expander expander(decompose::has_rule);
  const Graph g = lower(parts, expander);
  REQUIRE(expander.done().size() >= 1);
  CHECK(expander.done()[0].target == whole.nodes.at(0).target);
  CHECK(expander.done()[0].node == "call");
  const std::vector<HostTensor> inputs = make_inputs(whole, {}, 1);
  const std::vector<HostTensor> want = make_reference(whole, {})->run(inputs), got = interpret(g, inputs);
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("output " << i);
    CHECK(got[i].dtype == want[i].dtype);
    REQUIRE(got[i].dims == want[i].dims);
    const std::vector<double> a = values(got[i]), b = values(want[i]);
    for (size_t k = 0; k < a.size(); ++k) {
      INFO("element " << k << ": " << a[k] << " instead of " << b[k]);
      CHECK(std::abs(a[k] - b[k]) <= 1e-5 * std::max(1.0, std::abs(b[k])));
    }
  }
  return expander.done()[0].into;
}

std::string refusal(const Program& p) {
  const auto r = make_tracer(decompose::has_rule)->trace(p, p.nodes.at(0), "call");
  REQUIRE(!r);
  return r.why();
}

bool has(const std::string& text, std::string_view part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an operator of numbers and one tensor comes apart") {
  Maker m;
  m.input("x", {Expr(5), Expr(9)});
  m.node("aten.cov.default", {{"self", ref("x")}}, {ref("c")});
  m.output("c");
  CHECK(check(m.p).size() > 3);
}

TEST_CASE("lists of tensors go in and come out") {
  Maker m;
  m.input("x", {Expr(4), Expr(6)});
  m.node("aten.gradient.scalarint", {{"self", ref("x")}, {"spacing", 0.5}}, {TensorList{ref("gy"), ref("gx")}});
  m.output("gx");
  m.output("gy");
  check(m.p);

  Maker f;
  f.input("x", {Expr(3)});
  f.input("y", {Expr(2), Expr(2)});
  f.node("aten._foreach_mul.Scalar", {{"self", TensorList{ref("x"), ref("y")}}, {"scalar", 2.5}}, {TensorList{ref("a"), ref("b")}});
  f.output("b");
  f.output("a");
  CHECK(check(f.p) == std::vector<std::string>{"aten.mul.Scalar", "aten.mul.Scalar"});
}

TEST_CASE("writes within reach the caller's tensors") {
  Maker m;
  m.input("x", {Expr(4), Expr(4)});
  m.node("aten.fill_diagonal_.default", {{"self", ref("x")}, {"fill_value", 3.0}}, {ref("r")});
  m.output("r");
  m.output("x");
  m.p.outputs.push_back({.kind = OutputKind::user_input_mutation, .value = ref("x"), .target = "x"});
  check(m.p);

  Maker f;  // no result at all
  f.input("x", {Expr(3)});
  f.input("y", {Expr(2), Expr(2)});
  f.node("aten._foreach_add_.Scalar", {{"self", TensorList{ref("x"), ref("y")}}, {"scalar", 2.5}}, {});
  f.p.outputs.push_back({.kind = OutputKind::user_input_mutation, .value = ref("x"), .target = "x"});
  f.p.outputs.push_back({.kind = OutputKind::user_input_mutation, .value = ref("y"), .target = "y"});
  check(f.p);
}

TEST_CASE("tensors made from numbers within become constants") {
  Maker m;
  m.input("x", {Expr(6)});
  m.node("aten.fft_fftfreq.default", {{"n", Expr(6)}, {"d", 0.25}}, {ref("f")});
  m.output("f");
  m.output("x");
  check(m.p);
}

TEST_CASE("complex tensors within") {
  Maker m;
  m.input("x", {Expr(2), Expr(8)});
  m.p.tensors["c"] = {.dtype = DType::c64, .sizes = {Expr(2), Expr(5)}, .strides = {Expr(5), Expr(1)}, .storage_offset = 0};
  m.p.tensors["r"] = {
      .dtype = DType::f32, .sizes = {Expr(2), Expr(5), Expr(2)}, .strides = {Expr(10), Expr(2), Expr(1)}, .storage_offset = 0};
  m.node("aten.fft_ihfft2.default", {{"self", ref("x")}}, {ref("c")});
  m.p.tensors["resolved"] = m.p.tensors["c"];
  m.node("aten.resolve_conj.default", {{"self", ref("c")}}, {ref("resolved")}).name = "resolved";
  m.node("aten.view_as_real.default", {{"self", ref("resolved")}}, {ref("r")}).name = "r";
  m.output("r");
  check(m.p);
}

TEST_CASE("symbolic sizes are refused, and the reason says so") {
  Maker m;
  const SymId s = m.p.syms.add({.name = "batch", .min = 1, .max = 8});
  m.input("x", {Expr::symbol(s), Expr(9)});
  m.node("aten.cov.default", {{"self", ref("x")}}, {ref("c")});
  m.output("c");
  const std::string why = refusal(m.p);
  CHECK(has(why, "symbolic"));
  CHECK(has(why, "batch"));
  Expander expander(decompose::has_rule);
  const size_t nodes = m.p.nodes.size();
  try {
    lower(m.p, expander);
    FAIL("decomposed");
  } catch (const Diagnostic& d) {
    CHECK(d.code() == ExitCode::unsupported);
    CHECK(has(d.what(), "aten.cov.default"));
    CHECK(has(d.what(), "batch"));
    CHECK(has(d.what(), "model.py:7"));
  }
  CHECK(m.p.nodes.size() == nodes);
}

TEST_CASE("kernels that ask for values are refused") {
  Maker classes;  // the number of classes is the largest value plus one
  classes.input("x", {Expr(5)}, DType::i64);
  classes.node("aten.one_hot.default", {{"self", ref("x")}, {"num_classes", Expr(-1)}}, {ref("r")});
  CHECK(has(refusal(classes.p), "depend"));

  Maker places;
  places.input("x", {Expr(5)});
  places.input("i", {Expr(2)}, DType::i64);
  places.node("aten.tensor_split.tensor_indices_or_sections", {{"self", ref("x")}, {"tensor_indices_or_sections", ref("i")}},
              {TensorList{ref("a"), ref("b"), ref("c")}});
  CHECK(!refusal(places.p).empty());
}

TEST_CASE("what a kernel fills past the dispatcher is refused") {
  Maker m;
  m.input("x", {Expr(5)});
  m.node("aten.frexp.Tensor", {{"self", ref("x")}}, {ref("mantissa"), ref("exponent")});
  CHECK(!refusal(m.p).empty());
}

TEST_CASE("a write that no operator of the kernel does is not lost") {
  Maker m;
  m.input("x", {Expr(5)});
  m.input("y", {Expr(5)});
  m.node("aten.copy_.default", {{"self", ref("x")}, {"src", ref("y")}}, {ref("r")});
  Expander expander(decompose::has_rule);
  CHECK(!expander.expand(m.p, "call"));
}

TEST_CASE("an operator whose kernel ends in itself stays as it is") {
  Maker m;
  m.input("x", {Expr(5)});
  m.node("aten.special_bessel_j0.default", {{"self", ref("x")}}, {ref("r")});
  m.output("r");
  Expander expander(decompose::has_rule);
  CHECK_THROWS_AS(lower(m.p, expander), Diagnostic);
  CHECK(expander.done().empty());
}

TEST_CASE("random numbers within are refused") {
  Maker m;
  m.input("x", {Expr(5)});
  m.node("aten.normal.float_float", {{"mean", 0.0}, {"std", 1.0}, {"size", std::vector<Expr>{4}}}, {ref("r")});
  CHECK(has(refusal(m.p), "random"));
}

TEST_CASE("operators that are missing within are all named") {
  Maker m;
  m.input("x", {Expr(5), Expr(5)});
  m.node("aten.linalg_ldl_factor.default", {{"self", ref("x")}}, {ref("factors"), ref("pivots")});
  const auto none = make_tracer([](const std::string&, bool) { return false; });
  CHECK(!none->trace(m.p, m.p.nodes[0], "call"));
  CHECK(has(refusal(m.p), "aten.linalg_ldl_factor_ex.default"));
}

TEST_CASE("a part that is refused names the user's operator and line") {
  Maker m;
  m.input("x", {Expr(4), Expr(3), Expr(8)});
  m.node("aten.instance_norm.default",
         {{"input", ref("x")}, {"use_input_stats", true}, {"momentum", 0.1}, {"eps", 1e-5}, {"cudnn_enabled", false}}, {ref("r")});
  m.output("r");
  // A compiler whose only rules are those for views: what instance_norm is made of is not among them.
  const auto few = make_tracer(
      [](const std::string& target, bool) { return target == "aten.batch_norm.default" || decompose::has_rule(target, false); });
  const auto r = few->trace(m.p, m.p.nodes[0], "call");
  REQUIRE(r);
  bool found = false;
  for (const PNode& n : r->nodes) {
    CHECK(has(n.source, "model.py:7"));
    CHECK(has(n.source, "in the expansion of aten.instance_norm.default"));
    CHECK(n.name.rfind("call.", 0) == 0);
    found |= n.target == "aten.batch_norm.default";
  }
  CHECK(found);
}

}  // namespace aotc::import
