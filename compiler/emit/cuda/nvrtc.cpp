#include "emit/cuda/nvrtc.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <utility>

namespace aotc::emit::cuda {

// Declarations of the NVRTC entry points that are used (CUDA Toolkit documentation, NVRTC API reference).
struct Nvrtc::Functions {
  using Program = void*;
  int (*version)(int* major, int* minor);
  int (*create)(Program*, const char* src, const char* name, int n_headers, const char* const* headers, const char* const* names);
  int (*compile)(Program, int n_options, const char* const* options);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*cubin_size)(Program, size_t*);
  int (*cubin)(Program, char*);
  int (*destroy)(Program*);
  const char* (*error)(int);
};

namespace {

std::vector<std::string> candidates(const std::string& library) {
  if (!library.empty()) return {library};
  std::vector<std::string> out = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH"}) {
    const char* root = std::getenv(variable);
    if (!root || !*root) continue;
    for (const char* tail : {"/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.1*",
                             "/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.1*", "/lib64/libnvrtc.so.1*"}) {
      glob_t found{};
      if (glob((std::string(root) + tail).c_str(), 0, nullptr, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; ++i) out.emplace_back(found.gl_pathv[i]);
      globfree(&found);
    }
  }
  out.emplace_back("/usr/local/cuda/lib64/libnvrtc.so");
  return out;
}

}  // namespace

Nvrtc::Nvrtc(Nvrtc&& o) noexcept : handle_(std::exchange(o.handle_, nullptr)), f_(std::exchange(o.f_, nullptr)) {}
Nvrtc::~Nvrtc() {
  delete f_;
  if (handle_) dlclose(handle_);
}

Result<Nvrtc> Nvrtc::load(const std::string& library) {
  Nvrtc n;
  std::string tried;
  for (const std::string& path : candidates(library)) {
    n.handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (n.handle_) break;
    if (tried.empty()) tried = dlerror();
  }
  if (!n.handle_) return Result<Nvrtc>::fail("NVRTC was not found (" + tried + "); install it with: pip install nvidia-cuda-nvrtc");
  n.f_ = new Functions;
  bool all = true;
  auto bind = [&](auto& fn, const char* symbol) {
    fn = reinterpret_cast<std::decay_t<decltype(fn)>>(dlsym(n.handle_, symbol));
    all = all && fn;
  };
  bind(n.f_->version, "nvrtcVersion");
  bind(n.f_->create, "nvrtcCreateProgram");
  bind(n.f_->compile, "nvrtcCompileProgram");
  bind(n.f_->log_size, "nvrtcGetProgramLogSize");
  bind(n.f_->log, "nvrtcGetProgramLog");
  bind(n.f_->cubin_size, "nvrtcGetCUBINSize");
  bind(n.f_->cubin, "nvrtcGetCUBIN");
  bind(n.f_->destroy, "nvrtcDestroyProgram");
  bind(n.f_->error, "nvrtcGetErrorString");
  if (!all) return Result<Nvrtc>::fail("the NVRTC library lacks nvrtcGetCUBIN; CUDA 11.2 or newer is needed");
  return n;
}

std::string Nvrtc::version() const {
  int major = 0, minor = 0;
  f_->version(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

std::vector<std::byte> Nvrtc::compile(const std::string& source, const std::string& name, const std::vector<SourceFile>& headers,
                                      const std::string& sm) const {
  std::vector<const char*> texts, names;
  for (const SourceFile& h : headers) texts.push_back(h.text.c_str()), names.push_back(h.name.c_str());
  Functions::Program program = nullptr;
  int rc = f_->create(&program, source.c_str(), name.c_str(), static_cast<int>(headers.size()), texts.data(), names.data());
  if (rc != 0) throw Diagnostic(ExitCode::toolchain, Loc{name, "", "", ""}, std::string("NVRTC: ") + f_->error(rc));
  const std::string arch = "--gpu-architecture=" + sm;
  const char* options[] = {arch.c_str(), "--std=c++17", "--device-as-default-execution-space", "-dopt=on"};
  rc = f_->compile(program, 4, options);
  if (rc != 0) {
    size_t bytes = 0;
    f_->log_size(program, &bytes);
    std::string log(bytes, '\0');
    if (bytes) f_->log(program, log.data());
    f_->destroy(&program);
    if (log.size() > 4000) log.resize(4000);
    throw Diagnostic(ExitCode::toolchain, Loc{name, "", "", ""}, "NVRTC did not compile the generated CUDA code for " + sm)
        .note(log)
        .note("--keep DIR leaves the source; an unknown architecture is named in the log above");
  }
  size_t bytes = 0;
  f_->cubin_size(program, &bytes);
  std::vector<std::byte> cubin(bytes);
  f_->cubin(program, reinterpret_cast<char*>(cubin.data()));
  f_->destroy(&program);
  if (cubin.empty())
    throw Diagnostic(ExitCode::toolchain, Loc{name, "", "", ""}, "NVRTC gave no machine code for " + sm)
        .note("use a real architecture such as sm_90a");
  return cubin;
}

}  // namespace aotc::emit::cuda
