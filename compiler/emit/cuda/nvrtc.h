#pragma once
// CUDA C++ to cubins through NVRTC, loaded at run time: needs neither a GPU nor a driver nor a CUDA toolkit, only libnvrtc.
#include <cstddef>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "emit/cuda/nvrtc_search.h"

namespace aotc::emit::cuda {

struct SourceFile {
  std::string name, text;
};  ///< a header as #include "name" sees it

/// The loaded library. Not copyable; compile() may be called from several threads.
class Nvrtc {
 public:
  /// Of the places of nvrtc_search.h the first library that opens. The failure names every place and says what to install.
  static Result<Nvrtc> load(const Variables& variables = process_variables());
  Nvrtc(Nvrtc&&) noexcept;
  Nvrtc& operator=(Nvrtc&&) = delete;
  ~Nvrtc();

  std::string version() const;  ///< "13.0"
  std::string build() const;    ///< the version and all that, beside the source, decides what compile() gives
  /// `sm`: "sm_90a", or "compute_90" for PTX, which ends with a zero. Throws Diagnostic (toolchain) with NVRTC's log and the source's first
  /// lines when the code does not compile.
  std::vector<std::byte> compile(const std::string& source, const std::string& name, const std::vector<SourceFile>& headers,
                                 const std::string& sm) const;

 private:
  struct Functions;
  Nvrtc() = default;
  void open_builtins();
  void* handle_ = nullptr;
  std::vector<void*> builtins_;
  Functions* f_ = nullptr;
};

}  // namespace aotc::emit::cuda
