#include "import/shapes.h"
#include "import/read_archive.h"
#include "support.h"

using namespace aotc;
using namespace aotc::import;
using namespace aotc::import::test;
using Catch::Matchers::Contains;

namespace {

/// inputs x[s0, 4*s1, 8] and y[s0 + s2], s0 in [1, 64], s1 in [1, 16], s2 any
Program sample() {
  Program p;
  p.file = "m.pt2";
  const Expr s0 = Expr::symbol(p.syms.add({.name = "s0", .min = 1, .max = 64}));
  const Expr s1 = Expr::symbol(p.syms.add({.name = "s1", .min = 1, .max = 16}));
  const Expr s2 = Expr::symbol(p.syms.add({.name = "s2"}));
  p.tensors["x"] = {.dtype = DType::f32, .sizes = {s0, s1 * 4, 8}, .strides = {s1 * 32, 8, 1}};
  p.tensors["y"] = {.dtype = DType::f32, .sizes = {s2}, .strides = {1}};
  p.tensors["z"] = {.dtype = DType::f32, .sizes = {s0 * s1}, .strides = {1}};
  p.inputs = {{.kind = InputKind::user, .name = "x"}, {.kind = InputKind::user, .name = "y"}};
  p.outputs = {{.kind = OutputKind::user, .value = TensorRef{"z"}}};
  p.guards = {{ShapeGuard::Kind::le, s2, Expr(100), "a table of 100"}};
  return p;
}

struct Applied {
  Program p = sample();
  std::vector<VariantRange> variants;
  explicit Applied(const std::string& json) : variants(apply_shapes(p, parse_shapes(json, "s.json"))) {}
  std::string sizes(const std::string& name) const { return arg_text(p.tensors.at(name).sizes, p.syms); }
  std::string ranges(size_t i) const {
    std::string out;
    for (const auto& [s, r] : variants.at(i).ranges)
      out +=
          fmt::format("{}:{}-{}/{} ", p.syms[s].name, r.min, r.max.value_or(kInf) == kInf ? "inf" : std::to_string(*r.max), r.multiple_of);
    return out;
  }
};
std::string why(const std::string& json) {
  return refusal([&] { Applied a(json); });
}

}  // namespace

TEST_CASE("without shapes.json the archive's ranges serve") {
  Program p = sample();
  const auto v = apply_shapes(p, std::nullopt);
  REQUIRE(v.size() == 1);
  CHECK(v[0].ranges.size() == 3);
  // A guard on one symbol is its range.
  CHECK(p.guards.empty());
  CHECK(p.syms[p.syms.find("s2").value()].max == 100);
}

TEST_CASE("names are bound, ranges narrowed, numbers fixed") {
  const Applied a(R"({"dims": {"batch": {"max": 32, "tune": [8]}, "width": {"min": 10, "multiple_of": 8}},
                      "inputs": {"x": {"shape": ["batch", "width", 8]}, "y": {"shape": [50]}}})");
  CHECK(a.sizes("x") == "[batch, s1*4, 8]");
  CHECK(a.sizes("y") == "[50]");
  CHECK(a.sizes("z") == "[batch*s1]");
  REQUIRE(a.variants.size() == 1);
  CHECK(a.ranges(0) == "batch:1-32/1 s1:3-16/2 ");
  CHECK(a.p.guards.empty());
  CHECK(a.p.syms[*a.p.syms.find("batch")].tune == std::vector<int64_t>{8});
}

TEST_CASE("one name for two dimensions makes them equal") {
  const Applied a(R"({"inputs": {"x": {"shape": ["n", "m", 8]}, "y": {"shape": ["n"]}}})");
  CHECK(a.sizes("y") == "[n]");
  CHECK(a.ranges(0) == "n:1-64/1 s1:1-16/1 ");
  const Applied b(R"({"inputs": {"x": {"shape": ["n", "n", 8]}}})");
  CHECK(b.sizes("x") == "[s1*4, s1*4, 8]");
  CHECK(b.ranges(0) == "s1:1-16/1 s2:0-100/1 ");
}

TEST_CASE("variants are narrower ranges, the whole comes last") {
  const Applied a(R"({"dims": {"batch": {"max": 16}}, "inputs": {"x": {"shape": ["batch", "width", 8]}, "y": {"shape": [1]}},
                      "variants": [{"batch": 1}, {}, {"batch": {"min": 2, "multiple_of": 2}, "width": 8}]})");
  REQUIRE(a.variants.size() == 3);
  CHECK(a.ranges(0) == "batch:1-1/1 s1:1-16/1 ");
  CHECK(a.ranges(1) == "batch:2-16/2 s1:2-2/1 ");
  CHECK(a.ranges(2) == "batch:1-16/1 s1:1-16/1 ");
}

TEST_CASE("conflicts quote the archive") {
  CHECK_THAT(why(R"({"inputs": {"q": {"shape": []}}})"), Contains("$.inputs.q") && Contains("its inputs: x, y"));
  CHECK_THAT(why(R"({"inputs": {"x": {"shape": [1]}}})"), Contains("1 dimensions, the archive's input has 3"));
  CHECK_THAT(why(R"({"inputs": {"x": {"shape": [65, 4, 8]}}})"), Contains("$.inputs.x.shape[0]") && Contains("s0 (1 to 64)"));
  CHECK_THAT(why(R"({"inputs": {"x": {"shape": [1, 6, 8]}}})"), Contains("6 is not what the archive says: s1*4"));
  CHECK_THAT(why(R"({"inputs": {"x": {"shape": [1, 4, 9]}}})"), Contains("9 is not what the archive says: 8"));
  CHECK_THAT(why(R"({"dims": {"b": {"max": 65}}, "inputs": {"x": {"shape": ["b", 4, 8]}}})"),
             Contains("$.dims.b.max") && Contains("never widened"));
  CHECK_THAT(why(R"({"dims": {"b": {}}})"), Contains("no input uses this dimension"));
  CHECK_THAT(why(R"({"dims": {"c": {"max": 16}}, "inputs": {"x": {"shape": [1, 4, "c"]}}})"), Contains("fixes this dimension at 8"));
  CHECK_THAT(why(R"({"dims": {"b": {"max": 4}}, "inputs": {"x": {"shape": ["b", 4, 8]}}, "variants": [{"b": 5}]})"),
             Contains("$.variants[0].b"));
  CHECK_THAT(why(R"({"inputs": {"y": {"shape": [101]}}})"), Contains("contradict") && Contains("a table of 100"));
  CHECK_THAT(why(R"({"dims": {"w": {"min": 5, "max": 7}}, "inputs": {"x": {"shape": [1, "w", 8]}}})"), Contains("no size is left"));
}
