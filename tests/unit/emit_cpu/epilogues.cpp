#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "aotc/detail/library_abi.h"
#include "emit/cpu/loop_call.h"
#include "emit/cpu/module.h"
#include "harness.h"

using namespace aotc;
using namespace aotc::test;

namespace {

/// Bias, residual and relu over columns [begin, end), stored head by head: out[batch, column / e, m, column % e].
LoopKernel epilogue(const Expr& batch, const Expr& m, int64_t n, int64_t e, const SymTable& syms) {
  KernelBuilder b("epi");
  b.k.syms = syms;
  const Expr g = b.outer("g", batch), i = b.outer("i", m), j = b.inner("j", Expr(n));
  const DType f = DType::f32;
  b.param("a", ParamRole::input, f, {});
  b.param("b", ParamRole::input, f, {});
  const ParamId bias = b.param("bias", ParamRole::input, f, {Expr(n)}), res = b.param("res", ParamRole::input, f, {batch, m, Expr(n)}),
                out = b.param("out", ParamRole::output, DType::bf16, {batch, Expr(n / e), m, Expr(e)}),
                acc = b.param("acc", ParamRole::acc, f, {m, Expr(n)});
  b.block(true);
  const InstId x = b.op(Op::add, f, {b.load(acc, i * n + j), b.load(bias, j)});
  const InstId y = b.op(Op::relu, f, {b.op(Op::add, f, {x, b.load(res, (g * m + i) * n + j)})});
  b.store(out, ((g * Expr(n / e) + floordiv(j, e)) * m + i) * e + mod(j, e), b.op(Op::cast, DType::bf16, {y}));
  return b.k;
}

float bf16_to_float(uint16_t x) {
  const uint32_t u = static_cast<uint32_t>(x) << 16;
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}

}  // namespace

TEST_CASE("epilogue over tiles") {
  constexpr int64_t kN = 96, kHead = 24, kM = 5, kBatch = 2;
  MatmulKernel mm;
  mm.name = "mm";
  SymInfo rows;
  rows.name = "rows";
  const Expr m = Expr::symbol(mm.syms.add(rows));
  mm.batch = {Expr(kBatch)};
  mm.m = m, mm.n = kN, mm.k = 1;
  Segment s;
  s.n_begin = 0, s.n_end = kN;
  s.epilogue = epilogue(kBatch, m, kN, kHead, mm.syms);
  mm.segments.push_back(s);
  Module module;
  module.kernels.push(mm);

  std::mt19937 rng(3);
  std::normal_distribution<float> normal;
  std::vector<float> acc(kBatch * kM * kN), bias(kN), res(acc.size());
  for (auto* v : {&acc, &bias, &res})
    for (float& x : *v) x = normal(rng);
  for (Isa isa : loop_isas()) {
    if (!runs_here(isa)) continue;
    const auto units = emit::cpu::emit_module(module, {isa});
    REQUIRE(units.size() == 1);
    CompiledUnit lib(units[0].source, isa);
    const auto fn = reinterpret_cast<aotc_epilogue_fn>(
        lib.symbol(emit::cpu::attached_function("mm", attached(module.kernels[KernelId{0}]).at(0), isa)));
    REQUIRE(fn);
    std::vector<uint16_t> out(acc.size() + 8, 0x1234);
    void* ptr[] = {nullptr, nullptr, bias.data(), res.data(), out.data()};
    int64_t size[AOTC_GEMM_SIZES + 3] = {};
    size[AOTC_GEMM_SIZES + 2] = kM;
    aotc_kargs args{ptr, size, nullptr, nullptr, 0, 1, nullptr};
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t m0 = 0; m0 < kM; m0 += 2)
        for (int64_t n0 = 0; n0 < kN; n0 += 40)
          fn(&args, &acc[static_cast<size_t>((b * kM + m0) * kN + n0)], kN, b, m0, std::min<int64_t>(2, kM - m0), n0,
             std::min<int64_t>(40, kN - n0));
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t i = 0; i < kM; ++i)
        for (int64_t j = 0; j < kN; ++j) {
          const size_t at = static_cast<size_t>((b * kM + i) * kN + j);
          const float want = std::max(0.0f, acc[at] + bias[static_cast<size_t>(j)] + res[at]);
          const float got = bf16_to_float(out[static_cast<size_t>(((b * (kN / kHead) + j / kHead) * kM + i) * kHead + j % kHead)]);
          REQUIRE(std::abs(want - got) <= want / 256);
        }
    CHECK(out.back() == 0x1234);
  }
}
