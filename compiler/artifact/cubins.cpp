#include "artifact/cubins.h"

#include <atomic>
#include <filesystem>
#include <mutex>

#include "base/parallel.h"
#include "emit/cuda/nvrtc.h"
#include "emit/embedded.h"
#include "emit/object_cache.h"
#include "emit/toolchain.h"

namespace aotc::artifact {
namespace {

std::vector<emit::cuda::SourceFile> cuda_headers() {
  std::vector<emit::cuda::SourceFile> out;
  for (const emit::EmbeddedFile& f : emit::embedded_files())
    if (f.name.rfind("cuda/", 0) == 0) out.push_back({std::string(f.name.substr(5)), std::string(f.text())});
  return out;
}

}  // namespace

std::string cuda_prelude() { return "#include \"gemm.cuh\"\n"; }

std::vector<std::string> cuda_sources(const loop::Module& module, const plan::PlanSet& plans, const Machine& machine) {
  std::vector<std::string> sources;
  for (const plan::KernelConfig& c : plans.configs)
    sources.push_back(c.choice.form->source({module.kernels[c.kernel], module.syms, machine}, c.choice, c.symbol));
  return sources;
}

Cubins compile_cubins(const std::vector<std::string>& sources, const std::vector<std::string>& names, const std::vector<std::string>& sms,
                      const CubinOptions& options) {
  Result<emit::cuda::Nvrtc> nvrtc = emit::cuda::Nvrtc::load();
  if (!nvrtc) throw Diagnostic(ExitCode::toolchain, {}, nvrtc.why());
  const std::vector<emit::cuda::SourceFile> headers = cuda_headers();
  const emit::ObjectCache cache(options.cache_dir.empty() ? "" : (std::filesystem::path(options.cache_dir) / "objects").string());
  uint64_t all_headers = emit::hash_bytes(nvrtc->build());
  for (const emit::cuda::SourceFile& h : headers) all_headers = emit::hash_bytes(h.text, emit::hash_bytes(h.name, all_headers));

  Cubins made;
  made.of.assign(sms.size(), std::vector<std::string>(sources.size()));
  std::atomic<size_t> done{0}, cached{0};
  std::mutex telling;
  const size_t total = sms.size() * sources.size();
  parallel_for(total, options.jobs, [&](size_t i) {
    const std::string &sm = sms[i / sources.size()], &source = sources[i % sources.size()], &name = names[i % sources.size()];
    std::string& to = made.of[i / sources.size()][i % sources.size()];
    const uint64_t key = emit::hash_bytes(sm, emit::hash_bytes(source, all_headers));
    if (std::optional<std::string> known = cache.take(key)) {
      to = std::move(*known);
      ++cached;
    } else {
      const std::vector<std::byte> code = nvrtc->compile(cuda_prelude() + source, name + ".cu", headers, sm);
      to.assign(reinterpret_cast<const char*>(code.data()), code.size());
      cache.put(key, to);
    }
    const std::lock_guard<std::mutex> guard(telling);
    if (options.progress) options.progress(++done, total, name + " for " + sm);
  });
  made.cached = cached;
  return made;
}

}  // namespace aotc::artifact
