// Matrix products on tensor cores through mma.sync (kernels/cuda/gemm.cuh): float32 as three tf32 products or one, float16 and bfloat16.
// Weights of few bits are computed element by element.
#include <algorithm>

#include "emit/cuda/code.h"
#include "emit/cuda/matmul.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/product.h"
#include "forms/cuda/wgmma_tile.h"

namespace aotc::forms::cuda {

using emit::cuda::MatmulTile;
using loop::MatmulKernel;

namespace {

std::span<const Member<MatmulTile>> tile_members() {
  static constexpr Member<MatmulTile> kRows[] = {
      {{"block_m", 16, 256, 16}, &MatmulTile::block_m}, {{"block_n", 16, 256, 16}, &MatmulTile::block_n},
      {{"block_k", 16, 256, 16}, &MatmulTile::block_k}, {{"warp_m", 16, 128, 16}, &MatmulTile::warp_m},
      {{"warp_n", 8, 128, 8}, &MatmulTile::warp_n},     {{"k_warps", 1, 8}, &MatmulTile::k_warps},
      {{"stages", 2, 8}, &MatmulTile::stages},          {{"split", 1, 8}, &MatmulTile::split},
      {{"resident", 1, 8}, &MatmulTile::resident},
  };
  return kRows;
}

struct Tile : MatmulTile {
  Tile() = default;
  Tile(const MatmulTile& t) : MatmulTile(t) {}
  static std::span<const Member<Tile>> members() {
    static const std::vector<Member<Tile>> rows = [] {
      std::vector<Member<Tile>> out;
      for (const Member<MatmulTile>& m : tile_members()) out.push_back({m.field, m.at});
      return out;
    }();
    return rows;
  }
};

using Sizes = ProductSizes;

int64_t blocks_of(const Sizes& s, const MatmulTile& t) { return ceil_div(s.m, t.block_m) * ceil_div(s.n, t.block_n) * s.batch; }

/// The first guess, as measured on an H200: large tiles where they fill the device, else small ones with k divided.
MatmulTile first_guess(const Sizes& s, bool wide, int processors) {
  const MatmulTile big = wide ? MatmulTile{128, 64, 16, 64, 32, 1, 4, 1, 3} : MatmulTile{128, 128, 64, 64, 32, 1, 3, 1, 2};
  if (blocks_of(s, big) >= processors) return big;
  MatmulTile t = {64, 64, wide ? 32 : 64, 32, 32, 1, 4, 1, 1};
  int64_t most = 2 * processors;  // blocks with k divided
  if (s.m <= 32) {
    t = wide ? MatmulTile{32, 32, 64, 32, 16, 4, 4, 1, 1} : MatmulTile{32, 64, 128, 32, 16, 4, 4, 1, 1};
    if (!wide && blocks_of(s, t) < processors / 4) t.k_warps = 2, t.stages = 3;  // the blocks of a long sum take less each
    most = wide ? 2 * processors : processors;
  } else if (s.m <= 64) {
    t.k_warps = 2;
    most = processors;
  }
  while (t.split < 8 && blocks_of(s, t) * t.split * 2 <= most && s.k >= 4 * t.block_k * t.split) t.split *= 2;
  return t;
}

/// Tiles worth a look, without the division of k.
std::vector<MatmulTile> tiles(bool wide) {
  if (wide)
    return {{128, 64, 16, 64, 32, 1, 4, 1, 3}, {128, 128, 16, 64, 32, 1, 4, 1, 1}, {64, 64, 32, 32, 32, 1, 4, 1, 1},
            {64, 64, 32, 32, 32, 2, 3, 1, 1},  {64, 32, 32, 32, 16, 1, 4, 1, 2},   {32, 32, 64, 32, 16, 4, 4, 1, 1},
            {32, 64, 32, 32, 16, 2, 4, 1, 1},  {32, 64, 64, 32, 16, 4, 3, 1, 1}};
  return {{128, 128, 64, 64, 32, 1, 3, 1, 2}, {128, 128, 32, 64, 32, 1, 4, 1, 2}, {128, 256, 64, 64, 64, 1, 3, 1, 1},
          {256, 128, 64, 64, 64, 1, 3, 1, 1}, {128, 64, 64, 64, 32, 1, 4, 1, 2},  {64, 128, 64, 32, 64, 1, 4, 1, 2},
          {64, 64, 64, 32, 32, 1, 4, 1, 1},   {64, 64, 64, 32, 32, 2, 4, 1, 1},   {64, 64, 128, 32, 32, 2, 3, 1, 1},
          {32, 64, 128, 32, 16, 4, 4, 1, 1},  {32, 64, 128, 32, 16, 2, 3, 1, 1},  {32, 128, 64, 32, 32, 2, 4, 1, 1},
          {32, 32, 128, 32, 16, 4, 4, 1, 1}};
}

/// Registers of the accumulators and fragments of one thread, about.
int registers_of(const MatmulTile& t) { return t.warp_m * t.warp_n / 32 + (t.warp_m + t.warp_n) / 2 + 48; }

class Mma final : public FormOf<MatmulKernel> {
 public:
  std::string_view name() const override { return "cuda_mma"; }
  std::span<const Field> fields() const override { return fields_of<Tile>(); }
  bool takes_runs() const override { return true; }
  Fit takes_few_bits(DType t, const Machine& m) const override {
    return emit::cuda::has_matmul(t) && m.has(Feature::tensor_cores) ? Fit::yes() : Fit{false, ""};
  }

 protected:
  Fit fits(const MatmulKernel& k, const Site& s) const override {
    if (!emit::cuda::has_matmul(k.in)) return refuse("tensor cores take float32, float16 and bfloat16, not {}", dtype_name(k.in));
    if (k.a.prologue) return refuse("it takes operand a from memory only");
    if (!s.machine.has(Feature::tensor_cores)) return refuse("sm_80 or newer has its instructions");
    return Fit::yes();
  }

  std::vector<Candidate> candidates(const MatmulKernel& k, const Site& s) const override {
    const bool wide = dtype_bytes(k.in) == 4;
    const Sizes z = sizes_of(k, s.syms);
    const MatmulTile first = first_guess(z, wide, s.machine.cores);
    std::vector<Candidate> all = {estimate(first, z, k, s)};
    for (MatmulTile t : tiles(wide))
      for (t.split = 1; t.split <= 8; t.split *= 2) {
        if (t.split > 1 && (z.k < 2 * t.block_k * t.split || blocks_of(z, t) * t.split > 4 * s.machine.cores)) break;
        if (pack(*this, Tile(t)) == all.front().choice) continue;
        all.push_back(estimate(t, z, k, s));
      }
    // What was measured stands first until a measurement says otherwise.
    double least = all.front().cost_ns;
    for (const Candidate& c : all)
      if (c.fit) least = std::min(least, c.cost_ns);
    all.front().cost_ns = (1 - gpu_costs(s.machine).tie) * least;
    return all;
  }

  std::string contract(const MatmulKernel& k, const Site& s) const override { return product_contract(k, s); }

  StepSpec step(const MatmulKernel& k, const Site&, const Choice& c) const override {
    const Tile t = unpack<Tile>(c);
    StepSpec f = cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name));
    f.block[0] = t.threads();
    Expr columns = 0;
    for (const loop::Segment& s : k.segments) columns += ceildiv(s.n_end - s.n_begin, t.block_n);
    f.grid[0] = max(1, columns * row_blocks(k, t.block_m)) * t.split;
    f.grid[2] = max(1, min(product(k.batch), kMaxGridZ));
    f.smem_bytes = f.max_smem_bytes = t.smem_bytes(dtype_bytes(k.in));
    return f;
  }

  std::string source(const MatmulKernel& k, const Site& s, const Choice& c, const std::string& symbol) const override {
    Tile t = unpack<Tile>(c);
    t.products = tf32_products(s.numerics);
    return emit::cuda::emit_matmul(k, t, symbol);
  }

 private:
  Candidate estimate(const MatmulTile& t, const Sizes& z, const MatmulKernel& k, const Site& s) const {
    const Machine& m = s.machine;
    const GpuCosts& u = gpu_costs(m);
    Candidate r{pack(*this, Tile(t)), Fit::yes(), 0};
    const int64_t bytes = t.smem_bytes(dtype_bytes(k.in));
    if (bytes > m.shared_bytes) r.fit = refuse("{} bytes of shared memory, {} is the most", bytes, m.shared_bytes);
    const int64_t by_memory = (m.shared_bytes + u.mma_shared_beside) / std::max<int64_t>(1, bytes);
    const int64_t by_registers = u.registers / (int64_t{registers_of(t)} * t.threads());
    const double resident = static_cast<double>(std::max<int64_t>(1, std::min({by_memory, by_registers, int64_t{4}})));
    const double blocks = static_cast<double>(blocks_of(z, t) * t.split), slots = static_cast<double>(m.cores) * resident;
    const double waves = rounds(blocks, slots);
    const double whole =
        blocks > slots ? std::max(waves, static_cast<double>(ceil_div(static_cast<int64_t>(blocks), static_cast<int64_t>(slots)))) : 1.0;
    // Smaller tiles are bound by what they load. Float32 is taken apart by the ordinary units.
    const double macs_per_ns = dtype_bytes(k.in) == 2           ? u.tensor_macs * u.mma_share * u.clock
                               : tf32_products(s.numerics) == 1 ? u.mma_tf32_macs
                                                                : u.mma_f32_macs;
    const double depth = static_cast<double>(ceil_div(z.k, t.split));
    const double macs = static_cast<double>(t.block_m) * t.block_n * depth;
    const double loads = static_cast<double>(t.block_m + t.block_n) * depth * static_cast<double>(dtype_bytes(k.in));
    // Elements of b that each block computes, several instructions each.
    const double made = k.b.prologue ? u.mma_made * t.block_n * depth / (u.lanes * u.clock) : 0;
    const double share = beside(blocks, resident, m.cores);
    // Epilogues of blocks after the first, whose sums go through shared memory.
    double finish = 1;
    for (const loop::Segment& segment : k.segments) finish = std::max(finish, wgmma_finish(segment.epilogue, m));
    const double after = (whole * share - 1) * u.mma_finish * finish * t.block_m * t.block_n;
    r.cost_ns = u.launch + whole * share * (std::max(macs / macs_per_ns, loads / u.block_bytes_per_ns) + made) + after + u.split * t.split;
    return r;
  }
};

}  // namespace

const Form& mma() { return instance<Mma>(); }

}  // namespace aotc::forms::cuda
