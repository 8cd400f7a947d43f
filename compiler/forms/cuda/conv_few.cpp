// Convolutions of channels-last images of few channels on Hopper's tensor cores (kernels/cuda/conv_few.cuh): float16 and bfloat16, one
// group, two dimensions, without dilation, weights that are constants.
#include <algorithm>

#include "emit/cuda/code.h"
#include "emit/cuda/contraction.h"
#include "forms/cuda/common.h"
#include "forms/cuda/conv.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/hopper.h"

namespace aotc::forms::cuda {

using emit::cuda::FewTile;
using loop::ConvKernel;

namespace {

struct FewChoice {
  int stages = 3, resident = 1;
  static std::span<const Member<FewChoice>> members() {
    static constexpr Member<FewChoice> kRows[] = {
        {{"stages", 1, 8}, &FewChoice::stages},
        {{"resident", 1, 2}, &FewChoice::resident},
    };
    return kRows;
  }
};

FewTile tile_of(const ConvKernel& k, const FewChoice& c) {
  FewTile t;
  t.channels = static_cast<int>(*k.x_dims[1].as_const());
  t.cols = static_cast<int>((*k.out_dims[1].as_const() + 31) / 32 * 32);
  for (size_t d = 0; d < 2; ++d) t.kernel[d] = static_cast<int>(k.kernel[d]), t.stride[d] = static_cast<int>(k.stride[d]);
  t.stages = c.stages, t.resident = c.resident;
  return t;
}

class Few final : public FormOf<ConvKernel> {
 public:
  std::string_view name() const override { return "cuda_conv_few"; }
  std::span<const Field> fields() const override { return fields_of<FewChoice>(); }

 protected:
  Fit fits(const ConvKernel& k, const Site& s) const override {
    constexpr int64_t kMostKernel = 16, kMostOutputs = 128;
    if (!is_half(k.in)) return refuse("it takes float16 and bfloat16, not {}", dtype_name(k.in));
    if (!s.machine.has(Feature::wgmma)) return refuse("sm_90a has its instructions");
    if (!k.channels_last || k.transposed || k.groups != 1) return refuse("it takes channels-last images, one group, not transposed");
    if (!k.w_constant) return refuse("the weights must be constant");
    if (k.kernel.size() != 2) return refuse("it takes windows of 2 dimensions");
    const auto channels = k.x_dims[1].as_const(), outputs = k.out_dims[1].as_const();
    const int64_t step = k.stride[1];
    if (step != 1 && step != 2 && step != 4) return refuse("it takes windows 1, 2 or 4 pixels apart");
    if (!channels || *channels < 1 || *channels * step > 8)
      return refuse("{} channels at steps of {} are too many", channels.value_or(0), step);
    if (!outputs || *outputs < 1 || *outputs > kMostOutputs || *outputs % 8)
      return refuse("output channels: a multiple of 8 up to {}", kMostOutputs);
    for (size_t d = 0; d < 2; ++d)
      if (k.dilation[d] != 1 || k.kernel[d] > kMostKernel || k.stride[d] > 8)
        return refuse("its windows have no gaps, and at most {} lines", kMostKernel);
    return never_empty(k, s.syms);
  }

  std::vector<Candidate> candidates(const ConvKernel& k, const Site& s) const override {
    std::vector<Candidate> all;
    for (const int resident : {2, 1})
      for (const int stages : {3, 2, 1}) {
        const FewChoice c{stages, resident};
        const FewTile t = tile_of(k, c);
        if ((t.cols > 64 && resident > 1) || t.smem_bytes() > shared_of(resident)) continue;
        all.push_back({pack(*this, c), Fit::yes(), cost_ns(k, t, s)});
      }
    if (all.empty()) return {{pack(*this, FewChoice{}), refuse("weights and a patch do not fit shared memory"), 0}};
    return all;
  }
  std::string contract(const ConvKernel& k, const Site& s) const override { return conv_contract(k, s); }

  StepSpec step(const ConvKernel& k, const Site& s, const Choice& c) const override {
    const FewTile t = tile_of(k, unpack<FewChoice>(c));
    StepSpec f = cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name));
    f.block[0] = FewTile::kThreads;
    f.grid[0] = min(tiles_of(k), int64_t{s.machine.cores} * t.resident);
    f.smem_bytes = f.max_smem_bytes = t.smem_bytes();
    return f;
  }
  std::string source(const ConvKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    return emit::cuda::emit_conv_few(k, tile_of(k, unpack<FewChoice>(c)), symbol);
  }

 private:
  static Expr tiles_of(const ConvKernel& k) {
    return k.out_dims[0] * ceildiv(k.out_dims[2], FewTile::kHigh) * ceildiv(k.out_dims[3], FewTile::kWide);
  }
  static double cost_ns(const ConvKernel& k, const FewTile& t, const Site& s) {
    const GpuCosts& u = gpu_costs(s.machine);
    const double tiles = static_cast<double>(std::max<int64_t>(1, s.syms.hint(tiles_of(k))));
    const double turns = std::ceil(tiles / (s.machine.cores * t.resident));
    const double sums = FewTile::kHigh * FewTile::kWide * t.cols;
    const double one = std::max(
        {u.few_patch * (t.stages > 1 ? 1 : 2), t.resident * sums * t.kernel[0] * t.deep() / u.few_macs, t.resident * sums * u.few_finish});
    return u.few_start + turns * one * (1 + u.few_stage * (3 - t.stages));
  }
};

}  // namespace

const Form& conv_few() { return instance<Few>(); }

}  // namespace aotc::forms::cuda
