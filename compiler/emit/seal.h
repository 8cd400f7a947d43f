#pragma once
// The seal of an artifact (aotc/seal.h): sizes and hashes of the finished file, written into its note, and the number of its build.
#include <cstdint>
#include <optional>
#include <string>

namespace aotc::emit {

struct SealedWeights {
  std::string section;           ///< of the artifact that holds them; empty: they are in a file beside it
  uint64_t bytes = 0;            ///< beside it
  std::optional<uint64_t> hash;  ///< where it is known already; must be for a file
};
/// Seals a linked artifact in place, once: again it has another build. AOTC_CHECKs that it has the runtime's note.
void seal_artifact(const std::string& path, const SealedWeights& weights);

}  // namespace aotc::emit
