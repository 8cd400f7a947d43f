// Launch decisions as data, and generated CUDA text through NVRTC: all pointwise ops in their dtypes, reductions, scans. NVRTC
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
  const std::string text = d.choice.form->source({loop::Kernel(b.k), b.k.syms, h200(), {}}, d.choice, "halves_kernel");
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
  before.sm = 80, before.features = machine_of(std::string("sm_80")).features;
  const loop::Kernel k = few(50257, 4);
  const SymTable its = syms_of(k);
  size_t refused = 0;
  for (const forms::Candidate& c : forms::decide({k, its, before, {}}).candidates) {
    if (c.choice.values.empty() || field_of(c.choice, "blocks") == 1) continue;
    CHECK_THAT(c.fit.why, Catch::Contains("sm_90"));
    ++refused;
  }
  CHECK(refused > 0);
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
