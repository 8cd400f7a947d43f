#pragma once
// Plans → shared object or static archive: sources, compile, tables, link. The same road for a model's artifact and for those that are only
// measured.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "artifact/cubins.h"
#include "artifact/tables.h"
#include "emit/static_archive.h"
#include "emit/toolchain.h"
#include "graph/graph.h"
#include "loop/loop.h"
#include "pipeline/clock.h"
#include "plan/blob.h"
#include "plan/build.h"

namespace aotc::pipeline {

/// The plans of a method, and for GPUs their machine code.
struct AssembleMethod : artifact::MethodPlans {
  const artifact::CudaCode* cuda = nullptr;
};
/// The methods for one kind of machine.
struct AssemblePart {
  std::vector<AssembleMethod> methods;  ///< as many in every part, in one order
  const Target& target;
  const Machine& machine;
  bool graphs = false;       ///< GPU: runs are launches of CUDA graphs
  bool own_weights = false;  ///< CPU: models copy their weights to huge pages
};
struct AssembleInput {
  std::vector<AssemblePart> parts;
  const plan::SharedBlob& blob;  ///< of the weights of all parts
  std::string metadata_json;
  std::string output;                         ///< absolute path of the .so, or of the .a
  std::string work_dir;                       ///< exists; sources and objects go here
  std::vector<std::string> own_objects = {};  ///< of kernels of the user's own
  std::string weights_name;                   ///< of a file beside the output that holds the weights; empty: they are in the .so
  std::string prefix;                         ///< of the function that a static archive shows; empty: a shared object
  int jobs = 1;
  emit::CacheOptions cache;
  uint64_t weights_layout = 0;  ///< that files of other weights have; 0: none take the place of these
};
/// A weights file: a blob of so many bytes, which `fill` writes, and its trailer. Returns the blob's hash.
uint64_t write_weights_file(const std::string& path, uint64_t bytes, uint64_t layout,
                            const std::function<void(std::span<std::byte>)>& fill);
struct Assembled {
  std::vector<std::string> command_lines;  ///< of all compiles
  emit::Linked linked;
  emit::Archived archived;  ///< in its place, of a static archive
  std::string compiler;     ///< its version
  size_t units = 0, cached = 0;
};
/// Phases go to `clock`, progress to `progress`. Throws Diagnostic (toolchain, io). The output appears whole or not at all.
Assembled assemble(const AssembleInput& in, PhaseClock& clock,
                   const std::function<void(size_t done, size_t total, const std::string& what)>& progress);

}  // namespace aotc::pipeline
