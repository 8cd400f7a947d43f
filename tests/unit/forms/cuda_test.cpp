// Launch decisions as data, and generated CUDA text through NVRTC: all pointwise ops in their dtypes, reductions, scans, products. NVRTC
// needs no GPU; where it is not installed (packaging/setup.sh installs it) the compile tests say so and pass.
#include "cuda_support.h"

#include "emit/cuda/launch.h"
#include "unit/emit_cpu/kernel_builder.h"

using namespace aotc;
using namespace aotc::test;
using namespace aotc::emit::cuda;

namespace {

/// out[rows, columns] = f(x): pointwise ops of one input dtype, all results combined through casts to it.
loop::LoopKernel pointwise(DType t, const std::vector<Op>& unary, const std::vector<Op>& binary) {
  KernelBuilder b(fmt::format("pointwise_{}", dtype_name(t)));
  const Expr n = 1000, i = b.outer("i", n);
  const ParamId x = b.param("x", ParamRole::input, t, {n}), y = b.param("y", ParamRole::input, t, {n});
  std::vector<InstId> results;
  b.block(false);
  const InstId vx = b.load(x, i), vy = b.load(y, i);
  for (Op op : unary) results.push_back(b.op(op, yields_bool(op) ? DType::boolean : t, {vx}));
  for (Op op : binary) results.push_back(b.op(op, yields_bool(op) ? DType::boolean : t, {vx, vy}));
  for (InstId r : results) b.store(b.param("out", ParamRole::output, b.k.insts[r].dtype, {n}), i, r);
  for (DType to :
       {DType::boolean, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64})
    b.store(b.param("cast", ParamRole::output, to, {n}), i, b.op(Op::cast, to, {vx}));
  return std::move(b.k);
}

loop::LoopKernel rows(const Expr& columns, bool scratch, bool scan, const std::vector<std::pair<ReduceKind, DType>>& kinds,
                      SymTable syms = {}, const Expr& n = 330) {
  KernelBuilder b("rows");
  b.k.syms = std::move(syms);
  const Expr i = b.outer("i", n), j = b.inner("j", columns);
  std::vector<InstId> results;
  std::vector<DType> types;
  const ParamId local = scratch ? b.param("scratch", ParamRole::local, DType::f32, {columns}) : kNone<ParamId>;
  b.block(true);
  for (auto [kind, t] : kinds) {
    const InstId v = b.load(b.param("x", ParamRole::input, t, {n, columns}), i * columns + j);
    const bool arg = kind == ReduceKind::argmax || kind == ReduceKind::argmin;
    const InstId r = b.reduce(kind, arg ? DType::i64 : t, v, scan);
    if (scan) b.store(b.param("out", ParamRole::output, arg ? DType::i64 : t, {n, columns}), i * columns + j, r);
    results.push_back(r);
    types.push_back(arg ? DType::i64 : t);
    if (scratch && t == DType::f32) b.store(local, j, v);
  }
  if (scan) return std::move(b.k);
  b.block(false);
  for (size_t r = 0; r < results.size(); ++r) b.store(b.param("out", ParamRole::output, types[r], {n}), i, results[r]);
  if (scratch) {
    b.block(true);
    b.store(b.param("again", ParamRole::output, DType::f32, {n, columns}), i * columns + j, b.load(local, j));
  }
  return std::move(b.k);
}

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

TEST_CASE("a pointwise kernel is a flat launch, a reduction or a scan a block a row, many rows of neighbours a thread a row") {
  const auto flat = pointwise(DType::f32, {Op::neg}, {});
  CHECK(decide(flat).choice.form->name() == "cuda_flat");
  CHECK(step_of(flat).smem_bytes.is(0));
  const auto row = rows(4096, true, false, {{ReduceKind::sum, DType::f32}});
  CHECK(decide(row).choice.form->name() == "cuda_row");
  CHECK(step_of(row).grid[0].is(330));
  CHECK(step_of(row).block[0] % 32 == 0);
  CHECK(decide(rows(64, false, true, {{ReduceKind::sum, DType::f32}})).choice.form->name() == "cuda_row");
  KernelBuilder b("columns");
  const Expr n = 200000, m = 8, j = b.outer("j", n), i = b.inner("i", m);
  b.k.lanes = loop::LaneAxis::outer;
  b.block(true);
  const InstId sum = b.reduce(ReduceKind::sum, DType::f32, b.load(b.param("x", ParamRole::input, DType::f32, {m, n}), i * n + j));
  b.block(false);
  b.store(b.param("out", ParamRole::output, DType::f32, {n}), j, sum);
  CHECK(decide(b.k).choice.form->name() == "cuda_serial");
}

TEST_CASE("neighbours are moved together where a row holds a multiple of them, and short rows stay in registers") {
  CHECK(field(rows(4096, true, false, {{ReduceKind::sum, DType::f32}}), "lanes") == 4);
  CHECK(field(rows(4096, true, false, {{ReduceKind::sum, DType::f32}}), "steps") == 4);
  // Two of 16 bits to a register: more blocks share a processor.
  CHECK(field(rows(4096, false, false, {{ReduceKind::max, DType::bf16}}), "resident") == 12);
  CHECK(field(rows(4096, false, false, {{ReduceKind::max, DType::bf16}}), "lanes") == 8);
  CHECK(field(rows(4098, true, false, {{ReduceKind::sum, DType::f32}}), "lanes") == 2);
  CHECK(field(rows(4097, true, false, {{ReduceKind::sum, DType::f32}}), "lanes") == 1);
  const auto longer = rows(32768, true, false, {{ReduceKind::sum, DType::f32}});
  CHECK(field(longer, "lanes") == 4);
  CHECK(field(longer, "steps") == 0);
  const auto many = [](int64_t columns, int64_t n, bool scratch) {
    return rows(columns, scratch, false, {{ReduceKind::max, DType::bf16}}, {}, n);
  };
  CHECK(field(many(768, 4096, false), "rows") == 4);
  CHECK(field(many(768, 4096, false), "steps") == 3);
  CHECK(step_of(many(768, 4098, false)).grid[0].is(1025));
  CHECK(step_of(many(768, 4098, false)).block[0] == 128);
  CHECK(field(many(768, 100, false), "rows") == 1);
  CHECK(field(many(4096, 4096, false), "rows") == 1);
  compiles(many(776, 4096, false));
  KernelBuilder b("transposed");  // out[i, j] = x[j, i]: the loads are no neighbours, the stores are
  const Expr i = b.outer("i", 64), j = b.outer("j", 32);
  const ParamId x = b.param("x", ParamRole::input, DType::f32, {32, 64}), y = b.param("y", ParamRole::output, DType::f32, {64, 32});
  b.block(false);
  const InstId load = b.load(x, j * 64 + i);
  b.store(y, i * 32 + j, load);
  CHECK(!is_wide(b.k, load, b.k.outer.back().sym, 4));
  CHECK(field(b.k, "lanes") == 4);
  compiles(std::move(b.k));
}

TEST_CASE("float16 numbers are added and multiplied in their type where float32 is only on the way") {
  KernelBuilder b("halves");
  const Expr n = 4096, i = b.outer("i", n);
  b.block(false);
  const auto load = [&](const char* name) { return b.load(b.param(name, ParamRole::input, DType::f16, {n}), i); };
  const auto store = [&](InstId v) { b.store(b.param("out", ParamRole::output, DType::f16, {n}), i, b.op(Op::cast, DType::f16, {v})); };
  const InstId x = b.op(Op::cast, DType::f32, {load("x")}), y = b.op(Op::cast, DType::f32, {load("y")});
  const InstId sum = b.op(Op::add, DType::f32, {x, y}), part = b.op(Op::mul, DType::f32, {x, b.constant(DType::f32, 0.1)});
  store(sum);
  store(b.op(Op::mul, DType::f32, {y, b.constant(DType::f32, 0.125)}));
  store(part);
  store(b.op(Op::mul, DType::f32, {sum, y}));
  const forms::Decision d = decide(b.k);
  const std::string text = d.choice.form->source({loop::Kernel(b.k), b.k.syms, h200()}, d.choice, "halves_kernel");
  const auto has = [&](const std::string& what) { return text.find(what) != std::string::npos; };
  CHECK(has("op_add(v0, v2)"));
  CHECK(has("op_mul(v2, f16(0x1p-3f))"));
  CHECK(has(fmt::format("op_cast<f16>(v{})", idx(part))));  // 0.1 is none of its numbers
  compiles(std::move(b.k));
}

TEST_CASE("images of few channels, written with these last, are a thread's for all channels") {
  const auto image = [](int64_t channels, int64_t width) {
    KernelBuilder b("image");  // out[i, j, c] = x[c, i, j]
    const Expr i = b.outer("i", 20), c = b.outer("c", channels), j = b.inner("j", width);
    const ParamId x = b.param("x", ParamRole::input, DType::f16, {channels, 20, width});
    const ParamId y = b.param("y", ParamRole::output, DType::f16, {20, width, channels});
    b.block(true);
    b.store(y, (i * width + j) * channels + c, b.load(x, (c * 20 + i) * width + j));
    return std::move(b.k);
  };
  CHECK(field(image(3, 40), "across") == 1);
  CHECK(step_of(image(3, 400)).grid[0].is((20 * 400 / 8 + 127) / 128));
  CHECK(field(image(5, 40), "across") == 0);
  CHECK(field(image(3, 41), "across") == 0);
  compiles(image(3, 40));
}

TEST_CASE("row scratch: its most is told to the driver, and a row that shared memory may not hold is in the run's scratch") {
  CHECK(step_of(rows(20000, true, false, {{ReduceKind::sum, DType::f32}})).max_smem_bytes == 80000);
  SymTable syms;
  const Expr n = Expr::symbol(syms.add({"n", SymKind::shape, 1, kInf, 1, {}, {}}));
  for (const loop::LoopKernel& k :
       {rows(100000, true, false, {{ReduceKind::sum, DType::f32}}), rows(n, true, false, {{ReduceKind::sum, DType::f32}}, syms)}) {
    CHECK(field(k, "global") == 1);
    const forms::StepSpec s = step_of(k);
    CHECK(s.smem_bytes.is(0));
    CHECK(s.scratch_bytes == s.grid[0] * align_up(k.inner_points() * 4, 16));
    const forms::Decision d = decide(k);
    const forms::Candidate& refused = d.candidates.back();
    CHECK(!refused.fit.ok);
    CHECK_THAT(refused.fit.why, Catch::Contains("shared memory"));
    compiles(k);
  }
}

TEST_CASE("few long rows: blocks of a cluster share each, and its scratch") {
  const std::vector<std::pair<ReduceKind, DType>> kinds = {{ReduceKind::sum, DType::f32}, {ReduceKind::argmax, DType::f32}};
  const auto few = [&](const Expr& columns, const Expr& n, bool scan = false, SymTable syms = {}) {
    return rows(columns, true, scan, kinds, std::move(syms), n);
  };
  CHECK(field(few(50257, 4), "blocks") == 8);
  CHECK(step_of(few(50257, 4)).grid[0].is(32));
  const int64_t threads = field(few(50257, 4), "threads");
  CHECK(step_of(few(50257, 4)).max_smem_bytes == align_up(6283 * 4, 16) + 2 * 16 * threads / 32 * 8);
  CHECK(field(few(50257, 400), "blocks") == 1);
  CHECK(field(few(1024, 4), "blocks") == 1);
  SymTable syms;
  const Expr n = Expr::symbol(syms.add({"n", SymKind::shape, 1, 60000, 50000, {}, {}}));
  for (const loop::LoopKernel& k : {few(50257, 4), few(65536, 2), few(50257, 4, true), few(n, 2, false, syms), few(n, 2, true, syms)}) {
    CHECK(field(k, "blocks") == 8);
    compiles(k);
  }
  SymTable any;  // a thread's part of a scan has a bound
  const Expr unbounded = Expr::symbol(any.add({"n", SymKind::shape, 1, kInf, 50000, {}, {}}));
  CHECK(field(few(unbounded, 2, true, any), "blocks") == 1);
  Machine before = h200();
  before.sm = 80;
  const loop::Kernel k = few(50257, 4);
  const SymTable its = syms_of(k);
  size_t refused = 0;
  for (const forms::Candidate& c : forms::decide({k, its, before}).candidates) {
    if (c.choice.values.empty() || field_of(c.choice, "blocks") == 1) continue;
    CHECK_THAT(c.fit.why, Catch::Contains("sm_90"));
    ++refused;
  }
  CHECK(refused > 0);
}

TEST_CASE("tiles: few rows divide k over a cluster, and every candidate that fits fits a processor") {
  for (DType t : {DType::f32, DType::bf16})
    for (int64_t m : {1, 32, 64, 128, 4096})
      for (int64_t n : {10, 1024, 4096})
        for (int64_t k : {8, 768, 4096}) {
          const loop::MatmulKernel mm = linear(t, m, n, k);
          const loop::Kernel kernel = mm;
          for (const forms::Candidate& c : decide(mm).candidates) {
            if (!c.fit) continue;
            const forms::StepSpec s = c.choice.form->step({kernel, mm.syms, h200()}, c.choice);
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
    target.f32_matmul = f32_matmul;
    const Machine machine = machine_of(target);
    const forms::Decision d = forms::decide({loop::Kernel(mm), mm.syms, machine});
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
  const forms::StepSpec s = c.form->step({loop::Kernel(mm), mm.syms, h200()}, c);
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
  const forms::StepSpec s = c.form->step({loop::Kernel(mm), mm.syms, h200()}, c);
  REQUIRE(s.maps.size() == 2);
  CHECK((s.maps[0].dims == Exprs{132, 4096} && s.maps[0].box == std::vector<int32_t>{32, 64}));
  CHECK((s.maps[1].dims == Exprs{160, 1000, 2} && s.maps[1].stride_bytes == Exprs{640, 640000} &&
         s.maps[1].box == std::vector<int32_t>{32, 96, 2}));
  const auto stored = c.form->weight(loop::Kernel(mm), c);
  REQUIRE(stored);
  CHECK((stored->first == mm.b.param && stored->second.parts == 2 && stored->second.column_groups == 32 &&
         stored->second.elems() == 2 * 160 * 1000));
  for (int change = 0; change < 4; ++change) {
    loop::MatmulKernel other = mm;
    if (change == 0) other.in = DType::bf16;
    if (change == 1) other.a = {other.a.param, 0, {}, 1, 4096};
    if (change == 2) other.b.base = Expr::symbol(other.syms.add({"at", SymKind::shape, 0, kInf, 1, {}, {}}));
    if (change == 3) other.b_panels_read = true;
    INFO(change);
    CHECK(!fits(other));
  }
  Machine machine = h200();
  machine.f32_matmul = F32Matmul::high;
  CHECK(forms::decide({loop::Kernel(mm), mm.syms, machine}).choice.form->name() == "cuda_wgmma");
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
    source += choice->form->source({loop::Kernel(mm), mm.syms, h200()}, *choice, fmt::format("{}_{}", mm.name, i));
  }
  CHECK(nvrtc->compile(source, "kernels.cu", headers(), "sm_90a").size() > 1000);
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
  const forms::StepSpec a = c.form->step({loop::Kernel(along), along.syms, h200()}, c),
                        b = c.form->step({loop::Kernel(across), across.syms, h200()}, c);
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
      source += choice->form->source({loop::Kernel(*k), k->syms, h200()}, *choice, fmt::format("{}_{}_{}", k->name, i, k == &along));
    }
  CHECK(nvrtc->compile(source, "kernels.cu", headers(), "sm_90a").size() > 1000);
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
  Machine machine = h200();
  machine.f32_matmul = F32Matmul::high;
  std::string source = "#include \"wgmma.cuh\"\n";
  for (DType t : {DType::bf16, DType::f16, DType::f32})
    for (size_t i = 0; i < std::size(choices); ++i) {
      if (t == DType::f16 && i % 2) continue;
      const Result<forms::Choice> c = forms::parse_choice(std::string("cuda_wgmma ") + choices[i]);
      INFO(choices[i]);
      REQUIRE(c);
      const loop::MatmulKernel mm = linear(t, 100, 1024, 4096);
      source += c->form->source({loop::Kernel(mm), mm.syms, machine}, *c, fmt::format("{}_{}", mm.name, i));
    }
  CHECK(nvrtc->compile(source, "kernels.cu", headers(), "sm_90a").size() > 1000);
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
    const std::string text = c.form->source({loop::Kernel(mm), mm.syms, h200()}, c, "f");
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
    const std::string source = c.form->source({loop::Kernel(mm), mm.syms, h200()}, c, "f");
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
    return c.form->source({loop::Kernel(mm), mm.syms, h200()}, c, "f");
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

TEST_CASE("pointwise ops compile in every dtype") {
  const std::vector<Op> all = {Op::neg, Op::abs, Op::sign, Op::relu, Op::isnan, Op::isinf};
  const std::vector<Op> arithmetic = {Op::add,     Op::sub,     Op::mul, Op::div_trunc, Op::div_floor, Op::remainder, Op::fmod, Op::pow,
                                      Op::minimum, Op::maximum, Op::eq,  Op::ne,        Op::lt,        Op::le,        Op::gt,   Op::ge};
  loop::Module m;
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    std::vector<Op> unary = all, binary = arithmetic;
    for (Op op :
         {Op::ceil, Op::floor, Op::round, Op::trunc, Op::sqrt, Op::rsqrt, Op::reciprocal, Op::exp,    Op::exp2,    Op::expm1,  Op::log,
          Op::log2, Op::log10, Op::log1p, Op::sin,   Op::cos,  Op::tan,   Op::asin,       Op::acos,   Op::atan,    Op::sinh,   Op::cosh,
          Op::tanh, Op::asinh, Op::acosh, Op::atanh, Op::erf,  Op::erfc,  Op::erfinv,     Op::lgamma, Op::digamma, Op::sigmoid})
      unary.push_back(op);
    for (Op op : {Op::div, Op::atan2, Op::hypot, Op::copysign}) binary.push_back(op);
    m.kernels.push(pointwise(t, unary, binary));
  }
  for (DType t : {DType::u8, DType::i8, DType::i16, DType::i32, DType::i64}) {
    std::vector<Op> unary = all, binary = arithmetic;
    unary.push_back(Op::bitwise_not);
    for (Op op : {Op::bit_and, Op::bit_or, Op::bit_xor, Op::shl, Op::shr}) binary.push_back(op);
    m.kernels.push(pointwise(t, unary, binary));
  }
  m.kernels.push(pointwise(DType::boolean, {Op::logical_not}, {Op::bit_and, Op::bit_or, Op::bit_xor, Op::eq, Op::ne}));
  compiles(m);
}

TEST_CASE("reductions and scans compile in every dtype") {
  std::vector<std::pair<ReduceKind, DType>> kinds;
  for (DType t : {DType::f32, DType::f64, DType::i64, DType::i32, DType::i8})
    for (ReduceKind kind : {ReduceKind::sum, ReduceKind::prod, ReduceKind::max, ReduceKind::min, ReduceKind::argmax, ReduceKind::argmin})
      kinds.emplace_back(kind, t);
  compiles(rows(1000, false, false, kinds));
  kinds.emplace_back(ReduceKind::logsumexp, DType::f32);
  kinds.emplace_back(ReduceKind::sum, DType::bf16);
  compiles(rows(1000, false, true, kinds));
  for (int columns : {1024, 1000, 4096, 32768, 77})
    compiles(rows(columns, true, false, {{ReduceKind::sum, DType::f32}, {ReduceKind::max, DType::f32}, {ReduceKind::argmax, DType::bf16}}));
  compiles(rows(77, false, true, {{ReduceKind::sum, DType::f32}, {ReduceKind::max, DType::f32}, {ReduceKind::prod, DType::i64}}));
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
