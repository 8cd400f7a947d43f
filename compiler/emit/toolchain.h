#pragma once
// The system's C++ compiler: finds it, compiles translation units in parallel through a cache of objects, links the shared object.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "emit/object_cache.h"
#include "emit/seal.h"
#include "emit/splice.h"

namespace aotc::emit {

struct Compiler {
  std::vector<std::string> command;  ///< {"g++"}, {"ccache", "g++-13"}
  std::string version;               ///< first line of --version: part of every cache key and of the report
};
/// $CXX (a program, or a line such as "ccache g++") where it is set and nothing else; then g++, c++, g++-15 to g++-12 of PATH: the first
/// that is new enough. Throws Diagnostic (toolchain) that says what to install, or what was found and why it does not serve.
Compiler find_compiler();

struct TranslationUnit {
  std::string name;  ///< file name without folder: "kernels_avx512.cpp"
  std::string source;
  std::vector<std::string> flags;  ///< beyond the common ones
};

struct CompileOptions {
  std::string work_dir;  ///< sources, headers and objects are written here; include path: work_dir/include
  CacheOptions cache;
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

/// How an artifact was linked: what repeats it.
struct Linked {
  std::vector<std::string> command;  ///< the link; its output is Linked::file
  std::string file;                  ///< in the work folder; not there any more
  std::string spliced;               ///< section of the stand-in that the blob took the place of; empty: it went through the linker
  SealedWeights weights;             ///< of the seal
};
/// Links `objects`, the blob if any and the archives embedded in aotc into `output`, and seals it. `weights_file`: what is in a file beside
/// it. One exported symbol: aotc_get_api.
Linked link_artifact(const Compiler& compiler, std::vector<std::string> objects, const Blob* blob, const std::string& work_dir,
                     const SealedWeights& weights_file, const std::string& soname, const std::string& output);
/// From what was linked to the artifact: the blob in its place (null: it is there), the seal. False, with nothing written: the linker laid
/// the file out in another way. `weights` gets the blob's hash.
bool finish_artifact(const std::string& linked, const std::string& output, const Blob* blob, SealedWeights& weights);

/// Writes the files embedded in `folder` ("glibc", "lib") into that folder of work_dir; their paths.
std::vector<std::string> write_embedded(const std::string& folder, const std::string& work_dir);

/// Words as a line of sh that gives them.
std::string shell_line(const std::vector<std::string>& words);
/// ~/.cache/aotc or $XDG_CACHE_HOME/aotc, or empty when there is no home.
std::string user_cache_dir();
/// The cache in that folder, within 5 GB.
CacheOptions user_cache();
/// Writes aside, then renames. Throws Diagnostic (io).
void write_file(const std::string& path, std::string_view bytes);
/// FNV-1a, 64 bits, as 16 hex digits; combine several parts with `seed`.
uint64_t hash_bytes(std::string_view bytes, uint64_t seed = 14695981039346656037ull);

}  // namespace aotc::emit
