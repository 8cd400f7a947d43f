#pragma once
// What became of constant weights that are stored in few bits (base/weight_storage.h).
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/weight_storage.h"

namespace aotc::passes {

/// What became of one weight.
struct StoredWeight {
  std::string name;
  int64_t elems = 0, bytes = 0;  ///< bytes: as it is stored now
  double error = 0;              ///< root of the mean square of what rounding changed, over that of the weight
  int64_t bytes_before = 0;      ///< as the archive has it
};
/// A constant of the archive that has rounded numbers, and whether products see it as [n, k] (else [k, n]).
struct RoundedConstant {
  std::string name;
  bool columns_first = false;
  double error = 0;  ///< as StoredWeight::error
  friend bool operator==(const RoundedConstant&, const RoundedConstant&) = default;
};
/// What round_weights and quantize_weights did.
struct StoredWeights {
  WeightStorage storage;
  std::vector<RoundedConstant> rounded;
  std::vector<StoredWeight> weights;
  std::vector<std::pair<std::string, std::string>> left;  ///< weights of products that are stored as they are, and why
  int64_t bytes_before() const;                           ///< of `weights`
  int64_t bytes() const;
  double error() const;  ///< of all of them together, each by its elements
  /// Throws Diagnostic (failed) that names the worst of `rounded` where one is beyond WeightStorage::most_error.
  void check_error() const;
};

}  // namespace aotc::passes
