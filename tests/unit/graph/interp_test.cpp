#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "graph/builder.h"
#include "graph/text.h"
#include "host_tensors.h"

using namespace aotc;
using test::tensor;
using test::values;

namespace {

double tolerance(DType t) {
  switch (t) {
    case DType::f64: return 1e-13;
    case DType::f32: return 2e-6;
    case DType::f16: return 2e-3;
    case DType::bf16: return 1.6e-2;
    default: return 0;
  }
}

}  // namespace

// torch_cases.graph is written by make_torch_cases.py: outputs come in pairs of ours and PyTorch's.
TEST_CASE("every operator gives what PyTorch gives") {
  std::ifstream file(std::string(AOTC_TEST_DIR) + "/unit/graph/torch_cases.graph");
  std::stringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) {
    const size_t end = std::min(text.find("---\n", at), text.size());
    const Graph g = parse_graph(std::string_view(text).substr(at, end - at), "torch_cases.graph");
    at = end + 4;
    const std::vector<HostTensor> out = interpret(g, {});
    INFO(g.name);
    for (size_t i = 0; i + 1 < out.size(); i += 2) {
      REQUIRE(out[i].dtype == out[i + 1].dtype);
      REQUIRE(out[i].dims == out[i + 1].dims);
      const std::vector<double> ours = values(out[i]), theirs = values(out[i + 1]);
      for (size_t j = 0; j < ours.size(); ++j) {
        INFO("element " << j << ": " << ours[j] << " and " << theirs[j]);
        CHECK(test::close(ours[j], theirs[j], tolerance(out[i].dtype)));
      }
    }
  }
  CHECK(count > 300);
}

TEST_CASE("symbols are bound from the inputs' dims and guards are checked") {
  const Graph g = parse_graph(R"(graph @m
sym b [1, 8]
sym s [1, inf]
input %x : float32[b, 2*s] ""
guard eq b, s "square"
%0 = sym() {expr=b + s}
%1 = reshape(%x) : float32[2*b*s]
output %0 "n"
output %1 "y"
)",
                              "test");
  const std::vector<HostTensor> out = interpret(g, {tensor(DType::f32, {2, 4}, {0, 1, 2, 3, 4, 5, 6, 7})});
  CHECK(values(out[0]) == std::vector<double>{4});
  CHECK(out[1].dims == std::vector<int64_t>{8});
  CHECK_THROWS_AS(interpret(g, {tensor(DType::f32, {1, 4}, {0, 1, 2, 3})}), Diagnostic);
}

TEST_CASE("f64 mode rounds nothing; otherwise every node rounds to its type") {
  const Graph g = parse_graph(R"(graph @m
input %x : bfloat16[1] ""
const %c : bfloat16[1] "c" = [0.00390625]
%0 = add(%x, %c)
%1 = sub(%0, %x)
output %1 "y"
)",
                              "test");
  const std::vector<HostTensor> in = {tensor(DType::bf16, {1}, {4})};
  CHECK(values(interpret(g, in)[0]) == std::vector<double>{0});
  const HostTensor exact = interpret(g, in, {true})[0];
  CHECK(exact.dtype == DType::f64);
  CHECK(values(exact) == std::vector<double>{0.00390625});
}

TEST_CASE("states give their initial content and their update") {
  const Graph g = parse_graph(R"(graph @m
input %x : int64[2] ""
state %s : int64[2] "count" updated %0 = [5, 6]
%0 = add(%s, %x)
output %s "old"
)",
                              "test");
  const std::vector<HostTensor> out = interpret(g, {tensor(DType::i64, {2}, {1, 2})});
  CHECK(values(out[0]) == std::vector<double>{5, 6});
  CHECK(values(out[1]) == std::vector<double>{6, 8});
}

TEST_CASE("an index out of range is an error of the run") {
  const Graph g = parse_graph(R"(graph @m
input %i : int64[1] ""
const %c : float32[3] "c" = [1, 2, 3]
%0 = index(%c, %i) {dims=[0], out_pos=0} @lookup
output %0 "y"
)",
                              "test");
  CHECK(values(interpret(g, {tensor(DType::i64, {1}, {-1})})[0]) == std::vector<double>{3});
  CHECK_THROWS_WITH(interpret(g, {tensor(DType::i64, {1}, {3})}), Catch::Contains("lookup") && Catch::Contains("out of range"));
}

TEST_CASE("a row that attends nowhere gives zeros") {
  const Graph g = parse_graph(R"(graph @m
const %q : float32[1, 1, 2, 1] "q" = [1, 1]
const %k : float32[1, 1, 2, 1] "k" = [1, 2]
const %v : float32[1, 1, 2, 1] "v" = [3, 4]
const %m : bool[1, 1, 2, 2] "m" = [false, false, true, false]
%0 = attention(%q, %k, %v, %m) {scale=1.0}
output %0 "y"
)",
                              "test");
  CHECK(values(interpret(g, {})[0]) == std::vector<double>{0, 3});
}

TEST_CASE("a sink takes its share of a row's weights and gives nothing") {
  const Graph g = parse_graph(R"(graph @m
const %q : float32[1, 2, 2, 1] "q" = [0, 0, 0, 0]
const %k : float32[1, 1, 2, 1] "k" = [1, 2]
const %v : float32[1, 1, 2, 1] "v" = [3, 4]
const %m : bool[1, 1, 2, 2] "m" = [false, false, true, false]
const %s : float32[1, 2, 1, 1] "s" = [0, -inf]
%0 = attention(%q, %k, %v, %m, %s) {scale=1.0, sinks=true}
output %0 "y"
)",
                              "test");
  CHECK(values(interpret(g, {})[0]) == std::vector<double>{0, 1.5, 0, 3});
}
