// What the layouts are chosen by: the estimate of a convolution in each form that the graph may give it is that of the kernel which
// lowering makes of that form, without its epilogue; what no form takes is infinite.
#include "forms/layout.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "forms/list.h"
#include "graph/text.h"
#include "loop/lower.h"

namespace aotc::forms {
namespace {

struct Case {
  const char *n, *dtype, *w;  ///< w: "const" or "input"
  int64_t c, co, side, kernel, stride, groups;
  bool pixels() const { return kernel == 1 && stride == 1 && groups == 1; }
  int64_t out() const { return (side + 2 * (kernel / 2) - kernel) / stride + 1; }
};
constexpr Case kCases[] = {
    {"2", "float32", "const", 32, 64, 14, 3, 1, 1},  {"2", "float32", "const", 32, 64, 14, 1, 1, 1},
    {"n", "float32", "const", 32, 64, 14, 3, 2, 1},  {"n", "float32", "const", 24, 40, 14, 1, 1, 1},
    {"1", "float32", "input", 17, 5, 9, 3, 1, 1},    {"n", "float32", "input", 64, 64, 7, 1, 1, 1},
    {"1", "float32", "const", 48, 48, 14, 5, 1, 48}, {"2", "float32", "const", 48, 96, 14, 3, 1, 4},
    {"1", "bfloat16", "const", 32, 64, 14, 3, 1, 1}, {"1", "float64", "const", 32, 32, 14, 1, 2, 1},
    {"n", "float16", "const", 3, 64, 56, 7, 2, 1},
};

std::string text(const Case& c, ConvAs as) {
  const bool last = as != ConvAs::channels_first;
  const int64_t pad = c.kernel / 2, out = c.out();
  const auto image = [&](int64_t channels, int64_t side) {
    return last ? fmt::format("{}[{}, {}, {}, {}]", c.dtype, c.n, side, side, channels)
                : fmt::format("{}[{}, {}, {}, {}]", c.dtype, c.n, channels, side, side);
  };
  std::string t = "graph @m\nsym n [1, 64]\n";
  t += fmt::format("input %x : {} \"x\"\n{} %w : {}[{}, {}, {}, {}] \"w\"\n", image(c.c, c.side), c.w, c.dtype, c.co, c.c / c.groups,
                   c.kernel, c.kernel);
  if (as == ConvAs::product)
    t += fmt::format(
        "%r = reshape(%x) : {0}[{1}*{2}, {3}]\n%v = reshape(%w) : {0}[{4}, {3}]\n%p = permute(%v) {{perm=[1, 0]}}\n%m = matmul(%r, %p) : "
        "{0}[{1}*{2}, {4}]\n%y = reshape(%m) : {5}\n",
        c.dtype, c.n, c.side * c.side, c.c, c.co, image(c.co, out));
  else
    t += fmt::format("%y = conv(%x, %w) {{stride=[{0}, {0}], padding=[{1}, {1}], groups={2}{3}}}\n", c.stride, pad, c.groups,
                     last ? ", channels_last=true" : "");
  return t + "output %y \"y\"\n";
}

/// Of the contraction of a graph that has one.
double kernel_ns(const std::string& text, const Machine& machine) {
  const loop::Module m = loop::lower(parse_graph(text, "m"));
  for (loop::Kernel k : m.kernels) {
    if (auto* conv = std::get_if<loop::ConvKernel>(&k))
      conv->epilogue = {};
    else if (auto* product = std::get_if<loop::MatmulKernel>(&k))
      product->segments.at(0).epilogue = {};
    else if (!std::holds_alternative<loop::AttentionKernel>(k))
      continue;
    return candidates({k, m.syms, machine, {}}).at(0).cost_ns;
  }
  FAIL("no contraction in\n" << text);
  return 0;
}

double estimate(const Case& c, ConvAs as, const Machine& machine) {
  const Graph g = parse_graph(text(c, ConvAs::channels_first), "m");
  for (NodeId id : g.order)
    if (g.nodes[id].op == Op::conv) return conv_costs({machine, {}})(g, g.nodes[id], as);
  FAIL("no convolution");
  return 0;
}

}  // namespace

TEST_CASE("the estimate of a convolution's layout is the cost of the kernel that it becomes") {
  for (Isa isa : isas_of(~0u))
    for (int threads : {1, 4}) {
      const Machine machine = machine_of(isa, threads);
      for (const Case& c : kCases)
        for (ConvAs as : {ConvAs::channels_first, ConvAs::channels_last, ConvAs::product}) {
          if (as == ConvAs::product && !c.pixels()) continue;
          INFO(isa_name(isa) << " " << threads << "\n" << text(c, as));
          const double ns = estimate(c, as, machine);
          CHECK(std::isfinite(ns));
          CHECK(ns > 0);
          CHECK(ns == Approx(kernel_ns(text(c, as), machine)));
        }
    }
}

TEST_CASE("the estimate of a contraction in a type is the cost of the kernel that it becomes") {
  const char* texts[] = {
      "input %a : {0}[48, 256] \"a\"\nconst %w : {0}[512, 256] \"w\"\n%t = permute(%w) {{perm=[1, 0]}}\n%y = matmul(%a, %t) : {0}[48, "
      "512]\n",
      "input %a : {0}[2, 3, 40, 64] \"a\"\ninput %b : {0}[2, 3, 64, 50] \"b\"\n%y = matmul(%a, %b) : {0}[2, 3, 40, 50]\n",
      "input %q : {0}[2, 4, 33, 32] \"q\"\ninput %k : {0}[2, 2, 47, 32] \"k\"\ninput %v : {0}[2, 2, 47, 32] \"v\"\n"
      "%y = attention(%q, %k, %v) {{scale=0.5, causal=false, nan_rows=false}}\n",
      "input %x : {0}[2, 16, 9, 9] \"x\"\nconst %w : {0}[16, 24, 2, 2] \"w\"\n%y = conv_transpose(%x, %w) {{stride=[2, 2]}}\n",
      "input %x : {0}[2, 32, 14, 14] \"x\"\nconst %w : {0}[64, 32, 3, 3] \"w\"\n%y = conv(%x, %w) {{padding=[1, 1]}}\n",
  };
  for (Isa isa : isas_of(~0u)) {
    const Machine machine = machine_of(isa, 2);
    for (const char* form : texts) {
      const auto text_of = [&](const char* dtype) { return "graph @m\n" + fmt::format(fmt::runtime(form), dtype) + "output %y \"y\"\n"; };
      const Graph g = parse_graph(text_of("float32"), "m");
      for (const auto& [dtype, name] : {std::pair{DType::f32, "float32"}, {DType::bf16, "bfloat16"}}) {
        INFO(isa_name(isa) << "\n" << text_of(name));
        const double ns = contraction_costs({machine, {}})(g, *g.def(g.outputs[0].value), dtype), here = kernel_ns(text_of(name), machine);
        CHECK(std::isfinite(ns));
        CHECK(ns > 0);
        if (g.def(g.outputs[0].value)->op == Op::conv)
          CHECK(ns <= here * 1.001);  // channels last where that is better
        else
          CHECK(ns == Approx(here).epsilon(0.02));
      }
    }
  }
}

TEST_CASE("a layout that no form takes is infinitely slow") {
  const Machine cpu = machine_of(Isa::avx512, 2);
  for (const char* dtype : {"int8", "int32", "int64"}) {
    const Case whole = {"2", dtype, "const", 32, 64, 14, 3, 1, 1};
    CHECK(std::isfinite(estimate(whole, ConvAs::channels_first, cpu)));
    CHECK(std::isinf(estimate(whole, ConvAs::channels_last, cpu)));
  }
}

TEST_CASE("more channels, more pixels and more taps take longer in every layout") {
  const Machine machine = machine_of(Isa::avx512, 2);
  const Case small = {"2", "float32", "const", 32, 64, 14, 1, 1, 1};
  Case channels = small, pixels = small, taps = small;
  channels.c = 256, pixels.side = 56, taps.kernel = 5;
  for (ConvAs as : {ConvAs::channels_first, ConvAs::channels_last, ConvAs::product}) {
    CHECK(estimate(channels, as, machine) > estimate(small, as, machine));
    CHECK(estimate(pixels, as, machine) > estimate(small, as, machine));
    if (as != ConvAs::product) CHECK(estimate(taps, as, machine) > estimate(small, as, machine));
  }
}

}  // namespace aotc::forms
