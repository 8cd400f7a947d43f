// aotc_attention: one pass (flash) over blocks of query rows and keys (kernels/cpu/attention.h).
#include <set>

#include "aotc/detail/library_abi.h"
#include "forms/cpu/config.h"
#include "forms/cpu/cost.h"
#include "forms/cpu/forms.h"
#include "forms/cpu/scratch.h"
#include "loop/attached.h"

namespace aotc::forms::cpu {

using loop::AttentionKernel;

namespace {

/// See aotc_attn_config.
struct Blocks {
  int q_block = 32, kv_block = 128;
  static std::span<const Member<Blocks>> members() {
    static constexpr Member<Blocks> kRows[] = {
        {{"q_block", 1}, &Blocks::q_block},
        {{"kv_block", AOTC_PANEL_N, INT32_MAX, AOTC_PANEL_N}, &Blocks::kv_block},
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
  g.q_block = b.q_block, g.kv_block = b.kv_block;
  return g;
}

class Attention final : public FormOf<AttentionKernel> {
 public:
  std::string_view name() const override { return "attention"; }
  std::span<const Field> fields() const override { return fields_of<Blocks>(); }

 protected:
  std::vector<Candidate> candidates(const AttentionKernel& k, const Site& s) const override {
    Sizes c = sizes_of(k, s.syms);
    for (int64_t* x : {&c.batch, &c.heads, &c.kv_heads, &c.q_len, &c.kv_len, &c.e, &c.ev}) *x = std::max<int64_t>(*x, 1);
    const Lanes lanes = lanes_of(c.dtype, s.machine);
    const int64_t ab = acc_bytes(c.dtype), rows = std::max<int64_t>(1, c.heads / std::max<int64_t>(1, c.kv_heads) * c.q_len);
    std::set<int> q_blocks;
    for (int64_t tiles : {1, 2, 4, 5, 8, 10}) q_blocks.insert(static_cast<int>(std::min<int64_t>(rows, tiles * lanes.mr)));
    std::vector<Candidate> all;
    for (int qb : q_blocks)
      for (int kvb : {64, 128, 256, 512}) {
        if (kvb > 64 && kvb / 2 >= c.kv_len) continue;
        const Blocks blocks_of{qb, kvb};
        Candidate r{pack(*this, blocks_of), Fit::yes(), 0};
        const aotc_attn_config cfg = config_of(blocks_of);
        r.fit = fits_scratch(aotc_attn_scratch_bytes(&cfg, c.e, c.ev, ab));
        if (!r.fit) {
          all.push_back(r);
          continue;
        }
        const int64_t blocks = ceil_div(rows, qb), units = c.batch * c.kv_heads * blocks;
        const double pairs = static_cast<double>(c.batch * c.kv_heads * rows) * static_cast<double>(c.kv_len) * (c.causal ? 0.6 : 1.0);
        double cycles = pairs * static_cast<double>(c.e + ceil_div(c.ev, lanes.width) * lanes.width) / static_cast<double>(lanes.width);
        cycles += pairs * 12.0 / static_cast<double>(lanes.width);  // exponentials
        const bool kept = c.kv_len <= kvb;
        if (rows > 4) cycles += 0.5 * static_cast<double>(c.batch * c.kv_heads * c.kv_len * c.e) * static_cast<double>(kept ? 1 : blocks);
        cycles += static_cast<double>(c.batch * c.kv_heads * rows * ceil_div(std::max<int64_t>(c.kv_len, 1), kvb)) *
                  (20.0 + static_cast<double>(c.ev) / 8);
        if ((qb * kvb + kvb * (c.e + c.ev)) * ab > s.machine.l2_bytes / 2) cycles *= 1.1;
        cycles += static_cast<double>(units) * 400;
        r.cost_ns = cycles * imbalance(units, s.machine.cores) * kNsPerCycle;
        all.push_back(r);
      }
    return all;
  }

  std::string contract(const AttentionKernel& k, const Site& s) const override {
    const Sizes c = sizes_of(k, s.syms);
    return fmt::format("attention {} b{} h{}/{} l{} s{} e{} ev{}{}{}", dtype_name(c.dtype), c.batch, c.heads, c.kv_heads, c.q_len, c.kv_len,
                       c.e, c.ev, c.masked ? " mask" : "", c.causal ? " causal" : "");
  }

  StepSpec step(const AttentionKernel& k, const Site& site, const Choice& choice) const override {
    const Blocks c = unpack<Blocks>(choice);
    StepSpec f;
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
    f.grain = grain_of(kGrainMacs, min(rows, c.q_block) * k.kv_len * (k.head_dim + k.v_dim), site.syms);
    const aotc_attn_config g = config_of(c);
    f.scratch_bytes = attention_scratch(g, k.head_dim, k.v_dim, k.dtype == DType::f64 ? 8 : 4);
    return f;
  }

  std::string config(const loop::Kernel& kernel, const AttentionKernel& k, const Choice& choice, Isa,
                     const std::string& name) const override {
    const Blocks b = unpack<Blocks>(choice);
    auto pointer = [&](const AttentionKernel::View& v) { return loop::argument_index(kernel, v.param); };
    ConfigText c("aotc_attn_config", name);
    c.add("q_ptr", pointer(k.q)).add("k_ptr", pointer(k.k)).add("v_ptr", pointer(k.v)).add("out_ptr", pointer(k.out));
    c.add("mask_ptr", k.mask ? pointer(*k.mask) : -1);
    c.add("mask_dtype", k.mask ? static_cast<int64_t>(k.params[k.mask->param].dtype) : 0).add("causal", k.causal);
    c.add("q_block", b.q_block).add("kv_block", b.kv_block).text("scale", fmt::format("{:a}", k.scale)).add("nan_rows", k.nan_rows);
    return c.str();
  }
};

}  // namespace

const Form& attention() {
  static const Attention form;
  return form;
}

}  // namespace aotc::forms::cpu
