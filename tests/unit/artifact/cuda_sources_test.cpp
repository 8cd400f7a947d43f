// The text of a kernel for GPUs is for the sizes of the plans that launch it: what a step says of its launch and what the text expects
// agree.
#include <catch2/catch.hpp>

#include "artifact/cubins.h"
#include "forms/rules.h"
#include "graph/text.h"
#include "loop/lower.h"
#include "plan/verify.h"

using namespace aotc;

namespace {

/// Plans of a graph with a symbol N, one for each range of it, and the text of their kernels.
struct Made {
  loop::Module module;
  plan::PlanSet plans;
  std::vector<std::string> sources;
  Made(const std::string& text, const std::vector<std::pair<int64_t, int64_t>>& ranges) {
    const Graph g = parse_graph(text, "test");
    const Machine machine = machine_of(std::string("sm_90a"));
    module = loop::lower(g, forms::rules_of(machine));
    plan::PlanOptions options;
    options.goal = {machine, {}};
    SymId n{};
    for (const Expr& d : g.type(g.inputs[0].value).dims)
      for (SymId s : d.symbols()) n = s;
    for (const auto& [min, max] : ranges) options.variants.push_back({{n, min, max, 1}});
    plans = plan::build_plans(g, module, options);
    sources = artifact::cuda_sources(module, plans, {machine, {}});
    REQUIRE(sources.size() == plans.configs.size());
    for (const plan::Plan& p : plans.plans) {
      const SymTable syms = plan::narrowed(module.syms, p.ranges);
      for (const plan::Step& s : p.steps) {
        const plan::KernelConfig& c = plans.configs.at(static_cast<size_t>(s.config));
        if (c.joined) continue;
        INFO(p.name << ": " << c.symbol);
        CHECK(sources.at(static_cast<size_t>(s.config)) ==
              c.choice.form->source({module.kernels[c.kernel], syms, machine, {}}, c.choice, c.symbol));
      }
    }
  }
  const std::string& of(size_t plan) const { return sources.at(static_cast<size_t>(plans.plans.at(plan).steps.at(0).config)); }
  bool has(size_t plan, const std::string& what) const { return of(plan).find(what) != std::string::npos; }
};

}  // namespace

TEST_CASE("a product of one row in one plan and of many in another has code for one row") {
  const Made made(R"(graph @m
sym n [1, 2047] tune [1, 128, 512]
input %x : bfloat16[n, 2048] "x"
const %w : bfloat16[2048, 2048] "w"
%wt = permute(%w) {perm=[1, 0]}
%y = matmul(%x, %wt)
output %y "y"
)",
                  {{1, 1}, {2, 8}, {9, 2047}});
  CHECK(made.has(0, "VectorTile<bf16, float, 1, "));
  for (size_t p = 0; p < 3; ++p)
    for (const char* rows : {"float, 2047, ", "float, 2, "}) CHECK_FALSE(made.has(p, rows));
}

TEST_CASE("lines of two plans, short and long, are selected from by as many threads as their code is for") {
  const Made made(R"(graph @m
sym n [300, 100000] tune [512, 65536]
input %x : float32[4, n] "x"
%v, %at = topk(%x) {dim=1, k=200, largest=true, sorted=true}
output %v "v"
output %at "at"
)",
                  {{300, 2000}, {4096, 100000}});
  CHECK(made.of(0) != made.of(1));
}
