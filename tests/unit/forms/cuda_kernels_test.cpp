// The CUDA forms of all kernel kinds beside fused loops: every kernel has a choice that fits, all that fit are legal, survive their text
// and stay within what a launch may have; the last form of a kind takes everything; the text of each form compiles.
#include <set>

#include "cuda_support.h"
#include "forms/rules.h"
#include "unit/emit_cpu/kernel_builder.h"

using namespace aotc;
using namespace aotc::test;

namespace {

constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16, DType::f64};
constexpr DType kAll[] = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64,
                          DType::i32, DType::i16, DType::i8,   DType::u8,  DType::boolean};

/// acc (+ bias) to an output of the kernel's type.
LoopKernel epilogue(DType t, DType acc, const std::vector<Expr>& outer, const Expr& columns, IdVec<ParamId, Param> params) {
  KernelBuilder b("epilogue");
  Expr at = 0;
  for (const Expr& n : outer) at = at * n + b.outer("o", n);
  const Expr column = b.inner("column", columns);
  b.k.params = std::move(params);
  const ParamId out = static_cast<ParamId>(b.k.params.size() - 1);
  const ParamId sums = b.param("acc", ParamRole::acc, acc, {});
  b.block(true);
  b.store(out, at * columns + column, b.op(Op::cast, t, {b.load(sums, at * columns + column)}));
  return std::move(b.k);
}

IdVec<ParamId, Param> params(DType t, std::initializer_list<const char*> inputs) {
  IdVec<ParamId, Param> p;
  for (const char* name : inputs) p.push({name, ParamRole::input, t, {1000}});
  p.push({"out", ParamRole::output, t, {1000}});
  return p;
}

MatmulKernel product(DType t, const Expr& m, const Expr& n, const Expr& k, bool computed = false) {
  MatmulKernel mm;
  mm.name = fmt::format("product_{}", dtype_name(t));
  mm.params = params(t, {"a", "b"});
  mm.batch = {3};
  mm.m = m, mm.n = n, mm.k = k, mm.in = t, mm.acc = accumulator_type(t);
  mm.a = {ParamId{0}, 0, {m * k}, k, 1};
  mm.b = {ParamId{1}, 0, {0}, n, 1};
  if (computed) {
    KernelBuilder b("prologue");
    const Expr z = b.outer("z", 3), row = b.outer("row", m), column = b.inner("column", k);
    b.k.params = mm.params;
    const ParamId to = b.param("operand", ParamRole::operand, t, {m, k});
    b.block(true);
    b.store(to, row * k + column, b.op(Op::neg, t, {b.load(ParamId{0}, (z * m + row) * k + column)}));
    mm.a = {};
    mm.a.prologue = std::move(b.k);
  }
  mm.segments.push_back({0, n, epilogue(t, mm.acc, {3, m}, n, mm.params)});
  return mm;
}

ConvKernel convolution(DType t, Ints kernel, int64_t c, int64_t co, int64_t groups, bool transposed) {
  ConvKernel v;
  v.name = fmt::format("conv_{}", dtype_name(t));
  v.params = params(t, {"x", "w"});
  v.x = ParamId{0}, v.w = ParamId{1};
  v.transposed = transposed;
  v.x_dims = {2, c}, v.out_dims = {2, co};
  Expr pixels = 1;
  for (size_t d = 0; d < kernel.size(); ++d) {
    v.x_dims.push_back(20), v.out_dims.push_back(18);
    pixels *= 18;
  }
  v.kernel = std::move(kernel);
  v.stride = Ints(v.kernel.size(), transposed ? 2 : 1), v.dilation = Ints(v.kernel.size(), 1);
  v.padding = v.padding_hi = Ints(v.kernel.size(), 1);
  v.groups = groups;
  v.in = t, v.acc = accumulator_type(t);
  v.epilogue = epilogue(t, v.acc, {2, co}, pixels, v.params);
  return v;
}

AttentionKernel attention(DType t, const Expr& q, const Expr& kv, const Expr& e, std::optional<DType> mask, bool causal) {
  AttentionKernel a;
  a.name = fmt::format("attention_{}", dtype_name(t));
  a.batch = 2, a.heads = 8, a.kv_heads = 2, a.q_len = q, a.kv_len = kv, a.head_dim = a.v_dim = e;
  a.params = params(t, {"q", "k", "v"});
  a.dtype = t, a.causal = causal, a.scale = 0.125;
  const auto view = [&](uint32_t p, const Expr& heads, const Expr& s) {
    return AttentionKernel::View{ParamId{p}, 0, heads * s * e, s * e, e, 1};
  };
  a.q = view(0, 8, q), a.k = view(1, 2, kv), a.v = view(2, 2, kv), a.out = view(3, 8, q);
  if (mask) a.mask = AttentionKernel::View{a.params.push({"mask", ParamRole::input, *mask, {1000}}), 0, 0, 0, kv, 1};
  return a;
}

LibraryKernel library(const std::string& algorithm, DType t, size_t n_params, Exprs sizes) {
  LibraryKernel k;
  k.name = fmt::format("{}_{}", algorithm, dtype_name(t));
  k.algorithm = algorithm;
  for (size_t i = 0; i < n_params; ++i) k.params.push({"p", ParamRole::input, t, {1000}});
  k.sizes = std::move(sizes);
  return k;
}

LibraryKernel recurrence(const char* cell, DType t, int64_t batch, int64_t hidden) {
  LibraryKernel k = library("recurrence", t, std::string(cell) == "lstm" ? 7 : 6, {100, batch, hidden, hidden, 1, 100});
  k.attrs[Attr::cell] = std::string(cell);
  return k;
}
LibraryKernel transform(const char* kind, DType t, bool im, int64_t lines, int64_t inner, int64_t n) {
  const bool line = std::string(kind) == "line";
  LibraryKernel k = library("fourier", t, (im ? 3 : 2) + (line ? 1 : 2), {lines, inner, line ? n / 2 + 1 : n, n});
  k.name += fmt::format("_{}_{}_{}", kind, inner, n);
  k.attrs[Attr::kind] = std::string(kind), k.attrs[Attr::scale] = 0.5, k.attrs[Attr::reverse] = im;
  return k;
}

/// Checks all candidates; the decision.
forms::Decision checked(const loop::Kernel& k, const Machine& machine = h200(), const Numerics& numerics = {}) {
  const SymTable syms = syms_of(k);
  const forms::Site site{k, syms, machine, numerics};
  const forms::Decision d = forms::decide(site);
  for (const forms::Candidate& c : d.candidates) {
    if (!c.fit) {
      CHECK(!c.fit.why.empty());
      continue;
    }
    INFO(loop::kernel_name(k) << ": " << forms::str(c.choice));
    CHECK(forms::check(c.choice));
    CHECK(c.choice.form->legal(c.choice));
    CHECK(*forms::parse_choice(forms::str(c.choice)) == c.choice);
    CHECK(c.cost_ns >= 0);
    const forms::StepSpec s = c.choice.form->step(site, c.choice);
    CHECK(s.max_smem_bytes <= (machine.own ? 227 << 10 : machine.shared_bytes));  // forms of one architecture know its limit
    CHECK(s.block[0] % 32 == 0);
    CHECK(s.block[0] >= 32);
    CHECK(s.block[0] <= 1024);
    for (int i : {1, 2}) CHECK(syms.interval(s.grid[static_cast<size_t>(i)]).max <= 65535);
    CHECK(syms.interval(syms.simplify(s.grid[0])).max <= INT32_MAX);
  }
  return d;
}
std::set<std::string_view> forms_that_fit(const forms::Decision& d) {
  std::set<std::string_view> names;
  for (const forms::Candidate& c : d.candidates)
    if (c.fit) names.insert(c.choice.form->name());
  return names;
}

}  // namespace

TEST_CASE("CUDA products of every type, on old and new machines, with operands in memory or computed") {
  const Machine old = machine_of(std::string("sm_75"));
  for (DType t : kAll) {
    if (is_bool(t)) continue;
    for (int64_t m : {1, 33, 4096})
      for (int64_t k : {1, 40, 4096})
        for (bool computed : {false, true})
          for (const Machine* machine : {&h200(), &old}) {
            const auto names = forms_that_fit(checked(product(t, m, 700, k, computed), *machine));
            CHECK(names.count("cuda_simt"));
            CHECK(names.count("cuda_mma") == (machine->sm >= 80 && !computed && (t == DType::f32 || is_half(t))));
          }
    CHECK(checked(product(t, 512, 512, 512)).choice.form->name() == (is_half(t)        ? "cuda_wgmma"
                                                                     : t == DType::f32 ? "cuda_wgmma_apart"
                                                                                       : "cuda_simt"));
  }
}

TEST_CASE("what tensor cores multiply is computed before, other operands on their way into a CUDA product") {
  const loop::FusionRules rules = forms::rules_of(h200());
  for (DType t : {DType::f32, DType::f16, DType::bf16}) CHECK(!rules.prologue(t, 0));
  for (DType t : {DType::f64, DType::i64, DType::i32, DType::i8}) CHECK(rules.prologue(t, 1));
  CHECK(forms::rules_of(machine_of(std::string("sm_75"))).prologue(DType::f32, 0));
}

TEST_CASE("CUDA convolutions of every type, rank and grouping") {
  for (DType t : kAll) {
    if (is_bool(t)) continue;
    for (const Ints& kernel : {Ints{3}, Ints{3, 1}, Ints{3, 3, 3}, Ints{1, 2, 1, 2}})
      for (int64_t groups : {1, 4, 64})
        for (bool transposed : {false, true}) {
          const auto names = forms_that_fit(checked(convolution(t, kernel, 64, 128, groups, transposed)));
          CHECK(names.count("cuda_conv_simt"));
          CHECK(names.count("cuda_conv_points"));
          CHECK(names.count("cuda_conv_mma") == (t == DType::f32 || is_half(t)));
        }
  }
  CHECK(checked(convolution(DType::f16, {3, 3}, 256, 256, 1, false)).choice.form->name() == "cuda_conv_mma");
  ConvKernel last = convolution(DType::f16, {3, 3}, 72, 256, 1, false);
  last.channels_last = last.w_constant = true;
  REQUIRE(checked(last).choice.form->name() == "cuda_conv_wgmma");
  const forms::StepSpec step = step_of(last);
  const bool swap = field(last, "swap") != 0;
  const forms::TensorMap &x = step.maps.at(swap), &w = step.maps.at(!swap);
  CHECK((x.dims == Exprs{72, 20, 20, 2} && x.stride_bytes == Exprs{144, 144 * 20, 144 * 400} && x.steps == std::vector<int32_t>{1, 1}));
  CHECK((x.lower == std::vector<int32_t>{-1, -1} && x.upper == x.lower && x.box.size() == 2 && x.box[0] == 64));
  CHECK(w.dims == Exprs{9 * 128, 256});
  const auto stored = decide(last).choice.form->weight(last, decide(last).choice);
  REQUIRE(stored);
  CHECK((stored->first == last.w && stored->second.elems() == 9 * 128 * 256 && stored->second.column_groups == 64));
  for (int change = 0; change < 4; ++change) {
    ConvKernel other = last;
    if (change == 0) other.groups = 2;
    if (change == 1) other.w_constant = false;
    if (change == 2) other.x_dims[1] = 70;
    if (change == 3) other.stride = {9, 1};
    CHECK(!forms_that_fit(checked(other)).count("cuda_conv_wgmma"));
  }
  ConvKernel few = convolution(DType::bf16, {7, 7}, 3, 64, 1, false);
  few.channels_last = few.w_constant = true;
  few.x_dims = {64, 3, 300, 300}, few.out_dims = {64, 64, 150, 150}, few.stride = {2, 2};
  REQUIRE(checked(few).choice.form->name() == "cuda_conv_few");
  CHECK(step_of(few).grid[0].is(std::min<int64_t>(64 * 10 * 19, 132 * field(few, "resident"))));
  CHECK(field(few, "resident") == 2);
  for (int change = 0; change < 7; ++change) {
    ConvKernel other = few;
    if (change == 0) other.groups = 3;
    if (change == 1) other.w_constant = false;
    if (change == 2) other.x_dims[1] = 5;
    if (change == 3) other.stride = {2, 3};
    if (change == 4) other.dilation = {1, 2};
    if (change == 5) other.out_dims[1] = 60;
    if (change == 6) other.channels_last = false;
    CHECK(!forms_that_fit(checked(other)).count("cuda_conv_few"));
  }
  ConvKernel patch = convolution(DType::f16, {3, 3, 3}, 16, 16, 1, false);
  patch.channels_last = patch.w_constant = true;
  patch.x_dims = {8, 16, 32, 48, 48}, patch.out_dims = {8, 16, 32, 48, 48};
  patch.padding = patch.padding_hi = {1, 1, 1};
  REQUIRE(checked(patch).choice.form->name() == "cuda_conv_patch");
  CHECK(step_of(patch).grid[1].is(1));
  for (int change = 0; change < 4; ++change) {
    ConvKernel other = patch;
    if (change == 0) other.groups = 16, other.x_dims[1] = 32, other.out_dims[1] = 48;  // groups of 3 outputs
    if (change == 1) other.channels_last = false;
    if (change == 2) other.in = DType::f64;
    if (change == 3) other.stride = {9, 1, 1};
    CHECK(!forms_that_fit(checked(other)).count("cuda_conv_patch"));
  }
  // float32: with weights in two parts, as TF32 where that is allowed, and out of patches.
  Numerics allowed;
  allowed.f32_matmul = F32Matmul::high;
  ConvKernel wide = convolution(DType::f32, {3, 3}, 72, 256, 1, false);
  wide.channels_last = wide.w_constant = true;
  const forms::Decision parts = checked(wide), one = checked(wide, h200(), allowed);
  REQUIRE(parts.choice.form->name() == "cuda_conv_wgmma_parts");
  REQUIRE(one.choice.form->name() == "cuda_conv_wgmma");
  const auto two = parts.choice.form->weight(wide, parts.choice), whole = one.choice.form->weight(wide, one.choice);
  REQUIRE((two && whole));
  CHECK((two->second.parts == 2 && two->second.column_groups == 32 && two->second.elems() == 2 * 9 * 96 * 256));
  CHECK((whole->second.parts == 1 && whole->second.elems() == 9 * 96 * 256));
  CHECK(step_of(wide).maps.at(1).dims == Exprs{9 * 96, 256, 2});
  patch.in = DType::f32, patch.acc = DType::f32;
  CHECK(forms_that_fit(checked(patch)).count("cuda_conv_patch"));
  CHECK(forms_that_fit(checked(patch, h200(), allowed)).count("cuda_conv_patch"));
  ConvKernel grouped = convolution(DType::f16, {3, 3}, 128, 128, 32, false);
  grouped.channels_last = grouped.w_constant = true;
  grouped.x_dims = {8, 128, 56, 56}, grouped.out_dims = {8, 128, 56, 56}, grouped.padding = grouped.padding_hi = {1, 1};
  REQUIRE(checked(grouped).choice.form->name() == "cuda_conv_patch");
  CHECK(field(grouped, "groups") * 4 == field(grouped, "cols"));
  CHECK(checked(convolution(DType::f32, {3, 3}, 256, 256, 1, false)).choice.form->name() == "cuda_conv_mma");
  CHECK(checked(convolution(DType::f32, {3, 3}, 64, 64, 64, false)).choice.form->name() == "cuda_conv_points");
}

TEST_CASE("CUDA attention of every type and head size; long keys are divided") {
  for (DType t : kFloats)
    for (int64_t e : {1, 64, 72, 256, 300})
      for (int64_t q : {1, 77, 4096}) {
        const forms::Decision d = checked(attention(t, q, 1000, e, DType::boolean, true));
        CHECK(forms_that_fit(d).count("cuda_attention"));
        CHECK(forms_that_fit(d).count("cuda_attention_mma") == (t != DType::f64 && e <= 256));
        CHECK(forms_that_fit(d).count("cuda_attention_wgmma") == (is_half(t) && e <= 256 && e % 8 == 0));
        CHECK((d.choice.form->name() == "cuda_attention") == (t == DType::f64 || e > 256));
      }
  SymTable syms;
  AttentionKernel a = attention(DType::f16, 10, 10, 64, std::nullopt, false);
  a.head_dim = a.v_dim = Expr::symbol(a.syms.add({"e", SymKind::shape, 1, kInf, 1, {}, {}}));
  CHECK(checked(a).choice.form->name() == "cuda_attention");
  CHECK(field(attention(DType::bf16, 1, 4096, 128, std::nullopt, false), "split") > 1);
  CHECK(field(attention(DType::f32, 4096, 4096, 128, std::nullopt, false), "split") == 1);
}

TEST_CASE("attention on Hopper's tensor cores: what tensor maps see, rows of few positions, long rows in several warpgroups") {
  const auto step = [](const AttentionKernel& a) { return step_of(a); };
  AttentionKernel a = attention(DType::bf16, 4096, 4096, 128, std::nullopt, true);
  REQUIRE(checked(a).choice.form->name() == "cuda_attention_wgmma");
  CHECK(field(a, "groups") == 2);
  CHECK(field(attention(DType::bf16, 6144, 6144, 64, std::nullopt, false), "groups") == 3);
  const forms::StepSpec s = step(a);
  REQUIRE(s.maps.size() == 3);
  CHECK((s.maps[0].dims == Exprs{128, 4096, 8, 2} && s.maps[0].stride_bytes == Exprs{256, 4096 * 256, 8 * 4096 * 256}));
  CHECK((s.maps[0].box == std::vector<int32_t>{64, 64, 1, 1} && s.maps[1].box[0] == 64 && s.maps[1].box[1] == field(a, "keys")));
  CHECK(s.overlaps);
  // Views of one projection, [batch, positions, 3, heads, channels].
  a.q.s = a.k.s = a.v.s = 3 * 8 * 128, a.q.h = a.k.h = a.v.h = 128;
  a.kv_heads = 8;
  CHECK(checked(a).choice.form->name() == "cuda_attention_wgmma");
  a.q.s += 1;
  CHECK(!forms_that_fit(checked(a)).count("cuda_attention_wgmma"));
  // Four query heads of a key head and 9 positions of each: 36 rows of one tile.
  const forms::StepSpec few = step(attention(DType::f16, 9, 300, 64, std::nullopt, false));
  CHECK((few.maps.empty() || (few.maps[0].box == std::vector<int32_t>{64, 9, 4, 1} && few.grid[0].is(2 * 2))));
}

TEST_CASE("CUDA forms of whole-tensor algorithms") {
  for (DType t : kAll) {
    CHECK(field(library("sort", t, 3, {4, 1000, 1}), "blocks") == 1);
    if (dtype_bytes(t) > 4)
      CHECK(field(library("sort", t, 3, {4, 1000000, 1}), "blocks") > 1);
    else
      CHECK(checked(library("sort", t, 3, {1, 100000, 1})).choice.form->name() == "cuda_sort_dealt");
    CHECK(checked(library("sort", t, 3, {400, 1000, 1})).choice.form->name() != "cuda_sort_dealt");
    checked(library("sort", t, 3, {4, 1000, 1}));
    CHECK(checked(library("topk", t, 3, {4, 5000, 1, 2000})).choice.form->name() == "cuda_topk");
    CHECK(checked(library("topk", t, 3, {4, 1000, 1, 10})).choice.form->name() == "cuda_topk_bounded");
    CHECK(checked(library("topk", t, 3, {4000, 1000, 1, 10})).choice.form->name() == "cuda_topk_warps");
    CHECK(checked(library("topk", t, 3, {4, 300, 1, 10})).choice.form->name() == "cuda_topk_warps");
    LibraryKernel s = library("scatter", t, 4, {2, 30, 40, 20, 40, 20, 40});
    s.attrs[Attr::dim] = int64_t{0};
    for (const char* reduce : {"none", "sum", "prod", "amax", "amin", "mean"}) {
      s.attrs[Attr::reduce] = std::string(reduce);
      checked(s);
    }
    CHECK(field(s, "by_element") == 1);
    checked(library("index_put", t, 4, {2, 30, 40, 1, 0, 1, 7, 0}));
  }
  for (DType t : kFloats)
    for (const char* cell : {"lstm", "gru", "tanh", "relu"}) {
      CHECK(checked(recurrence(cell, t, 3, 128)).choice.form->name() == "cuda_recurrence_held");
      CHECK(checked(recurrence(cell, t, 3, 700)).choice.form->name() == "cuda_recurrence");
    }
  CHECK(field(recurrence("lstm", DType::f32, 3, 256), "blocks") == 8);
  CHECK(field(recurrence("lstm", DType::f32, 3, 700), "blocks") > 1);
  for (int64_t hidden : {64, 256})
    CHECK(checked(recurrence("lstm", DType::f32, 3, hidden), machine_of(std::string("sm_80"))).choice.values.at(1) == 1);
  for (DType t : {DType::f32, DType::f64})
    for (const char* kind : {"pairs", "half", "line"}) {
      CHECK(field(transform(kind, t, true, 8, 1, 1024), "along") == 0);
      CHECK(field(transform(kind, t, true, 8, 100, 1024), "along") == 1);
      checked(transform(kind, t, true, 1000, 3, 31 * 9));
    }
  for (DType t : {DType::f32, DType::f64}) {
    CHECK(field(library("cholesky", t, 3, {50000, 6, 6}), "warps") == 1);
    CHECK(field(library("cholesky", t, 3, {1, 500, 500}), "warps") == 8);
    checked(library("cholesky", t, 3, {3, 100, 100}));
    CHECK(field(library("solve_triangular", t, 3, {3, 500, 7}), "columns") == 0);  // no room in shared memory
    CHECK(field(library("solve_triangular", t, 3, {256, 64, 64}), "columns") > 0);
  }
  checked(library("lu", DType::f64, 4, {3, 100, 90}));
  checked(library("qr", DType::f64, 3, {3, 100, 90}));
  checked(library("svd", DType::f64, 4, {3, 100, 90}));
  checked(library("exclude", DType::boolean, 2, {3, 100, 100}));
}

TEST_CASE("the CUDA text of products and convolutions compiles") {
  for (DType t : kAll) {
    if (is_bool(t)) continue;
    loop::Module m;
    m.kernels.push(product(t, 65, 130, 33, !(t == DType::f32 || is_half(t))));
    if (t == DType::f32 || t == DType::bf16 || t == DType::f64 || t == DType::i8) {
      m.kernels.push(convolution(t, {3, 2}, 8, 64, 2, false));
      m.kernels.push(convolution(t, {3, 1, 2}, 8, 64, 1, true));
      ConvKernel last = convolution(t, {3, 3}, 16, 64, 1, false);
      last.channels_last = true;
      m.kernels.push(last);
      if (t == DType::bf16 || t == DType::f32) {
        last.w_constant = true;
        last.epilogue = epilogue(t, last.acc, {2, 18 * 18}, 64, last.params);
        m.kernels.push(last);
        last.x_dims = {64, 3, 300, 300}, last.out_dims = {64, 64, 150, 150}, last.stride = {2, 2};
        last.epilogue = epilogue(t, last.acc, {64, 150 * 150}, 64, last.params);
        m.kernels.push(std::move(last));
      }
    }
    size_t n = 0;
    for (loop::Kernel& k : m.kernels) std::visit([&](auto& x) { x.name += fmt::format("_{}", n++); }, k);
    compiles(m);
  }
}

TEST_CASE("the CUDA text of products of 8-bit floats compiles") {
  for (DType t : {DType::f8e4m3fn, DType::f8e5m2}) {
    loop::Module m;
    for (const int64_t rows : {4, 65, 4096}) {
      MatmulKernel mm = product(t, rows, 192, 256);
      mm.name += fmt::format("_{}", rows);
      mm.b.row_stride = 1, mm.b.col_stride = 256;
      mm.params[ParamId{2}].dtype = DType::bf16;
      mm.segments[0].epilogue = epilogue(DType::bf16, mm.acc, {3, rows}, 192, mm.params);
      m.kernels.push(std::move(mm));
    }
    compiles(m);
  }
}

TEST_CASE("the CUDA text of attention compiles") {
  for (DType t : kFloats) {
    loop::Module m;
    m.kernels.push(attention(t, 77, 200, 64, std::nullopt, true));
    m.kernels.push(attention(t, 1, 3000, 40, is_half(t) ? DType::boolean : t, false));
    if (t == DType::f16) m.kernels.push(attention(t, 77, 200, 256, DType::f32, false));
    AttentionKernel sinks = attention(t, 77, 200, 64, std::nullopt, true);
    sinks.sinks = AttentionKernel::View{sinks.params.push({"sinks", ParamRole::input, accumulator_type(t), {8}}), 0, 0, 1, 0, 0};
    m.kernels.push(sinks);
    size_t n = 0;
    for (loop::Kernel& k : m.kernels) std::visit([&](auto& x) { x.name += fmt::format("_{}", n++); }, k);
    compiles(m);
  }
}

TEST_CASE("the CUDA text of whole-tensor algorithms compiles") {
  for (DType t : kAll) {
    loop::Module m;
    m.kernels.push(library("sort", t, 3, {4, 1000, 1}));
    m.kernels.push(library("topk", t, 3, {4, 1000, 1, 10}));
    LibraryKernel few = library("topk", t, 3, {4, 300, 1, 10});
    few.name += "_warps";
    m.kernels.push(few);
    size_t n = 0;
    for (const char* reduce : {"none", "sum", "prod", "amax", "amin", "mean"}) {
      LibraryKernel s = library("scatter", t, 4, {2, 30, 40, 20, 40, 20, 40});
      s.name += fmt::format("_{}", n);
      s.attrs[Attr::dim] = int64_t{1};
      s.attrs[Attr::reduce] = std::string(reduce);
      s.attrs[Attr::include_self] = n++ % 2 == 0;
      m.kernels.push(s);
    }
    for (bool accumulate : {false, true}) {
      LibraryKernel p = library("index_put", t, 4, {3, 30, 40, 5, 2, 0, 2, 1, 7, 0});
      p.name += fmt::format("_{}", accumulate);
      p.attrs[Attr::accumulate] = accumulate;
      m.kernels.push(p);
    }
    compiles(m, t == DType::f32 ? 2 : 1);
  }
  for (DType t : {DType::f32, DType::f64}) {
    loop::Module m;
    m.kernels.push(library("cholesky", t, 3, {3, 100, 100}));
    if (t == DType::f64)
      for (const int64_t rows : {6, 100}) {
        for (const char* kind : {"lu", "qr", "svd"}) {
          LibraryKernel x = library(kind, t, kind == std::string_view("qr") ? 3 : 4, {3, rows, rows});
          x.name += fmt::format("_{}", rows);
          m.kernels.push(x);
        }
      }
    for (const bool upper : {false, true})
      for (const int64_t columns : {7, 64}) {
        LibraryKernel x = library("solve_triangular", t, 3, {3 * columns, 64, columns});
        x.name += fmt::format("_{}_{}", upper, columns);
        x.attrs[Attr::upper] = upper;
        x.attrs[Attr::unit] = upper;
        x.attrs[Attr::below] = !upper && columns == 64;
        m.kernels.push(x);
      }
    compiles(m, 2);
  }
  for (DType t : kFloats)
    for (const char* cell : {"lstm", "gru", "tanh", "relu"}) { compiles(recurrence(cell, t, 3, 128), t == DType::f32 ? 2 : 1); }
  for (DType t : {DType::f32, DType::f64}) {
    loop::Module m;
    for (const char* kind : {"pairs", "half", "line"})
      for (int64_t n : {62, 1024}) {
        m.kernels.push(transform(kind, t, std::string(kind) != "half", 8, 1, n));
        if (n == 62) m.kernels.push(transform(kind, t, std::string(kind) == "line", 8, 100, n));
      }
    compiles(m);
  }
}
