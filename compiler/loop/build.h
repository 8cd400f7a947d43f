#pragma once
// Turns one group of a partition into the instructions of a LoopKernel: inlined values are expanded recursively at their index.
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "loop/index.h"
#include "loop/loop.h"
#include "loop/partition.h"
#include "loop/rounding.h"

namespace aotc::loop {

/// The buffers of the module under construction.
class Buffers {
 public:
  Buffers(const Partition& p, Module& m) : p_(p), m_(m) {}
  /// The buffer whose own value is `root` (a leaf, or a stored value with a place of its own).
  BufferId of(ValueId root);
  BufferId output(uint32_t number);  ///< of an output that is a copy of a value stored elsewhere
  BufferId state_update(uint32_t number);
  const Buffer& operator[](BufferId b) const { return m_.buffers[b]; }

 private:
  BufferId make(std::string name, BufferKind kind, TensorType type, uint32_t index);
  const Partition& p_;
  Module& m_;
  std::map<ValueId, BufferId> of_;
  std::map<uint32_t, BufferId> outputs_, states_;
  std::map<std::string, int> names_;
};

class KernelBuilder {
 public:
  KernelBuilder(const Partition& p, GroupId id, Buffers& buffers);

  /// Declares a parameter (operands of contractions come first).
  ParamId param(BufferId b, ParamRole role);
  /// Starts with the parameters of another builder (segments of one product).
  void share_params(const KernelBuilder& other);
  /// Contractions: variables of the group that stand for expressions of the epilogue's own variables.
  void substitute(SymMap with) { with_ = std::move(with); }
  SymTable& syms() { return k_.syms; }
  /// Contractions: the accumulator of `result` is acc[index].
  void accumulator(ValueId result, DType acc, const Expr& index);
  void store(const StoreAt& s);
  /// Prologues: operand[index] is element `at` of v.
  void operand(ValueId v, const Exprs& at, const Expr& index);

  const LoopKernel& kernel() const { return k_; }
  LoopKernel& kernel() { return k_; }  ///< instructions in order, no blocks yet (finish() makes them)
  const std::vector<BufferId>& args() const { return args_; }

 private:
  InstId eval(ValueId v, const Exprs& idx, InstId mask);
  InstId eval_node(ValueId v, const Node& n, const Exprs& idx, InstId mask);
  InstId load(ValueId v, const Exprs& idx, InstId mask, double imm_f, int64_t imm_i);
  InstId pointwise(const Node& n, const std::vector<InputRead>& reads, InstId mask);
  InstId view(const Node& n, const InputRead& read, InstId mask);
  InstId cat(const Node& n, const std::vector<InputRead>& reads, InstId mask);
  InstId reduce(const Node& n, const InputRead& read, InstId mask);
  /// The symbol of an instruction's value, which is below `extent`.
  Expr bound(InstId i, const Expr& extent);
  /// An index as 32 bits: what no extent below kNearExtent has, counted from either end, stays so. range: of the index, where it is known.
  InstId near_index(InstId x, const std::optional<Interval>& range);
  /// The checked value of an index tensor, which takes data, as a symbol below extent.
  Expr loaded_index(ValueId v, const Exprs& idx, InstId* mask, const Expr& extent);

  InstId push(Inst i);  ///< an equal earlier instruction is used again
  InstId op(Op o, DType t, std::vector<InstId> args);
  InstId constant(DType t, double f, int64_t i);
  InstId index_value(const Expr& e);
  InstId cast(InstId i, DType to);
  /// A value of type t, computed in compute_type(t): rounded to t where that may change it (loop/rounding.h).
  InstId rounded(InstId i, DType t);
  InstId within(const std::vector<Within>& terms, InstId mask);
  Exprs moved(const Exprs& idx) const;

  const Partition& p_;
  const Graph& g_;
  const GroupId id_;
  Buffers& buffers_;
  LoopKernel k_;
  std::vector<BufferId> args_;
  SymMap with_;
  ValueId acc_value_ = kNone<ValueId>;
  InstId acc_load_ = kNone<InstId>;
  std::map<std::pair<BufferId, ParamRole>, ParamId> params_;
  std::map<std::pair<ValueId, InstId>, std::vector<std::pair<Exprs, InstId>>> memo_;
  using Key = std::tuple<InstKind, Op, DType, std::vector<InstId>, ParamId, InstId, int64_t, int64_t, ReduceKind>;
  std::map<Key, std::vector<InstId>> same_;
  std::map<InstId, SymId> bound_;
  Representable representable_;
};

}  // namespace aotc::loop
