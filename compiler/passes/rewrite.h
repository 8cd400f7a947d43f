#pragma once
// What rewriting passes share: a sweep that replaces nodes by what a rule builds, and questions about values.
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "graph/builder.h"

namespace aotc::passes {

/// One sweep over the nodes in order. Nodes that a rule builds stand right before the node they replace; they are seen by the next sweep.
class Rewriter {
 public:
  explicit Rewriter(Graph& g);
  Graph& g;
  Builder b;

  /// Returns the replacement of the node's only result, or nothing.
  using Rule = std::function<std::optional<ValueId>(Rewriter&, const Node&)>;
  /// True when something was replaced. The graph is compact afterwards; what is no longer used stays (see dce).
  bool sweep(const Rule& rule);
  /// The same for nodes of any number of results: what replaces each of them.
  using ResultsRule = std::function<std::optional<std::vector<ValueId>>(Rewriter&, const Node&)>;
  bool sweep_results(const ResultsRule& rule);
  /// Sweeps until nothing is replaced.
  static void run(Graph& g, const Rule& rule);

  /// Uses of v by live nodes when the sweep began (2 for values made since).
  size_t uses(ValueId v) const { return idx(v) < uses_.size() ? uses_[idx(v)] : 2; }
  /// The defining node when it has this op.
  const Node* def(ValueId v, Op op) const;
  Exprs dims(ValueId v) const { return g.type(v).dims; }  ///< a copy: building nodes moves types
  DType dtype(ValueId v) const { return g.type(v).dtype; }
  bool same(const Expr& a, const Expr& b) const;

 private:
  void count_uses();
  std::vector<size_t> uses_;
};

/// The operands of a product of float32 or float64, if they have its type.
std::optional<std::pair<ValueId, ValueId>> float_operands(const Rewriter& r, const Node& n);
inline bool all_are(const Ints& xs, int64_t v) {
  return std::all_of(xs.begin(), xs.end(), [&](int64_t x) { return x == v; });
}
/// The single value of a full() or of a constant whose elements are all equal (looked at up to 64 elements; not of an exchangeable one),
/// seen through views.
std::optional<double> splat_value(const Graph& g, ValueId v);
/// The same, for integers and bools exactly.
std::optional<int64_t> splat_int(const Graph& g, ValueId v);
/// The element that changes nothing in a reduction or a scan.
AttrValue neutral_element(ReduceKind kind, DType t);
/// full() of one element of type t at `element`.
ValueId splat(Builder& b, const TensorType& t, const std::byte* element);

}  // namespace aotc::passes
