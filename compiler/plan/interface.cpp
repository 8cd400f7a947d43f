#include "plan/interface.h"

#include <algorithm>

#include "aotc/detail/library_abi.h"
#include "graph/infer.h"
#include "plan/kernels.h"
#include "plan/scratch.h"
#include "plan/weights.h"

namespace aotc::plan {

using loop::AttentionKernel;
using loop::ConvKernel;
using loop::LibraryKernel;
using loop::LoopKernel;
using loop::MatmulKernel;

namespace {

/// About four microseconds: less than this is not worth waking a thread for.
constexpr int64_t kGrainOps = 20'000;       ///< scalar operations of a fused loop
constexpr int64_t kGrainMacs = 250'000;     ///< multiply-adds of a contraction
constexpr int64_t kGrainCompares = 10'000;  ///< of a sort

/// Units of `cost` each such that one share is worth `enough`.
Expr grain_of(int64_t enough, const Expr& cost, const SymTable& syms) { return syms.simplify(max(1, floordiv(enough, max(1, cost)))); }

int64_t weight_of(const loop::LoopKernel& k, const loop::Inst& i) {
  switch (i.kind) {
    case loop::InstKind::constant: return 0;
    case loop::InstKind::index: return 1;
    case loop::InstKind::load: return k.syms.size() && i.index.is_const() ? 0 : 1;
    case loop::InstKind::op: break;
    default: return 1;
  }
  if (op_class(i.op) != OpClass::unary) return i.op == Op::pow || i.op == Op::atan2 || i.op == Op::remainder ? 12 : 1;
  static constexpr Op kCheap[] = {Op::cast,  Op::bitcast, Op::neg,  Op::abs,   Op::sign,  Op::ceil,        Op::floor,
                                  Op::round, Op::trunc,   Op::relu, Op::isnan, Op::isinf, Op::logical_not, Op::bitwise_not};
  return std::find(std::begin(kCheap), std::end(kCheap), i.op) != std::end(kCheap) ? 1 : 8;
}

Expr points(const std::vector<loop::LoopVar>& vars) {
  Expr n = 1;
  for (const loop::LoopVar& v : vars) n *= v.extent;
  return n;
}

void add_symbols(const std::vector<SymId>& symbols, std::vector<Expr>& sizes) {
  for (SymId s : symbols) sizes.push_back(Expr::symbol(s));
}

KernelInterface describe(const LoopKernel& k, const Choice&, const SymTable& syms) {
  KernelInterface f;
  f.symbol = k.name;
  add_symbols(kernel_symbols(k), f.sizes);
  f.work = loop_work(k);
  int64_t once = 0, each = 0;
  for (const loop::Block& b : k.blocks)
    for (loop::InstId i : b.insts) (b.over_inner ? each : once) += weight_of(k, k.insts[i]);
  f.grain = grain_of(kGrainOps, (points(k.inner) * each + once) * lane_block(k), syms);
  f.scratch_bytes = local_layout(k).bytes;
  return f;
}

aotc_gemm_config gemm_config(const GemmChoice& c, bool packed) {
  aotc_gemm_config g{};
  g.mr = c.mr, g.nv = c.nv, g.mc = c.mc, g.nc = c.nc, g.kc = c.kc, g.kp = c.kp;
  g.b_packed = packed, g.pack_a = c.pack_a;
  return g;
}

KernelInterface describe(const MatmulKernel& k, const Choice& choice, const SymTable& syms) {
  const auto& c = std::get<GemmChoice>(choice);
  const std::optional<Panels> panels = panels_of(k, c);
  KernelInterface f;
  f.library = true;
  f.symbol = fmt::format("aotc_gemm_{}", symbol_dtype(k.in));
  AOTC_CHECK(k.batch.size() <= 2, "{} has {} batch dims", k.name, k.batch.size());
  auto right_aligned = [&](const Exprs& xs, size_t i, const Expr& missing) {
    const size_t skip = 2 - k.batch.size();
    return i < skip ? missing : xs.at(i - skip);
  };
  auto& s = f.sizes;
  s.assign(AOTC_GEMM_SIZES, Expr(0));
  s[AOTC_GEMM_B0] = right_aligned(k.batch, 0, 1);
  s[AOTC_GEMM_B1] = right_aligned(k.batch, 1, 1);
  s[AOTC_GEMM_M] = k.m;
  s[AOTC_GEMM_N] = k.n;
  s[AOTC_GEMM_K] = k.k;
  auto operand = [&](const loop::Operand& o, int first) {  // the sizes of an operand stand in one order
    if (o.prologue) return;
    s[first] = o.base;
    s[first + 1] = right_aligned(o.batch_strides, 0, 0);
    s[first + 2] = right_aligned(o.batch_strides, 1, 0);
    s[first + 3] = o.row_stride;
    s[first + 4] = o.col_stride;
  };
  static_assert(AOTC_GEMM_A_CS == AOTC_GEMM_A_BASE + 4 && AOTC_GEMM_B_CS == AOTC_GEMM_B_BASE + 4);
  operand(k.a, AOTC_GEMM_A_BASE);
  operand(k.b, AOTC_GEMM_B_BASE);
  if (panels) {
    s[AOTC_GEMM_B_BASE] = s[AOTC_GEMM_B_RS] = s[AOTC_GEMM_B_CS] = 0;
    const int64_t sets = static_cast<int64_t>(panels->matrices.size() / k.segments.size());
    Expr stride = panels->elems() / std::max<int64_t>(sets, 1);
    for (int d : {AOTC_GEMM_B_B1, AOTC_GEMM_B_B0}) {
      if (s[d].is(0)) continue;
      s[d] = stride;
      stride *= s[d - AOTC_GEMM_B_B0 + AOTC_GEMM_B0];
    }
  }
  Expr n_blocks = 0;
  for (const loop::Segment& x : k.segments) {
    s.push_back(x.n_begin);
    s.push_back(x.n_end);
    n_blocks += ceildiv(x.n_end - x.n_begin, c.nc);
  }
  add_symbols(attached_symbols(k), s);
  f.work = product(k.batch) * ceildiv(k.m, c.mc) * n_blocks;
  f.grain = grain_of(kGrainMacs, min(k.m, c.mc) * min(k.n, c.nc) * k.k, syms);
  const aotc_gemm_config g = gemm_config(c, panels.has_value());
  f.scratch_bytes = gemm_scratch(g, k.k, std::max<int64_t>(4, dtype_bytes(k.acc)), k.a.prologue.has_value(), k.b.prologue.has_value());
  return f;
}

/// The dim d of three spatial dims where the kernel has fewer: missing leading ones are 1.
Expr spatial(const Exprs& dims, int d) {
  const int have = static_cast<int>(dims.size()) - 2, i = d - (3 - have);
  return i < 0 ? Expr(1) : dims[static_cast<size_t>(2 + i)];
}

KernelInterface describe(const ConvKernel& k, const Choice& choice, const SymTable& syms) {
  const auto& c = std::get<ConvChoice>(choice);
  KernelInterface f;
  f.library = true;
  f.symbol = fmt::format("aotc_conv_{}", symbol_dtype(k.in));
  auto& s = f.sizes;
  s = {k.x_dims[0], k.x_dims[1]};
  for (int d = 0; d < 3; ++d) s.push_back(spatial(k.x_dims, d));
  s.push_back(k.out_dims[1]);
  for (int d = 0; d < 3; ++d) s.push_back(spatial(k.out_dims, d));
  AOTC_CHECK(s.size() == AOTC_CONV_SIZES);
  add_symbols(attached_symbols(k), s);
  const Expr n = k.x_dims[0], co = k.out_dims[1], pixels = product(Exprs(k.out_dims.begin() + 2, k.out_dims.end()));
  Expr depth = floordiv(k.x_dims[1], k.groups);
  for (int64_t x : k.kernel) depth *= x;
  Expr product_pixels = n, phases = 1;  // of one product
  if (c.algo == AOTC_CONV_PHASES) {
    const int64_t lead = 3 - static_cast<int64_t>(k.stride.size());
    for (size_t i = 0; i < k.stride.size(); ++i) {
      product_pixels *= ceildiv(k.out_dims[2 + i], k.stride[i]);
      if (lead + static_cast<int64_t>(i) < 2) phases *= k.stride[i];
    }
  } else {
    product_pixels *= pixels;
  }
  if (c.algo == AOTC_CONV_DIRECT) {
    f.work = n * co;
    f.grain = grain_of(kGrainMacs / 4, pixels * depth, syms);
  } else {
    const Expr group_channels = floordiv(co, k.groups);
    f.work = ceildiv(group_channels, c.mc) * k.groups * phases * ceildiv(product_pixels, c.nc);
    f.grain = grain_of(kGrainMacs, min(group_channels, c.mc) * min(product_pixels, c.nc) * floordiv(depth, phases), syms);
  }
  aotc_conv_config g{};
  g.algo = c.algo, g.mc = c.mc, g.nc = c.nc, g.kc = c.kc, g.kp = c.kp, g.w_packed = panels_of(k, c).has_value();
  g.stride[2] = static_cast<int32_t>(k.stride.back());
  f.scratch_bytes = conv_scratch(g, depth, std::max<int64_t>(4, dtype_bytes(k.acc)));
  return f;
}

KernelInterface describe(const AttentionKernel& k, const Choice& choice, const SymTable& syms) {
  const auto& c = std::get<AttnChoice>(choice);
  KernelInterface f;
  f.library = true;
  f.symbol = fmt::format("aotc_attention_{}", symbol_dtype(k.dtype));
  auto& s = f.sizes;
  s = {k.batch, k.heads, k.kv_heads, k.q_len, k.kv_len, k.head_dim, k.v_dim};
  auto view = [&](const AttentionKernel::View& v) { s.insert(s.end(), {v.base, v.b, v.h, v.s, v.e}); };
  for (const auto* v : {&k.q, &k.k, &k.v, &k.out}) view(*v);
  view(k.mask ? *k.mask : AttentionKernel::View{});
  AOTC_CHECK(s.size() == AOTC_ATTN_SIZES);
  const Expr rows = floordiv(k.heads, k.kv_heads) * k.q_len;
  f.work = k.batch * k.kv_heads * ceildiv(rows, c.q_block);
  f.grain = grain_of(kGrainMacs, min(rows, c.q_block) * k.kv_len * (k.head_dim + k.v_dim), syms);
  aotc_attn_config g{};
  g.q_block = c.q_block, g.kv_block = c.kv_block;
  f.scratch_bytes = attention_scratch(g, k.head_dim, k.v_dim, k.dtype == DType::f64 ? 8 : 4);
  return f;
}

int64_t int_attr(const LibraryKernel& k, Attr a, int64_t fallback) {
  auto it = k.attrs.find(a);
  if (it == k.attrs.end()) return fallback;
  if (const auto* b = std::get_if<bool>(&it->second)) return *b;
  if (const auto* i = std::get_if<int64_t>(&it->second)) return *i;
  return fallback;
}

KernelInterface describe(const LibraryKernel& k, const Choice&, const SymTable& syms) {
  KernelInterface f;
  f.library = true;
  const DType t = k.params.begin()->dtype;
  f.symbol = fmt::format("aotc_{}_{}", k.algorithm, symbol_dtype(t));
  f.sizes = k.sizes;
  if (k.algorithm == "sort" || k.algorithm == "topk") {
    AOTC_CHECK(k.sizes.size() >= 3, "{} takes outer, n, inner", k.name);
    f.work = k.sizes[0] * k.sizes[2];
    f.grain = grain_of(kGrainCompares, k.sizes[1] * 8, syms);
    f.scratch_bytes = k.sizes[1] * (2 * (dtype_bytes(t) + 8)) + aotc_sort_scratch_bytes(0, dtype_bytes(t));
  } else if (k.algorithm == "recurrence") {
    const int cell = recurrence_cell(k);
    AOTC_CHECK(k.sizes.size() == 4, "{} takes steps, batch, hidden, width", k.name);
    const Expr &steps = k.sizes[0], &batch = k.sizes[1], &hidden = k.sizes[2], &width = k.sizes[3];
    f.work = ceildiv(batch, AOTC_RECURRENCE_ROWS);
    f.grain = grain_of(kGrainMacs, steps * width * hidden * aotc_recurrence_gates(cell), syms);
    f.scratch_bytes = recurrence_scratch(cell, hidden, width, t == DType::f64 ? 8 : 4);
  } else if (k.algorithm == "scatter") {
    auto reduce = k.attrs.find(Attr::reduce);
    const auto* kind = reduce == k.attrs.end() ? nullptr : std::get_if<std::string>(&reduce->second);
    const bool counts = (kind && *kind == "mean") || int_attr(k, Attr::include_self, 1) == 0;
    if (counts) f.scratch_bytes = product(k.params.begin()->dims) * 8;
  }
  return f;
}

}  // namespace

int recurrence_cell(const LibraryKernel& k) {
  static_assert(static_cast<int>(Cell::lstm) == AOTC_CELL_LSTM && static_cast<int>(Cell::gru) == AOTC_CELL_GRU &&
                static_cast<int>(Cell::tanh) == AOTC_CELL_TANH && static_cast<int>(Cell::relu) == AOTC_CELL_RELU);
  const std::string& name = std::get<std::string>(k.attrs.at(Attr::cell));
  const std::optional<Cell> cell = parse_cell(name);
  AOTC_CHECK(cell, "unknown cell {}", name);
  return static_cast<int>(*cell);
}

std::string_view symbol_dtype(DType t) {
  switch (t) {
    case DType::boolean: return "bool";
    case DType::u8: return "u8";
    case DType::i8: return "i8";
    case DType::i16: return "i16";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::c64: return "c64";
    case DType::c128: return "c128";
  }
  return "?";
}

std::vector<loop::ParamId> argument_params(const loop::Kernel& kernel) {
  std::vector<loop::ParamId> r;
  const auto& params = params_of(kernel);
  for (size_t i = 0; i < params.size(); ++i)
    if (takes_argument(params.raw()[i])) r.push_back(static_cast<loop::ParamId>(i));
  return r;
}

int argument_index(const loop::Kernel& kernel, loop::ParamId p) {
  const auto all = argument_params(kernel);
  const auto it = std::find(all.begin(), all.end(), p);
  AOTC_CHECK(it != all.end(), "a parameter of {} takes no argument", name_of(kernel));
  return static_cast<int>(it - all.begin());
}

Choice default_choice(const loop::Kernel& kernel, const SymTable& syms) {
  if (const auto* m = std::get_if<MatmulKernel>(&kernel)) {
    GemmChoice c;
    if (syms.hint(m->m) < c.mc) c.mc = static_cast<int>(std::max<int64_t>(1, syms.hint(m->m)));
    return c;
  }
  if (const auto* v = std::get_if<ConvKernel>(&kernel)) {
    ConvChoice c;
    const Expr per_group = floordiv(v->x_dims[1], v->groups);
    if (!is_float(v->in) || (v->groups > 1 && syms.hint(per_group) <= 2)) c.algo = AOTC_CONV_DIRECT;
    if (is_float(v->in) && v->transposed && v->stride.back() <= 16) c.algo = AOTC_CONV_PHASES, c.nc = 64;
    return c;
  }
  if (std::holds_alternative<AttentionKernel>(kernel)) return AttnChoice{};
  return {};
}

KernelInterface interface_of(const loop::Kernel& kernel, const Choice& choice, const SymTable& syms) {
  const Choice c = std::holds_alternative<std::monostate>(choice) ? default_choice(kernel, syms) : choice;
  KernelInterface f = std::visit([&](const auto& k) { return describe(k, c, syms); }, kernel);
  for (Expr* e : {&f.work, &f.grain, &f.scratch_bytes}) *e = syms.simplify(*e);
  for (Expr& e : f.sizes) e = syms.simplify(e);
  return f;
}

}  // namespace aotc::plan
