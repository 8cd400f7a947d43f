#pragma once
// Builds graph nodes with their types inferred (graph/infer.h) and trivial cases folded (a reshape to the same dims is its input).
// Used by the decomposition rules and by passes. Where the operands' dims or dtypes do not fit it throws an AOTC_CHECK: broadcasting
// and promotion are the caller's (decompose/promote.h), so that a Graph never holds an implicit one.
#include <string>
#include <vector>

#include "graph/graph.h"

namespace aotc {

class Builder {
 public:
  explicit Builder(Graph& g) : g_(g) {}
  Graph& graph() { return g_; }
  SymTable& syms() { return g_.syms; }
  const TensorType& type(ValueId v) const { return g_.type(v); }
  DType dtype(ValueId v) const { return g_.type(v).dtype; }
  const std::vector<Expr>& dims(ValueId v) const { return g_.type(v).dims; }
  int rank(ValueId v) const { return g_.type(v).rank(); }
  /// Name and source given to the nodes made from now on.
  void at(std::string node_name, std::string source) {
    name_ = std::move(node_name);
    source_ = std::move(source);
  }

  /// The general maker: infers result types. `result` gives what cannot be inferred (dtype of cast, dims of reshape ...).
  std::vector<ValueId> make(Op op, std::vector<ValueId> inputs, std::map<Attr, AttrValue> attrs = {}, const TensorType* result = nullptr);
  ValueId make1(Op op, std::vector<ValueId> inputs, std::map<Attr, AttrValue> attrs = {}, const TensorType* result = nullptr);

  /// The graph is right only where this holds: a guard, unless it is proved.
  void require(ShapeGuard::Kind kind, const Expr& a, const Expr& b, std::string_view why);
  /// A size of a tensor is never negative; one that always is is a TypeError.
  void require_size(const Expr& size);

  // nullary
  ValueId full(TensorType t, double value);
  ValueId full_int(TensorType t, int64_t value);
  ValueId like(ValueId v, double value) { return full(type(v), value); }
  ValueId iota(std::vector<Expr> dims, int dim);
  ValueId sym(Expr e);
  ValueId constant(ConstData data) { return g_.add_constant(std::move(data)); }
  // pointwise
  ValueId unary(Op op, ValueId x) { return make1(op, {x}); }
  ValueId binary(Op op, ValueId a, ValueId b) { return make1(op, {a, b}); }
  ValueId where(ValueId c, ValueId a, ValueId b) { return make1(Op::where, {c, a, b}); }
  ValueId logaddexp(ValueId a, ValueId b, bool base_two = false);  ///< log(exp(a) + exp(b)); infinities of one sign stay what they are
  ValueId cast(ValueId x, DType to);
  /// b is a full() of a's type.
  ValueId binary_scalar(Op op, ValueId a, double b) { return binary(op, a, like(a, b)); }
  // views
  ValueId reshape(ValueId x, std::vector<Expr> dims);
  ValueId permute(ValueId x, Ints perm);
  ValueId transpose(ValueId x, int d0, int d1);
  ValueId expand(ValueId x, std::vector<Expr> dims);  ///< right-aligned broadcasting: inserts leading dims too
  ValueId slice(ValueId x, int dim, Expr start, Expr size, int64_t step = 1);
  ValueId select(ValueId x, int dim, Expr index);
  ValueId flip(ValueId x, Ints dims);
  ValueId unsqueeze(ValueId x, int dim);
  ValueId squeeze(ValueId x, int dim);
  ValueId pad(ValueId x, std::vector<Expr> lo, std::vector<Expr> hi, double value);
  ValueId window(ValueId x, Ints kernel, Ints stride, Ints padding, Ints dilation, std::vector<Expr> out_spatial, double value);
  ValueId strided(ValueId x, std::vector<Expr> dims, std::vector<Expr> strides, Expr start);
  ValueId cat(std::vector<ValueId> xs, int dim);
  // reductions: dims are removed (reshape to keep them)
  ValueId reduce(ReduceKind kind, ValueId x, Ints dims);
  ValueId reduce_keep(ReduceKind kind, ValueId x, Ints dims);
  ValueId scan(ReduceKind kind, ValueId x, int dim);
  // contractions
  ValueId matmul(ValueId a, ValueId b, DType result);
  ValueId grouped_matmul(ValueId x, ValueId w, ValueId ends, DType result);
  // indirect
  ValueId index(ValueId x, std::vector<ValueId> indices, Ints dims, int out_pos);
  ValueId gather(ValueId x, ValueId i, int dim);

 private:
  Graph& g_;
  std::string name_, source_;
};

}  // namespace aotc
