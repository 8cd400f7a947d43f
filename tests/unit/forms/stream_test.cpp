// Products of few rows by a constant weight on tensor cores: what takes part, launch decisions as data, stored weights, and the text
// through NVRTC.
#include "cuda_support.h"
#include "emit/cuda/launch.h"
#include "unit/emit_cpu/kernel_builder.h"

using namespace aotc;
using namespace aotc::test;

namespace {

/// Linear with a residual: x[m, k] times a constant w[n, k].
loop::MatmulKernel linear(DType t, const Expr& m, int64_t n, int64_t k, SymTable syms = {}) {
  KernelBuilder b("linear_epilogue");
  b.k.syms = std::move(syms);
  const Expr row = b.outer("row", m), column = b.inner("column", n);
  loop::MatmulKernel mm;
  mm.name = "linear";
  const ParamId x = b.param("x", ParamRole::input, t, {m, k}), w = b.param("w", ParamRole::input, t, {n, k});
  const ParamId r = b.param("r", ParamRole::input, t, {m, n}), out = b.param("out", ParamRole::output, t, {m, n});
  mm.params = b.k.params;
  const ParamId acc = b.param("acc", ParamRole::acc, DType::f32, {m, n});
  b.block(true);
  const Expr at = row * n + column;
  b.store(out, at, b.op(Op::cast, t, {b.op(Op::add, DType::f32, {b.load(acc, at), b.op(Op::cast, DType::f32, {b.load(r, at)})})}));
  mm.syms = b.k.syms;
  mm.m = m, mm.n = n, mm.k = k, mm.in = t;
  mm.a = {x, 0, {}, k, 1};
  mm.b = {w, 0, {}, 1, k};
  mm.b_constant = true;
  mm.segments.push_back({0, n, std::move(b.k)});
  return mm;
}

/// The same by a weight of few bits: `values` of [n, k], scales and maybe offsets of [n, groups].
loop::MatmulKernel few_bits(DType t, const Expr& m, int64_t n, int64_t k, DType values, int bits, int64_t group, DType scale, bool offsets,
                            SymTable syms = {}) {
  loop::MatmulKernel mm = linear(t, m, n, k, std::move(syms));
  const ParamId w = mm.b.param;
  mm.params[w].dtype = values;
  for (loop::Segment& s : mm.segments) s.epilogue.params[w].dtype = values;
  loop::QuantisedWeight q{w};
  const auto add = [&](const char* name) {  // before the epilogue's own parameter
    const ParamId p = mm.params.push({name, ParamRole::input, scale, {n, (k + group - 1) / group}});
    loop::LoopKernel& e = mm.segments[0].epilogue;
    IdVec<ParamId, loop::Param> params = mm.params;
    params.push(e.params.raw().back());
    e.params = std::move(params);
    for (loop::Inst& i : e.insts)
      if (i.param == p) i.param = static_cast<ParamId>(idx(p) + 1);
    return p;
  };
  q.scales = add("scales");
  if (offsets) q.offsets = add("offsets");
  q.group = group, q.bits = bits, q.by_column = true;
  mm.b_quantised = q;
  mm.b = {};
  mm.b.prologue.emplace();
  return mm;
}

Expr rows_of(SymTable& syms, int64_t least, int64_t most) {
  SymInfo rows;
  rows.name = "rows", rows.min = least, rows.max = most;
  return Expr::symbol(syms.add(rows));
}

std::vector<forms::Candidate> candidates_of(const loop::MatmulKernel& mm, const char* sm = "sm_90a") {
  const Machine machine = machine_of(std::string(sm));
  std::vector<forms::Candidate> all = forms::candidates({loop::Kernel(mm), mm.syms, machine, {}});
  std::erase_if(all, [](const forms::Candidate& c) { return c.choice.form->name() != "cuda_stream"; });
  return all;
}
std::string why_not(const loop::MatmulKernel& mm) {
  const std::vector<forms::Candidate> all = candidates_of(mm);
  REQUIRE(!all.empty());
  return all.front().fit ? "taken" : all.front().fit.why;
}

}  // namespace

TEST_CASE("few rows by a large weight are streamed; what the form does not take goes elsewhere, with the reason") {
  for (const DType t : {DType::bf16, DType::f16})
    for (const int64_t rows : {2, 8, 16}) CHECK(decide(linear(t, rows, 4096, 4096)).choice.form->name() == "cuda_stream");
  SymTable syms;
  const Expr few = rows_of(syms, 1, 16);
  CHECK(why_not(linear(DType::bf16, few, 33, 4096, syms)) == "taken");
  SymTable wide;
  const Expr many = rows_of(wide, 1, 17);
  CHECK_THAT(why_not(linear(DType::bf16, many, 33, 4096, wide)), Catch::Contains("1 to 16 rows"));
  CHECK_THAT(why_not(linear(DType::bf16, 1, 33, 4096)), Catch::Contains("one row"));
  CHECK_THAT(why_not(linear(DType::f32, 8, 64, 64)), Catch::Contains("16-bit floats"));
  CHECK_THAT(why_not(linear(DType::f16, 8, 64, 60)), Catch::Contains("multiple of 8"));
  loop::MatmulKernel mm = linear(DType::f16, 8, 64, 64);
  mm.b_constant = false;
  CHECK_THAT(why_not(mm), Catch::Contains("no weight"));
  mm = few_bits(DType::bf16, 8, 64, 256, DType::u8, 4, 32, DType::bf16, true);
  CHECK(why_not(mm) == "taken");
  mm.b_quantised->by_column = false;
  CHECK_THAT(why_not(mm), Catch::Contains("column by column"));
  CHECK_THAT(why_not(few_bits(DType::bf16, 8, 64, 256, DType::u8, 4, 96, DType::bf16, true)), Catch::Contains("groups of 96"));
  CHECK_THAT(why_not(few_bits(DType::bf16, 8, 64, 256, DType::i8, 8, 64, DType::f16, false)), Catch::Contains("float32"));
}

TEST_CASE("streamed products: candidates fit the machine, and blocks share columns only where it has clusters") {
  for (const int64_t n : {64, 4096, 128256})
    for (const int64_t k : {64, 4096, 14336})
      for (const int64_t rows : {2, 8, 16, 64})
        for (const char* sm : {"sm_80", "sm_86", "sm_90a"}) {
          if (rows > 16 && std::string_view(sm) == "sm_90a") continue;  // warpgroups'

          const Machine machine = machine_of(std::string(sm));
          const loop::MatmulKernel plain = linear(DType::bf16, rows, n, k),
                                   four = few_bits(DType::bf16, rows == 2 ? 1 : rows, n, k, DType::u8, 4, 32, DType::bf16, true);
          for (const loop::MatmulKernel& mm : {plain, four}) {
            const loop::Kernel kernel = mm;
            bool fits = false;
            for (const forms::Candidate& c : candidates_of(mm, sm)) {
              if (!c.fit) continue;
              INFO(sm << " rows " << rows << " n " << n << " k " << k << ": " << forms::str(c.choice));
              fits = true;
              CHECK(forms::check(c.choice));
              CHECK(*forms::parse_choice(forms::str(c.choice)) == c.choice);
              CHECK(c.cost_ns > 0);
              const forms::StepSpec s = c.choice.form->step({kernel, mm.syms, machine, {}}, c.choice);
              CHECK(s.max_smem_bytes <= machine.shared_bytes);
              CHECK(s.overlaps);
              const int split = field_of(c.choice, "split");
              CHECK((split == 1 || machine.has(Feature::clusters)));
              const int64_t items = 16 * field_of(c.choice, "strips") * field_of(c.choice, "warps") / field_of(c.choice, "along");
              CHECK(s.grid[0].is((n + items - 1) / items * split));
            }
            if (!fits) CHECK_THAT(candidates_of(mm, sm).front().fit.why, Catch::Contains("shared memory"));
            CHECK((fits || mm.b_quantised || std::string_view(sm) == "sm_86"));
          }
        }
}

TEST_CASE("weights of few bits are stored in slabs, others as they are") {
  const loop::MatmulKernel plain = linear(DType::bf16, 8, 96, 256),
                           four = few_bits(DType::bf16, 8, 96, 256, DType::u8, 4, 32, DType::bf16, true);
  const forms::Choice c = *forms::parse_choice("cuda_stream warps=8 along=2 strips=1 run=1 depth=2 split=1 chunk=0");
  CHECK(!c.form->weight(loop::Kernel(plain), c));
  const auto stored = c.form->weight(loop::Kernel(four), c);
  REQUIRE(stored);
  CHECK(stored->first == four.b_quantised->values);
  CHECK((stored->second.slabs && stored->second.bits == 4 && stored->second.matrices.size() == 1 && stored->second.matrices[0].cols == 96));
}

TEST_CASE("streamed products compile") {
  const Result<emit::cuda::Nvrtc> nvrtc = emit::cuda::Nvrtc::load();
  if (!nvrtc) {
    WARN("not compiled: " << nvrtc.why());
    return;
  }
  SymTable syms;
  const Expr rows = rows_of(syms, 1, 16);
  loop::MatmulKernel twin = linear(DType::bf16, 5, 512, 1024);
  twin.twin = twin.b;
  twin.segments[0].epilogue.params.push(twin.segments[0].epilogue.params.raw().back());
  std::vector<loop::MatmulKernel> all = {linear(DType::bf16, 8, 4096, 4096), linear(DType::f16, rows, 1000, 14336, syms), twin};
  for (const DType t : {DType::bf16, DType::f16}) {
    all.push_back(few_bits(t, 8, 2048, 4096, DType::u8, 4, 32, t, true));
    all.push_back(few_bits(t, 8, 2048, 4096, DType::i8, 8, 128, t, false));
    all.push_back(few_bits(t, 12, 2048, 4096, DType::f8e4m3fn, 8, 4096, DType::f32, false));
  }
  for (const loop::MatmulKernel& mm : all)
    for (const char* sm : {"sm_90a", "sm_80"}) {
      const Machine machine = machine_of(std::string(sm));
      const std::vector<forms::Candidate> candidates = candidates_of(mm, sm);
      REQUIRE((!candidates.empty() && candidates.front().fit));
      const loop::Kernel kernel = mm;
      const std::string text = candidates.front().choice.form->source({kernel, mm.syms, machine, {}}, candidates.front().choice, "f");
      INFO(sm << " " << forms::str(candidates.front().choice));
      CHECK(becomes_code(*nvrtc, "#include \"gemm.cuh\"\n" + text, sm));
    }
}
