// Sorting of values of at most 32 bits by digits of their keys (kernels/cuda/sort_radix.cuh): a block or a cluster a line, which it holds
// whole.
#include <algorithm>
#include <cmath>

#include "forms/cuda/forms.h"
#include "forms/cuda/sort_form.h"

namespace aotc::forms::cuda {

using loop::LibraryKernel;

namespace {

struct Deal {
  int threads = 256, each = 4, blocks = 1;
  static std::span<const Member<Deal>> members() {
    static constexpr Member<Deal> kRows[] = {
        {{"threads", 256, 1024, 256}, &Deal::threads}, {{"each", 4, 16, 4}, &Deal::each}, {{"blocks", 1, 8}, &Deal::blocks}};
    return kRows;
  }
  int64_t entries() const { return int64_t{threads} * each * blocks; }
  /// As sort_radix_bytes() of the kernel.
  int64_t shared_bytes() const { return 8 * int64_t{threads} * each + 4 * (int64_t{threads / 32 + 2} * kDigits + 32); }
};

std::vector<Deal> deals() {
  std::vector<Deal> all;
  for (const int threads : {256, 512, 1024})
    for (const int each : {4, 8, 16})
      for (const int blocks : {1, 2, 4, 8}) all.push_back({threads, each, blocks});
  return all;
}

Fit runs_on(const Machine& m, const Deal& p) {
  if (p.blocks > 1 && !m.has(Feature::clusters)) return refuse("sm_90 or newer has clusters of blocks");
  if (p.shared_bytes() > m.shared_bytes)
    return refuse("a block needs {} bytes of shared memory; {} is the most", p.shared_bytes(), m.shared_bytes);
  return Fit::yes();
}

class SortRadix final : public SortByBlocks<Deal> {
 public:
  std::string_view name() const override { return "cuda_sort_radix"; }

 protected:
  Fit takes(const LibraryKernel& k, const Site& s) const override {
    int64_t held = 0;
    for (const Deal& p : deals())
      if (runs_on(s.machine, p)) held = std::max(held, p.entries());
    const int64_t most = longest(k, s);
    if (most > held) return refuse("lines of {} entries; registers hold {}", most == kInf ? "any number of" : std::to_string(most), held);
    return Fit::yes();
  }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const int64_t most = longest(k, s);
    const double lines = lines_of(k, s);
    const GpuCosts& u = gpu_costs(s.machine);
    const int passes = digits_of(k.params.begin()->dtype);
    std::vector<Candidate> all;
    for (const Deal& p : deals()) {
      Candidate c{pack(*this, p), runs_on(s.machine, p), 0};
      if (p.entries() < most) c.fit = refuse("a line has {} entries", most);
      const int64_t in_one = std::min<int64_t>(u.threads / p.threads, s.machine.shared_bytes / p.shared_bytes());
      const double at_once = std::max(1.0, u.radix_at_once * static_cast<double>(in_one));  // blocks of one processor
      const double pass = u.radix_rank * p.each * p.threads / 128 + (p.blocks > 1 ? u.radix_cluster : 0);
      c.cost_ns = u.launch + u.radix_begin + whole_rounds(lines * p.blocks, s.machine.cores * at_once) * passes * pass;
      all.push_back(std::move(c));
    }
    return all;
  }
};

}  // namespace

const Form& sort_radix() { return instance<SortRadix>(); }

}  // namespace aotc::forms::cuda
