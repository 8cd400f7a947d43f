// Generated prologues, called on pieces of the operand as a product does, against plain loops.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "aotc/detail/library_abi.h"
#include "emit/cpu/loop_call.h"
#include "emit/cpu/module.h"
#include "graph/text.h"
#include "harness.h"
#include "loop/lower.h"

using namespace aotc;
using namespace aotc::test;

namespace {

constexpr int64_t kBatch = 2, kRows = 5;

/// relu(cat(x, y)) * s, of batch, row and column; x has 37 columns, y 20.
const char* kGraph = R"(graph @test
sym S [1, 64]
input %x : float32[2, S, 37] "x"
input %y : int8[2, S, 20] "y"
input %s : float32[2, S, 1] "s"
input %w : float32[2, 57, 100] "w"
%f = cast(%y) : float32[2, S, 20]
%c = cat(%x, %f) {dim=2} : float32[2, S, 57]
%r = relu(%c) : float32[2, S, 57]
%se = expand(%s) : float32[2, S, 57]
%m = mul(%r, %se) : float32[2, S, 57]
%o = matmul(%m, %w) : float32[2, S, 100]
output %o "o"
)";

}  // namespace

TEST_CASE("prologue over pieces") {
  const Graph g = parse_graph(kGraph, "test.graph");
  const Module m = lower(g);
  REQUIRE(m.kernels.size() == 1);
  const Kernel& kernel = m.kernels.raw()[0];
  const auto& mm = std::get<MatmulKernel>(kernel);
  REQUIRE(mm.a.prologue);
  std::mt19937 rng(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(kBatch * kRows * 37), s(kBatch * kRows), w(kBatch * 57 * 100);
  std::vector<int8_t> y(kBatch * kRows * 20);
  for (auto* v : {&x, &s, &w})
    for (float& e : *v) e = normal(rng);
  for (int8_t& e : y) e = static_cast<int8_t>(rng());
  std::vector<void*> ptr;
  for (BufferId b : m.calls[0].args) {
    const std::string& name = m.buffers[b].name;
    const std::map<std::string, void*> data = {{"x", x.data()}, {"y", y.data()}, {"s", s.data()}, {"w", w.data()}, {"o", nullptr}};
    ptr.push_back(data.at(name));
  }
  REQUIRE(emit::cpu::attached_symbols(kernel).size() == 1);
  std::vector<int64_t> size(AOTC_GEMM_SIZES + 2, 0);
  size.push_back(kRows);
  volatile int32_t fault = 0;
  const aotc_kargs args{ptr.data(), size.data(), nullptr, nullptr, 0, 1, &fault};
  for (Isa isa : loop_isas()) {
    if (!runs_here(isa)) continue;
    const auto units = emit::cpu::emit_module(m, {isa});
    REQUIRE(units.size() == 1);
    CompiledUnit lib(units[0].source, isa);
    const auto fn = reinterpret_cast<aotc_prologue_fn>(lib.symbol(emit::cpu::attached_function(mm.name, attached(kernel).at(0), isa)));
    REQUIRE(fn);
    constexpr int64_t kLd = 64;
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t r0 = 0; r0 < kRows; r0 += 2)
        for (int64_t c0 = 0; c0 < 57; c0 += 25) {
          const int64_t rows = std::min<int64_t>(2, kRows - r0), cols = std::min<int64_t>(25, 57 - c0);
          std::vector<float> dst(2 * kLd, -77);
          fn(&args, b, r0, rows, c0, cols, dst.data(), kLd);
          for (int64_t i = 0; i < 2; ++i)
            for (int64_t j = 0; j < kLd; ++j) {
              const float got = dst[static_cast<size_t>(i * kLd + j)];
              if (i >= rows || j >= cols) {
                REQUIRE(got == -77);  // nothing is written beyond the piece
                continue;
              }
              const size_t row = static_cast<size_t>(b * kRows + r0 + i), c = static_cast<size_t>(c0 + j);
              const float element = c < 37 ? x[row * 37 + c] : static_cast<float>(y[row * 20 + c - 37]);
              REQUIRE(std::abs(got - std::max(element, 0.0f) * s[row]) <= 1e-6f * std::abs(element * s[row]));
            }
        }
  }
  CHECK(fault == 0);
}
