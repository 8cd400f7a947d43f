// A kernel of the user's own: a __device__ function of his source, which stands in for its #include when the text is compiled
// (pipeline/gpu_code.h), called by all threads of the launch that the description asks for; or a kernel that he compiled.
#include <bit>
#include <numeric>

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

CustomCuda code_of(const LibraryKernel& k) { return parse_custom_cuda(std::get<std::string>(k.attrs.at(Attr::kind))); }

/// The words of an aotc_op_launch: sizes of the tensors, then the operator's other arguments.
Exprs words_of(const LibraryKernel& k) {
  const Ints& ranks = std::get<Ints>(k.attrs.at(Attr::ranks));
  const size_t dims = static_cast<size_t>(std::accumulate(ranks.begin(), ranks.end(), int64_t{0}));
  Exprs words(k.sizes.begin(), k.sizes.begin() + static_cast<std::ptrdiff_t>(dims));
  for (const CustomNumber& n : parse_custom_numbers(std::get<std::string>(k.attrs.at(Attr::numbers)))) {
    for (int i = 0; n.first_size >= 0 && i < n.sizes; ++i) words.push_back(k.sizes.at(dims + static_cast<size_t>(n.first_size + i)));
    for (const int64_t v : n.integers) words.push_back(v);
    for (const double v : n.reals) words.push_back(std::bit_cast<int64_t>(v));
    if (n.kind == CustomNumber::Kind::none) words.push_back(0);
  }
  return words;
}

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
    f.sizes = code_of(k).header.empty() ? words_of(k) : k.sizes;
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
    const CustomCuda code = code_of(k);
    if (code.header.empty()) return compiled_text(code);
    int threads = 1;
    for (size_t i = 0; i < 3; ++i) threads *= static_cast<int>(*launch_of(k)[CustomLaunch::block + i].as_const());
    std::string body = emit::custom_arguments(k, {"a.ptr", "reinterpret_cast<const int64_t*>(a.size)", "const"});
    body += "  args_of_op.thread = 0, args_of_op.threads = 1, args_of_op.scratch = a.scratch, args_of_op.fault = a.fault;\n";
    body += fmt::format("  {}(&args_of_op);\n", code.function);
    return emit::cuda::kernel(code.header.c_str(), symbol, k.params.size(), k.sizes.size(), 1, threads, body);
  }
};

}  // namespace

const Form& custom() { return instance<Custom>(); }

}  // namespace aotc::forms::cuda
