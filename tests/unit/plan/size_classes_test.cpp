#include <catch2/catch.hpp>

#include "forms/list.h"
#include "opt/opt.h"
#include "plan/build.h"
#include "plan/verify.h"

using namespace aotc;

namespace {

struct Net {
  Graph graph;
  loop::Module module;
  std::vector<plan::SymRange> all;
};

Net net(const std::string& text, const Target& target) {
  opt::Options options;
  options.context.target = target;
  opt::Ir ir = opt::parse(text, "net.graph", {.missing = MissingData::made_up});
  opt::run(ir, "all,loop", options);
  Net n{*ir.graph, *ir.module, {}};
  for (uint32_t s = 0; s < n.graph.syms.size(); ++s) {
    const auto id = static_cast<SymId>(s);
    const SymInfo& i = n.module.syms[id];
    if (i.kind == SymKind::shape) n.all.push_back({id, i.min, i.max, i.multiple_of});
  }
  return n;
}

plan::PlanSet plans(const Net& n, const Machine& machine, plan::Decisions* decisions = nullptr) {
  plan::PlanOptions options;
  options.variants = {n.all};
  options.classes.emplace();
  options.goal = {machine, {}};
  options.decisions = decisions;
  return plan::build_plans(n.graph, n.module, options);
}

double cost_of(const forms::Choice& choice, const loop::Kernel& kernel, const SymTable& syms, const Machine& machine) {
  for (const forms::Candidate& c : forms::candidates({kernel, syms, machine, {}}))
    if (c.choice == choice) return c.cost_ns;
  return 0;
}

constexpr const char* kMlp = R"(graph @m
sym batch [1, 1024]
input %x : float16[batch, 1024] ""
const %w : float16[1024, 4096] "a"
const %v : float16[4096, 1024] "b"
%0 = matmul(%x, %w)
%1 = relu(%0)
%2 = matmul(%1, %v)
output %2 "y"
)";

}  // namespace

TEST_CASE("size classes cover a range without a gap and without an overlap, and choose as sizes alone do") {
  const Target target = parse_cuda_target("sm_90a");
  const Machine machine = machine_of(target);
  const Net n = net(kMlp, target);
  plan::Decisions decisions;
  const plan::PlanSet set = plans(n, machine, &decisions);
  REQUIRE(set.plans.size() > 1);
  CHECK(set.plans.size() <= static_cast<size_t>(plan::ClassRules{}.most));
  int64_t next = 1;
  for (const plan::Plan& p : set.plans) {
    REQUIRE(p.ranges.size() == 1);
    CHECK(p.ranges[0].min == next);
    next = p.ranges[0].max + 1;
  }
  CHECK(next == 1025);
  // By the cost model, no size takes much longer than with the choices for it alone.
  for (int64_t size : {1, 3, 8, 32, 128, 500, 1024}) {
    SymTable syms = n.module.syms;
    syms.edit(n.all[0].sym).tune = {size};
    const auto p = static_cast<size_t>(
        std::find_if(set.plans.begin(), set.plans.end(), [&](const plan::Plan& x) { return size <= x.ranges[0].max; }) - set.plans.begin());
    double own = 0, best = 0;
    for (const auto& [kernel, d] : decisions.at(p)) {
      const loop::Kernel& k = n.module.kernels[kernel];
      const double cost = cost_of(d.choice, k, syms, machine);
      if (cost == 0) continue;
      own += cost, best += forms::decide({k, syms, machine, {}}).candidates.front().cost_ns;
    }
    INFO(size);
    CHECK(own <= 1.25 * best);
  }
}

TEST_CASE("weights are stored once, however many size classes there are") {
  for (const char* isa : {"avx2", "avx512"}) {
    const Target target = parse_cpu_target(isa);
    Net n = net(R"(graph @m
sym batch [1, 512]
input %x : float32[batch, 512] ""
const %w : float32[512, 2048] "a"
const %v : float32[2048, 512] "b"
%0 = matmul(%x, %w)
%1 = relu(%0)
%2 = matmul(%1, %v)
output %2 "y"
)",
                target);
    const plan::PlanSet set = plans(n, machine_of(target));
    INFO(isa);
    CHECK(set.weights.size() == 2);
  }
}

TEST_CASE("a variant that earlier ones cover has no plans of its own") {
  const Target target = parse_cuda_target("sm_90a");
  const Net n = net(kMlp, target);
  plan::PlanOptions options;
  options.variants = {{{n.all[0].sym, 1, 1, 1}}, {{n.all[0].sym, 2, 1024, 1}}, n.all};
  options.classes.emplace();
  options.goal = goal_of(target);
  int64_t next = 1;
  for (const plan::Plan& p : plan::build_plans(n.graph, n.module, options).plans) {
    CHECK(p.ranges[0].min == next);
    next = p.ranges[0].max + 1;
  }
  CHECK(next == 1025);
}

TEST_CASE("one plan serves a range whose choices do not depend on it") {
  const Target target = parse_cpu_target("avx2");
  const Net n = net(R"(graph @m
sym batch [1, 512]
input %x : float32[batch, 512] ""
%0 = relu(%x)
output %0 "y"
)",
                    target);
  CHECK(plans(n, machine_of(target)).plans.size() == 1);
}
