#pragma once
// The system's C++ compiler: finds it, compiles translation units in parallel through a cache of objects, links the shared object.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "emit/seal.h"
#include "emit/splice.h"

namespace aotc::emit {

struct Compiler {
  std::vector<std::string> command;  ///< {"g++"}, {"ccache", "clang++-16"}
  std::string version;               ///< first line of --version: part of every cache key and of the report
};
/// $CXX (a program, or a line such as "ccache g++") where it is set and nothing else; then g++, c++, clang++ of PATH. Throws Diagnostic
/// (toolchain) that says what to install, or what $CXX names and why it does not serve.
Compiler find_compiler();

struct TranslationUnit {
  std::string name;  ///< file name without folder: "kernels_avx512.cpp"
  std::string source;
  std::vector<std::string> flags;  ///< beyond the common ones
};

struct CompileOptions {
  std::string work_dir;   ///< sources, headers and objects are written here; include path: work_dir/include
  std::string cache_dir;  ///< objects by content; empty: no cache
  int jobs = 1;
  std::function<void(size_t done, size_t total, const std::string& what)> progress;
};
struct CompileResult {
  std::vector<std::string> objects;  ///< in the order of the units
  size_t cached = 0;
  std::vector<std::string> command_lines;  ///< for --keep: a script repeats them
};
/// Throws Diagnostic (toolchain) with the compiler's output when a unit does not compile.
CompileResult compile(const Compiler& compiler, const std::vector<TranslationUnit>& units, const CompileOptions& options);

/// Links `objects`, the blob if any and the archives embedded in aotc into `output`, and seals it. `weights_file`: what is in a file beside
/// it. One exported symbol: aotc_get_api. Returns the command
/// line (of the link without the blob's content).
std::string link_artifact(const Compiler& compiler, std::vector<std::string> objects, const Blob* blob, const std::string& work_dir,
                          const SealedWeights& weights_file, const std::string& soname, const std::string& output);

/// ~/.cache/aotc or $XDG_CACHE_HOME/aotc, or empty when there is no home.
std::string user_cache_dir();
/// Writes aside, then renames. Throws Diagnostic (io).
void write_file(const std::string& path, std::string_view bytes);
/// FNV-1a, 64 bits, as 16 hex digits; combine several parts with `seed`.
uint64_t hash_bytes(std::string_view bytes, uint64_t seed = 14695981039346656037ull);

}  // namespace aotc::emit
