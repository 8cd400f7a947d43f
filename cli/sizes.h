#pragma once
// --dim NAME=N: values for a program's shape symbols.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "artifact.h"
#include "dims.h"
#include "import/program.h"

namespace aotc::cli {

/// An archive that an artifact is compared with.
struct Against {
  /// With its symbols named and narrowed as the artifact has them (its shapes.json is in the metadata), so that both speak of the same
  /// dims.
  import::Program program;
  std::string doubt;  ///< empty where the artifact was built from it, else a sentence that says it was not
};
/// artifact: with its method chosen.
Against against(const std::string& pt2, const ArtifactFile& artifact);
/// The program that an artifact with this metadata computes: the archive's, with its weights rounded as the artifact's are.
import::Program as_built(const import::Program& archive, const nlohmann::json& metadata);
/// The buffers that the artifact stores in 8 bits (--kv-cache).
std::vector<std::string> stored_caches(const nlohmann::json& metadata);
/// The archive's constants whose products may round the rows that they multiply to 8 bits.
std::vector<std::string> int8_row_weights(const nlohmann::json& metadata);

/// Values of every shape symbol: those given, else the symbol's tune size or a small one within its range. Unknown names are a Diagnostic.
std::map<SymId, int64_t> choose_sizes(const import::Program& program, const std::map<std::string, int64_t>& given);
/// At most `n` assignments within the ranges that meet the archive's conditions and are `accepted`, from seed: the ends of the ranges
/// first, then others never used in tuning; dims without a maximum so that no value of the program is large. None is a Diagnostic.
std::vector<std::map<SymId, int64_t>> sample_sizes(const import::Program& program, const std::map<std::string, int64_t>& given, int n,
                                                   const std::function<bool(const std::map<SymId, int64_t>&)>& accepted);

/// Inputs of these sizes that the model takes: the first of several attempts (import::make_inputs) for which `refusal` gives nothing.
/// Throws Diagnostic (failed) with the first refusal where all are refused.
std::vector<HostTensor> draw_inputs(const import::Program& program, const std::map<SymId, int64_t>& sizes, uint64_t seed,
                                    const std::function<std::optional<std::string>(const std::vector<HostTensor>&)>& refusal);
/// Sizes that the archive takes, whatever an artifact makes of them: the least and the largest of its ranges (as sample_sizes has them) and
/// those of its example.
std::vector<std::map<SymId, int64_t>> range_ends(const import::Program& program, const std::map<std::string, int64_t>& given);

std::string sizes_text(const import::Program& program, const std::map<SymId, int64_t>& sizes);

}  // namespace aotc::cli
