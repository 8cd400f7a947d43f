#pragma once
// Which values a contraction computes itself while it copies an operand into its panels: the rule, as data.
#include "base/diagnostic.h"
#include "loop/partition.h"

namespace aotc::loop {

struct PrologueRule {
  std::vector<ValueId> values;  ///< computed there, used nowhere else; the operand's own first
  int cost = 0;                 ///< simple operations an element
};

/// A prologue is worth it when the operand `v` is made by pointwise ops, views, cats and indexing that nobody else uses, of values that are
/// stored anyway; when it can be no epilogue of the contraction that it comes from (that computes each element once, here it may be
/// several times); when no reduction is part of it (its kernel goes over the rows anyway); and when it costs little beside the product:
/// one simple operation for every 16 of the `macs` multiply-adds that an element serves each time it is computed. Indexing that picks whole
/// matrices (of experts, of adapters) costs FusionRules::matrix_lookup. What is made of constants
/// alone (they were not folded because they are smaller than it) may cost anything: stored, it would be made in every run, too. A refusal
/// without a reason means that there is nothing to compute.
/// users: Graph::users(); row_dims: by ValueId, the dims along which reductions that the value uses ran.
Result<PrologueRule> find_prologue(const Partition& p, const std::vector<std::vector<NodeId>>& users, const IdVec<ValueId, Ints>& row_dims,
                                   ValueId v, int64_t macs);

/// Whether v depends on nothing that a run brings.
bool made_of_constants(const Graph& g, ValueId v);
/// Whether it is made of constants of which one has its elements (or half as many) in fewer bits.
bool made_of_few_bits(const Graph& g, ValueId v);

}  // namespace aotc::loop
