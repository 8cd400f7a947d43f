#pragma once
// The visitor behind partition(): see partition.h for what it decides.
#include <map>
#include <set>

#include "loop/cost.h"
#include "loop/index.h"
#include "loop/partition.h"
#include "loop/prologues.h"

namespace aotc::loop {

ValueId strip_reshapes(const Graph& g, ValueId v);

/// A place in memory: element `offset` of the buffer of `base`.
struct ElementAt {
  ValueId base;
  Expr offset;
  bool operator==(const ElementAt&) const = default;
};

class Partitioner {
 public:
  Partitioner(Partition& p, const std::set<ValueId>& alone);
  void run();

 private:
  struct Demand {
    GroupId group;
    Exprs idx;
    bool indirect;  ///< under a loaded index: nothing is known about how often an element is read
  };
  // demands
  void need(ValueId v, GroupId gr, const Exprs& idx, bool indirect = false);
  void need_inputs(const Node& n, GroupId gr, const Exprs& idx);
  void force(ValueId v, const std::string& why);
  void force_apart(ValueId v, const std::string& why);  ///< stored, and not by a kernel that reads it
  bool forced(ValueId v) const { return !why_[v].empty(); }
  std::vector<GroupId> demanding(ValueId v) const;
  /// The only index at which `gr` demands v, or null.
  const Exprs* only_index(ValueId v, GroupId gr) const;

  // decisions, one a class of node
  void visit(NodeId id);
  void visit_pointwise(const Node& n);
  void visit_view(const Node& n);
  void visit_cat(NodeId id, const Node& n);
  void visit_index(const Node& n);
  void visit_reduce(const Node& n);
  void visit_scan(const Node& n);
  void visit_contraction(NodeId id, const Node& n);
  void visit_opaque(NodeId id, const Node& n);

  /// Makes a prologue group for operand `number` of the contraction when that is allowed and pays; else says why not.
  Fit try_prologue(const Node& n, uint32_t number, GroupId home, OperandAt& operand);
  void compute_in_prologue(const PrologueRule& rule, const Node& n, uint32_t number, GroupId home, OperandAt& operand);

  // stores
  void inline_in(const Node& n, GroupId gr, const Exprs& idx);
  void store_in(const Node& n, GroupId gr, const Exprs& idx, const std::string& why);
  GroupId store_alone(const Node& n, const std::string& why);
  void copy_group(ValueId v, StoreAt where, const std::string& why);
  bool can_place(ValueId v, const Node& into, NodeId into_id, uint32_t input) const;
  bool place(ValueId v, NodeId into, uint32_t input);
  std::string reason(ValueId v) const;  ///< why v is stored, for people
  std::string reader_names(ValueId v) const;

  // hosts
  GroupId new_loop_group(ValueId v, Exprs* idx);
  bool can_host_reduce(const Group& gr, const Node& n, const Exprs& idx) const;
  void split_for_reduce(Group& gr, const Node& n, const Exprs& idx);
  bool can_host_scan(const Group& gr, const Node& n, const Exprs& idx) const;
  void split_for_scan(Group& gr, const Node& n, const Exprs& idx);
  bool makes_cycle(ValueId v, GroupId gr);

  // lanes (across_rows.cpp)
  struct Behind {
    std::vector<ElementAt> reads;                ///< each once
    std::map<ValueId, std::vector<Exprs>> seen;  ///< at which places a value was asked for: it is made of others by many ways
  };
  /// What computing element `at` of v reads for each point of `inner`; a value that is not visited yet is taken to be computed where it
  /// can.
  void read_behind(ValueId v, const Exprs& at, const std::vector<SymId>& inner, SymTable& syms, Behind& out) const;
  /// What a kernel stores and reads for each point of `inner`, but for value `but`.
  std::vector<ElementAt> accesses(GroupId gr, const std::vector<SymId>& inner, ValueId but) const;
  /// Whether no lane axis serves both the reduction n, wanted at `at`, and the kernel that could host it, and each has one by itself.
  bool goes_across(GroupId gr, const Node& n, const Exprs& at) const;
  /// The same of two kernels with reductions over the same loops, of which b's symbols are a's by `to`.
  bool lanes_differ(GroupId a, GroupId b, const SymMap& to) const;
  /// n is made of reductions that `gr` does not carry out, and is as well made where they are.
  bool reduced_elsewhere(const Node& n, GroupId gr, const Exprs& at) const;
  bool made_of_reductions(ValueId v) const { return row_end_[v].has_value(); }
  double points(const Group& gr, const Exprs& idx) const;  ///< how often a value at idx is computed
  double read_points(ValueId v) const;                     ///< of all that demand it
  double elems(ValueId v) const;

  /// Whether some use of v, of an epilogue at `anchor`, is outside that epilogue, so that v is stored in any case.
  bool escapes(ValueId v, NodeId anchor) const;
  /// v uses reductions of its own row (a normalisation): whether all demands are from kernels that go along that row. Others had better
  /// read v than compute it from the stored results of the reductions.
  bool stays_in_row(ValueId v) const { return stays_in_row(v, kNone<GroupId>); }
  bool stays_in_row(ValueId v, GroupId only) const;  ///< of the demands of one kernel, which computes it for all
  void find_rows();

  void merge_siblings();
  /// By group: those that must run before it.
  void find_edges(std::vector<std::set<GroupId>>& before) const;
  /// When a group's turn comes, as far as the edges leave it open.
  struct Turn {
    uint32_t rank = 0;            ///< `position`, or 0 of what a condition needs that a write waits for
    uint32_t check = UINT32_MAX;  ///< of the first condition that needs it
    uint32_t position = 0;        ///< of its last value in the graph's order
  };
  /// Conditions come before the writes of states that they are not computed from: a run that fails should have changed none.
  void checks_first(std::vector<std::set<GroupId>>& before, std::vector<Turn>& turn) const;
  bool writes_state(GroupId gr) const;
  void order_groups();

  Partition& p_;
  const Graph& g_;
  /// Values that no group stores beside another unless it is a contraction's chain of single users.
  const std::set<ValueId>& alone_;
  IdVec<ValueId, std::vector<Demand>> demands_;
  IdVec<ValueId, std::string> why_;  ///< not empty: must be stored
  IdVec<ValueId, char> dense_;       ///< must be stored dense, in its own order
  IdVec<ValueId, char> apart_;       ///< stored, and not by a kernel that reads it
  IdVec<ValueId, uint32_t> users_;
  std::vector<std::vector<NodeId>> user_nodes_;
  /// Of values made of reductions by pointwise ops and reshapes: elements behind the reduced dims.
  IdVec<ValueId, std::optional<Expr>> row_end_;
  IdVec<ValueId, Ints> row_dims_;  ///< dims along which reductions that the value uses ran; empty for most
  IdVec<ValueId, Estimate> est_;
  std::map<ValueId, std::vector<GroupId>> copies_;  ///< cats and views: groups that copy parts into them
};

}  // namespace aotc::loop
