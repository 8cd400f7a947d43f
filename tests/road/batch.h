#pragma once
// Graphs on their whole road: passes, fusion, plans, tables and loops as C++, compiled, loaded and run through the runtime. Many graphs
// share one shared object, so that the compiler starts once for all of them.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "aotc/aotc.h"
#include "aotc/detail/plan_format.h"
#include "base/target.h"
#include "graph/interp.h"
#include "loop/loop.h"
#include "plan/build.h"

namespace aotc::test {

/// One graph up to its plans.
struct RoadModel {
  std::string name;  ///< unique in its batch, a C identifier
  Graph given;       ///< before the passes
  Graph graph;
  loop::Module module;
  plan::PlanSet plans;
};
/// Throws what the compiler throws. The kernels' names begin with `name`.
RoadModel road_model(std::string name, const Graph& g, const Target& target, const plan::PlanOptions& options);

/// The compiled code of models, loaded as long as this lives.
class Batch {
 public:
  /// `quick`: little optimisation. The models must stay where they are.
  Batch(const std::vector<RoadModel>& models, const Target& target, bool quick);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  const aotc_module_desc& desc(size_t i) const { return descs_.at(i); }

 private:
  std::string dir_;
  void* handle_ = nullptr;
  std::vector<aotc_module_desc> descs_;
  std::vector<std::unique_ptr<std::byte[]>> blobs_;
};

/// Model and context of one of them, over the runtime that this program is linked with.
class RoadSession {
 public:
  RoadSession(const aotc_module_desc& desc, int threads);
  ~RoadSession();
  RoadSession(const RoadSession&) = delete;
  RoadSession& operator=(const RoadSession&) = delete;
  /// Outputs, then states that the graph updates. `over_inputs`: outputs that are an input's new content are written over a copy of it.
  std::vector<HostTensor> run(const Graph& g, const std::vector<HostTensor>& inputs, bool over_inputs);

 private:
  aotc_model* model_ = nullptr;
  aotc_context* context_ = nullptr;
};

}  // namespace aotc::test
