#pragma once
// The weights of an artifact: which constants, in which form, where in the blob; and the writer of the blob.
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "loop/loop.h"
#include "plan/choice.h"

namespace aotc::plan {

/// The panel form of library_abi.h. Element (r, j) of a matrix is element begin + rows.at(r) + j * col_stride of the constant.
/// The matrices' panels follow each other: gemm: batch (row-major over the batch dims that B depends on), then segments; conv: groups,
/// then phases.
struct Panels {
  /// Where the rows of a matrix lie: row r at (r / inner) * outer_stride + (r % inner) * inner_stride, or with taps + taps[r % inner].
  struct Rows {
    int64_t count = 0;
    int64_t inner = 1, outer_stride = 0, inner_stride = 0;
    std::vector<int64_t> taps;
    int64_t at(int64_t r) const {
      const int64_t i = r % inner;
      return r / inner * outer_stride + (taps.empty() ? i * inner_stride : taps[static_cast<size_t>(i)]);
    }
    friend bool operator==(const Rows&, const Rows&) = default;
  };
  struct Matrix {
    int64_t begin, cols;
    size_t rows = 0;  ///< number in Panels::rows
    friend bool operator==(const Matrix&, const Matrix&) = default;
  };
  DType dtype = DType::f32;
  int64_t col_stride = 1;
  std::vector<Rows> rows;
  std::vector<Matrix> matrices;
  int64_t elems() const;  ///< with padding
  friend bool operator==(const Panels&, const Panels&) = default;
};

/// The panel form of a kernel's constant operand, or nullopt where it stays as it is (not constant, a type or layout without a panel form,
/// or the choice says so).
std::optional<Panels> panels_of(const loop::MatmulKernel& k, const GemmChoice& c);
std::optional<Panels> panels_of(const loop::ConvKernel& k, const ConvChoice& c);
/// Where element `e` of a constant of `elems` elements stands in its panels; nullopt where they are not all of it in one matrix.
std::optional<Expr> panel_index(const Panels& p, int64_t elems, const Expr& e, const SymTable& syms);

struct Weight {
  std::string name;  ///< the constant's; ".panels" appended for a packed form
  ConstId source = kNone<ConstId>;
  std::optional<Panels> panels;    ///< nullopt: dense, as the constant is
  uint64_t offset = 0, bytes = 0;  ///< offset: 64-byte aligned (4096 for 64 KB and more)
};

/// Collects the weights that the plans ask for; equal requests share one, equal bytes of different constants too.
class WeightTable {
 public:
  explicit WeightTable(const IdVec<ConstId, ConstData>& constants) : constants_(constants) {}
  /// Number of the weight.
  uint32_t add(ConstId source, const std::optional<Panels>& panels = std::nullopt);
  const std::vector<Weight>& weights() const { return weights_; }
  uint64_t blob_bytes() const { return end_; }

 private:
  const IdVec<ConstId, ConstData>& constants_;
  std::vector<Weight> weights_;
  ConstId canonical(ConstId id);  ///< the first constant with the same bytes
  std::map<size_t, std::vector<ConstId>> by_bytes_;
  uint64_t end_ = 0;
};

/// Writes the blob into `out` (blob_bytes of it; gaps become zero), with this many threads. The result does not depend on them.
void write_weights(const std::vector<Weight>& weights, const IdVec<ConstId, ConstData>& constants, std::span<std::byte> out, int threads);

}  // namespace aotc::plan
