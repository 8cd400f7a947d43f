// What the build says where operators take sizes from the archive's ranges.
#include <catch2/catch.hpp>

#include "decompose/decompose.h"
#include "dense_meta.h"

using namespace aotc;
using namespace aotc::import;

namespace {

/// x[3, n], reflected by 5 on one side; n: 2 to 64, as exported.
Program reflected(int64_t exported) {
  Program p;
  p.file = "m.pt2";
  const SymId n = p.syms.add({.name = "n", .min = 2, .max = 64, .exported = exported});
  p.tensors["x"] = dense_meta(DType::f32, {Expr(3), Expr::symbol(n)});
  p.tensors["y"] = dense_meta(DType::f32, {Expr(3), Expr::symbol(n) + 5});
  p.inputs.push_back({.kind = InputKind::user, .name = "x"});
  p.nodes.push_back({.name = "y",
                     .target = "aten.reflection_pad1d.default",
                     .args = {{"self", TensorRef{"x"}}, {"padding", std::vector<Expr>{5, 0}}},
                     .results = {TensorRef{"y"}},
                     .source = "model.py:7 in forward"});
  p.outputs.push_back({.kind = OutputKind::user, .value = TensorRef{"y"}});
  return p;
}

const decompose::Expand kNothing = [](Program&, const std::string&) { return refuse("nothing is expanded"); };

}  // namespace

TEST_CASE("what narrows a range is told with its node and line") {
  Program p = reflected(8);
  std::vector<std::string> lines;
  const Graph g = decompose::decompose(p, kNothing, &lines);
  CHECK(g.syms[*g.syms.find("n")].min == 6);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] ==
        "the artifact takes n of 6 to 64, the archive takes 2 to 64: y (aten.reflection_pad1d.default) needs 6 <= n; from model.py:7 in "
        "forward");
}

TEST_CASE("what the archive itself says about a range is not told again") {
  Program p = reflected(8);
  p.guards.push_back({ShapeGuard::Kind::le, 6, Expr::symbol(*p.syms.find("n")), "the archive's"});
  std::vector<std::string> lines;
  decompose::decompose(p, kNothing, &lines);
  CHECK(lines.empty());
}

TEST_CASE("an operator that does not take the sizes of the example is an error") {
  Program p = reflected(4);
  try {
    decompose::decompose(p, kNothing);
    FAIL("it was taken");
  } catch (const Diagnostic& d) {
    CHECK(d.code() == ExitCode::unsupported);
    CHECK(d.loc().node == "y");
    CHECK(d.message() ==
          "aten.reflection_pad1d.default: cannot be compiled for the sizes of the archive's own example (n = 4): it needs 6 <= n");
  }
  // Sizes that a user took from the range are no example.
  Program narrower = reflected(4);
  narrower.syms.edit(*narrower.syms.find("n")).min = 5;
  std::vector<std::string> lines;
  decompose::decompose(narrower, kNothing, &lines);
  CHECK(lines.size() == 1);
}
