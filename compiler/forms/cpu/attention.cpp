// aotc_attention, aotc_attention_tiles and aotc_attention_split: one pass (flash) over blocks of query rows and keys
// (kernels/cpu/attention.h, attention_tiles.h), or over parts of the keys at the same time (attention_split.h).
#include <cmath>
#include <set>

#include "aotc/detail/attention_split_abi.h"
#include "forms/cpu/config.h"
#include "forms/cpu/cost.h"
#include "forms/cpu/forms.h"
#include "forms/cpu/scratch.h"
#include "forms/cpu/tile_cost.h"
#include "graph/scalar.h"
#include "loop/attached.h"

namespace aotc::forms::cpu {

using loop::AttentionKernel;

static_assert(kHiddenScore == AOTC_ATTN_HIDDEN, "kernels hide the scores that the graph's attention hides");

namespace {

/// A number as C has it; infinities and NaN too.
std::string number_text(double v) {
  if (std::isnan(v)) return "__builtin_nan(\"\")";
  return std::isinf(v) ? v < 0 ? "-__builtin_inf()" : "__builtin_inf()" : fmt::format("{:a}", v);
}

/// See aotc_attn_config.
struct Blocks {
  int q_block = 32, kv_block = 128, key_part = 0;
  static std::span<const Member<Blocks>> members() {
    static constexpr Member<Blocks> kRows[] = {
        {{"q_block", 1}, &Blocks::q_block},
        {{"kv_block", AOTC_PANEL_N, INT32_MAX, AOTC_PANEL_N}, &Blocks::kv_block},
    };
    return kRows;
  }
};

/// Of attention_split.
struct Parts : Blocks {
  static std::span<const Member<Parts>> members() {
    static constexpr Member<Parts> kRows[] = {
        {{"q_block", 1}, &Parts::q_block},
        {{"kv_block", AOTC_PANEL_N, INT32_MAX, AOTC_PANEL_N}, &Parts::kv_block},
        {{"key_part", AOTC_PANEL_N, INT32_MAX, AOTC_PANEL_N}, &Parts::key_part},
    };
    return kRows;
  }
};

struct Sizes {
  DType dtype = DType::f32;
  int64_t batch = 1, heads = 1, kv_heads = 1, q_len = 1, kv_len = 1, e = 1, ev = 1;
  bool masked = false, causal = false;
};

Sizes sizes_of(const AttentionKernel& k, const SymTable& syms) {
  Sizes c;
  c.dtype = k.dtype;
  c.batch = syms.hint(k.batch), c.heads = syms.hint(k.heads), c.kv_heads = syms.hint(k.kv_heads);
  c.q_len = syms.hint(k.q_len), c.kv_len = syms.hint(k.kv_len), c.e = syms.hint(k.head_dim), c.ev = syms.hint(k.v_dim);
  c.masked = k.mask.has_value(), c.causal = k.causal;
  return c;
}

aotc_attn_config config_of(const Blocks& b) {
  aotc_attn_config g{};
  g.q_block = b.q_block, g.kv_block = b.kv_block, g.key_part = b.key_part;
  return g;
}

Sizes hinted(const AttentionKernel& k, const SymTable& syms) {
  Sizes c = sizes_of(k, syms);
  for (int64_t* x : {&c.batch, &c.heads, &c.kv_heads, &c.q_len, &c.kv_len, &c.e, &c.ev}) *x = std::max<int64_t>(*x, 1);
  return c;
}

/// Queries of the heads that share one key head.
int64_t rows_of(const Sizes& c) { return std::max<int64_t>(1, c.heads / c.kv_heads * c.q_len); }

double cycles_of(const Sizes& c, const Blocks& b, const Machine& machine) {
  const CpuCosts& u = cpu_costs(machine);
  const Lanes lanes = lanes_of(c.dtype, machine);
  const int64_t rows = rows_of(c), blocks = ceil_div(rows, b.q_block);
  const double pairs =
      static_cast<double>(c.batch * c.kv_heads * rows) * static_cast<double>(c.kv_len) * (c.causal ? machine.uarch->causal_seen : 1.0);
  double cycles = pairs * static_cast<double>(c.e + ceil_div(c.ev, lanes.width) * lanes.width) / static_cast<double>(lanes.width);
  cycles += pairs * u.attention_exp / static_cast<double>(lanes.width);  // exponentials
  const bool kept = c.kv_len <= b.kv_block;
  if (rows > aotc_attn_few_rows(c.e, (is_half(c.dtype) ? 64 : 32) / acc_bytes(c.dtype)))
    cycles += u.attention_copy * static_cast<double>(c.batch * c.kv_heads * c.kv_len * c.e) * static_cast<double>(kept ? 1 : blocks);
  cycles += static_cast<double>(c.batch * c.kv_heads * rows * ceil_div(c.kv_len, b.kv_block)) *
            (u.attention_row + static_cast<double>(c.ev) / u.attention_row_channels);
  if ((b.q_block * b.kv_block + b.kv_block * (c.e + c.ev)) * acc_bytes(c.dtype) > machine.l2_bytes / 2) cycles *= u.rows_beyond_l2;
  return cycles;
}

/// In tile registers: both products a block, the softmax between them, and keys and values copied to panels.
double tiles_cycles_of(const Sizes& c, const Blocks& b, const Machine& machine) {
  const CpuCosts& u = cpu_costs(machine);
  const int64_t rows = rows_of(c), blocks = ceil_div(rows, b.q_block), heads = c.batch * c.kv_heads,
                kvb = std::min<int64_t>(b.kv_block, c.kv_len);
  const int64_t units = heads * blocks, q = ceil_div(rows, blocks), kv_blocks = ceil_div(c.kv_len, b.kv_block);
  const double seen = c.causal ? machine.uarch->causal_seen : 1.0,
               pairs = static_cast<double>(heads * rows) * static_cast<double>(c.kv_len) * seen;
  double cycles = static_cast<double>(units * kv_blocks) * seen *
                  (tile_cycles(q, kvb, ceil_div(c.e, 32), machine) + tile_cycles(q, c.ev, ceil_div(kvb, 32), machine));
  cycles += pairs * u.attention_tiles_exp / 16;  // exponentials, scale and rounding
  const double copied = static_cast<double>(heads * c.kv_len * (c.kv_len <= b.kv_block ? 1 : blocks));
  cycles += copied * (u.amx_transpose * static_cast<double>(c.e) + u.amx_copy * static_cast<double>(c.ev));
  cycles += static_cast<double>(heads * rows * kv_blocks) * (u.attention_row + static_cast<double>(c.ev) / u.attention_row_channels);
  if ((b.q_block * b.kv_block + b.kv_block * (c.e + c.ev)) * 4 > machine.l2_bytes / 2) cycles *= u.rows_beyond_l2;
  return cycles + static_cast<double>(std::min<int64_t>(units, machine.cores)) * u.amx_shape;
}

class Attention : public FormOf<AttentionKernel> {
 public:
  std::string_view name() const override { return "attention"; }
  std::span<const Field> fields() const override { return fields_of<Blocks>(); }

 protected:
  /// What the library's entry is called without its dtype, what it should take, and its scratch.
  virtual std::string_view entry(const AttentionKernel& k) const { return k.of_bytes() ? "attention_kv8" : "attention"; }
  virtual Blocks blocks_of(const Choice& choice) const { return unpack<Blocks>(choice); }
  virtual double cycles(const Sizes& c, const Blocks& b, const Machine& machine) const { return cycles_of(c, b, machine); }
  virtual int row_tile(const Sizes& c, const Machine& machine) const { return lanes_of(c.dtype, machine).mr; }
  virtual Expr scratch(const AttentionKernel& k, const aotc_attn_config& g) const {
    return attention_scratch(g, k.head_dim, k.v_dim, k.dtype == DType::f64 ? 8 : 4);
  }

  std::vector<Candidate> candidates(const AttentionKernel& k, const Site& s) const override {
    const Sizes c = hinted(k, s.syms);
    const int64_t rows = rows_of(c);
    std::set<int> q_blocks;
    for (int64_t tiles : {1, 2, 4, 5, 8, 10}) q_blocks.insert(static_cast<int>(std::min<int64_t>(rows, tiles * row_tile(c, s.machine))));
    std::vector<Candidate> all;
    for (int qb : q_blocks)
      for (int kvb : {64, 128, 256, 512}) {
        if (kvb > 64 && kvb / 2 >= c.kv_len) continue;
        const Blocks blocks{qb, kvb};
        Candidate r{pack(*this, blocks), Fit::yes(), 0};
        r.fit = fits_scratch(s.syms.hint(scratch(k, config_of(blocks))), s.machine);
        if (r.fit) {
          const int64_t units = c.batch * c.kv_heads * ceil_div(rows, qb);
          r.cost_ns =
              shared_ns(cycles(c, blocks, s.machine) + static_cast<double>(units) * cpu_costs(s.machine).attention_unit, units, s.machine);
        }
        all.push_back(r);
      }
    return all;
  }

  std::string contract(const AttentionKernel& k, const Site& s) const override {
    const Sizes c = sizes_of(k, s.syms);
    return fmt::format("attention {} b{} h{}/{} l{} s{} e{} ev{}{}{}{}{}", dtype_name(c.dtype), c.batch, c.heads, c.kv_heads, c.q_len,
                       c.kv_len, c.e, c.ev, c.masked ? " mask" : "", c.causal ? " causal" : "", k.sinks ? " sinks" : "",
                       k.of_bytes() ? fmt::format(" kv {}", dtype_name(k.stored())) : "");
  }

  StepSpec step(const AttentionKernel& k, const Site& site, const Choice& choice) const override {
    const Blocks c = blocks_of(choice);
    StepSpec f;
    f.library = true;
    f.symbol = entry_of(entry(k), k.dtype);
    auto& s = f.sizes;
    s = {k.batch, k.heads, k.kv_heads, k.q_len, k.kv_len, k.head_dim, k.v_dim};
    auto view = [&](const AttentionKernel::View& v) { s.insert(s.end(), {v.base, v.b, v.h, v.s, v.e}); };
    for (const auto* v : {&k.q, &k.k, &k.v, &k.out}) view(*v);
    view(k.mask ? *k.mask : AttentionKernel::View{});
    const AttentionKernel::View sinks = k.sinks.value_or(AttentionKernel::View{});
    s.insert(s.end(), {sinks.base, sinks.b, sinks.h, sinks.s});
    AOTC_CHECK(s.size() == AOTC_ATTN_SIZES);
    if (k.of_bytes()) {
      const AttentionKernel::RowScales scales = k.row_scales.value_or(AttentionKernel::RowScales{});
      for (const AttentionKernel::View* v : {&scales.k, &scales.v}) s.insert(s.end(), {v->base, v->b, v->h, v->s});
      AOTC_CHECK(s.size() == AOTC_ATTN_KV8_SIZES);
    }
    const Expr rows = floordiv(k.heads, k.kv_heads) * k.q_len;
    f.work = k.batch * k.kv_heads * ceildiv(rows, c.q_block);
    f.grain = grain_of(cpu_costs(site.machine).grain_macs, min(rows, c.q_block) * k.kv_len * (k.head_dim + k.v_dim), site.syms);
    const aotc_attn_config g = config_of(c);
    f.scratch_bytes = scratch(k, g);
    return f;
  }

  std::string config(const loop::Kernel& kernel, const AttentionKernel& k, const Choice& choice, Isa,
                     const std::string& name) const override {
    const Blocks b = blocks_of(choice);
    auto pointer = [&](const AttentionKernel::View& v) { return loop::argument_index(kernel, v.param); };
    ConfigText c("aotc_attn_config", name);
    c.add("q_ptr", pointer(k.q)).add("k_ptr", pointer(k.k)).add("v_ptr", pointer(k.v)).add("out_ptr", pointer(k.out));
    c.add("mask_ptr", k.mask ? pointer(*k.mask) : -1);
    c.add("mask_dtype", k.mask ? static_cast<int64_t>(k.params[k.mask->param].dtype) : 0).add("causal", k.causal);
    c.add("q_block", b.q_block)
        .add("kv_block", b.kv_block)
        .text("scale", number_text(k.scale))
        .add("nan_rows", k.nan_rows)
        .add("mask_fills", k.mask_fills)
        .add("sink_ptr", k.sinks ? pointer(*k.sinks) : -1)
        .add("key_part", b.key_part);
    if (!k.of_bytes()) return c.str();
    ConfigText of_bytes("aotc_attn_kv8_config", name);
    of_bytes.nested("plain", c).add("kv_dtype", static_cast<int64_t>(k.stored()));
    if (k.row_scales) of_bytes.add("ks_ptr", pointer(k.row_scales->k)).add("vs_ptr", pointer(k.row_scales->v));
    return of_bytes.str();
  }
};

/// Few query rows over long keys, of which each thread takes parts: a step of decoding on more processors than there are key heads.
class AttentionSplit final : public Attention {
 public:
  std::string_view name() const override { return "attention_split"; }
  std::span<const Field> fields() const override { return fields_of<Parts>(); }

 protected:
  std::string_view entry(const AttentionKernel& k) const override { return k.of_bytes() ? "attention_split_kv8" : "attention_split"; }
  Blocks blocks_of(const Choice& choice) const override { return unpack<Parts>(choice); }

  Fit fits(const AttentionKernel& k, const Site& s) const override {
    if (s.machine.cores == 1) return refuse("one thread has nothing to divide");
    if (const int64_t most = s.syms.interval(rows(k)).max; most > AOTC_ATTN_SPLIT_ROWS)
      return refuse("the rows of a key head may be more than {}: they are divided instead", AOTC_ATTN_SPLIT_ROWS);
    if (const int64_t keys = hinted(k, s.syms).kv_len; keys <= least_part()) return refuse("{} keys are not divided", keys);
    return Fit::yes();
  }

  std::vector<Candidate> candidates(const AttentionKernel& k, const Site& s) const override {
    const Sizes c = hinted(k, s.syms);
    const CpuCosts& u = cpu_costs(s.machine);
    std::vector<Candidate> all;
    for (int part = least_part(); part < c.kv_len; part *= 2) {
      Parts parts;
      parts.q_block = static_cast<int>(s.syms.interval(rows(k)).max), parts.key_part = part;
      const int64_t items = c.batch * c.kv_heads * ceil_div(c.kv_len, part);
      Candidate r{pack(*this, parts), fits_scratch(s.syms.hint(whole_scratch(k, config_of(parts))), s.machine), 0};
      const double added =
          u.attention_unit + static_cast<double>(rows_of(c) * c.ev) / lanes_of(c.dtype, s.machine).width;  // an item's sums
      r.cost_ns = shared_ns(cycles_of(c, parts, s.machine) + static_cast<double>(items) * added, items, s.machine);
      if (s.machine.cores > 1) r.cost_ns += 2 * u.meet_ns;
      all.push_back(r);
    }
    return all;
  }

  StepSpec step(const AttentionKernel& k, const Site& site, const Choice& choice) const override {
    StepSpec f = Attention::step(k, site, choice);
    const aotc_attn_config g = config_of(blocks_of(choice));
    f.work = items(k, g);
    f.grain = grain_of(cpu_costs(site.machine).grain_macs, rows(k) * g.key_part * (k.head_dim + k.v_dim), site.syms);
    f.scratch_bytes = whole_scratch(k, g);
    return f;
  }

 private:
  static int least_part() { return 2 * Parts().kv_block; }
  static Expr rows(const AttentionKernel& k) { return floordiv(k.heads, k.kv_heads) * k.q_len; }
  static Expr items(const AttentionKernel& k, const aotc_attn_config& g) {
    return k.batch * k.kv_heads * max(ceildiv(k.kv_len, g.key_part), Expr(1));
  }
  /// See aotc_attn_split_shared_bytes.
  Expr whole_scratch(const AttentionKernel& k, const aotc_attn_config& g) const {
    const int64_t panel = aotc_attn_split_shared_bytes(1, 1, AOTC_PANEL_N, 1) - aotc_attn_split_shared_bytes(1, 1, 0, 1),
                  acc = k.dtype == DType::f64 ? 8 : 4;
    return items(k, g) * rows(k) * (ceildiv(k.v_dim, AOTC_PANEL_N) * panel + aotc_attn_split_shared_bytes(1, 1, 0, 1)) * acc +
           scratch(k, g);
  }
};

/// Products of bf16 in tile registers.
class AttentionTiles final : public Attention {
 public:
  std::string_view name() const override { return "attention_tiles"; }

 protected:
  std::string_view entry(const AttentionKernel&) const override { return "attention_tiles"; }
  double cycles(const Sizes& c, const Blocks& b, const Machine& machine) const override { return tiles_cycles_of(c, b, machine); }
  int row_tile(const Sizes&, const Machine&) const override { return 32; }
  /// `attention` stands in for a process that may not use the tiles.
  Expr scratch(const AttentionKernel& k, const aotc_attn_config& g) const override {
    return max(attention_tiles_scratch(g, k.head_dim, k.v_dim), Attention::scratch(k, g));
  }
  Fit fits(const AttentionKernel& k, const Site& s) const override {
    if (k.dtype != DType::bf16 || k.of_bytes())
      return refuse("tiles multiply bf16, not {}", dtype_name(k.of_bytes() ? k.stored() : k.dtype));
    if (!s.machine.has(Feature::AMX_TILES)) return refuse("{} has no amx", s.machine.name());
    const int64_t rows = rows_of(hinted(k, s.syms));
    if (rows <= cpu_costs(s.machine).attention_dot_rows) return refuse("{} rows are dot products, which read the keys once", rows);
    const Blocks smallest{static_cast<int>(std::min<int64_t>(rows, 32)), 64};
    return fits_scratch(s.syms.hint(scratch(k, config_of(smallest))), s.machine);
  }
};

}  // namespace

const Form& attention_tiles() { return instance<AttentionTiles>(); }

const Form& attention_split() { return instance<AttentionSplit>(); }
const Form& attention() { return instance<Attention>(); }

}  // namespace aotc::forms::cpu
