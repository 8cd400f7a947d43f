#pragma once
// The weights of an artifact: which constants, in which form, where in the blob; and the writer of the blob.
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forms/weight_form.h"
#include "graph/graph.h"
#include "loop/loop.h"

namespace aotc::plan {

using forms::Panels;

/// Where element `e` of a constant of `elems` elements stands in its panels; nullopt where they are not all of it in one matrix.
std::optional<Expr> panel_index(const Panels& p, int64_t elems, const Expr& e, const SymTable& syms);
/// Of panels of 4 bits, two of whose numbers share a byte, which panel_index says: that by which the byte is shifted, 0 or 4. Else 0.
Expr panel_shift(const Panels& p, int64_t elems, const Expr& e, const SymTable& syms);

struct Weight {
  std::string name;  ///< the constant's; ".panels" appended for a packed form
  ConstId source = kNone<ConstId>;
  std::optional<forms::WeightForm> panels;  ///< nullopt: dense, as the constant is
  uint64_t offset = 0, bytes = 0;           ///< offset: 64-byte aligned (4096 for 64 KB and more)
};

/// Collects the weights that the plans ask for; equal requests share one, those of constants that are the same too.
class WeightTable {
 public:
  explicit WeightTable(const IdVec<ConstId, ConstData>& constants) : constants_(constants) {}
  /// Number of the weight.
  uint32_t add(ConstId source, const std::optional<forms::WeightForm>& panels = std::nullopt);
  const std::vector<Weight>& weights() const { return weights_; }
  uint64_t blob_bytes() const { return end_; }

 private:
  const IdVec<ConstId, ConstData>& constants_;
  std::vector<Weight> weights_;
  ConstId canonical(ConstId id);  ///< the first that is the same (same_constant)
  std::map<size_t, std::vector<ConstId>> by_bytes_;
  uint64_t end_ = 0;
};

/// Writes the blob into `out` (blob_bytes of it; gaps become zero), with this many threads. The result does not depend on them.
void write_weights(const std::vector<Weight>& weights, const IdVec<ConstId, ConstData>& constants, std::span<std::byte> out, int threads);

}  // namespace aotc::plan
