// Fourier transforms of lines that lie in shared memory (kernels/cuda/fourier.cuh).
#include <algorithm>
#include <cmath>

#include "aotc/detail/fourier_abi.h"
#include "emit/cuda/code.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/simt_tile.h"
#include "forms/library_attrs.h"
#include "graph/fourier_lines.h"
#include "kernels/cuda/limits.cuh"

namespace aotc::forms::cuda {

using emit::cuda::pointer;
using loop::LibraryKernel;

namespace {

struct Share {
  int lines = 1, team = 32, along = 0;
  static std::span<const Member<Share>> members() {
    static constexpr Member<Share> kRows[] = {
        {{"lines", 1, 64}, &Share::lines}, {{"team", 1, 1024}, &Share::team}, {{"along", 0, 1}, &Share::along}};
    return kRows;
  }
};

class Fourier final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "cuda_fourier"; }
  std::span<const Field> fields() const override { return fields_of<Share>(); }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override {
    if (k.algorithm != "fourier" || (dtype(k) != DType::f32 && dtype(k) != DType::f64)) return {false, ""};
    const int64_t n = length(k);
    return fourier_in_blocks(n, halves(k), dtype_bytes(dtype(k))) ? Fit::yes() : refuse("a line of {} does not lie in shared memory", n);
  }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const int64_t points = fourier_points(length(k), halves(k)), inner = at_least_one(k.sizes[1], s);
    const double all = static_cast<double>(at_least_one(k.sizes[0], s) * inner);
    const FourierFactors f = fourier_factors(points);
    const int along = inner > 1;
    std::vector<Candidate> found;
    for (int team = 1; team <= kBlockThreadsMost; team *= 2) {
      if (team * 32 < points || (team > 1 && team * 2 > points)) continue;
      for (int lines = 1; lines <= 64; lines *= 2) {
        const int threads = team * lines;
        const int64_t shared = lines * fourier_line_bytes(points, dtype_bytes(dtype(k)), along);
        if (threads < 32 || shared > kFourierSharedBytes) continue;
        if (threads * registers(k, f) > gpu_costs(s.machine).registers || threads > kBlockThreadsMost) continue;
        found.push_back({pack(*this, Share{lines, team, along}), Fit::yes(), cost_ns(s, all, points, f, {lines, team, along}, shared)});
      }
    }
    return found;
  }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice& c) const override {
    const Share t = unpack<Share>(c);
    AOTC_CHECK(k.sizes.size() == 4, "{} takes outer, inner, in, n", k.name);
    return library_step(k, t.lines * t.team, ceildiv(k.sizes[0] * k.sizes[1], t.lines),
                        t.lines * fourier_line_bytes(fourier_points(length(k), halves(k)), dtype_bytes(dtype(k)), t.along != 0));
  }
  std::string source(const LibraryKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    const Share t = unpack<Share>(c);
    const DType d = dtype(k);
    const int what = kind(k);
    const bool line = what == AOTC_FOURIER_LINE;
    size_t n = 0;
    const size_t operands = k.params.size() - (line ? 1 : 2);
    const bool im = operands == 3;
    std::string body = fmt::format("  FourierLines<{}, {}, {}, {}, {}, {}, {}, {}> f;\n", emit::cuda::c_type(d), what, im,
                                   flag(k, Attr::reverse, false), length(k), t.lines, t.team, t.along != 0);
    body += fmt::format("  f.re = {};\n", pointer(d, n++));
    if (im) body += fmt::format("  f.im = {};\n", pointer(d, n++));
    body += fmt::format("  f.waves = {};\n", pointer(d, n++));
    body += fmt::format("  f.out_re = {};\n", pointer(d, n++, true));
    if (!line) body += fmt::format("  f.out_im = {};\n", pointer(d, n++, true));
    body += fmt::format("  f.outer = a.size[0], f.inner = a.size[1], f.in = a.size[2];\n  f.scale = {};\n  f.run();\n",
                        emit::cuda::float_text(std::get<double>(k.attrs.at(Attr::scale)), d));
    return emit::cuda::kernel("fourier.cuh", symbol, n, 4, 1, t.lines * t.team, body);
  }

 private:
  static DType dtype(const LibraryKernel& k) { return k.params.begin()->dtype; }
  static int64_t length(const LibraryKernel& k) { return k.sizes[3].as_const().value(); }
  static int kind(const LibraryKernel& k) {
    const std::string& name = std::get<std::string>(k.attrs.at(Attr::kind));
    return name == "pairs" ? AOTC_FOURIER_PAIRS : name == "half" ? AOTC_FOURIER_HALF : AOTC_FOURIER_LINE;
  }
  static bool halves(const LibraryKernel& k) { return kind(k) != AOTC_FOURIER_PAIRS; }
  /// Of a thread: the points of a pass, their waves, addresses.
  static int registers(const LibraryKernel& k, const FourierFactors& f) {
    return static_cast<int>(4 * f.largest) * dtype_bytes(dtype(k)) / 4 + 24;
  }
  /// Lines along memory are read by sectors of 32 bytes where a block has 8 of them.
  static double cost_ns(const Site& s, double lines, int64_t points, const FourierFactors& f, const Share& t, int64_t shared) {
    const GpuCosts& u = gpu_costs(s.machine);
    const double blocks = std::ceil(lines / t.lines), threads = t.lines * t.team;
    const double resident =
        std::max(1.0, std::min({std::floor(static_cast<double>(u.threads) / threads),
                                std::floor(static_cast<double>(u.shared_of_processor) / static_cast<double>(shared + u.shared_of_driver)),
                                u.fourier_blocks}));
    const double rounds = cuda::rounds(blocks, resident * s.machine.cores);
    const double each = static_cast<double>(points) / t.team / 8;                                // butterflies of 8 of a thread
    const double busy = std::min(resident, std::ceil(blocks / s.machine.cores)) * threads / 32;  // warps of a multiprocessor
    const double pass = u.fourier_pass + each * (u.fourier_butterfly + u.fourier_warp * busy);
    const double scattered = t.along ? std::max(1.0, u.fourier_sectors / t.lines) : 1.0;
    return u.launch + rounds * (f.passes * pass + u.fourier_line * scattered);
  }
};

}  // namespace

const Form& fourier() { return instance<Fourier>(); }

}  // namespace aotc::forms::cuda
