// Selection along short lines (kernels/cuda/topk_warps.cuh): a warp a line, its entries in registers.
#include <algorithm>

#include "emit/cuda/code.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/simt_tile.h"
#include "forms/library_attrs.h"
#include "kernels/cuda/limits.cuh"

namespace aotc::forms::cuda {

using loop::LibraryKernel;

namespace {

constexpr int kBlockThreads = 256;

int64_t longest_line(const Site& s) { return 32 * std::min<int64_t>(kTopkWarpHeld, gpu_costs(s.machine).topk_warp_held); }

/// A warp finds a bound of what it picks: few entries of many lines.
bool by_bound(const LibraryKernel& k, const Site& s) {
  return s.syms.interval(k.sizes.at(3)).max <= kTopkWarpPicked && s.syms.interval(k.sizes.at(1)).max > 64 &&
         at_least_one(k.sizes[1], s) <= gpu_costs(s.machine).topk_warp_entries &&
         at_least_one(k.sizes[0] * k.sizes[2], s) >= 4 * s.machine.cores;
}

class TopkWarps final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "cuda_topk_warps"; }

 protected:
  Fit fits(const LibraryKernel& k, const Site& s) const override {
    if (k.algorithm != "topk") return {false, ""};
    if (by_bound(k, s)) return Fit::yes();
    const int64_t longest = s.syms.interval(k.sizes.at(1)).max;
    if (longest > longest_line(s)) return refuse("a warp takes lines of up to {} entries", longest_line(s));
    return Fit::yes();
  }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice&) const override {
    return library_step(k, kBlockThreads, min(ceildiv(k.sizes[0] * k.sizes[2], kBlockThreads / 32), kMaxGrid));
  }
  std::string source(const LibraryKernel& k, const Site& s, const Choice&, const std::string& symbol) const override {
    using emit::cuda::pointer;
    const DType t = k.params.begin()->dtype;
    const std::string held =
        std::to_string(std::max<int64_t>(1, (std::min<int64_t>(s.syms.interval(k.sizes[1]).max, longest_line(s)) + 31) / 32));
    const std::string call =
        by_bound(k, s) ? fmt::format("topk_warps_bounded<{}, {}, {}>", emit::cuda::c_type(t), flag(k, Attr::largest, true), kBlockThreads)
                       : fmt::format("topk_warps<{}, {}, {}>", emit::cuda::c_type(t), flag(k, Attr::largest, true), held);
    return emit::cuda::kernel("topk_warps.cuh", symbol, 3, 4, 1, kBlockThreads,
                              fmt::format("  {}({}, {}, {}, a.size[0], a.size[1], a.size[2], a.size[3]);\n", call, pointer(t, 0),
                                          pointer(t, 1, true), pointer(DType::i64, 2, true)));
  }
};

}  // namespace

const Form& topk_warps() { return instance<TopkWarps>(); }

}  // namespace aotc::forms::cuda
