#pragma once
// Plans as the C tables of runtime/include/aotc/detail/plan_format.h: text, no decisions.
#include <string>
#include <vector>

#include "base/target.h"
#include "graph/graph.h"
#include "loop/loop.h"
#include "plan/build.h"

namespace aotc::artifact {

/// Where the machine code of a kernel stands.
struct CubinAt {
  std::string symbol;  ///< of a blob object
  uint64_t offset = 0;
};
struct CudaImage {
  std::string sm;
  std::vector<CubinAt> cubins;  ///< one a kernel of PlanSet::configs, of all methods in their order
};

/// A method as one part of the artifact has it. Names of kernels for CPUs are its own: no other method's module has them.
struct MethodPlans {
  std::string name;
  const Graph& graph;
  const loop::Module& module;
  const plan::PlanSet& plans;
};

struct TableInput {
  std::vector<MethodPlans> methods;  ///< at least one
  const Target& target;
  std::string metadata_json;
  uint64_t blob_bytes = 0;  ///< of all parts' weights
  std::vector<CudaImage> cuda_images;
  std::string weights_symbol;  ///< of the blob object, or empty: in weights_file
  std::string weights_file;
  uint64_t weights_hash = 0;
  uint64_t weights_layout = 0;  ///< aotc_module_desc.weights_layout
  bool graphs = false;          ///< GPU: AOTC_MODULE_GRAPHS
  bool own_weights = false;     ///< CPU: AOTC_MODULE_OWN_WEIGHTS
  /// The part's number in the artifact and how many there are: part 0 defines aotc_module, the others are behind it.
  size_t part = 0, n_parts = 1;
};
/// The headers of the tables, with the contract of every kernel of the library.
std::string table_includes();
/// One C++ translation unit that defines the part's aotc_module_desc.
std::string emit_tables(const TableInput& in);

}  // namespace aotc::artifact
