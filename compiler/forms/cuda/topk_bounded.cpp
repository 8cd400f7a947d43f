// Selection of few of long lines (kernels/cuda/topk_bounded.cuh): a block or a cluster a line.

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

struct Team {
  int threads = 256, blocks = 1;
};

class TopkBounded final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "cuda_topk_bounded"; }

 protected:
  Fit fits(const LibraryKernel& k, const Site& s) const override {
    if (k.algorithm != "topk") return {false, ""};
    if (s.syms.interval(k.sizes.at(3)).max > kTopkPicked) return refuse("a block sorts at most {} of a line", int{kTopkPicked});
    return Fit::yes();
  }
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    const Team t = team(k, s);
    return sort_step(k, t.threads, t.blocks, kTopkSharedBytes);
  }
  std::string source(const LibraryKernel& k, const Site& s, const Choice&, const std::string& symbol) const override {
    using emit::cuda::pointer;
    const DType t = k.params.begin()->dtype;
    const Team team_of = team(k, s);
    return emit::cuda::kernel("topk_bounded.cuh", symbol, 3, 4, team_of.blocks, team_of.threads,
                              fmt::format("  topk_bounded<{}, {}, {}, {}>({}, {}, {}, a.size[0], a.size[1], a.size[2], a.size[3]);\n",
                                          emit::cuda::c_type(t), flag(k, Attr::largest, true), team_of.threads, team_of.blocks,
                                          pointer(t, 0), pointer(t, 1, true), pointer(DType::i64, 2, true)));
  }

 private:
  /// Every thread has a few entries of a line at least, and there are more threads than entries are picked; lines that leave processors
  /// without work are shared.
  static Team team(const LibraryKernel& k, const Site& s) {
    const int64_t n = at_least_one(k.sizes[1], s), lines = at_least_one(k.sizes[0] * k.sizes[2], s);
    const int64_t most = s.syms.interval(k.sizes[3]).max;
    Team t;
    t.threads = n <= 2048 && most <= 128 ? 256 : 1024;
    while (s.machine.has(Feature::clusters) && t.blocks < 8 && 2 * t.blocks * lines <= s.machine.cores &&
           2 * t.blocks * most <= kTopkSorted && n >= 2 * t.blocks * gpu_costs(s.machine).topk_block_entries)
      t.blocks *= 2;
    return t;
  }
};

}  // namespace

const Form& topk_bounded() { return instance<TopkBounded>(); }

}  // namespace aotc::forms::cuda
