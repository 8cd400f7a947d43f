#include "emit/cuda/nvrtc.h"

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <link.h>

#include <filesystem>
#include <utility>

#include "base/parts.h"

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
  int (*ptx_size)(Program, size_t*);
  int (*ptx)(Program, char*);
  int (*destroy)(Program*);
  const char* (*error)(int);
};

namespace {

/// Beside the architecture.
constexpr const char* kOptions[] = {"--std=c++17", "--device-as-default-execution-space", "-dopt=on"};

/// The file that a library was loaded from, or empty.
std::filesystem::path file_of(void* handle) {
  const link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map || !map->l_name) return {};
  std::error_code ec;
  return std::filesystem::canonical(map->l_name, ec);
}

/// Opens the first library of the place that opens; says in *looked what it met.
void* open_place(const NvrtcPlace& place, std::vector<std::string>* looked) {
  std::string why = place.libraries.empty() ? "" : ": ";
  for (const std::string& library : place.libraries) {
    if (void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    if (const char* text = dlerror(); why == ": ") why += text ? text : library;
  }
  looked->push_back(fmt::format("{}: {}{}", place.what, place.folders, why));
  return nullptr;
}

}  // namespace

Nvrtc::Nvrtc(Nvrtc&& o) noexcept
    : handle_(std::exchange(o.handle_, nullptr)), builtins_(std::exchange(o.builtins_, {})), f_(std::exchange(o.f_, nullptr)) {}
Nvrtc::~Nvrtc() {
  delete f_;
  if (handle_) dlclose(handle_);
  for (void* library : builtins_) dlclose(library);
}

/// NVRTC asks for libnvrtc-builtins by name while it compiles, and some releases (13.0 of PyPI) do not look beside themselves: loaded
/// before, it is found wherever it lies.
void Nvrtc::open_builtins() {
  const std::string folder = file_of(handle_).parent_path().string();
  if (folder.empty()) return;
  for (const std::string& file : glob_matches(glob_literal(folder) + "/libnvrtc-builtins.so*"))
    if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) builtins_.push_back(library);
}

Result<Nvrtc> Nvrtc::load(const Variables& variables) {
  Nvrtc n;
  std::vector<std::string> looked;
  for (const NvrtcPlace& place : nvrtc_places(variables))
    if (!n.handle_) n.handle_ = open_place(place, &looked);
  if (!n.handle_ && !variables.count("AOTC_NVRTC")) n.handle_ = open_place(nvrtc_place_of_python(variables), &looked);
  if (!n.handle_)
    return Result<Nvrtc>::fail(
        "NVRTC was not found; install it with: pip install nvidia-cuda-nvrtc, or name the library in AOTC_NVRTC. Looked in:\n    " +
        fmt::format("{}", fmt::join(looked, "\n    ")));
  n.open_builtins();
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
  bind(n.f_->ptx_size, "nvrtcGetPTXSize");
  bind(n.f_->ptx, "nvrtcGetPTX");
  bind(n.f_->destroy, "nvrtcDestroyProgram");
  bind(n.f_->error, "nvrtcGetErrorString");
  if (!all) return Result<Nvrtc>::fail("the NVRTC library lacks nvrtcGetCUBIN: CUDA 11.2 or newer is needed");
  return n;
}

std::string Nvrtc::version() const {
  int major = 0, minor = 0;
  f_->version(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

/// The paragraphs of NVRTC's log but for warnings and remarks, where it has errors; 4000 characters at most.
static std::string errors_of(const std::string& log) {
  if (log.find(": error") == std::string::npos) return log.substr(0, 4000);
  std::string out;
  for (size_t at = 0; at < log.size();) {
    const size_t end = std::min(log.find("\n\n", at), log.size());
    const std::string paragraph = log.substr(at, end - at);
    if (paragraph.find(": warning") == std::string::npos && paragraph.rfind("Remark:", 0) != 0) out += paragraph + "\n";
    at = end + 2;
  }
  return out.substr(0, 4000);
}

std::string Nvrtc::build() const {
  std::error_code ec;  // versions tell releases, not their updates
  const uintmax_t bytes = std::filesystem::file_size(file_of(handle_), ec);
  return fmt::format("NVRTC {} of {} bytes, {}", version(), ec ? 0 : bytes, fmt::join(kOptions, " "));
}

std::vector<std::byte> Nvrtc::compile(const std::string& source, const std::string& name, const std::vector<SourceFile>& headers,
                                      const std::string& sm) const {
  std::vector<const char*> texts, names;
  for (const SourceFile& h : headers) texts.push_back(h.text.c_str()), names.push_back(h.name.c_str());
  Functions::Program program = nullptr;
  int rc = f_->create(&program, source.c_str(), name.c_str(), static_cast<int>(headers.size()), texts.data(), names.data());
  if (rc != 0) throw Diagnostic(ExitCode::toolchain, Loc{name, "", "", ""}, std::string("NVRTC: ") + f_->error(rc));
  const std::string arch = "--gpu-architecture=" + sm;
  std::vector<const char*> options = {arch.c_str()};
  options.insert(options.end(), std::begin(kOptions), std::end(kOptions));
  rc = f_->compile(program, static_cast<int>(options.size()), options.data());
  if (rc != 0) {
    size_t bytes = 0;
    f_->log_size(program, &bytes);
    std::string log(bytes, '\0');
    if (bytes) f_->log(program, log.data());
    f_->destroy(&program);
    throw Diagnostic(ExitCode::toolchain, Loc{name, "", "", ""}, "NVRTC did not compile the generated CUDA code for " + sm)
        .note(errors_of(log))
        .note("--keep DIR leaves the source; an unknown architecture is named in the log above");
  }
  size_t bytes = 0;
  const bool ptx = is_ptx(sm);
  (ptx ? f_->ptx_size : f_->cubin_size)(program, &bytes);
  std::vector<std::byte> cubin(bytes);
  (ptx ? f_->ptx : f_->cubin)(program, reinterpret_cast<char*>(cubin.data()));
  f_->destroy(&program);
  if (cubin.empty())
    throw Diagnostic(ExitCode::toolchain, Loc{name, "", "", ""}, "NVRTC gave no machine code for " + sm)
        .note("use a real architecture such as sm_90a");
  return cubin;
}

}  // namespace aotc::emit::cuda
