#pragma once
// references.json beside the expected outputs of `aotc references`: from which archive they are, for which kind of artifact, and how far
// from them an output may be. Expected values that are changed afterwards do not change what is allowed.
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "judge.h"

namespace aotc::cli {

struct ReferencesFile {
  std::string source;    ///< the archive's id
  std::string computes;  ///< computes_of the artifact
  std::map<std::string, Bound> outputs;
};

/// What an artifact computes otherwise than the archive says: weights of few bits, bf16. Empty: nothing.
std::string computes_of(const nlohmann::json& metadata);

void write_references_file(const std::string& folder, const ReferencesFile& references);
/// nullopt where the folder has none. Throws Diagnostic.
std::optional<ReferencesFile> read_references_file(const std::string& folder);

}  // namespace aotc::cli
