#pragma once
// Other weights for an artifact (aotc weights): what is stored of each constant and where is in the artifact's metadata, with what its
// graphs depend on; of another archive of the same programs the same is computed from other values, without plans, code or a compiler.
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pipeline/pipeline.h"
#include "plan/weights.h"

namespace aotc::pipeline {

/// All that decides the graph and its constants but for the values of exchangeable ones, as 16 hex digits.
std::string front_id(const Front& front);

/// A method for one kind of machine in an artifact that is built.
struct LaidOut {
  const std::string& method;
  const FrontOptions& options;  ///< that the front was made with
  const Machine& machine;
  const Front& front;
  const std::string& id;                     ///< front_id, before kernels of several methods get names of their own
  const std::vector<plan::Weight>& weights;  ///< at their places in the artifact's blob
};
/// The metadata's "weights_layout" (schemas/metadata.schema.json).
nlohmann::json layout_json(const std::vector<LaidOut>& parts, uint64_t blob_bytes);
/// Its id as a number.
uint64_t layout_id(const nlohmann::json& layout);

struct OtherWeights {
  /// One archive for each method, by name; one without a name for all.
  struct Archive {
    std::string method, file, program;
  };
  std::vector<Archive> archives;
  std::map<std::string, ConstData> replaced;  ///< values that take the place of an archive's, by name of the weight
  std::shared_ptr<const own::Kernels> own;    ///< as the artifact was built with, or null
  std::string artifact;                       ///< its path, for messages
  std::string output;                         ///< path of the weights file
  int jobs = 0;                               ///< 0: the machine's
};
/// Writes the file for the artifact with this "weights_layout", whole or not at all. Throws Diagnostic that names the first weight or node
/// that is not the artifact's. Returns {weights, bytes, layout, hash, seconds}.
nlohmann::json write_weights_for(const nlohmann::json& layout, const OtherWeights& o, const Events& events);

}  // namespace aotc::pipeline
