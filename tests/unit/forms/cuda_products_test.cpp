// Products on GPUs: launch decisions as data, tensor maps, epilogues, and their text through NVRTC.
#include "cuda_support.h"

#include "emit/cuda/launch.h"
#include "unit/emit_cpu/kernel_builder.h"

using namespace aotc;
using namespace aotc::test;
using namespace aotc::emit::cuda;

namespace {

/// Linear with bias: x[m, k] times w[n, k], both with k contiguous.
loop::MatmulKernel linear(DType t, const Expr& m, const Expr& n, const Expr& k, SymTable syms = {}) {
  KernelBuilder b("linear_epilogue");
  b.k.syms = std::move(syms);
  const Expr row = b.outer("row", m), column = b.inner("column", n);
  loop::MatmulKernel mm;
  mm.name = "linear_" + std::string(dtype_name(t));
  const ParamId x = b.param("x", ParamRole::input, t, {m, k}), w = b.param("w", ParamRole::input, t, {n, k});
  const ParamId bias = b.param("bias", ParamRole::input, t, {n}), out = b.param("out", ParamRole::output, t, {m, n});
  mm.params = b.k.params;
  const ParamId acc = b.param("acc", ParamRole::acc, DType::f32, {m, n});
  b.block(true);
  const InstId sum = b.op(Op::add, DType::f32, {b.load(acc, row * n + column), b.op(Op::cast, DType::f32, {b.load(bias, column)})});
  b.store(out, row * n + column, b.op(Op::cast, t, {sum}));
  mm.syms = b.k.syms;
  mm.m = m, mm.n = n, mm.k = k, mm.in = t;
  mm.a = {x, 0, {}, k, 1};
  mm.b = {w, 0, {}, 1, k};
  mm.segments.push_back({0, n, std::move(b.k)});
  return mm;
}

}  // namespace

TEST_CASE("tiles: few rows divide k over a cluster, and every candidate that fits fits a processor") {
  for (DType t : {DType::f32, DType::bf16})
    for (int64_t m : {1, 32, 64, 128, 4096})
      for (int64_t n : {10, 1024, 4096})
        for (int64_t k : {8, 768, 4096}) {
          const loop::MatmulKernel mm = linear(t, m, n, k);
          const loop::Kernel kernel = mm;
          for (const forms::Candidate& c : decide(mm).candidates) {
            if (!c.fit) continue;
            const forms::StepSpec s = c.choice.form->step({kernel, mm.syms, h200(), {}}, c.choice);
            INFO("m " << m << " n " << n << " k " << k << ": " << forms::str(c.choice));
            CHECK(forms::check(c.choice));
            CHECK(*forms::parse_choice(forms::str(c.choice)) == c.choice);
            CHECK(s.max_smem_bytes <= 227 * 1024);
            CHECK(s.block[0] <= 1024);
            CHECK(s.block[0] % 32 == 0);
          }
        }
  CHECK(field(linear(DType::f32, 32, 1024, 4096), "split") > 1);
  CHECK(decide(linear(DType::f32, 4096, 4096, 4096)).choice.form->name() == "cuda_wgmma_apart");
  CHECK(decide(linear(DType::bf16, 4096, 4096, 4096)).choice.form->name() == "cuda_wgmma");
  CHECK(field(linear(DType::f32, 4096, 3072, 768), "split") == 1);
}

TEST_CASE("tensor maps: what they take goes to Hopper's products, all else to mma.sync, with the reason") {
  auto reason = [](const loop::MatmulKernel& mm, const char* sms, F32Matmul f32_matmul = F32Matmul::highest) -> std::string {
    Target target = parse_cuda_target(sms);
    target.numerics.f32_matmul = f32_matmul;
    const Machine machine = machine_of(target);
    const forms::Decision d = forms::decide({loop::Kernel(mm), mm.syms, machine, target.numerics});
    if (d.choice.form->name() == "cuda_wgmma") return "taken";
    for (const forms::Candidate& c : d.candidates)
      if (c.choice.form->name() == "cuda_wgmma") return c.fit.why;
    return "not asked";
  };
  SymTable syms;
  const Expr rows = Expr::symbol(syms.add({"rows", SymKind::shape, 0, kInf, 1, {}, {}}));
  const Expr eighths = Expr::symbol(syms.add({"eighths", SymKind::shape, 1, 64, 1, {}, {}}));
  CHECK(reason(linear(DType::bf16, 4096, 4096, 4096), "sm_90a") == "taken");
  CHECK(reason(linear(DType::f16, rows, 33, eighths * 8, syms), "sm_90a") == "taken");
  CHECK_THAT(reason(linear(DType::f16, rows, 33, eighths, syms), "sm_90a"), Catch::Contains("16 bytes apart"));
  CHECK_THAT(reason(linear(DType::f16, 64, 64, rows * 8, syms), "sm_90a"), Catch::Contains("k may be 0"));
  CHECK_THAT(reason(linear(DType::f16, 64, 64, 36), "sm_90a"), Catch::Contains("16 bytes apart"));
  for (const char* sms : {"sm_80", "sm_90", "sm_100a"})
    CHECK_THAT(reason(linear(DType::bf16, 4096, 4096, 4096), sms), Catch::Contains("sm_90a"));
  CHECK_THAT(reason(linear(DType::f32, 4096, 4096, 4096), "sm_90a"), Catch::Contains("--f32-matmul"));
  CHECK(reason(linear(DType::f32, 4096, 4096, 4096), "sm_90a", F32Matmul::high) == "taken");

  for (DType t : {DType::f8e4m3fn, DType::f8e5m2}) {
    CHECK(reason(linear(t, rows, 33, eighths * 16, syms), "sm_90a") == "taken");
    CHECK_THAT(reason(linear(t, rows, 33, eighths * 8, syms), "sm_90a"), Catch::Contains("16 bytes apart"));
    loop::MatmulKernel across = linear(t, 256, 512, 256);
    across.b.row_stride = 512, across.b.col_stride = 1;
    CHECK_THAT(reason(across, "sm_90a"), Catch::Contains("k as the contiguous index"));
    const forms::Decision d = decide(linear(t, 4096, 4096, 4096));  // two sets of sums: no more than the registers hold
    for (const forms::Candidate& c : d.candidates)
      if (c.choice.form->name() == "cuda_wgmma")
        CHECK(field_of(c.choice, "warp_m") / 64 * field_of(c.choice, "cols") / 2 <= (field_of(c.choice, "groups") > 1 ? 96 : 48));
  }

  loop::MatmulKernel mm = linear(DType::f16, rows, 72, eighths * 8, syms);
  mm.a.base = 4;
  CHECK_THAT(reason(mm, "sm_90a"), Catch::Contains("does not begin"));
  mm.a.base = 16;
  const forms::Choice c = *forms::parse_choice("cuda_wgmma warp_m=64 cols=32 groups=1 ping_pong=0 stages=4 split=2 swap=1 resident=2");
  const forms::StepSpec s = c.form->step({loop::Kernel(mm), mm.syms, h200(), {}}, c);
  REQUIRE(s.maps.size() == 2);
  CHECK(s.overlaps);
  CHECK((s.maps[0].arg == 1 && s.maps[0].dims == Exprs{eighths * 8, 72} && s.maps[0].box == std::vector<int32_t>{64, 64}));
  CHECK((s.maps[1].arg == 0 && s.maps[1].offset_bytes.is(32) && s.maps[1].dims == Exprs{eighths * 8, rows}));
  CHECK((s.maps[1].stride_bytes == Exprs{eighths * 16} && s.maps[1].box == std::vector<int32_t>{64, 32}));
  CHECK(s.grid[0] == ceildiv(rows, 32) * 2 * 2);
  mm.b = {mm.b.param, 0, {}, 72, 1};  // [k, n]
  CHECK(reason(mm, "sm_90a") == "taken");
}

TEST_CASE("blocks that share k have room for their sums in the ring") {
  CHECK(forms::parse_choice("cuda_wgmma warp_m=64 cols=256 groups=2 ping_pong=0 stages=4 split=2 swap=0 resident=1"));
  const auto few = forms::parse_choice("cuda_wgmma warp_m=64 cols=256 groups=2 ping_pong=0 stages=3 split=2 swap=0 resident=1");
  REQUIRE(!few);
  CHECK_THAT(few.why(), Catch::Contains("196608 bytes, the ring has 147456"));
}

TEST_CASE("float32 products keep their accuracy on Hopper's tensor cores where a weight can be stored in two parts") {
  loop::MatmulKernel mm = linear(DType::f32, 4096, 1000, 132);
  const auto fits = [](const loop::MatmulKernel& k) {
    const auto all = decide(k).candidates;
    return std::any_of(all.begin(), all.end(),
                       [](const forms::Candidate& c) { return c.fit && c.choice.form->name() == "cuda_wgmma_parts"; });
  };
  CHECK(!fits(mm));  // b is no weight
  mm.b_constant = true;
  const forms::Choice c =
      *forms::parse_choice("cuda_wgmma_parts warp_m=64 cols=96 groups=2 ping_pong=1 stages=6 split=1 swap=0 resident=1");
  REQUIRE(fits(mm));
  const forms::StepSpec s = c.form->step({loop::Kernel(mm), mm.syms, h200(), {}}, c);
  REQUIRE(s.maps.size() == 2);
  CHECK((s.maps[0].dims == Exprs{132, 4096} && s.maps[0].box == std::vector<int32_t>{32, 64}));
  CHECK((s.maps[1].dims == Exprs{160, 1000, 2} && s.maps[1].stride_bytes == Exprs{640, 640000} &&
         s.maps[1].box == std::vector<int32_t>{32, 96, 2}));
  const auto stored = c.form->weight(loop::Kernel(mm), c);
  REQUIRE(stored);
  CHECK((stored->first == mm.b.param && stored->second.parts == 2 && stored->second.column_groups == 32 &&
         stored->second.elems() == 2 * 160 * 1000));
  loop::MatmulKernel across = mm;
  across.a = {across.a.param, 0, {}, 1, 4096};
  CHECK(fits(across));
  const forms::StepSpec turned = c.form->step({loop::Kernel(across), across.syms, h200(), {}}, c);
  CHECK(
      (turned.maps[0].dims == Exprs{4096, 132} && turned.maps[0].box == std::vector<int32_t>{64, 32} && turned.maps[0].swizzle_bytes == 0));
  for (int change = 0; change < 3; ++change) {
    loop::MatmulKernel other = mm;
    if (change == 0) other.in = DType::bf16;
    if (change == 1) other.b.base = Expr::symbol(other.syms.add({"at", SymKind::shape, 0, kInf, 1, {}, {}}));
    if (change == 2) other.b_panels_read = true;
    INFO(change);
    CHECK(!fits(other));
  }
  Numerics numerics;
  numerics.f32_matmul = F32Matmul::high;
  CHECK(forms::decide({loop::Kernel(mm), mm.syms, h200(), numerics}).choice.form->name() == "cuda_wgmma");
  CHECK(!forms::parse_choice("cuda_wgmma_parts warp_m=128 cols=64 groups=2 ping_pong=0 stages=4 split=1 swap=0 resident=1"));
  CHECK(!forms::parse_choice("cuda_wgmma_parts warp_m=64 cols=32 groups=1 ping_pong=0 stages=4 split=1 swap=1 resident=1"));
  const Result<Nvrtc> nvrtc = Nvrtc::load();
  if (!nvrtc) {
    WARN("not compiled: " << nvrtc.why());
    return;
  }
  std::string source = "#include \"wgmma.cuh\"\n";
  const char* choices[] = {"cols=128 groups=2 ping_pong=1 stages=4 split=1", "cols=128 groups=2 ping_pong=0 stages=4 split=1",
                           "cols=64 groups=1 ping_pong=0 stages=4 split=4", "cols=32 groups=1 ping_pong=0 stages=6 split=1"};
  for (size_t i = 0; i < std::size(choices); ++i) {
    const auto choice = forms::parse_choice(fmt::format("cuda_wgmma_parts warp_m=64 {} swap=0 resident=1", choices[i]));
    INFO(choices[i]);
    REQUIRE(choice);
    source += choice->form->source({loop::Kernel(mm), mm.syms, h200(), {}}, *choice, fmt::format("{}_{}", mm.name, i));
  }
  CHECK(becomes_code(*nvrtc, source, "sm_90a"));
}

TEST_CASE("float32 products of two computed operands take the right one apart as it comes") {
  const auto form_of = [](const loop::MatmulKernel& k) { return std::string(decide(k).choice.form->name()); };
  loop::MatmulKernel along = linear(DType::f32, 4096, 1000, 512);
  CHECK(form_of(along) == "cuda_wgmma_apart");
  loop::MatmulKernel across = along;
  across.b = {across.b.param, 0, {}, 1000, 1};  // [k, n]
  CHECK(form_of(across) == "cuda_wgmma_apart");
  loop::MatmulKernel weight = along;
  weight.b_constant = true;
  CHECK(form_of(weight) == "cuda_wgmma_parts");
  loop::MatmulKernel odd = across;
  odd.b = {odd.b.param, 0, {}, 1001, 1};
  CHECK(form_of(odd) == "cuda_mma");
  CHECK(!forms::parse_choice("cuda_wgmma_apart warp_m=64 cols=64 groups=1 ping_pong=0 stages=4 split=1 swap=0 resident=1"));
  const forms::Choice c =
      *forms::parse_choice("cuda_wgmma_apart warp_m=64 cols=96 groups=2 ping_pong=0 stages=3 split=1 swap=0 resident=1");
  const forms::StepSpec a = c.form->step({loop::Kernel(along), along.syms, h200(), {}}, c),
                        b = c.form->step({loop::Kernel(across), across.syms, h200(), {}}, c);
  CHECK((a.maps[1].dims == Exprs{512, 1000} && a.maps[1].box == std::vector<int32_t>{32, 96} && a.maps[1].swizzle_bytes == 128));
  CHECK((b.maps[1].dims == Exprs{1000, 512} && b.maps[1].box == std::vector<int32_t>{96, 32} && b.maps[1].swizzle_bytes == 0));
  CHECK(b.max_smem_bytes - a.max_smem_bytes == 3 * 96 * 128);  // a place for what is turned
  CHECK(!c.form->weight(loop::Kernel(along), c));
  const Result<Nvrtc> nvrtc = Nvrtc::load();
  if (!nvrtc) {
    WARN("not compiled: " << nvrtc.why());
    return;
  }
  std::string source = "#include \"wgmma.cuh\"\n";
  const char* choices[] = {"cols=128 groups=2 ping_pong=1 stages=3 split=1", "cols=96 groups=2 ping_pong=0 stages=4 split=1",
                           "cols=64 groups=2 ping_pong=0 stages=4 split=2"};
  for (size_t i = 0; i < std::size(choices); ++i)
    for (const loop::MatmulKernel* k : {&along, &across}) {
      const auto choice = forms::parse_choice(fmt::format("cuda_wgmma_apart warp_m=64 {} swap=0 resident=1", choices[i]));
      INFO(choices[i]);
      REQUIRE(choice);
      source += choice->form->source({loop::Kernel(*k), k->syms, h200(), {}}, *choice, fmt::format("{}_{}_{}", k->name, i, k == &along));
    }
  CHECK(becomes_code(*nvrtc, source, "sm_90a"));
}

TEST_CASE("Hopper's products compile in every shape of tile") {
  const char* choices[] = {"warp_m=128 cols=128 groups=2 ping_pong=1 stages=6 split=1 swap=0 resident=1",
                           "warp_m=64 cols=256 groups=2 ping_pong=0 stages=4 split=1 swap=0 resident=1",
                           "warp_m=64 cols=192 groups=2 ping_pong=1 stages=4 split=1 swap=0 resident=1",
                           "warp_m=128 cols=128 groups=2 ping_pong=0 stages=4 split=1 swap=0 resident=1",
                           "warp_m=64 cols=160 groups=2 ping_pong=1 stages=7 split=1 swap=0 resident=1",
                           "warp_m=128 cols=96 groups=2 ping_pong=1 stages=7 split=1 swap=0 resident=1",
                           "warp_m=128 cols=112 groups=2 ping_pong=1 stages=7 split=1 swap=0 resident=1",
                           "warp_m=64 cols=208 groups=2 ping_pong=1 stages=6 split=1 swap=0 resident=1",
                           "warp_m=64 cols=96 groups=2 ping_pong=0 stages=5 split=1 swap=0 resident=1",
                           "warp_m=64 cols=32 groups=1 ping_pong=0 stages=8 split=1 swap=0 resident=2",
                           "warp_m=64 cols=64 groups=1 ping_pong=0 stages=4 split=8 swap=0 resident=2",
                           "warp_m=64 cols=64 groups=2 ping_pong=0 stages=8 split=2 swap=0 resident=1",
                           "warp_m=128 cols=128 groups=1 ping_pong=0 stages=4 split=4 swap=0 resident=1",
                           "warp_m=64 cols=8 groups=1 ping_pong=0 stages=8 split=1 swap=1 resident=2",
                           "warp_m=64 cols=32 groups=2 ping_pong=0 stages=8 split=2 swap=1 resident=1"};
  const Result<Nvrtc> nvrtc = Nvrtc::load();
  if (!nvrtc) {
    WARN("not compiled: " << nvrtc.why());
    return;
  }
  Numerics numerics;
  numerics.f32_matmul = F32Matmul::high;
  std::string source = "#include \"wgmma.cuh\"\n";
  for (DType t : {DType::bf16, DType::f16, DType::f32})
    for (size_t i = 0; i < std::size(choices); ++i) {
      if (t == DType::f16 && i % 2) continue;
      const Result<forms::Choice> c = forms::parse_choice(std::string("cuda_wgmma ") + choices[i]);
      INFO(choices[i]);
      REQUIRE(c);
      const loop::MatmulKernel mm = linear(t, 100, 1024, 4096);
      source += c->form->source({loop::Kernel(mm), mm.syms, h200(), numerics}, *c, fmt::format("{}_{}", mm.name, i));
    }
  CHECK(becomes_code(*nvrtc, source, "sm_90a"));
}

TEST_CASE(
    "epilogues are computed where Hopper's sums are: one result of 16 bits, few operations, at most one operand that lies as it does") {
  const auto in_place = [](DType t, int change) {
    const Expr m = 512, n = 1024, k = 256;
    loop::MatmulKernel mm = linear(t, m, n, k);
    KernelBuilder b("epilogue");
    const Expr row = b.outer("row", m), column = b.inner("column", n);
    b.k.params = mm.params;
    const ParamId bias{2}, out{3};
    const ParamId residual = b.param("residual", ParamRole::input, t, {m, n}), other = b.param("other", ParamRole::input, t, {m, n});
    const ParamId scale = b.param("scale", ParamRole::input, DType::f32, {m}), again = b.param("again", ParamRole::output, t, {m, n});
    mm.params = b.k.params;
    const ParamId acc = b.param("acc", ParamRole::acc, DType::f32, {m, n});
    b.block(true);
    const Expr at = row * n + column;
    InstId v = b.op(Op::add, DType::f32, {b.load(acc, at), b.op(Op::cast, DType::f32, {b.load(bias, column)})});
    v = b.op(Op::mul, DType::f32, {v, b.load(scale, row)});
    v = b.op(Op::add, DType::f32, {v, b.op(Op::cast, DType::f32, {b.load(residual, at)})});
    if (change == 1) v = b.op(Op::add, DType::f32, {v, b.op(Op::cast, DType::f32, {b.load(other, at)})});
    if (change == 2) v = b.op(Op::lgamma, DType::f32, {v});
    v = b.op(Op::cast, t, {v});
    b.store(out, at, v);
    if (change == 3) b.store(again, at, v);
    mm.segments = {{0, n, std::move(b.k)}};
    const forms::Choice c = *forms::parse_choice("cuda_wgmma warp_m=64 cols=192 groups=2 ping_pong=0 stages=5 split=1 swap=0 resident=1");
    const std::string text = c.form->source({loop::Kernel(mm), mm.syms, h200(), {}}, c, "f");
    return text.find("in_place = true, has_tile = true") != std::string::npos;
  };
  CHECK(in_place(DType::f16, 0));
  CHECK(in_place(DType::bf16, 0));
  for (int change : {1, 2, 3}) CHECK(!in_place(DType::f16, change));
  CHECK(!in_place(DType::f32, 0));
}

TEST_CASE("x / 2 * (1 + erf(x / sqrt(2))) of 16 bits is one function of an epilogue") {
  const auto text = [](DType t, double scale, double shift, bool swapped) {
    loop::MatmulKernel mm = linear(DType::f16, 512, 1024, 256);
    KernelBuilder b("epilogue");
    const Expr row = b.outer("row", 512), column = b.inner("column", 1024);
    b.k.params = mm.params;
    const ParamId out{3};
    b.k.params[out].dtype = t;
    const ParamId acc = b.param("acc", ParamRole::acc, DType::f32, {512, 1024});
    mm.params[out].dtype = t;
    b.block(true);
    const InstId x = b.load(acc, row * 1024 + column);
    const InstId sum =
        b.op(Op::add, DType::f32,
             {b.op(Op::erf, DType::f32, {b.op(Op::mul, DType::f32, {x, b.constant(DType::f32, scale)})}), b.constant(DType::f32, shift)});
    const InstId half = b.op(Op::mul, DType::f32, {b.constant(DType::f32, 0.5), x});
    InstId v = b.op(Op::mul, DType::f32, swapped ? std::vector{sum, half} : std::vector{half, sum});
    if (t != DType::f32) v = b.op(Op::cast, t, {v});
    b.store(out, row * 1024 + column, v);
    mm.segments = {{0, 1024, std::move(b.k)}};
    const forms::Choice c = *forms::parse_choice("cuda_wgmma warp_m=64 cols=192 groups=2 ping_pong=0 stages=5 split=1 swap=0 resident=1");
    const std::string source = c.form->source({loop::Kernel(mm), mm.syms, h200(), {}}, c, "f");
    return source.find("gelu_to_round(") != std::string::npos;
  };
  for (const bool swapped : {false, true}) {
    CHECK(text(DType::f16, M_SQRT1_2, 1, swapped));
    CHECK(text(DType::bf16, M_SQRT1_2, 1, swapped));
    CHECK(!text(DType::f32, M_SQRT1_2, 1, swapped));
    CHECK(!text(DType::f16, 0.7, 1, swapped));
    CHECK(!text(DType::f16, M_SQRT1_2, 0.9, swapped));
  }
}

TEST_CASE("epilogues of Hopper's products round, and add, two neighbours of 16 bits at once where the graph rounds them") {
  const auto text = [](DType t, bool rounded, Op last) {
    const Expr m = 512, n = 1024;
    loop::MatmulKernel mm = linear(t, 512, 1024, 256);
    KernelBuilder b("epilogue");
    const Expr row = b.outer("row", m), column = b.inner("column", n);
    b.k.params = mm.params;
    const ParamId bias{2}, out{3}, residual = b.param("residual", ParamRole::input, t, {m, n});
    mm.params = b.k.params;
    const ParamId acc = b.param("acc", ParamRole::acc, DType::f32, {m, n});
    b.block(true);
    const Expr at = row * n + column;
    InstId v = b.op(Op::add, DType::f32, {b.load(acc, at), b.op(Op::cast, DType::f32, {b.load(bias, column)})});
    if (rounded) v = b.op(Op::cast, DType::f32, {b.op(Op::cast, t, {v})});
    v = b.op(last, DType::f32, {v, b.op(Op::cast, DType::f32, {b.load(residual, at)})});
    b.store(out, at, b.op(Op::cast, t, {v}));
    mm.segments = {{0, n, std::move(b.k)}};
    const forms::Choice c = *forms::parse_choice("cuda_wgmma warp_m=64 cols=192 groups=2 ping_pong=0 stages=4 split=1 swap=0 resident=1");
    return c.form->source({loop::Kernel(mm), mm.syms, h200(), {}}, c, "f");
  };
  const auto has = [](const std::string& source, const char* part) { return source.find(part) != std::string::npos; };
  CHECK(has(text(DType::f16, true, Op::add), "return f16_add_pair(f16_pair("));
  CHECK(has(text(DType::bf16, true, Op::add), "return bf16_add_pair(bf16_pair("));
  CHECK(!has(text(DType::bf16, false, Op::add), "_add_pair("));
  CHECK(!has(text(DType::bf16, true, Op::mul), "_add_pair("));
  CHECK(has(text(DType::bf16, true, Op::mul), "round_pair<bf16>("));
  CHECK(!has(text(DType::bf16, false, Op::mul), "round_pair<"));
}

TEST_CASE("Hopper's products: tiles follow the waves, and large ones are shared by two warpgroups") {
  CHECK(field(linear(DType::bf16, 8192, 8192, 8192), "ping_pong") == 0);
  CHECK(field(linear(DType::bf16, 4096, 3072, 768), "ping_pong") == 1);
  CHECK(field(linear(DType::bf16, 4096, 768, 3072), "cols") == 192);
  CHECK(field(linear(DType::f16, 128, 768, 3072), "split") > 1);
  for (const int n : {64, 256}) CHECK(decide(linear(DType::f16, 100352, n, 64)).choice.form->name() == "cuda_wgmma");
}

TEST_CASE("products compile, with and without clusters") {
  for (DType t : {DType::f32, DType::bf16, DType::f16})
    for (int64_t m : {1, 48, 4096}) {
      loop::Module module;
      module.kernels.push(linear(t, m, 1024, 4096));
      compiles(module, 2);
    }
}

TEST_CASE("kernels named as CUDA's own functions, and names of an archive in comments, compile") {
  loop::Module m;
  for (const char* name : {"exp", "sin", "abs", "min", "int", "printf", "warpSize"}) {
    KernelBuilder b(name);
    SymInfo info;
    info.name = "rows\n#error";
    info.min = 1;
    const Expr n = Expr::symbol(b.k.syms.add(info)), i = b.outer("i", n);
    b.block(false);
    const InstId x = b.load(b.param("x\n#error \\", ParamRole::input, DType::f32, {n}), i);
    b.store(b.param("trailing \\", ParamRole::output, DType::f32, {n}), i, b.op(Op::exp, DType::f32, {x}));
    m.kernels.push(std::move(b.k));
    loop::MatmulKernel mm = linear(DType::f32, 5, 1024, 4096);
    mm.name = std::string(name) + "_mm";
    mm.segments[0].epilogue.params[static_cast<ParamId>(0)].name = "y\n#error";
    m.kernels.push(std::move(mm));
  }
  compiles(m);
}
