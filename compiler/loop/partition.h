#pragma once
// Which values are stored, and which nodes are computed together: the fusion decisions, as data. Emits no code.
//
// Nodes are visited from the last to the first. A value is *inlined* (computed where it is used) or *stored*; each stored value has a
// group that stores it (its home). Every use is a demand: a group reads the value at an index over the group's variables.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "loop/loop.h"
#include "loop/rules.h"

namespace aotc::loop {

enum class GroupId : uint32_t {};
enum class GroupKind : uint8_t { loop, matmul, conv, attention, library, prologue };

/// A result that a group writes: element `idx` of `value`.
struct StoreAt {
  enum class Where : uint8_t { own, cat_part, output, state } where = Where::own;  ///< own: the place of `value`
  ValueId value;
  Exprs idx;
  NodeId cat = kNone<NodeId>;  ///< cat_part: stored as input `number` of this cat
  uint32_t number = 0;         ///< cat_part: input; output, state: which one (a copy of a value that has a place already)
};

/// An operand of a contraction: element `idx` of `base`, read in place through views, so that its place in memory is affine in the group's
/// variables; or computed by a group of kind prologue, as if `base` were stored dense.
struct OperandAt {
  ValueId base = kNone<ValueId>;
  Exprs idx;
  GroupId prologue = kNone<GroupId>;
};

/// Variables of an attention's operands; kNone where the extent is 1.
struct AttentionAxes {
  SymId b = kNone<SymId>, h = kNone<SymId>, hkv = kNone<SymId>, l = kNone<SymId>, s = kNone<SymId>, e = kNone<SymId>, ev = kNone<SymId>;
};

/// Columns [begin, end) of a product whose result is only used in slices: each slice is finished by an epilogue of its own.
struct SegmentAt {
  ValueId value;  ///< the slice
  int64_t begin = 0, end = 0;
  SymId column = kNone<SymId>;  ///< counted from begin; kNone where there is one
};

struct Group {
  GroupKind kind = GroupKind::loop;
  NodeId node = kNone<NodeId>;    ///< of all kinds but loop and prologue
  GroupId host = kNone<GroupId>;  ///< prologue: the contraction's group. It stores nothing and is no step of its own
  SymTable syms;
  std::vector<SymId> outer, inner;  ///< loop: all in outer until split. Contractions: outer are the result's dims (those that are not 1)
  bool split = false;               ///< inner is decided: the group holds reductions or scans
  std::vector<StoreAt> stores;
  std::vector<OperandAt> operands;  ///< matmul: a, b, ends of runs; conv: x, w; attention: q, k, v, mask
  std::vector<SegmentAt> segments;  ///< matmul: empty when the result is used whole
  SymId k_var = kNone<SymId>;       ///< matmul; kNone where k is 1
  SymId run_var = kNone<SymId>;     ///< matmul in runs: which matrix of b; kNone where there is one
  AttentionAxes axes;               ///< attention
  std::vector<ValueId> needs;       ///< every value that it demands, inlined or read
  std::vector<NodeId> nodes;        ///< computed here
  Exprs result_idx;                 ///< contractions: index of the result over outer
};

/// Where a stored value is: in a buffer of its own, or as input `input` of a one-to-one view or cat whose result is stored.
struct Place {
  NodeId into = kNone<NodeId>;
  uint32_t input = 0;
};

struct Partition {
  const Graph& g;
  IdVec<GroupId, Group> groups;
  std::vector<GroupId> order;          ///< of execution
  IdVec<ValueId, GroupId> home;        ///< by ValueId; kNone: not stored, or stored by several groups (a cat, a view of a stored value)
  IdVec<ValueId, char> stored;         ///< by ValueId: has a place; leaves are always stored
  IdVec<ValueId, Place> place;         ///< by ValueId
  IdVec<ValueId, int32_t> output_of;   ///< by ValueId: the output whose buffer is its own, or -1
  IdVec<ValueId, int32_t> state_of;    ///< by ValueId: the same for state updates
  IdVec<ValueId, NodeId> anchor;       ///< by ValueId: the contraction in whose epilogue the value can be computed, or kNone
  IdVec<ValueId, Exprs> at;            ///< by ValueId with an anchor: its index over the anchor group's variables
  IdVec<ValueId, uint32_t> segment;    ///< by ValueId with an anchor: the segment of the product that it is made of
  IdVec<ValueId, GroupId> prologue;    ///< by ValueId: the prologue that computes it, or kNone
  std::map<NodeId, GroupId> group_of;  ///< contractions and opaque nodes
  std::vector<FusionNote> notes;
  FusionRules rules;
  std::vector<ValueId> circle;  ///< stored by kernels that would wait for each other, so that there is no order: see partition()

  explicit Partition(const Graph& graph) : g(graph) {}
  /// v is a slice of a product's result that stands for one of its segments.
  bool is_segment(ValueId v) const { return anchor[v] != kNone<NodeId> && g.def(v)->op == Op::slice; }
  bool is_leaf(ValueId v) const { return g.values[v].kind != ValueKind::node; }
  /// The value whose buffer holds `v`, and the index there of element `idx` of v.
  std::pair<ValueId, Exprs> locate(ValueId v, const Exprs& idx, const SymTable& syms) const;
  /// The same as the buffer's value and the linear offset in it.
  std::pair<ValueId, Expr> locate_offset(ValueId v, const Exprs& idx, const SymTable& syms) const;
  /// True when group `gr` reads `v` from memory, false when it computes it.
  bool reads(GroupId gr, ValueId v) const;
};

Partition partition(const Graph& g, const FusionRules& rules = {});

/// Values that a kernel stores and another reads; not what the graph gives.
std::vector<ValueId> handed_on(const Partition& p);

/// The operand `v` at index `idx`, read through as many views as leave its place affine in vars.
OperandAt resolve_operand(const Partition& p, ValueId v, const Exprs& idx, const std::vector<SymId>& vars, const SymTable& syms,
                          const IdVec<ValueId, uint32_t>& user_counts);

}  // namespace aotc::loop
