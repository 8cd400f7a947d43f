#include "forms/cpu/gemm_call.h"

#include <algorithm>

#include "aotc/detail/quant_abi.h"
#include "emit/cpu/loop_call.h"
#include "emit/cpu/module.h"
#include "forms/cpu/config.h"
#include "forms/cpu/cost.h"
#include "forms/cpu/finish.h"
#include "forms/cpu/forms.h"
#include "loop/attached.h"

namespace aotc::forms::cpu {

using loop::MatmulKernel;

namespace {

/// The product reads its operand b in another way too, dense: its buffer cannot hold panels then.
bool reads_b_dense(const MatmulKernel& k) {
  return (!k.a.prologue && k.a.param == k.b.param) || (k.a.prologue && loop::loads(*k.a.prologue, k.b.param)) ||
         std::any_of(k.segments.begin(), k.segments.end(), [&](const loop::Segment& s) { return loop::loads(s.epilogue, k.b.param); });
}

}  // namespace

ProductSizes product_sizes(const MatmulKernel& k, const SymTable& syms) {
  ProductSizes c;
  c.dtype = k.in;
  for (const Expr& b : k.batch) c.batch *= std::max<int64_t>(1, syms.hint(b));
  c.m = syms.hint(k.m), c.k = syms.hint(k.k), c.n = 0;
  if (k.runs) {  // of equal length
    c.batch = std::max<int64_t>(1, std::min(c.m, syms.hint(k.runs->count)));
    c.m /= c.batch;
  }
  for (const loop::Segment& s : k.segments) c.n = std::max(c.n, syms.hint(s.n_end - s.n_begin));
  c.segments = static_cast<int64_t>(k.segments.size());
  c.b_constant = k.b_constant;
  c.b_made = k.b_quantised.has_value();
  c.a_rows_contiguous = k.a.prologue || k.a.col_stride.is(1);                  // what is computed comes in rows
  c.b_rows_contiguous = k.b_constant || k.b.prologue || k.b.col_stride.is(1);  // a weight is packed
  c.finishes = (k.in == DType::f32 || k.in == DType::bf16) &&
               std::all_of(k.segments.begin(), k.segments.end(), [&](const loop::Segment& s) { return !finish_steps(k, s).empty(); });
  for (int64_t* x : {&c.batch, &c.m, &c.n, &c.k}) *x = std::max<int64_t>(*x, 1);  // an empty product is planned as the smallest one
  return c;
}

std::string product_contract(const MatmulKernel& k, const SymTable& syms) {
  const ProductSizes c = product_sizes(k, syms);
  return fmt::format("gemm {} b{} m{} n{} k{} s{}{}{}{}", dtype_name(c.dtype), c.batch, c.m, c.n, c.k, c.segments,
                     c.b_constant ? " weight" : "", c.a_rows_contiguous ? "" : " a-strided", c.b_rows_contiguous ? "" : " b-strided") +
         (k.runs ? fmt::format(" runs{}", syms.hint(k.runs->count)) : "");
}

std::optional<Panels> product_panels(const MatmulKernel& k, bool wanted) {
  if (!k.b_constant || k.b.prologue || !has_panel_form(k.in)) return std::nullopt;
  if (!k.b_panels_read && (!wanted || reads_b_dense(k))) return std::nullopt;
  const auto basic = constants({k.k, k.b.base, k.b.row_stride, k.b.col_stride});
  if (!basic || (*basic)[0] == 0) return std::nullopt;
  Panels p;
  p.dtype = k.in;
  p.rows = {{(*basic)[0], (*basic)[0], 0, (*basic)[2], {}}};
  p.col_stride = (*basic)[3];
  std::vector<int64_t> starts = {(*basic)[1]};
  if (k.runs) {
    const auto runs = constants({k.runs->count, k.runs->stride});
    if (!runs) return std::nullopt;
    for (int64_t i = 1; i < (*runs)[0]; ++i) starts.push_back(starts[0] + i * (*runs)[1]);
  }
  for (size_t d = 0; d < k.batch.size(); ++d) {
    if (k.b.batch_strides[d].is(0)) continue;
    const auto stride = k.b.batch_strides[d].as_const(), count = k.batch[d].as_const();
    if (!stride || !count) return std::nullopt;
    std::vector<int64_t> next;
    for (int64_t s : starts)
      for (int64_t i = 0; i < *count; ++i) next.push_back(s + i * *stride);
    starts = std::move(next);
  }
  for (int64_t start : starts) {
    for (const loop::Segment& s : k.segments) {
      const auto n = constants({s.n_begin, s.n_end});
      if (!n) return std::nullopt;
      p.matrices.push_back({start + (*n)[0] * p.col_stride, (*n)[1] - (*n)[0]});
    }
  }
  if (p.matrices.empty()) return std::nullopt;
  return p;
}

Fit fits_few_bits(const MatmulKernel& k) {
  const loop::ParamId values = k.b_quantised->values;
  for (const loop::Segment& s : k.segments) {
    if (loop::loads(s.epilogue, values)) return refuse("the epilogue reads the weight, too");
    if (!constants({s.n_begin, s.n_end})) return refuse("its columns have no fixed places");
  }
  if (k.a.prologue ? loop::loads(*k.a.prologue, values) : k.a.param == values) return refuse("both operands read the weight");
  return Fit::yes();
}

Panels few_bits_panels(const MatmulKernel& k) {
  const loop::QuantisedWeight& q = *k.b_quantised;
  const int64_t depth = *k.k.as_const();
  Panels p;
  p.dtype = k.params[q.values].dtype;
  p.bits = q.bits == 16 ? 0 : q.bits;
  p.rows = {{depth, depth, 0, 1, {}}};
  p.col_stride = depth;
  for (const loop::Segment& s : k.segments) {
    const int64_t begin = *s.n_begin.as_const(), end = *s.n_end.as_const();
    p.matrices.push_back({begin * depth, end - begin});
  }
  return p;
}

void add_few_bits(ConfigText& c, const loop::Kernel& kernel, const MatmulKernel& k) {
  const loop::QuantisedWeight& q = *k.b_quantised;
  const int wide = k.params[q.scales].dtype == DType::f32 ? AOTC_QUANT_WIDE_SCALES : 0;
  c.add("scales_ptr", loop::argument_index(kernel, q.scales));
  c.add("offsets_ptr", q.offsets == kNone<loop::ParamId> ? -1 : loop::argument_index(kernel, q.offsets));
  c.add("bits", q.bits + wide).add("group", q.group);
}

std::string few_bits_config(const loop::Kernel& kernel, const MatmulKernel& k, int mc, int nc, Isa isa, const std::string& name) {
  ConfigText c("aotc_gemm_quant_config", name);
  c.add("a_ptr", k.a.prologue ? -1 : loop::argument_index(kernel, k.a.param));
  c.add("values_ptr", loop::argument_index(kernel, k.b_quantised->values));
  add_few_bits(c, kernel, k);
  c.add("mc", mc).add("nc", nc);
  add_attached(c, kernel, k, isa, name, false);
  return c.str();
}

/// An expression of each of the two batch dims that kernels know; `missing` of those that the product lacks.
static Expr of_batch(const Exprs& xs, size_t dim, const Expr& missing) {
  const size_t skip = 2 - xs.size();
  return dim < skip ? missing : xs.at(dim - skip);
}

/// The sizes of an operand stand in one order.
static void add_operand(Exprs& sizes, const loop::Operand& o, size_t first) {
  static_assert(AOTC_GEMM_A_CS == AOTC_GEMM_A_BASE + 4 && AOTC_GEMM_B_CS == AOTC_GEMM_B_BASE + 4);
  if (o.prologue) return;
  sizes[first] = o.base;
  sizes[first + 1] = of_batch(o.batch_strides, 0, 0);
  sizes[first + 2] = of_batch(o.batch_strides, 1, 0);
  sizes[first + 3] = o.row_stride;
  sizes[first + 4] = o.col_stride;
}

StepSpec product_units(const MatmulKernel& k, const Site& site, std::string symbol, int mc, int nc) {
  StepSpec f;
  f.library = true;
  f.symbol = std::move(symbol);
  AOTC_CHECK(k.batch.size() <= 2, "{} has {} batch dims", k.name, k.batch.size());
  auto& s = f.sizes;
  s.assign(AOTC_GEMM_SIZES, Expr(0));
  s[AOTC_GEMM_B0] = of_batch(k.batch, 0, 1);
  s[AOTC_GEMM_B1] = of_batch(k.batch, 1, 1);
  s[AOTC_GEMM_M] = k.m;
  s[AOTC_GEMM_N] = k.n;
  s[AOTC_GEMM_K] = k.k;
  add_operand(s, k.a, AOTC_GEMM_A_BASE);
  Expr n_blocks = 0;
  for (const loop::Segment& x : k.segments) {
    s.push_back(x.n_begin);
    s.push_back(x.n_end);
    n_blocks += ceildiv(x.n_end - x.n_begin, nc);
  }
  for (SymId sym : emit::cpu::attached_symbols(site.kernel)) s.push_back(Expr::symbol(sym));
  Expr rows = min(k.m, mc);
  f.work = product(k.batch) * ceildiv(k.m, mc) * n_blocks;
  if (k.runs) {
    f.work = (floordiv(k.m, mc) + min(k.m, k.runs->count)) * n_blocks;
    rows = min(rows, ceildiv(k.m, max(1, k.runs->count)));
  }
  f.grain = grain_of(cpu_costs(site.machine).grain_macs, rows * min(k.n, nc) * k.k, site.syms);
  return f;
}

StepSpec product_step(const MatmulKernel& k, const Site& site, std::string symbol, const aotc_gemm_config& g,
                      const std::optional<Panels>& panels) {
  StepSpec f = product_units(k, site, std::move(symbol), g.mc, g.nc);
  auto& s = f.sizes;
  add_operand(s, k.b, AOTC_GEMM_B_BASE);
  if (k.runs) s[AOTC_GEMM_RUNS] = k.runs->count, s[AOTC_GEMM_RUN_STRIDE] = k.runs->stride;
  if (!panels) return f;
  s[AOTC_GEMM_B_BASE] = s[AOTC_GEMM_B_RS] = s[AOTC_GEMM_B_CS] = 0;
  const int64_t sets = static_cast<int64_t>(panels->matrices.size() / k.segments.size());
  Expr stride = panels->elems() / std::max<int64_t>(sets, 1);
  if (k.runs) s[AOTC_GEMM_RUN_STRIDE] = stride;
  for (int d : {AOTC_GEMM_B_B1, AOTC_GEMM_B_B0}) {
    if (s[d].is(0)) continue;
    s[d] = stride;
    stride *= s[d - AOTC_GEMM_B_B0 + AOTC_GEMM_B0];
  }
  return f;
}

void add_attached(ConfigText& c, const loop::Kernel& kernel, const MatmulKernel& k, Isa isa, const std::string& name, bool makes_b) {
  std::string list;
  c.add("n_segments", static_cast<int64_t>(k.segments.size())).text("epilogues", name + "_epilogues");
  for (const loop::Attached& a : loop::attached(kernel)) {
    const std::string function = emit::cpu::attached_function(k.name, a, isa);
    if (a.suffix == "pro_a") c.prologue("a_prologue", function);
    if (a.suffix == "pro_b" && makes_b) c.prologue("b_prologue", function);
    if (a.suffix.rfind("epi", 0) != 0) continue;
    c.declarations_ += declare_epilogue(function);
    list += (list.empty() ? "" : ", ") + function;
  }
  c.declarations_ += fmt::format("static const aotc_epilogue_fn {}_epilogues[] = {{{}}};\n", name, list);
}

ConfigText product_members(const loop::Kernel& kernel, const MatmulKernel& k, const aotc_gemm_config& g, Isa isa, const std::string& name) {
  ConfigText c("aotc_gemm_config", name);
  auto pointer = [&](const loop::Operand& o) { return o.prologue ? -1 : loop::argument_index(kernel, o.param); };
  const bool few_bits = g.b_packed && k.b_quantised;
  c.add("a_ptr", pointer(k.a))
      .add("b_ptr", few_bits ? loop::argument_index(kernel, k.b_quantised->values) : pointer(k.b))
      .add("mr", g.mr)
      .add("nv", g.nv)
      .add("mc", g.mc)
      .add("nc", g.nc);
  c.add("kc", g.kc).add("kp", g.kp).add("b_packed", g.b_packed).add("pack_a", g.pack_a);
  add_attached(c, kernel, k, isa, name, !few_bits);
  std::string finishes;
  bool any = false;
  for (const loop::Segment& segment : k.segments) {
    const auto steps = finish_steps(k, segment);
    any |= !steps.empty();
    finishes += (finishes.empty() ? "" : ", ") + finish_text(kernel, steps);
  }
  if (any) {
    c.declarations_ += fmt::format("static const aotc_finish {}_finishes[] = {{{}}};\n", name, finishes);
    c.text("finishes", name + "_finishes");
  }
  if (k.ordered) c.add("ordered", 1);
  if (k.runs) c.add("in_runs", 1).add("ends_ptr", loop::argument_index(kernel, k.runs->ends));
  return c;
}

std::string ProductForm::symbol(const MatmulKernel& k) const { return entry_of(name(), k.in); }

StepSpec ProductForm::step(const MatmulKernel& k, const Site& site, const Choice& c) const {
  const aotc_gemm_config g = gemm_config(k, c);
  StepSpec f = product_step(k, site, symbol(k), g, panels(k, c));
  f.scratch_bytes = scratch(k, g);
  return f;
}

std::optional<std::pair<loop::ParamId, WeightForm>> ProductForm::weight(const MatmulKernel& k, const Choice& c) const {
  auto p = panels(k, c);
  if (!p) return std::nullopt;
  return std::pair(k.b.param, std::move(*p));
}

Fit takes_tiles(const MatmulKernel& k, const Machine& machine) {
  if (k.ordered) return refuse("its sums are not in the order of k");
  if (k.in != DType::bf16) return refuse("tiles multiply bf16, not {}", dtype_name(k.in));
  return machine.has(Feature::AMX_TILES) ? Fit::yes() : refuse("{} has no amx", machine.name());
}

bool stores_halves(const MatmulKernel& k) {
  return std::all_of(k.params.begin(), k.params.end(),
                     [](const loop::Param& p) { return p.role != loop::ParamRole::output || dtype_bytes(p.dtype) <= 2; });
}

}  // namespace aotc::forms::cpu
