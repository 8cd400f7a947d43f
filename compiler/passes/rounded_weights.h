#pragma once
// Weights as the numbers that few bits have (--weights): made of the archive's constants before anything is computed from them, so that
// all that is computed from one sees the same numbers.
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/weight_storage.h"
#include "graph/big_array.h"
#include "graph/graph.h"

namespace aotc::passes {

/// One weight [rows, columns] of the archive, rounded to nearest.
struct RoundedWeight {
  bool columns_first = false;                   ///< the constant is [n, k]; else [k, n]
  int64_t n = 0, k = 0, group = 0, groups = 0;  ///< `group` values of k share a scale
  DType dtype = DType::f32;                     ///< of the constant: float32, bfloat16 or float16
  BigArray<std::byte> numbers;                  ///< what it is now, in the constant's order; none where it is known from parts
  /// bits 8 and 4: values [n, k] (bits of float8_e4m3fn, where the storage says so), scales and offsets [groups, n] in scale_type(); no
  /// offsets where all are zero. What it is now is float(value) * scale + offset, rounded to the constant's type.
  BigArray<int8_t> values;
  std::vector<uint16_t> scales, offsets;
  /// The constant's type where that has 16 bits; else bfloat16.
  DType scale_type() const { return is_half(dtype) ? dtype : DType::bf16; }
  double lost = 0, all = 0;  ///< sums of squares: of what rounding changed, of the weight
  double error() const { return all > 0 ? std::sqrt(lost / all) : 0; }
};
/// c: a matrix of float32, bfloat16 or float16; 16 bits (WeightStorage::bits): of float32.
RoundedWeight round_weight(const ConstData& c, bool columns_first, const WeightStorage& storage);

/// A product's constant weight: as it is, or [n, k] seen through a permute.
struct ProductWeight {
  ValueId constant;
  bool columns_first;
};
/// nullopt where the node is no product or its second operand no constant.
std::optional<ProductWeight> product_weight(const Graph& g, const Node& n);

/// The rounded weights of a graph, by their data.
class RoundedWeights {
 public:
  /// A graph's constant that has the numbers of w.
  void add(const ConstData& c, std::shared_ptr<const RoundedWeight> w);
  /// A constant that has the parts beside each other, each of them known (or none).
  void add_beside(const ConstData& whole, const std::vector<const ConstData*>& parts);
  /// Of the constant, or of rows of one that is known as [n, k].
  std::shared_ptr<const RoundedWeight> find(const ConstData& c) const;

 private:
  struct Entry {
    std::shared_ptr<const void> keepalive;  ///< while it lives no other data take its place in memory
    size_t bytes;
    std::shared_ptr<const RoundedWeight> weight;
  };
  std::map<const std::byte*, Entry> by_data_;
};

}  // namespace aotc::passes
