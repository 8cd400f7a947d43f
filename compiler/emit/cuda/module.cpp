#include "emit/cuda/module.h"

namespace aotc::emit::cuda {

std::vector<Cubin> compile_module(const std::string& source, const std::vector<SourceFile>& headers, const std::vector<std::string>& sms) {
  Result<Nvrtc> nvrtc = Nvrtc::load();
  if (!nvrtc) throw Diagnostic(ExitCode::toolchain, {}, nvrtc.why());
  std::vector<Cubin> out;
  for (const std::string& sm : sms) out.push_back({sm, nvrtc->compile(source, "kernels.cu", headers, sm)});
  return out;
}

}  // namespace aotc::emit::cuda
