// scatter of many updates of which the last stays (kernels/cuda/scatter_last.cuh): a thread an update, three launches.

#include "aotc/detail/library_abi.h"
#include "emit/cuda/code.h"
#include "emit/cuda/functor.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/scatter.h"
#include "forms/cuda/simt_tile.h"
#include "forms/library_attrs.h"
#include "forms/repeated.h"

namespace aotc::forms::cuda {

using loop::LibraryKernel;

namespace {

constexpr int kBlockThreads = 256;

class ScatterLast final : public FormOf<LibraryKernel>, public Repeated {
 public:
  std::string_view name() const override { return "cuda_scatter_last"; }
  int launches(const loop::Kernel&, const Choice&) const override { return 3; }

 protected:
  Fit fits(const LibraryKernel& k, const Site& s) const override {
    if (k.algorithm != "scatter") return {false, ""};
    if (scatter_reduce(k) != AOTC_SCATTER_NONE) return refuse("all updates of an element count");
    if (s.syms.interval(s.syms.simplify(ScatterDims::of(k).updates())).max > INT32_MAX)
      return refuse("the number of an update may have more than 32 bits");
    return Fit::yes();
  }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const ScatterDims d = ScatterDims::of(k);
    const auto n = [&](const Expr& e) { return static_cast<double>(at_least_one(e, s)); };
    const GpuCosts& u = gpu_costs(s.machine);
    const double bytes = n(d.lines) * (n(d.extent) * u.scatter_last_element + n(d.updates()) * u.scatter_last_update);
    return {{{this, {}}, Fit::yes(), u.launch + 3 * u.next_launch + memory_ns(bytes, s.machine)}};
  }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice&) const override {
    const ScatterDims d = ScatterDims::of(k);
    StepSpec f = cuda_step({}, emit::cuda::function_name(k.name));
    f.sizes = d.sizes;
    f.sizes.push_back(0);  // the launch
    f.block[0] = kBlockThreads;
    f.grid[0] = max(1, min(ceildiv(d.lines * max(d.extent, d.updates()), kBlockThreads), kMaxGrid));
    f.scratch_bytes = 4 * d.lines * d.extent;
    return f;
  }
  std::string source(const LibraryKernel& k, const Site&, const Choice&, const std::string& symbol) const override {
    using emit::cuda::pointer;
    const ScatterDims d = ScatterDims::of(k);
    const DType t = k.params.begin()->dtype;
    return emit::cuda::kernel(
        "scatter_last.cuh", symbol, 4, d.sizes.size() + 1, 1, kBlockThreads,
        fmt::format("{}  ScatterLast<{}, {}, {}>{{{{{}, {}, {}, {}, a.size, a.fault}}}}.launch(static_cast<int>(a.size[{}]), "
                    "static_cast<int*>(a.scratch));\n",
                    emit::cuda::wait_first(), emit::cuda::c_type(t), d.rank, d.dim, pointer(t, 0), pointer(DType::i64, 1), pointer(t, 2),
                    pointer(t, 3, true), d.sizes.size()));
  }
};

}  // namespace

const Form& scatter_last() { return instance<ScatterLast>(); }

}  // namespace aotc::forms::cuda
