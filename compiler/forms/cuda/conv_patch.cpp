// Convolutions of channels-last images out of patches in shared memory (kernels/cuda/conv_patch.cuh): float16, bfloat16 and float32, few
// channels or groups of few, one to three dimensions.
#include <algorithm>
#include <cmath>

#include "emit/cuda/code.h"
#include "emit/cuda/contraction.h"
#include "emit/cuda/matmul.h"
#include "forms/cuda/common.h"
#include "forms/cuda/conv.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/hopper.h"
#include "forms/cuda/product.h"

namespace aotc::forms::cuda {

using emit::cuda::PatchTile;
using loop::ConvKernel;

namespace {

struct PatchChoice {
  int tile0 = 16, tile1 = 16, tile2 = 1, groups = 1, cols = 16, resident = 1;
  static std::span<const Member<PatchChoice>> members() {
    static constexpr Member<PatchChoice> kRows[] = {
        {{"tile0", 1, 256}, &PatchChoice::tile0},  {{"tile1", 1, 256}, &PatchChoice::tile1},   {{"tile2", 1, 256}, &PatchChoice::tile2},
        {{"groups", 1, 64}, &PatchChoice::groups}, {{"cols", 16, 32, 16}, &PatchChoice::cols}, {{"resident", 1, 8}, &PatchChoice::resident},
    };
    return kRows;
  }
};

/// Of outputs, by the number of dims; the last dim has 8 neighbours or more.
constexpr int kTiles[][3][3] = {
    {{256, 1, 1}, {128, 1, 1}, {64, 1, 1}}, {{16, 16, 1}, {8, 16, 1}, {8, 8, 1}}, {{4, 8, 8}, {1, 16, 16}, {2, 8, 8}}};
constexpr int kCols[] = {32, 16};
constexpr int64_t kMostSteps = 112, kMostProducts = 168;  ///< of k, all of which are in the code; the steps' products of TF32

int64_t channels_of(const ConvKernel& k) { return *k.x_dims[1].as_const() / k.groups; }
int64_t outputs_of(const ConvKernel& k) { return *k.out_dims[1].as_const() / k.groups; }

PatchTile tile_of(const ConvKernel& k, const PatchChoice& c, const Numerics& n) {
  PatchTile t;
  t.elem_bytes = static_cast<int>(dtype_bytes(k.in)), t.products = tf32_products(n);
  t.rank = static_cast<int>(k.kernel.size());
  const int tile[] = {c.tile0, c.tile1, c.tile2};
  for (int d = 0; d < t.rank; ++d) {
    const size_t i = static_cast<size_t>(d);
    t.tile[d] = tile[d];
    t.kernel[d] = static_cast<int>(k.kernel[i]), t.stride[d] = static_cast<int>(k.stride[i]),
    t.dilation[d] = static_cast<int>(k.dilation[i]);
  }
  t.groups = c.groups, t.cols = c.cols, t.resident = c.resident;
  t.channels = static_cast<int>(channels_of(k)), t.outputs = static_cast<int>(outputs_of(k));
  return t;
}

/// Groups that a block takes together, so that it has `cols` outputs, whole groups; 0: none.
int groups_of(const ConvKernel& k, int cols) {
  if (k.groups == 1) return 1;
  const int64_t groups = cols / outputs_of(k);
  return groups >= 1 && groups * outputs_of(k) == cols && k.groups % groups == 0 ? static_cast<int>(groups) : 0;
}

Expr tiles_of(const ConvKernel& k, const PatchTile& t) {
  Expr n = k.out_dims[0];
  for (int d = 0; d < t.rank; ++d) n *= ceildiv(k.out_dims[static_cast<size_t>(d) + 2], t.tile[d]);
  return n;
}
int64_t column_blocks(const ConvKernel& k, const PatchTile& t) { return (*k.out_dims[1].as_const() + t.cols - 1) / t.cols; }

class Patch final : public FormOf<ConvKernel> {
 public:
  std::string_view name() const override { return "cuda_conv_patch"; }
  std::span<const Field> fields() const override { return fields_of<PatchChoice>(); }

 protected:
  Fit fits(const ConvKernel& k, const Site& s) const override {
    constexpr int64_t kMostReach = 64;
    if (!emit::cuda::has_matmul(k.in)) return refuse("it takes float32, float16 and bfloat16, not {}", dtype_name(k.in));
    if (!s.machine.has(Feature::tensor_cores)) return refuse("sm_80 or newer has its instructions");
    if (!k.channels_last || k.transposed) return refuse("it takes channels-last images, not transposed");
    if (k.kernel.size() < 1 || k.kernel.size() > 3) return refuse("it takes windows of 1 to 3 dimensions");
    const auto channels = k.x_dims[1].as_const(), outputs = k.out_dims[1].as_const();
    if (!channels || !outputs || *channels < 1 || *outputs < 1) return refuse("the numbers of channels must be constant");
    for (size_t d = 0; d < k.kernel.size(); ++d)
      if ((k.kernel[d] - 1) * k.dilation[d] >= kMostReach || k.stride[d] > 8) return refuse("windows reach at most {} pixels", kMostReach);
    return never_empty(k, s.syms);
  }

  std::vector<Candidate> candidates(const ConvKernel& k, const Site& s) const override {
    std::vector<Candidate> all;
    const int64_t outputs = *k.out_dims[1].as_const();
    for (const int cols : kCols) {
      if (k.groups == 1 && cols > 16 && cols >= 2 * outputs) continue;
      PatchChoice c;
      c.cols = cols, c.groups = groups_of(k, cols);
      if (c.groups == 0) continue;
      for (const auto& tile : kTiles[k.kernel.size() - 1]) {
        c.tile0 = tile[0], c.tile1 = tile[1], c.tile2 = tile[2];
        const PatchTile t = tile_of(k, c, s.numerics);
        if (t.steps() > kMostSteps || t.steps() * products_of(t) > kMostProducts || t.smem_bytes() > s.machine.shared_bytes) continue;
        c.resident = resident_of(t, s.machine);
        all.push_back({pack(*this, c), Fit::yes(), cost_ns(k, tile_of(k, c, s.numerics), s)});
      }
    }
    if (all.empty())
      return {
          {pack(*this, PatchChoice{}), refuse("weights and a patch do not fit shared memory, or groups have no 16 outputs together"), 0}};
    return all;
  }
  std::string contract(const ConvKernel& k, const Site& s) const override { return conv_contract(k, s); }

  StepSpec step(const ConvKernel& k, const Site& s, const Choice& c) const override {
    const PatchTile t = tile_of(k, unpack<PatchChoice>(c), s.numerics);
    StepSpec f = cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name));
    f.block[0] = PatchTile::kThreads;
    f.grid[0] = min(tiles_of(k, t), ceil_div(int64_t{s.machine.cores} * t.resident, column_blocks(k, t)));
    f.grid[1] = column_blocks(k, t);
    f.smem_bytes = f.max_smem_bytes = t.smem_bytes();
    return f;
  }
  std::string source(const ConvKernel& k, const Site& s, const Choice& c, const std::string& symbol) const override {
    return emit::cuda::emit_conv_patch(k, tile_of(k, unpack<PatchChoice>(c), s.numerics), symbol);
  }

 private:
  static int products_of(const PatchTile& t) { return t.elem_bytes == 4 ? t.products : 1; }
  /// Registers of a thread's sums and fragments, about.
  static int registers_of(const PatchTile& t) { return t.pixels() / 64 * (t.cols / 2 + 1) + products_of(t) * t.cols / 4 + 52; }
  static int resident_of(const PatchTile& t, const Machine& m) {
    const GpuCosts& u = gpu_costs(m);
    const int64_t by_memory = (m.shared_bytes + u.shared_of_driver) / (t.smem_bytes() + u.shared_of_driver);
    const int64_t by_registers = u.registers / (int64_t{PatchTile::kThreads} * ((registers_of(t) + 7) / 8 * 8));
    return static_cast<int>(std::clamp<int64_t>(std::min(by_memory, by_registers), 1, 6));
  }
  static double cost_ns(const ConvKernel& k, const PatchTile& t, const Site& s) {
    const GpuCosts& u = gpu_costs(s.machine);
    const double steps = static_cast<double>(t.steps()), pixels = t.pixels(), slots = static_cast<double>(t.points()) * t.slots();
    const double products =
        pixels * t.cols * steps * 16 / u.patch_products * products_of(t);  // of 32 bytes of k: of half as many numbers at half the rate
    // Factors of TF32 are made, and sums of three products added up, by the ordinary units.
    const double made = t.elem_bytes == 2 ? 0
                                          : steps *
                                                ((pixels + 4 * t.cols) * 8 * (products_of(t) > 1 ? u.patch_three_parts : u.patch_one_part) +
                                                 (products_of(t) > 1 ? pixels * t.cols : 0)) /
                                                u.lanes;
    const double multiply = std::max({products, 4 * steps * (pixels / 64 + t.cols / 16) * u.patch_matrix, made});
    const double other = (slots * u.patch_slot + pixels * t.cols * u.patch_finish) / u.lanes;
    const double tile = std::max(multiply + other, slots * 16 / u.patch_bytes) * (1 + u.patch_alone / t.resident);
    const double weights = static_cast<double>(t.cols) * static_cast<double>(t.taps()) * t.channels * u.patch_weight / u.lanes * t.resident;
    const double blocks = static_cast<double>(std::max<int64_t>(1, s.syms.hint(tiles_of(k, t)) * column_blocks(k, t)));
    return u.launch + (weights + std::ceil(blocks / s.machine.cores) * tile) / u.clock + u.patch_end;
  }
};

}  // namespace

const Form& conv_patch() { return instance<Patch>(); }

}  // namespace aotc::forms::cuda
