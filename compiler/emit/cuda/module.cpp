#include "emit/cuda/module.h"

#include "emit/cuda/code.h"
#include "emit/cuda/loop_kernel.h"
#include "emit/cuda/matmul.h"

namespace aotc::emit::cuda {

namespace {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

[[noreturn]] void no_form(const std::string& kernel, const char* what) {
  throw Diagnostic(ExitCode::unsupported, {}, fmt::format("kernel {}: {} has no CUDA form yet", kernel, what))
      .note("build this model for the CPU (--cpu), or run the operator outside the model");
}

}  // namespace

CudaCode emit_module(const loop::Module& m) {
  CudaCode code;
  code.source = "#include \"gemm.cuh\"\n";
  std::vector<std::string> refused;
  for (const loop::Kernel& kernel : m.kernels) {
    code.functions.push_back(function_name(loop::kernel_name(kernel)));
    Launch launch;
    try {
      code.source += std::visit(Overload{
                                    [&](const loop::LoopKernel& k) {
                                      launch = launch_of(k);
                                      return emit_loop_kernel(k, launch);
                                    },
                                    [&](const loop::MatmulKernel& k) {
                                      const MatmulTile tile = tile_of(k);
                                      launch = launch_of(k, tile);
                                      return emit_matmul(k, tile, launch);
                                    },
                                    [&](const loop::ConvKernel& k) -> std::string { no_form(k.name, "a convolution"); },
                                    [&](const loop::AttentionKernel& k) -> std::string { no_form(k.name, "attention"); },
                                    [&](const loop::LibraryKernel& k) -> std::string { no_form(k.name, k.algorithm.c_str()); },
                                },
                                kernel);
    } catch (const Diagnostic& d) {
      if (d.code() != ExitCode::unsupported) throw;
      refused.push_back(d.message());
    }
    code.launches.push_back(std::move(launch));
  }
  if (!refused.empty()) {
    Diagnostic all(ExitCode::unsupported, {}, fmt::format("{} kernel(s) of this model have no CUDA form", refused.size()));
    for (const std::string& r : refused) all.note(r);
    throw all;
  }
  return code;
}

std::vector<Cubin> compile_module(const CudaCode& code, const std::vector<SourceFile>& headers, const std::vector<std::string>& sms) {
  Result<Nvrtc> nvrtc = Nvrtc::load();
  if (!nvrtc) throw Diagnostic(ExitCode::toolchain, {}, nvrtc.why());
  std::vector<Cubin> out;
  for (const std::string& sm : sms) out.push_back({sm, nvrtc->compile(code.source, "kernels.cu", headers, sm)});
  return out;
}

}  // namespace aotc::emit::cuda
