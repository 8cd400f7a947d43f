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

/// A small whole number of type t.
std::vector<std::byte> bytes_of(DType t, float x) {
  const auto bytes = [](auto v) {
    std::vector<std::byte> b(sizeof v);
    std::memcpy(b.data(), &v, sizeof v);
    return b;
  };
  switch (t) {
    case DType::f64: return bytes(static_cast<double>(x));
    case DType::i64: return bytes(static_cast<int64_t>(x));
    case DType::i8: return bytes(static_cast<int8_t>(x));
    case DType::bf16: {
      uint32_t u;
      std::memcpy(&u, &x, 4);
      return bytes(static_cast<uint16_t>(u >> 16));
    }
    default: return bytes(x);
  }
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

TEST_CASE("an epilogue whose columns are rows of what it stores turns them in registers") {
  constexpr int64_t kN = 70, kBatch = 2;
  for (DType t : {DType::f32, DType::f64, DType::bf16, DType::i8, DType::i64}) {
    MatmulKernel mm;
    mm.name = "mm";
    SymInfo rows;
    rows.name = "rows";
    const Expr m = Expr::symbol(mm.syms.add(rows));
    mm.batch = {Expr(kBatch)};
    mm.m = m, mm.n = kN, mm.k = 1;
    KernelBuilder b("epi");
    b.k.syms = mm.syms;
    const Expr g = b.outer("g", Expr(kBatch)), i = b.outer("i", m), j = b.inner("j", Expr(kN));
    const DType f = DType::f32;
    b.param("a", ParamRole::input, f, {});
    b.param("b", ParamRole::input, f, {});
    // Of the residual, which is read as the result is written, rows begin with a number that is not of the sum.
    const ParamId res = b.param("res", ParamRole::input, f, {Expr(kBatch), Expr(kN), m + 1}),
                  out = b.param("out", ParamRole::output, t, {Expr(kBatch), Expr(kN), m + 1}),
                  acc = b.param("acc", ParamRole::acc, f, {m, Expr(kN)});
    b.block(true);
    const Expr at = (g * kN + j) * (m + 1) + i + 1;
    const InstId x = b.op(Op::add, f, {b.load(acc, i * kN + j), b.load(res, at)});
    b.store(out, at, t == f ? x : b.op(Op::cast, t, {x}));
    Segment s;
    s.n_begin = 0, s.n_end = kN;
    s.epilogue = b.k;
    REQUIRE(emit::cpu::turning_rows(b.k).has_value());
    CHECK(emit::cpu::turning_rows(b.k)->outer == 1);
    mm.segments.push_back(s);
    Module module;
    module.kernels.push(mm);
    CAPTURE(dtype_name(t));
    for (Isa isa : loop_isas()) {
      if (!runs_here(isa)) continue;
      const auto units = emit::cpu::emit_module(module, {isa});
      REQUIRE(units.size() == 1);
      CompiledUnit lib(units[0].source, isa);
      const auto fn = reinterpret_cast<aotc_epilogue_fn>(
          lib.symbol(emit::cpu::attached_function("mm", attached(module.kernels[KernelId{0}]).at(0), isa)));
      REQUIRE(fn);
      for (const int64_t count : {1, 5, 16, 33, 56}) {
        std::vector<float> sums(static_cast<size_t>(kBatch * count * kN)), residual(static_cast<size_t>(kBatch * kN * (count + 1)));
        // Whole numbers below 64: every type has them.
        for (size_t q = 0; q < sums.size(); ++q) sums[q] = static_cast<float>(q * 7 % 29);
        for (size_t q = 0; q < residual.size(); ++q) residual[q] = static_cast<float>(q * 5 % 31);
        const size_t bytes = static_cast<size_t>(dtype_bytes(t));
        std::vector<std::byte> result(residual.size() * bytes, std::byte{0x55});
        void* ptr[] = {nullptr, nullptr, residual.data(), result.data()};
        int64_t size[AOTC_GEMM_SIZES + 3] = {};
        size[AOTC_GEMM_SIZES + 2] = count;
        aotc_kargs args{ptr, size, nullptr, nullptr, 0, 1, nullptr};
        const int64_t step = count > 20 ? 20 : 3;
        for (int64_t n = 0; n < kBatch; ++n)
          for (int64_t m0 = 0; m0 < count; m0 += step)
            for (int64_t n0 = 0; n0 < kN; n0 += 40)
              fn(&args, &sums[static_cast<size_t>((n * count + m0) * kN + n0)], kN, n, m0, std::min(step, count - m0), n0,
                 std::min<int64_t>(40, kN - n0));
        for (size_t q = 0; q < residual.size(); ++q) {
          const int64_t row = static_cast<int64_t>(q) % (count + 1), column = static_cast<int64_t>(q) / (count + 1);
          std::vector<std::byte> want(bytes, std::byte{0x55});
          if (row > 0) want = bytes_of(t, residual[q] + sums[static_cast<size_t>((column / kN * count + row - 1) * kN + column % kN)]);
          REQUIRE(std::memcmp(want.data(), result.data() + q * bytes, bytes) == 0);
        }
      }
    }
  }
}
