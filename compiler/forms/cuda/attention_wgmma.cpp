// Attention on Hopper's tensor cores (kernels/cuda/attention_wgmma.cuh): float16 and bfloat16, heads of at most 256 channels, operands that
// tensor maps take: contiguous channels, all other strides multiples of 16 bytes. Keys and values may be stored in bytes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "emit/cuda/attention.h"
#include "emit/cuda/code.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/hopper.h"
#include "forms/cuda/simt_tile.h"

namespace aotc::forms::cuda {

using emit::cuda::AttentionWgmmaTile;
using loop::AttentionKernel;

namespace {

constexpr int kMostChannels = 256, kRows = 64;  ///< rows: of a warpgroup

/// The head sizes and the rows are the kernel's.
struct Tile {
  int keys = 128, groups = 2, stages = 2, resident = 1;
  static std::span<const Member<Tile>> members() {
    static constexpr Member<Tile> kRows[] = {
        {{"keys", 16, 256, 16}, &Tile::keys},
        {{"groups", 1, 3}, &Tile::groups},
        {{"stages", 1, 8}, &Tile::stages},
        {{"resident", 1, 4}, &Tile::resident},
    };
    return kRows;
  }
};

/// The few positions of several query heads that share a key head are rows of one tile; `heads` of them.
struct Rows {
  int positions = kRows, heads = 1;
};
Rows rows_of(const AttentionKernel& k) {
  const auto q = k.q_len.as_const(), heads = k.heads.as_const(), kv_heads = k.kv_heads.as_const();
  Rows r;
  if (k.causal || !q || !heads || !kv_heads || *q < 1 || *kv_heads < 1 || *q > kRows / 2) return r;
  r.positions = static_cast<int>(*q);
  for (int n = 1; n <= kRows / *q; ++n)
    if (*heads / *kv_heads % n == 0) r.heads = n;
  return r;
}
AttentionWgmmaTile tile_of(const Tile& t, const AttentionKernel& k) {
  const Rows r = t.groups == 1 ? rows_of(k) : Rows{};
  return {static_cast<int>(*k.head_dim.as_const()),
          static_cast<int>(*k.v_dim.as_const()),
          t.keys,
          t.groups,
          t.stages,
          r.positions,
          r.heads,
          t.resident,
          k.of_bytes()};
}
Expr tiles_of(const AttentionKernel& k, const AttentionWgmmaTile& t) {
  return ceildiv(k.q_len, int64_t{t.positions} * t.groups) * floordiv(k.heads, t.heads) * k.batch;
}

/// A size of 1 is never stepped over: its stride may be anything.
Fit takes_view(const char* name, const AttentionKernel& k, const AttentionKernel::View& v, DType t, const Expr& heads, const Expr& length,
               const SymTable& syms) {
  if (!v.e.is(1)) return refuse("{}: the channels must be contiguous", name);
  const std::pair<const Expr*, const Expr*> kDims[] = {{&v.s, &length}, {&v.h, &heads}, {&v.b, &k.batch}};
  for (const auto& [stride, size] : kDims)
    if (!size->is(1) && !takes_stride(*stride, t, syms))
      return refuse("{}: positions, heads and batches must be multiples of 16 bytes apart", name);
  return takes_offset(v.base, t, syms) ? Fit::yes() : refuse("{} does not begin at a multiple of 16 bytes", name);
}

TensorMap map_of(const AttentionKernel& k, const AttentionKernel::View& v, const Expr& channels, const Expr& length, const Expr& heads,
                 int box_positions, int box_heads) {
  const int64_t bytes = static_cast<int64_t>(dtype_bytes(k.dtype));
  TensorMap m;
  m.arg = static_cast<int>(idx(v.param));
  m.dtype = k.dtype;
  m.swizzle_bytes = 128;
  m.offset_bytes = v.base * bytes;
  m.dims = {channels, length, heads, k.batch};
  const auto stride = [&](const Expr& elements, const Expr& size) { return size.is(1) ? Expr(kMapAlign) : elements * bytes; };
  m.stride_bytes = {stride(v.s, length), stride(v.h, heads), stride(v.b, k.batch)};
  m.box = {64, box_positions, box_heads, 1};
  return m;
}

class Wgmma final : public FormOf<AttentionKernel> {
 public:
  std::string_view name() const override { return "cuda_attention_wgmma"; }
  std::span<const Field> fields() const override { return fields_of<Tile>(); }

 protected:
  Fit fits(const AttentionKernel& k, const Site& s) const override {
    if (k.dtype != DType::f16 && k.dtype != DType::bf16) return refuse("it takes float16 and bfloat16, not {}", dtype_name(k.dtype));
    if (!s.machine.has(Feature::wgmma)) return refuse("sm_90a has its instructions");
    for (const Expr* e : {&k.head_dim, &k.v_dim}) {
      const auto c = e->as_const();
      if (!c || *c < 1 || *c > kMostChannels) return refuse("heads of a fixed size from 1 to {} channels stay in registers", kMostChannels);
    }
    if (!(k.scale > 0)) return refuse("the scale must be above 0");
    for (const Expr* e : {&k.batch, &k.heads, &k.kv_heads, &k.q_len, &k.kv_len})
      if (s.syms.interval(*e).min < 1) return refuse("a size may be 0");
    if (const Fit q = takes_view("q", k, k.q, k.dtype, k.heads, k.q_len, s.syms); !q) return q;
    if (const Fit key = takes_view("k", k, k.k, k.stored(), k.kv_heads, k.kv_len, s.syms); !key) return key;
    return takes_view("v", k, k.v, k.stored(), k.kv_heads, k.kv_len, s.syms);
  }

  std::vector<Candidate> candidates(const AttentionKernel& k, const Site& s) const override {
    const int64_t keys = at_least_one(k.kv_len, s);
    std::vector<Candidate> all;
    for (int groups : {2, 3, 1}) {
      if (k.of_bytes() && groups != 2) continue;  // a warpgroup makes numbers of them; two have the registers beside it
      for (int step : {128, 176, 160, 112, 96, 64, 256, 208, 32}) {
        // Blocks beyond the keys that there are only add work.
        if (step > 64 && step >= keys + 32) continue;
        for (int resident : {1, 2, 3}) {
          if (resident > 1 && groups > 1) continue;
          Tile t{step, groups, groups > 1 ? 4 : static_cast<int>(std::min<int64_t>(2, (keys + step - 1) / step)), resident};
          const int64_t most = shared_of(resident);
          while (t.stages > 1 && tile_of(t, k).smem_bytes() > most) --t.stages;
          all.push_back(estimate(t, k, s));
        }
      }
    }
    return all;
  }

  StepSpec step(const AttentionKernel& k, const Site& s, const Choice& c) const override {
    const AttentionWgmmaTile t = tile_of(unpack<Tile>(c), k);
    StepSpec f = cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name));
    f.block[0] = t.threads();
    f.grid[0] = t.groups > 1 ? min(tiles_of(k, t), s.machine.cores) : tiles_of(k, t);
    f.smem_bytes = f.max_smem_bytes = t.smem_bytes();
    f.maps = {map_of(k, k.q, k.head_dim, k.q_len, k.heads, t.positions, t.heads)};
    if (!t.bytes)
      for (const auto& [v, channels] : {std::pair(&k.k, &k.head_dim), std::pair(&k.v, &k.v_dim)})
        f.maps.push_back(map_of(k, *v, *channels, k.kv_len, k.kv_heads, t.keys, 1));
    return f;
  }
  std::string contract(const AttentionKernel& k, const Site& s) const override { return attention_contract(k, s); }
  std::string source(const AttentionKernel& k, const Site& s, const Choice& c, const std::string& symbol) const override {
    return emit::cuda::emit_attention_wgmma(k, s.syms, tile_of(unpack<Tile>(c), k), symbol);
  }

 private:
  /// Fitted to timings on an H200.
  Candidate estimate(const Tile& t, const AttentionKernel& k, const Site& s) const {
    const GpuCosts& u = gpu_costs(s.machine);
    // 64 rows on a busy processor: ns of a block of keys, of a key, of one of its channels.
    struct Rates {
      double block, key, channel;
    };
    const Rates one_tile{0, u.wa_key1, u.wa_channel1}, pair{0, u.wa_key2, u.wa_channel2}, three{u.wa_block3, u.wa_key3, u.wa_channel3};
    Candidate r{pack(*this, t), Fit::yes(), 0};
    const AttentionWgmmaTile shape = tile_of(t, k);
    const int channels = shape.head_dim + shape.v_dim, held = shape.keys * 3 / 4 + (shape.v_dim + 7) / 8 * 4;
    const int most = shape.groups == 3 ? 160 : shape.groups == 2 ? (shape.bytes ? 232 : 240) : std::min(255, 512 / shape.resident / 8 * 8);
    if (held + (shape.groups == 3 ? 32 : 40) > most) r.fit = refuse("{} registers for scores, weights and sums, of {}", held, most);
    const int64_t shared = shared_of(shape.groups > 1 ? 1 : shape.resident);
    if (shape.smem_bytes() > shared) r.fit = refuse("{} bytes of shared memory, {} is the most", shape.smem_bytes(), shared);
    const double tiles = static_cast<double>(at_least_one(tiles_of(k, shape), s)), keys = static_cast<double>(at_least_one(k.kv_len, s));
    const double blocks = std::max(1.0, std::ceil(keys * (k.causal ? u.wa_causal : k.shown ? kShown : 1) / shape.keys));
    const double mask = k.shown ? u.wa_mask_shown : k.mask ? k.mask->h.is(0) && k.mask->s.is(0) ? u.wa_mask_rows : u.wa_mask_all : 1;
    const Rates& rates = shape.groups == 3 ? three : shape.groups == 2 ? pair : one_tile;
    const double block = rates.block + shape.keys * (rates.key + rates.channel * channels) * mask;
    if (shape.groups > 1) {
      // Of bytes, numbers of 16 bits are made beside what the warpgroups do.
      const double convert = shape.bytes ? shape.keys * channels * convert_ns(k, u) : 0, both = block * shape.groups;
      const double step = std::max(both, convert) + u.wg_convert_shown * std::min(both, convert);
      // Causal: long tiles first, so that rounds are not whole; a tile sees the keys of its last row, in whole blocks.
      const double all = tiles / s.machine.cores, rounds = k.causal ? std::max(1.0, all + u.wa_last_round) : std::ceil(all);
      const int span = shape.positions * shape.groups;
      const double whole = static_cast<double>(std::gcd(span, shape.keys)) / shape.keys;
      const double seen = k.causal ? std::max(1.0, ((keys + span) / shape.keys + 1 - whole) / 2) : blocks;
      r.cost_ns = u.wa_start + rounds * (u.wa_tile + seen * step * (k.causal && shape.groups == 3 && whole < 1 ? u.wa_uneven : 1));
    } else {
      const double busy = std::max(1.0, tiles / s.machine.cores), together = std::min<double>(busy, shape.resident);
      const double alone = blocks * shape.keys * (u.wa_alone_key + u.wa_alone_channel * channels) * mask;
      r.cost_ns = u.wa_alone + (k.shown ? u.wa_shown : 0) + std::max(alone * std::ceil(busy / together), busy * blocks * block) +
                  (busy - 1) * u.wa_next;
    }
    return r;
  }
};

}  // namespace

const Form& attention_wgmma() { return instance<Wgmma>(); }

}  // namespace aotc::forms::cuda
