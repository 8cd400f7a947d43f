// What takes the place of a kernel's choice on whose code NVRTC crashes or works for too long.
#include "pipeline/gpu_code.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "unit/emit_cpu/kernel_builder.h"

using namespace aotc;
using namespace aotc::pipeline;
using test::KernelBuilder;
using namespace aotc::loop;

namespace {

/// x[1, 4096] times w[4096, 4096] of bfloat16.
loop::Kernel product() {
  KernelBuilder b("product_epilogue");
  const Expr row = b.outer("row", 1), column = b.inner("column", 4096);
  loop::MatmulKernel mm;
  mm.name = "product";
  const ParamId x = b.param("x", ParamRole::input, DType::bf16, {1, 4096}), w = b.param("w", ParamRole::input, DType::bf16, {4096, 4096});
  const ParamId out = b.param("out", ParamRole::output, DType::bf16, {1, 4096});
  mm.params = b.k.params;
  const ParamId acc = b.param("acc", ParamRole::acc, DType::f32, {1, 4096});
  b.block(true);
  b.store(out, row * 4096 + column, b.op(Op::cast, DType::bf16, {b.load(acc, row * 4096 + column)}));
  mm.syms = b.k.syms;
  mm.m = 1, mm.n = 4096, mm.k = 4096, mm.in = DType::bf16;
  mm.a = {x, 0, {}, 4096, 1};
  mm.b = {w, 0, {}, 1, 4096};
  mm.segments.push_back({0, 4096, std::move(b.k)});
  return mm;
}

struct Lost {
  const loop::Kernel kernel = product();
  const SymTable syms;
  const Machine machine = machine_of(std::string("sm_90a"));
  const forms::Decision own = forms::decide({kernel, syms, machine, {}});

  static LostChoice of(const forms::Choice& choice, bool late) {
    return {"product", choice, {0, "sm_90a", late ? "too slow" : "crashed", "", late}};
  }
  /// Of every candidate that fits; those whose place is in `crashed` crash.
  std::vector<LostChoice> all(const std::vector<size_t>& crashed = {}) const {
    std::vector<LostChoice> out;
    for (const forms::Candidate& c : own.candidates)
      if (c.fit) out.push_back(of(c.choice, std::find(crashed.begin(), crashed.end(), out.size()) == crashed.end()));
    return out;
  }
  forms::Decision without(std::vector<LostChoice> lost) const {
    return pipeline::without({}, std::move(lost))({kernel, syms, machine, {}});
  }
};

const forms::Candidate& of(const forms::Decision& d, const forms::Choice& choice) {
  return *std::find_if(d.candidates.begin(), d.candidates.end(), [&](const forms::Candidate& c) { return c.choice == choice; });
}

}  // namespace

TEST_CASE("a choice that NVRTC works on for too long is refused while there are others, those of other forms first") {
  const Lost lost;
  const forms::Decision d = lost.without({Lost::of(lost.own.choice, true)});
  CHECK(d.choice.form != lost.own.choice.form);
  CHECK(of(d, lost.own.choice).fit.why == "too slow");
}

TEST_CASE("where every choice is lost the best of those that were only slow is taken, and no crashed one") {
  const Lost lost;
  const std::vector<LostChoice> all = lost.all();
  REQUIRE(all.size() > 3);
  const forms::Decision slow = lost.without(all);
  CHECK(slow.choice == all[0].choice);
  CHECK(of(slow, slow.choice).fit);
  CHECK_FALSE(of(slow, all[1].choice).fit);
  CHECK(lost.without(lost.all({0, 1})).choice == all[2].choice);

  std::vector<size_t> every(all.size());
  for (size_t i = 0; i < every.size(); ++i) every[i] = i;
  CHECK_THROWS_AS(lost.without(lost.all(every)), Diagnostic);
}

TEST_CASE("NVRTC is given time for what is taken although it is slow; of what is lost again the later reason counts") {
  const Lost lost;
  plan::PlanSet plans;
  plans.kernels = {"product", "other"};
  for (const size_t kernel : {1, 0}) {
    plan::KernelConfig c;
    c.kernel = loop::KernelId(kernel);
    c.choice = lost.own.choice;
    plans.configs.push_back(std::move(c));
  }
  std::vector<LostChoice> before = {Lost::of(lost.own.choice, true)};
  CHECK(patient(plans, before) == std::vector<bool>{false, true});
  CHECK(patient(plans, {}) == std::vector<bool>{false, false});
  add(before, {Lost::of(lost.own.choice, false), Lost::of(lost.own.candidates.back().choice, true)});
  REQUIRE(before.size() == 2);
  CHECK_FALSE(before[0].how.late);
  CHECK(patient(plans, before) == std::vector<bool>{false, false});
}
