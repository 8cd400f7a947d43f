#pragma once
// Products by weights of few bits as the forms of GPUs take them (loop::QuantisedWeight, by column), made by hand.
#include "unit/emit_cpu/kernel_builder.h"

namespace aotc::test {

struct QuantisedProduct {
  DType type, values;
  int bits;
  int64_t group;  ///< 0: all of k
  bool offsets;
  int64_t m, n, k;
  bool residual;                  ///< the epilogue adds a tensor that lies as the output does
  std::vector<int64_t> segments;  ///< where all but the last end
  bool wide_scales = false;       ///< float32, else of the product's type
  bool across = false;            ///< rows lie as [k, m]
};

inline loop::LoopKernel quantised_epilogue(const loop::MatmulKernel& mm, const QuantisedProduct& c, int64_t begin, int64_t end,
                                           ParamId bias, ParamId residual, ParamId out) {
  KernelBuilder b("epilogue");
  b.k.syms = mm.syms;
  const Expr row = b.outer("row", mm.m), column = b.inner("column", end - begin);
  b.k.params = mm.params;
  const ParamId acc = b.param("acc", ParamRole::acc, DType::f32, {mm.m, end - begin});
  b.block(true);
  const Expr at = row * c.n + column + begin;
  InstId v =
      b.op(Op::add, DType::f32, {b.load(acc, row * (end - begin) + column), b.op(Op::cast, DType::f32, {b.load(bias, column + begin)})});
  if (c.residual) v = b.op(Op::add, DType::f32, {v, b.op(Op::cast, DType::f32, {b.load(residual, at)})});
  b.store(out, at, b.op(Op::cast, c.type, {v}));
  return std::move(b.k);
}

inline loop::MatmulKernel quantised_product(const QuantisedProduct& c, const std::string& name, const Expr& rows, const SymTable& syms) {
  const int64_t group = c.group ? c.group : c.k, groups = (c.k + group - 1) / group;
  const DType scale = c.wide_scales ? DType::f32 : c.type;
  loop::MatmulKernel mm;
  mm.name = name;
  mm.syms = syms, mm.m = rows, mm.n = c.n, mm.k = c.k, mm.in = c.type;
  KernelBuilder b("prologue");
  b.k.syms = mm.syms;
  const Expr depth = b.outer("depth", c.k), column = b.inner("column", c.n);
  const ParamId x = b.param("x", ParamRole::input, c.type, {mm.m, c.k}), values = b.param("values", ParamRole::input, c.values, {c.n, c.k});
  const ParamId scales = b.param("scales", ParamRole::input, scale, {c.n, groups});
  const ParamId offsets = b.param("offsets", ParamRole::input, scale, {c.n, groups}),
                bias = b.param("bias", ParamRole::input, c.type, {c.n});
  const ParamId residual = b.param("residual", ParamRole::input, c.type, {mm.m, c.n}),
                out = b.param("out", ParamRole::output, c.type, {mm.m, c.n});
  mm.params = b.k.params;
  const ParamId operand = b.param("operand", ParamRole::operand, c.type, {c.k, c.n});
  b.block(true);
  const auto at = [&](ParamId p) { return b.op(Op::cast, DType::f32, {b.load(p, column * groups + floordiv(depth, group))}); };
  InstId v = b.op(Op::mul, DType::f32, {b.op(Op::cast, DType::f32, {b.load(values, column * c.k + depth)}), at(scales)});
  if (c.offsets) v = b.op(Op::add, DType::f32, {v, at(offsets)});
  b.store(operand, depth * c.n + column, b.op(Op::cast, c.type, {v}));
  mm.a = c.across ? loop::Operand{x, 0, {}, 1, mm.m, {}} : loop::Operand{x, 0, {}, c.k, 1, {}};
  mm.b.prologue = std::move(b.k);
  mm.b_quantised = loop::QuantisedWeight{values, scales, c.offsets ? offsets : kNone<ParamId>, group, c.bits, true};
  int64_t begin = 0;
  for (const int64_t end : c.segments.empty() ? std::vector<int64_t>{c.n} : c.segments) {
    mm.segments.push_back({begin, end, quantised_epilogue(mm, c, begin, end, bias, residual, out)});
    begin = end;
  }
  if (begin < c.n) mm.segments.push_back({begin, c.n, quantised_epilogue(mm, c, begin, c.n, bias, residual, out)});
  return mm;
}
inline loop::MatmulKernel quantised_product(const QuantisedProduct& c, const std::string& name) {
  return quantised_product(c, name, c.m, {});
}

}  // namespace aotc::test
