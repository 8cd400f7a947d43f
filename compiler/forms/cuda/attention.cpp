// Attention: on tensor cores for float32, float16 and bfloat16 with heads of at most 256 channels (kernels/cuda/attention.cuh), on the
// ordinary units for everything (attention_plain.cuh).
#include <algorithm>
#include <cmath>

#include "emit/cuda/attention.h"
#include "emit/cuda/code.h"
#include "emit/cuda/matmul.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/simt_tile.h"
#include "kernels/cuda/limits.cuh"

namespace aotc::forms::cuda {

using emit::cuda::AttentionTile;
using loop::AttentionKernel;

namespace {

constexpr int kMostChannels = 256;

/// The head sizes are the kernel's.
struct Tile {
  int row_warps = 4, k_warps = 1, keys = 64, stages = 2, split = 1;
  static std::span<const Member<Tile>> members() {
    static constexpr Member<Tile> kRows[] = {
        {{"row_warps", 1, 8}, &Tile::row_warps}, {{"k_warps", 1, 8}, &Tile::k_warps}, {{"keys", 16, 128, 16}, &Tile::keys},
        {{"stages", 1, 4}, &Tile::stages},       {{"split", 1, 8}, &Tile::split},
    };
    return kRows;
  }
};
AttentionTile tile_of(const Tile& t, const AttentionKernel& k) {
  return {
      static_cast<int>(*k.head_dim.as_const()), static_cast<int>(*k.v_dim.as_const()), t.row_warps, t.k_warps, t.keys, t.stages, t.split};
}

int smem_bytes(const AttentionTile& t, const AttentionKernel& k) {
  return t.smem_bytes(dtype_bytes(k.dtype), dtype_bytes(k.stored()), k.row_scales.has_value());
}

Expr rows_of(const AttentionKernel& k) { return floordiv(k.heads, max(1, k.kv_heads)) * k.q_len; }

class Mma final : public FormOf<AttentionKernel> {
 public:
  std::string_view name() const override { return "cuda_attention_mma"; }
  std::span<const Field> fields() const override { return fields_of<Tile>(); }

 protected:
  Fit fits(const AttentionKernel& k, const Site& s) const override {
    if (!emit::cuda::has_matmul(k.dtype)) return refuse("tensor cores take float32, float16 and bfloat16, not {}", dtype_name(k.dtype));
    if (!s.machine.has(Feature::tensor_cores)) return refuse("sm_80 or newer has its instructions");
    for (const Expr* e : {&k.head_dim, &k.v_dim}) {
      const auto c = e->as_const();
      if (!c || *c < 1 || *c > kMostChannels) return refuse("heads of a fixed size from 1 to {} channels stay in registers", kMostChannels);
    }
    return Fit::yes();
  }
  std::vector<Candidate> candidates(const AttentionKernel& k, const Site& s) const override {
    const int64_t units = at_least_one(k.batch, s) * at_least_one(k.kv_heads, s), rows = at_least_one(rows_of(k), s),
                  keys = at_least_one(k.kv_len, s);
    std::vector<Candidate> all;
    for (const auto& [row_warps, k_warps] : {std::pair(4, 1), std::pair(8, 1), std::pair(1, 4), std::pair(2, 2)})
      for (int step : {64, 32, 16})
        for (int stages : {2, 1})
          for (int split = 1; split <= 8; split *= 2) {
            const Tile t{row_warps, k_warps, step, stages, split};
            const AttentionTile shape = tile_of(t, k);
            if (split > 1 && (!s.machine.has(Feature::clusters) || keys < int64_t{step} * k_warps * split))
              break;  // no clusters, or no keys for all of one
            all.push_back(estimate(t, shape, units * ((rows + shape.rows() - 1) / shape.rows()), keys, k, s));
          }
    // The smallest tile fits every head size.
    return all;
  }
  std::string contract(const AttentionKernel& k, const Site& s) const override { return attention_contract(k, s); }

  StepSpec step(const AttentionKernel& k, const Site&, const Choice& c) const override {
    const AttentionTile t = tile_of(unpack<Tile>(c), k);
    StepSpec f = cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name));
    f.block[0] = t.threads();
    f.grid[0] = min(k.batch * k.kv_heads * ceildiv(rows_of(k), t.rows()), kMaxGrid / 8) * t.split;
    f.smem_bytes = f.max_smem_bytes = smem_bytes(t, k);
    return f;
  }
  std::string source(const AttentionKernel& k, const Site& s, const Choice& c, const std::string& symbol) const override {
    AttentionTile t = tile_of(unpack<Tile>(c), k);
    t.products = tf32_products(s.numerics);
    return emit::cuda::emit_attention_mma(k, s.syms, t, symbol);
  }

 private:
  /// tiles: of rows, over all heads.
  Candidate estimate(const Tile& t, const AttentionTile& shape, int64_t tiles, int64_t keys, const AttentionKernel& k,
                     const Site& s) const {
    const Machine& m = s.machine;
    const GpuCosts& u = gpu_costs(m);
    Candidate r{pack(*this, t), Fit::yes(), 0};
    const int elem = dtype_bytes(k.dtype), stored = dtype_bytes(k.stored()), bytes = smem_bytes(shape, k);
    const int channels = shape.head_dim + shape.v_dim;
    if (bytes > m.shared_bytes) r.fit = refuse("{} bytes of shared memory, {} is the most", bytes, m.shared_bytes);
    // Sums and scores of a warp are in registers.
    const int held = shape.v_dim / 2 + shape.keys / 2;
    if (held > 176) r.fit = refuse("{} registers for sums and scores", held);
    const double by_registers =
        std::max(1.0, std::floor(static_cast<double>(u.registers) / ((held + u.attention_registers) * shape.threads())));
    const double resident =
        std::max(1.0, std::min({by_registers, std::floor(static_cast<double>(m.shared_bytes) / bytes), u.attention_blocks}));
    const double blocks = static_cast<double>(tiles) * t.split, share = beside(blocks, resident, m.cores);
    const double waves = rounds(blocks, m.cores * resident), together = 1 + 2 * std::max(0.0, blocks / m.cores - 1);
    const double step_keys = static_cast<double>(shape.keys) * shape.k_warps;
    const double seen = k.causal ? m.uarch->causal_seen : k.shown ? kShown : 1.0;
    const double steps = std::ceil(static_cast<double>(keys) * seen / step_keys / t.split);
    const double work =
        static_cast<double>(shape.rows()) * step_keys * channels /
            (elem == 2                        ? u.attention_f16_macs
             : tf32_products(s.numerics) == 1 ? u.attention_tf32_macs
                                              : u.attention_f32_macs) +
        step_keys * channels * stored / 16 * u.attention_copy / (u.lanes * u.clock) +  // products, and the instructions that copy
        (k.of_bytes() ? step_keys * channels * t.row_warps * convert_ns(k, u) : 0);    // each warp makes numbers of bytes for itself
    const double loads = step_keys * channels * stored / u.block_bytes_per_ns,
                 waiting = t.stages > 1 ? u.attention_wait : u.attention_wait_alone;
    const double begin =
        k.mask && !k.shown ? u.attention_mask_step : u.attention_step;  // of a step: its maxima, and the mask's values, for which it waits
    // Blocks that merge what they summed run through much code once: those of one processor take turns in it, and lose its cache.
    const double sums = static_cast<double>(held) * shape.rows() / 16;
    const double once = shape.k_warps * t.split == 1
                            ? waves * (u.attention_end + u.attention_sums * sums)
                            : together * (u.attention_merge + (t.split > 1 ? u.attention_split : 0) + u.attention_merge_sums * sums);
    r.cost_ns = u.launch + waves * steps * (begin + std::max(waiting, share * std::max(work, loads))) + once;
    return r;
  }
};

class Plain final : public FormOf<AttentionKernel> {
 public:
  std::string_view name() const override { return "cuda_attention"; }

 protected:
  Fit fits(const AttentionKernel& k, const Site&) const override {
    return is_float(k.dtype) ? Fit::yes() : refuse("attention is of floats, not {}", dtype_name(k.dtype));
  }
  std::vector<Candidate> candidates(const AttentionKernel& k, const Site& s) const override {
    const GpuCosts& u = gpu_costs(s.machine);
    const double rows = static_cast<double>(at_least_one(rows_of(k), s)), keys = static_cast<double>(at_least_one(k.kv_len, s));
    const double channels = static_cast<double>(at_least_one(k.head_dim + k.v_dim, s));
    const double blocks = std::ceil(rows / double{kPlainAttentionRows}) * static_cast<double>(at_least_one(k.batch * k.kv_heads, s));
    const double waves = whole_rounds(blocks, s.machine.cores * u.plain_attention_blocks), wide = k.dtype == DType::f64 ? 2 : 1;
    const double step =
        int{kPlainAttentionRows} * double{kPlainAttentionKeys} * channels * u.plain_attention_mac * wide / (u.lanes * u.clock) +
        u.plain_attention_step;
    return {{{this, {}}, Fit::yes(), u.launch + waves * 4 * std::ceil(keys / double{kPlainAttentionKeys}) * step}};
  }
  StepSpec step(const AttentionKernel& k, const Site&, const Choice&) const override {
    StepSpec f = cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name));
    f.block[0] = kPlainAttentionThreads;
    f.grid[0] =
        min(k.batch * k.kv_heads * ceildiv(rows_of(k), int{kPlainAttentionRows}) * ceildiv(k.v_dim, int{kPlainAttentionColumns}), kMaxGrid);
    return f;
  }
  std::string source(const AttentionKernel& k, const Site& s, const Choice&, const std::string& symbol) const override {
    return emit::cuda::emit_attention_plain(k, s.syms, symbol);
  }
};

}  // namespace

double convert_ns(const AttentionKernel& k, const GpuCosts& u) { return k.stored() == DType::i8 ? u.wg_convert8 : u.wg_convert_floats; }

std::string attention_contract(const AttentionKernel& k, const Site& s) {
  auto hint = [&](const Expr& e) { return s.syms.hint(e); };
  return sized(
      fmt::format("cuda attention {} b{} h{}/{} l{} s{} e{} ev{}{}{}{}{}", dtype_name(k.dtype), hint(k.batch), hint(k.heads),
                  hint(k.kv_heads), hint(k.q_len), hint(k.kv_len), hint(k.head_dim), hint(k.v_dim), k.mask ? " mask" : "",
                  k.causal ? " causal" : "", k.sinks ? " sinks" : "", k.of_bytes() ? fmt::format(" kv {}", dtype_name(k.stored())) : ""),
      emit::cuda::size_symbols(k), s);
}

const Form& attention_mma() { return instance<Mma>(); }
const Form& attention() { return instance<Plain>(); }

}  // namespace aotc::forms::cuda
