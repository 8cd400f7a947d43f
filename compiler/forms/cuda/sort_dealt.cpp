// Sorting of values of at most 32 bits by digits of their keys (kernels/cuda/sort_dealt.cuh): few long lines, by all processors, two
// launches a digit.
#include <algorithm>
#include <cmath>

#include "emit/cuda/code.h"
#include "emit/cuda/functor.h"
#include "emit/cuda/library.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/sort_form.h"
#include "forms/repeated.h"

namespace aotc::forms::cuda {

using loop::LibraryKernel;

namespace {

struct Piece {
  int threads = 1024, each = 1;
  static std::span<const Member<Piece>> members() {
    static constexpr Member<Piece> kRows[] = {{{"threads", 256, 1024, 256}, &Piece::threads}, {{"each", 1, 8}, &Piece::each}};
    return kRows;
  }
  int64_t entries() const { return int64_t{threads} * each; }
};

constexpr Piece kPieces[] = {{256, 4}, {512, 2}, {1024, 1}, {512, 4}, {1024, 2}, {1024, 4}};

class SortDealt final : public SortForm<Piece>, public Repeated {
 public:
  std::string_view name() const override { return "cuda_sort_dealt"; }
  Fit legal(const Choice& c) const override {
    return std::has_single_bit(static_cast<unsigned>(unpack<Piece>(c).threads)) ? Fit::yes() : refuse("threads are a power of two");
  }
  int launches(const loop::Kernel& k, const Choice&) const override {
    return 2 * digits_of(std::get<LibraryKernel>(k).params.begin()->dtype);
  }

 protected:
  Fit takes(const LibraryKernel& k, const Site& s) const override {
    return longest(k, s) > INT32_MAX ? refuse("an index may have more than 32 bits") : Fit::yes();
  }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const auto n = static_cast<double>(at_least_one(k.sizes[1], s));
    const double lines = lines_of(k, s);
    const GpuCosts& u = gpu_costs(s.machine);
    std::vector<Candidate> all;
    for (const Piece& p : kPieces) {
      const double pieces = std::ceil(n / static_cast<double>(p.entries()));
      const double room = std::max(1.0, u.dealt_threads / p.threads), blocks = lines * pieces / s.machine.cores;  // of one processor
      const double rounds = whole_rounds(blocks, room), together = std::min(room, std::max(1.0, std::ceil(blocks)));
      const double deal = u.dealt_rank * static_cast<double>(p.entries()) / 128 * together + u.dealt_count * pieces * kDigits / p.threads;
      all.push_back({pack(*this, p), Fit::yes(),
                     u.launch + digits_of(k.params.begin()->dtype) * 2 * (u.dealt_launch + rounds * (u.dealt_begin + deal / 2))});
    }
    return all;
  }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice& c) const override {
    const Piece p = unpack<Piece>(c);
    const Expr pieces = ceildiv(k.sizes[1], p.entries()), lines = k.sizes[0] * k.sizes[2];
    StepSpec f = cuda_step({}, emit::cuda::function_name(k.name));
    f.sizes = k.sizes;
    f.sizes.push_back(0);  // the launch
    f.block[0] = p.threads;
    f.grid[0] = max(1, min(lines * pieces, kMaxGrid));
    f.scratch_bytes = lines * (2 * 8 * k.sizes[1] + 4 * kDigits * pieces);
    return f;
  }
  std::string source(const LibraryKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    using emit::cuda::pointer;
    const Piece p = unpack<Piece>(c);
    const DType t = k.params.begin()->dtype;
    return emit::cuda::kernel("sort_dealt.cuh", symbol, 3, k.sizes.size() + 1, 1, p.threads,
                              fmt::format("{}  SortDealt<{}, {}, {}, {}>{{{}, {}, {}, a.size[0], a.size[1], a.size[2], "
                                          "static_cast<u64*>(a.scratch)}}.launch(static_cast<int>(a.size[{}]));\n",
                                          emit::cuda::wait_first(), emit::cuda::c_type(t), flag(k, Attr::descending, false), p.threads,
                                          p.each, pointer(t, 0), pointer(t, 1, true), pointer(DType::i64, 2, true), k.sizes.size()));
  }
};

}  // namespace

const Form& sort_dealt() { return instance<SortDealt>(); }

}  // namespace aotc::forms::cuda
