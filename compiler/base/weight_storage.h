#pragma once
// In how many bits the constant weights of products are stored (--weights), and what they may lose by that: what the user allows.
#include <cstdint>
#include <string>
#include <string_view>

namespace aotc {

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

}  // namespace aotc
