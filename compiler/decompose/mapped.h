#pragma once
// Operators that a program carries out for each row on its own (torch.vmap, in which associative_scan is written, too): the rule makes the
// graph for one row, and this makes the same of all rows at once, a leading dim for each map.
#include <map>
#include <string>
#include <vector>

#include "graph/builder.h"

namespace aotc::decompose {

/// A value with the first `leads` of its dims for the rows of maps, outermost first; each is as long as its map, or 1 where the value is
/// the same for all rows. A row has the dims after them.
struct Mapped {
  ValueId value = kNone<ValueId>;
  int leads = 0;
};

class Maps {
 public:
  explicit Maps(Builder& b) : b_(b) {}

  int depth() const { return depth_; }
  void enter() { ++depth_; }
  void leave();
  /// Dim `dim` of a row is the rows of the innermost map.
  Mapped rows_of(const Mapped& x, int dim) const;
  /// The rows of the innermost map, of which there are n, as dim `dim` of what lies around it.
  Mapped whole(const Mapped& x, const Expr& n, int dim) const;
  /// What nodes of a row's graph compute for all rows, added to `made`, which has the values for the graph's inputs and for nodes before.
  /// Throws Refused.
  void apply(const Graph& row, const std::vector<NodeId>& nodes, std::map<ValueId, Mapped>& made) const;
  /// A value of a row's graph: made, or one of its constants.
  Mapped value(const Graph& row, ValueId v, std::map<ValueId, Mapped>& made) const;

 private:
  Builder& b_;
  int depth_ = 0;
};

}  // namespace aotc::decompose
