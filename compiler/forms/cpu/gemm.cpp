// aotc_gemm: matrix products of any strides and batch dims as blocks over the threads, B in panels (kernels/cpu/gemm.h).
#include <algorithm>
#include <set>

#include "aotc/detail/library_abi.h"
#include "emit/cpu/loop_call.h"
#include "emit/cpu/module.h"
#include "forms/cpu/config.h"
#include "forms/cpu/cost.h"
#include "forms/cpu/forms.h"
#include "forms/cpu/scratch.h"
#include "loop/attached.h"

namespace aotc::forms::cpu {

using loop::MatmulKernel;

namespace {

/// See aotc_gemm_config. The same for every instruction set of an artifact, except that a kernel limits mr and nv to what it has.
struct Tile {
  int mr = 14, nv = 2;
  int mc = 84, nc = 128, kc = 256, kp = 1024;
  int pack_a = 1;
  int pack_b = 1;  ///< a constant B is stored in panel form (where that is possible)
  static std::span<const Member<Tile>> members() {
    static constexpr Member<Tile> kRows[] = {
        {{"mr", 1, 64}, &Tile::mr},
        {{"nv", 1, 8}, &Tile::nv},
        {{"mc", 1}, &Tile::mc},
        {{"nc", AOTC_PANEL_N, INT32_MAX, AOTC_PANEL_N}, &Tile::nc},
        {{"kc", 2, INT32_MAX, 2}, &Tile::kc},
        {{"kp", 2, INT32_MAX, 2}, &Tile::kp},
        {{"pack_a", 0, 1}, &Tile::pack_a},
        {{"pack_b", 0, 1}, &Tile::pack_b},
    };
    return kRows;
  }
};

/// The product at the sizes worth tuning for.
struct Sizes {
  DType dtype = DType::f32;
  int64_t batch = 1, m = 1, n = 1, k = 1;  ///< n: of the widest segment
  int64_t segments = 1;
  bool b_constant = false;
  bool a_rows_contiguous = true, b_rows_contiguous = true;
};

Sizes sizes_of(const MatmulKernel& k, const SymTable& syms) {
  Sizes c;
  c.dtype = k.in;
  for (const Expr& b : k.batch) c.batch *= std::max<int64_t>(1, syms.hint(b));
  c.m = syms.hint(k.m), c.k = syms.hint(k.k), c.n = 0;
  for (const loop::Segment& s : k.segments) c.n = std::max(c.n, syms.hint(s.n_end - s.n_begin));
  c.segments = static_cast<int64_t>(k.segments.size());
  c.b_constant = k.b_constant;
  c.a_rows_contiguous = k.a.prologue || k.a.col_stride.is(1);                  // what is computed comes in rows
  c.b_rows_contiguous = k.b_constant || k.b.prologue || k.b.col_stride.is(1);  // a weight is packed
  return c;
}

aotc_gemm_config config_of(const Tile& t, bool packed) {
  aotc_gemm_config g{};
  g.mr = t.mr, g.nv = t.nv, g.mc = t.mc, g.nc = t.nc, g.kc = t.kc, g.kp = t.kp;
  g.b_packed = packed, g.pack_a = t.pack_a;
  return g;
}

/// The product reads its operand b in another way too, dense: its buffer cannot hold panels then.
bool reads_b_dense(const MatmulKernel& k) {
  return (!k.a.prologue && k.a.param == k.b.param) || (k.a.prologue && loop::loads(*k.a.prologue, k.b.param)) ||
         std::any_of(k.segments.begin(), k.segments.end(), [&](const loop::Segment& s) { return loop::loads(s.epilogue, k.b.param); });
}

std::optional<Panels> panels_of(const MatmulKernel& k, const Tile& t) {
  if (!k.b_constant || k.b.prologue || !has_panel_form(k.in)) return std::nullopt;
  if (!k.b_panels_read && (!t.pack_b || reads_b_dense(k))) return std::nullopt;
  const auto basic = constants({k.k, k.b.base, k.b.row_stride, k.b.col_stride});
  if (!basic || (*basic)[0] == 0) return std::nullopt;
  Panels p;
  p.dtype = k.in;
  p.rows = {{(*basic)[0], (*basic)[0], 0, (*basic)[2], {}}};
  p.col_stride = (*basic)[3];
  std::vector<int64_t> starts = {(*basic)[1]};
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

Candidate estimate(const Form& form, const Sizes& c, const Machine& machine, const Tile& tile) {
  Candidate r{pack(form, tile), Fit::yes(), 0};
  const int threads = machine.cores;
  const Lanes lanes = lanes_of(c.dtype, machine);
  const int64_t m_blocks = ceil_div(c.m, tile.mc), n_blocks = ceil_div(c.n, tile.nc) * c.segments, units = c.batch * m_blocks * n_blocks;
  const int64_t rows = ceil_div(c.m, m_blocks), kp = std::min<int64_t>(even_up(c.k), tile.kp), ab = acc_bytes(c.dtype);
  const aotc_gemm_config cfg = config_of(tile, c.b_constant);
  r.fit = fits_scratch(aotc_gemm_scratch_bytes(&cfg, c.k, ab));
  if (!r.fit) return r;
  const double macs = static_cast<double>(c.m) * static_cast<double>(ceil_div(c.n, lanes.width) * lanes.width * c.segments) *
                      static_cast<double>(c.k) * static_cast<double>(c.batch);
  double cycles = macs / static_cast<double>(lanes.width) / lanes.macs;
  // Register tiles: entry, and the accumulators' way to memory and back.
  const double tiles = static_cast<double>(ceil_div(rows, lanes.mr) * m_blocks * ceil_div(c.n, 2 * lanes.width) * c.segments * c.batch);
  const double passes = static_cast<double>(ceil_div(c.k, tile.kc));
  cycles += tiles * passes * (kCallCycles + 2.0 * static_cast<double>(std::min(rows, lanes.mr)));
  // Copies of A: kept over the blocks of n when B is a weight, else made for each unit.
  const bool packs_a =
      (tile.pack_a && c.m > 4) || !c.a_rows_contiguous || c.dtype == DType::f16 || (c.dtype == DType::bf16 && lanes.macs < 2);
  const bool kept = c.b_constant && c.k <= tile.kp;
  const double a_elems = static_cast<double>(c.m) * static_cast<double>(c.k) * static_cast<double>(c.batch);
  if (packs_a) cycles += kPackCycles * a_elems * static_cast<double>(kept ? std::min<int64_t>(threads, n_blocks) : n_blocks);
  // In place, rows a large power of two apart share cache sets.
  if (!packs_a && rows > 4) cycles *= c.k * ab % 4096 == 0 ? 1.3 : 1.02;
  if (!c.b_constant && !(c.b_rows_contiguous && c.m <= 2 * lanes.mr)) {
    const double b_elems = static_cast<double>(c.n) * static_cast<double>(c.k) * static_cast<double>(c.batch * c.segments);
    cycles += (c.b_rows_contiguous ? 0.15 : kPackCycles) * b_elems * (c.k <= tile.kp ? 1.0 : static_cast<double>(m_blocks));
    if (tile.nc * kp * ab > machine.l2_bytes / 2) cycles *= 1.06;
  }
  if (rows * kp * ab > machine.l2_bytes * 3 / 4) cycles *= 1.04;
  if (tile.kc * AOTC_PANEL_N * ab > machine.l1_bytes) cycles *= 1.02;
  cycles += static_cast<double>(units) * kUnitCycles;
  cycles += kEpilogueCycles *
            static_cast<double>(m_blocks * ceil_div(c.n, std::max<int64_t>(AOTC_PANEL_N, 4096 / std::max<int64_t>(rows, 1))) * c.batch);
  // A weight streams once for each block of rows; some of that hides behind the arithmetic.
  if (c.b_constant)
    cycles += static_cast<double>(c.n * c.k * c.segments * c.batch * dtype_bytes(c.dtype)) * static_cast<double>(m_blocks - 1) / 16;
  r.cost_ns = cycles * imbalance(units, threads) * kNsPerCycle;
  return r;
}

class Gemm final : public FormOf<MatmulKernel> {
 public:
  std::string_view name() const override { return "gemm"; }
  std::span<const Field> fields() const override { return fields_of<Tile>(); }
  Fit legal(const Choice& c) const override { return fits_pieces(unpack<Tile>(c).kc, unpack<Tile>(c).kp); }
  Fit takes_prologue(DType, uint32_t, const Machine&) const override { return Fit::yes(); }

 protected:
  Fit fits(const MatmulKernel&, const Site&) const override { return Fit::yes(); }

  std::vector<Candidate> candidates(const MatmulKernel& kernel, const Site& s) const override {
    Sizes c = sizes_of(kernel, s.syms);  // an empty product is planned as the smallest one
    for (int64_t* x : {&c.batch, &c.m, &c.n, &c.k}) *x = std::max<int64_t>(*x, 1);
    const Lanes lanes = lanes_of(c.dtype, s.machine);
    const int64_t ab = acc_bytes(c.dtype);
    std::set<int> mcs;
    for (int64_t tiles : {1, 2, 4, 8, 12, 18, 36}) mcs.insert(static_cast<int>(std::min(c.m, tiles * lanes.mr)));
    if (c.m <= 256) mcs.insert(static_cast<int>(c.m));
    std::vector<Candidate> all;
    for (int mc : mcs)
      for (int nc : {32, 64, 128, 256})
        for (int64_t about : {256, 128, 512})
          for (int pack_a : {1, 0}) {
            Tile t;
            t.mr = static_cast<int>(lanes.mr), t.nv = 2, t.mc = mc, t.nc = nc, t.pack_a = pack_a;
            t.kc = balanced_kc(c.k, about);
            // Dynamic sizes of k beyond the tuned one still go in pieces of a few thousand.
            const int64_t rows = c.b_constant ? mc + 16 : mc + 16 + nc;
            const int64_t room = std::max<int64_t>(s.machine.l2_bytes * 2 / (rows * ab), 1024);
            const int64_t whole = std::min<int64_t>(std::max<int64_t>(room, 64), std::max<int64_t>(c.k, 1024)) / t.kc;
            t.kp = static_cast<int>(t.kc * std::max<int64_t>(1, whole + (c.k <= room && c.k % t.kc ? 1 : 0)));
            if (about != 256 && balanced_kc(c.k, 256) == t.kc) continue;
            all.push_back(estimate(*this, c, s.machine, t));
          }
    return all;
  }

  std::string contract(const MatmulKernel& k, const Site& s) const override {
    const Sizes c = sizes_of(k, s.syms);
    return fmt::format("gemm {} b{} m{} n{} k{} s{}{}{}{}", dtype_name(c.dtype), c.batch, c.m, c.n, c.k, c.segments,
                       c.b_constant ? " weight" : "", c.a_rows_contiguous ? "" : " a-strided", c.b_rows_contiguous ? "" : " b-strided");
  }

  StepSpec step(const MatmulKernel& k, const Site& site, const Choice& choice) const override {
    const Tile t = unpack<Tile>(choice);
    const std::optional<Panels> panels = panels_of(k, t);
    StepSpec f;
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
      n_blocks += ceildiv(x.n_end - x.n_begin, t.nc);
    }
    for (SymId sym : emit::cpu::attached_symbols(site.kernel)) s.push_back(Expr::symbol(sym));
    f.work = product(k.batch) * ceildiv(k.m, t.mc) * n_blocks;
    f.grain = grain_of(kGrainMacs, min(k.m, t.mc) * min(k.n, t.nc) * k.k, site.syms);
    const aotc_gemm_config g = config_of(t, panels.has_value());
    f.scratch_bytes = gemm_scratch(g, k.k, std::max<int64_t>(4, dtype_bytes(k.acc)), k.a.prologue.has_value(), k.b.prologue.has_value());
    return f;
  }

  std::optional<std::pair<loop::ParamId, WeightForm>> weight(const MatmulKernel& k, const Choice& c) const override {
    auto panels = panels_of(k, unpack<Tile>(c));
    if (!panels) return std::nullopt;
    return std::pair(k.b.param, std::move(*panels));
  }

  std::string config(const loop::Kernel& kernel, const MatmulKernel& k, const Choice& choice, Isa isa,
                     const std::string& name) const override {
    const Tile t = unpack<Tile>(choice);
    std::string list;
    ConfigText c("aotc_gemm_config", name);
    auto pointer = [&](const loop::Operand& o) { return o.prologue ? -1 : loop::argument_index(kernel, o.param); };
    c.add("a_ptr", pointer(k.a)).add("b_ptr", pointer(k.b)).add("mr", t.mr).add("nv", t.nv).add("mc", t.mc).add("nc", t.nc);
    c.add("kc", t.kc).add("kp", t.kp).add("b_packed", panels_of(k, t).has_value()).add("pack_a", t.pack_a);
    c.add("n_segments", static_cast<int64_t>(k.segments.size())).text("epilogues", name + "_epilogues");
    for (const loop::Attached& a : loop::attached(kernel)) {
      const std::string function = emit::cpu::attached_function(k.name, a, isa);
      if (a.suffix == "pro_a") c.prologue("a_prologue", function);
      if (a.suffix == "pro_b") c.prologue("b_prologue", function);
      if (a.suffix.rfind("epi", 0) != 0) continue;
      c.declarations_ += declare_epilogue(function);
      list += (list.empty() ? "" : ", ") + function;
    }
    c.declarations_ += fmt::format("static const aotc_epilogue_fn {}_epilogues[] = {{{}}};\n", name, list);
    return c.str();
  }
};

}  // namespace

const Form& gemm() {
  static const Gemm form;
  return form;
}

}  // namespace aotc::forms::cpu
