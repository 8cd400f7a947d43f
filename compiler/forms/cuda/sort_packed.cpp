// Sorting of values of at most 32 bits (kernels/cuda/sort_packed.cuh): keys and indices as one word, a block or a cluster a line.
#include <algorithm>
#include <cmath>

#include "forms/cuda/forms.h"
#include "forms/cuda/sort_form.h"

namespace aotc::forms::cuda {

using loop::LibraryKernel;

namespace {

struct Pieces {
  int threads = 256, each = 4, blocks = 1;
  static std::span<const Member<Pieces>> members() {
    static constexpr Member<Pieces> kRows[] = {
        {{"threads", 32, 1024, 32}, &Pieces::threads}, {{"each", 4, 8, 4}, &Pieces::each}, {{"blocks", 1, 8}, &Pieces::blocks}};
    return kRows;
  }
  int64_t piece() const { return int64_t{threads} * each; }
  int64_t shared_bytes() const { return piece() * 8; }
};

class SortPacked final : public SortByBlocks<Pieces> {
 public:
  std::string_view name() const override { return "cuda_sort_packed"; }

 protected:
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const auto n = static_cast<double>(at_least_one(k.sizes[1], s));
    const double lines = lines_of(k, s);
    const GpuCosts& u = gpu_costs(s.machine);
    std::vector<Candidate> all;
    for (const auto& [threads, each] : {std::pair{32, 4}, {64, 4}, {128, 4}, {256, 4}, {512, 4}, {1024, 4}, {1024, 8}})
      for (int blocks : {1, 2, 4, 8}) {
        const Pieces p{threads, each, blocks};
        Candidate c{pack(*this, p), Fit::yes(), 0};
        if (blocks > 1 && !s.machine.has(Feature::clusters)) c.fit = refuse("sm_90 or newer has clusters of blocks");
        const auto piece = static_cast<double>(p.piece());
        if (blocks > 1 && piece * blocks / 2 >= n) c.fit = refuse("fewer blocks have all pieces");
        const double rounds = std::ceil(std::ceil(n / piece) / blocks), inside = std::log2(piece);
        const double outside = std::max(0.0, std::ceil(std::log2(n / piece)));
        const double step = u.packed_step * each / 4 * std::max(1.0, threads / u.packed_step_threads),
                     far = u.packed_far + u.packed_far_word * n / 2 / (threads * blocks);
        const double line = u.packed_begin + rounds * inside * (inside + 1) / 2 * step +
                            outside * (rounds * inside * step * u.packed_again + (outside + 1) / 2 * far) +
                            (blocks > 1 ? u.packed_cluster : 0);
        const double at_once =
            std::max(1.0, u.packed_at_once * static_cast<double>(std::min<int64_t>(u.threads / threads, 8)));  // blocks of one processor
        c.cost_ns = u.launch + whole_rounds(lines * blocks, s.machine.cores * at_once) * line;
        all.push_back(std::move(c));
      }
    return all;
  }
};

}  // namespace

const Form& sort_packed() { return instance<SortPacked>(); }

}  // namespace aotc::forms::cuda
