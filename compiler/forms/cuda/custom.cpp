// A kernel of the user's own: a __device__ function of his source, which stands in for its #include when the text is compiled
// (pipeline/gpu_code.h), called by all threads of the launch that the description asks for.
#include "emit/cpu/custom_call.h"
#include "emit/cuda/code.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "graph/custom_op.h"

namespace aotc::forms::cuda {

using loop::LibraryKernel;

namespace {

const Exprs& launch_of(const LibraryKernel& k) { return std::get<Exprs>(k.attrs.at(Attr::launch)); }

class Custom final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "cuda_own_kernel"; }

 protected:
  Fit fits(const LibraryKernel& k, const Site& s) const override {
    if (k.algorithm != "custom") return {false, ""};
    if (!k.attrs.count(Attr::kind)) return refuse("kernels.json has no \"cuda\" for {}", std::get<std::string>(k.attrs.at(Attr::op)));
    if (s.syms.interval(launch_of(k)[CustomLaunch::shared]).max > s.machine.shared_bytes)
      return refuse("shared_bytes of {} may be more than {}", std::get<std::string>(k.attrs.at(Attr::op)), s.machine.shared_bytes);
    return Fit::yes();
  }
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    const Exprs& launch = launch_of(k);
    StepSpec f;
    f.kind = StepKind::cuda;
    f.symbol = emit::cuda::function_name(k.name);
    f.sizes = k.sizes;
    for (size_t i = 0; i < 3; ++i) {
      f.grid[i] = min(launch[CustomLaunch::grid + i], i == 0 ? kMaxGrid : kMaxGridZ);
      f.block[i] = static_cast<int>(*launch[CustomLaunch::block + i].as_const());
    }
    f.smem_bytes = launch[CustomLaunch::shared];
    f.max_smem_bytes = s.syms.interval(f.smem_bytes).max;
    f.scratch_bytes = launch[CustomLaunch::gpu_scratch];
    return f;
  }
  std::string source(const LibraryKernel& k, const Site&, const Choice&, const std::string& symbol) const override {
    const std::string& code = std::get<std::string>(k.attrs.at(Attr::kind));  // "header function"
    const size_t space = code.find(' ');
    int threads = 1;
    for (size_t i = 0; i < 3; ++i) threads *= static_cast<int>(*launch_of(k)[CustomLaunch::block + i].as_const());
    std::string body = emit::custom_arguments(k, {"a.ptr", "reinterpret_cast<const int64_t*>(a.size)", "const"});
    body += "  args_of_op.thread = 0, args_of_op.threads = 1, args_of_op.scratch = a.scratch, args_of_op.fault = a.fault;\n";
    body += fmt::format("  {}(&args_of_op);\n", code.substr(space + 1));
    return emit::cuda::kernel(code.substr(0, space).c_str(), symbol, k.params.size(), k.sizes.size(), 1, threads, body);
  }
};

}  // namespace

const Form& custom() {
  static const Custom form;
  return form;
}

}  // namespace aotc::forms::cuda
