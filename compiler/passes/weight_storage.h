#pragma once
// In how many bits the constant weights of products are stored (--weights).
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace aotc::passes {

struct WeightStorage {
  int bits = 0;            ///< 0: as they are; 16: bfloat16; 8: signed, one scale a group; 4: one scale and one offset a group
  int64_t group = 0;       ///< values of k that share a scale; 0: all of a column
  bool int8_rows = false;  ///< the rows that they multiply may be rounded, too (Numerics::int8_rows)
  double max_error = 0;    ///< relative L2 error that rounding may bring into a weight; 0: usual_weight_error
  bool float8 = false;     ///< of 8 bits: float8_e4m3fn in place of integers
  bool any() const { return bits != 0; }
  std::string str() const;    ///< "int4, groups of 32"; "as they are"
  double most_error() const;  ///< max_error, or the usual one
  friend bool operator==(const WeightStorage&, const WeightStorage&) = default;
};
/// What --weights, --weight-group and --activations say. name: "int8", "int4", "fp8", "bf16" or "" (as they are); group: 0, 32, 64, 128, or
/// nothing: 32, but all of a column where rows of int8 multiply them; activations: "int8" or "" (as they are). Throws Diagnostic (usage).
WeightStorage parse_weight_storage(std::string_view name, std::string_view group, std::string_view activations = {});

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
