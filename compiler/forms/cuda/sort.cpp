// Sorting and selection (kernels/cuda/sort.cuh): a block or a cluster a line.
#include <algorithm>
#include <bit>

#include "emit/cuda/code.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/simt_tile.h"
#include "forms/library_attrs.h"

namespace aotc::forms::cuda {

using loop::LibraryKernel;

namespace {

StepSpec lines_step(const LibraryKernel& k, int threads) {
  AOTC_CHECK(k.sizes.size() >= 3, "{} takes outer, n, inner", k.name);
  return library_step(k, threads, min(k.sizes[0] * k.sizes[2], kMaxGrid));
}
DType values_of(const LibraryKernel& k) { return k.params.begin()->dtype; }

struct SortChoice {
  int threads = 256, piece = 1024, blocks = 1;
  static std::span<const Member<SortChoice>> members() {
    static constexpr Member<SortChoice> kRows[] = {{{"threads", 32, 1024, 32}, &SortChoice::threads},
                                                   {{"piece", 64, 16384, 64}, &SortChoice::piece},
                                                   {{"blocks", 1, 8}, &SortChoice::blocks}};
    return kRows;
  }
};

class Sort final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "cuda_sort"; }
  std::span<const Field> fields() const override { return fields_of<SortChoice>(); }
  Fit legal(const Choice& c) const override {
    return std::has_single_bit(static_cast<unsigned>(unpack<SortChoice>(c).piece)) ? Fit::yes() : refuse("a piece is no power of two");
  }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override { return {k.algorithm == "sort", ""}; }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const auto n = static_cast<uint64_t>(at_least_one(k.sizes[1], s));
    const double lines = static_cast<double>(at_least_one(k.sizes[0] * k.sizes[2], s)), levels = static_cast<double>(std::bit_width(n));
    const GpuCosts& u = gpu_costs(s.machine);
    std::vector<Candidate> all;
    for (int piece : {256, 1024, 4096, 16384})
      for (int blocks : {1, 2, 4, 8}) {
        const SortChoice t{std::min(1024, std::max(32, piece / 2)), piece, blocks};
        Candidate c{pack(*this, t), Fit::yes(), 0};
        const int64_t bytes = piece * (4 + dtype_bytes(values_of(k)));
        if (bytes > s.machine.shared_bytes)
          c.fit = refuse("a piece needs {} bytes of shared memory; {} is the most", bytes, s.machine.shared_bytes);
        if (blocks > 1 && !s.machine.has(Feature::clusters)) c.fit = refuse("sm_90 or newer has clusters of blocks");
        // Passes within a piece, then those over the whole line by its blocks.
        const double inside = std::bit_width(static_cast<unsigned>(piece)) - 1, outside = std::max(0.0, levels - inside);
        const double rounds = std::max(1.0, std::ceil(static_cast<double>(n) / piece / blocks));
        const double pass = u.sort_pair * piece / 2 / t.threads,
                     far = u.sort_far + u.sort_far_pair * static_cast<double>(n) / 2 / (t.threads * blocks);
        const double line = rounds * (inside * (inside + 1) / 2 + outside * inside) * pass + outside * (outside + 1) / 2 * far +
                            (blocks > 1 ? u.sort_cluster : 0);
        c.cost_ns = u.launch + std::max(1.0, lines * blocks / s.machine.cores) * line;
        all.push_back(std::move(c));
      }
    return all;
  }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice& c) const override {
    const SortChoice t = unpack<SortChoice>(c);
    StepSpec f = lines_step(k, t.threads);
    f.sizes.push_back(t.piece);
    f.grid[0] = min(k.sizes[0] * k.sizes[2], kMaxGrid / 8) * t.blocks;
    f.smem_bytes = f.max_smem_bytes = t.piece * (4 + dtype_bytes(values_of(k)));
    return f;
  }
  std::string contract(const LibraryKernel& k, const Site& s) const override { return sort_contract(k, s); }
  std::string source(const LibraryKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    const SortChoice t = unpack<SortChoice>(c);
    return emit::cuda::emit_sort(values_of(k), flag(k, Attr::descending, false), t.blocks, t.threads, symbol);
  }
};

class Topk final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "cuda_topk"; }
  bool is_part() const override { return true; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override { return {k.algorithm == "topk", ""}; }
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override { return lines_step(k, threads(k, s)); }
  std::string source(const LibraryKernel& k, const Site& s, const Choice&, const std::string& symbol) const override {
    return emit::cuda::emit_topk(values_of(k), flag(k, Attr::largest, true), threads(k, s), symbol);
  }

 private:
  static int threads(const LibraryKernel& k, const Site& s) { return at_least_one(k.sizes[1], s) > 2048 ? 1024 : 256; }
};

}  // namespace

std::string sort_contract(const LibraryKernel& k, const Site& s) {
  return fmt::format("cuda sort {}{} outer={} n={} inner={}", dtype_name(values_of(k)),
                     flag(k, Attr::descending, false) ? " descending" : "", s.syms.hint(k.sizes[0]), s.syms.hint(k.sizes[1]),
                     s.syms.hint(k.sizes[2]));
}

StepSpec sort_step(const LibraryKernel& k, int threads, int blocks, int64_t shared_bytes) {
  return library_step(k, threads, min(k.sizes[0] * k.sizes[2], kMaxGrid / 8) * blocks, shared_bytes);
}

std::string sort_source(const std::string& name, const LibraryKernel& k, int threads, int each, int blocks, const std::string& symbol) {
  using emit::cuda::pointer;
  const DType t = values_of(k);
  return emit::cuda::kernel((name + ".cuh").c_str(), symbol, 3, k.sizes.size(), blocks, threads,
                            fmt::format("  {}<{}, {}, {}, {}, {}>({}, {}, {}, a.size[0], a.size[1], a.size[2]);\n", name,
                                        emit::cuda::c_type(t), flag(k, Attr::descending, false), blocks, threads, each, pointer(t, 0),
                                        pointer(t, 1, true), pointer(DType::i64, 2, true)));
}

const Form& sort() { return instance<Sort>(); }
const Form& topk() { return instance<Topk>(); }

}  // namespace aotc::forms::cuda
