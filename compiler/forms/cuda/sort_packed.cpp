// Sorting of values of at most 32 bits (kernels/cuda/sort_packed.cuh): keys and indices as one word, a block or a cluster a line.
#include <algorithm>
#include <bit>
#include <cmath>

#include "emit/cuda/code.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/simt_tile.h"
#include "forms/library_attrs.h"

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
};

class SortPacked final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "cuda_sort_packed"; }
  std::span<const Field> fields() const override { return fields_of<Pieces>(); }
  Fit legal(const Choice& c) const override {
    const Pieces p = unpack<Pieces>(c);
    const bool powers = std::has_single_bit(static_cast<unsigned>(p.threads)) && std::has_single_bit(static_cast<unsigned>(p.blocks));
    return powers ? Fit::yes() : refuse("threads and blocks are powers of two");
  }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override {
    if (k.algorithm != "sort") return {false, ""};
    const DType t = k.params.begin()->dtype;
    if (t != DType::f64 && dtype_bytes(t) > 4) return refuse("{} and an index are more than 64 bits", dtype_name(t));
    return t == DType::f64 ? refuse("float64 and an index are more than 64 bits") : Fit::yes();
  }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const auto n = static_cast<double>(at_least_one(k.sizes[1], s));
    const double lines = static_cast<double>(at_least_one(k.sizes[0] * k.sizes[2], s));
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
  StepSpec step(const LibraryKernel& k, const Site&, const Choice& c) const override {
    const Pieces p = unpack<Pieces>(c);
    return sort_step(k, p.threads, p.blocks, p.piece() * 8);
  }
  std::string contract(const LibraryKernel& k, const Site& s) const override { return sort_contract(k, s); }
  std::string source(const LibraryKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    const Pieces p = unpack<Pieces>(c);
    return sort_source("sort_packed", k, p.threads, p.each, p.blocks, symbol);
  }
};

}  // namespace

const Form& sort_packed() { return instance<SortPacked>(); }

}  // namespace aotc::forms::cuda
