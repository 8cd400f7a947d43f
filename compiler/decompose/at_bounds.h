#pragma once
// What the rows of take_bounds share (decompose/found_sizes.h).
#include <string>
#include <vector>

#include "decompose/found_sizes.h"
#include "decompose/tensor.h"

namespace aotc::decompose {

class AtBounds {
 public:
  AtBounds(Graph& g, const FoundSizes& sizes, const EqualSizes& equal, std::string file)
      : g_(g), b_(g), sizes_(sizes), equal_(equal), file_(std::move(file)) {}
  void run();

  /// A node whose operands are made already, as its row sees it.
  struct At {
    NodeId id;
    Node n;                         ///< `inputs`: what stands for them now
    std::vector<const Exprs*> in;   ///< the dims that operands have
    std::vector<const Exprs*> out;  ///< and results
    const Exprs& x() const { return *in.at(0); }
  };

  // rows: at_bounds_reduce.cpp
  void keep(At& a);
  void number(At& a);
  void reduce(At& a);
  void matmul(At& a);
  void attention(At& a);
  void sort(At& a);
  void topk(At& a);
  void window(At& a);
  void conv(At& a);
  void matrices(At& a);
  void square_matrices(At& a);
  void recurrence(At& a);
  void fourier(At& a);
  void none(At& a);
  void custom(At& a);
  // at_bounds_index.cpp
  void index(At& a);
  void gather(At& a);
  void scatter(At& a);
  void index_put(At& a);
  void reshape(At& a);
  void strided(At& a);
  void flip(At& a);
  void slice(At& a);
  void pad(At& a);
  void cat(At& a);

 private:
  bool found(const Expr& e) const;
  bool found(const Exprs& dims, size_t from = 0) const;
  bool involved(const Node& n) const;
  /// The largest value of a size, or one that it does not pass.
  Expr bound(const At& a, const Expr& e) const;
  /// The same without what other sizes that equal it say.
  Expr own_bound(const At& a, const Expr& e) const;
  enum class End : uint8_t { least, greatest };
  /// What an expression does not pass, each of its parts for itself. Throws where none can be given.
  Expr limit(const At& a, const Expr& e, End end) const;
  Exprs bound(const At& a, Exprs es) const;
  [[noreturn]] void refuse(const At& a, const std::string& why) const;
  /// The value of an expression in this run: int64 of rank 0.
  T value(const Expr& e);
  T input(const At& a, size_t i) { return {b_, a.n.inputs.at(i)}; }
  /// Whether an element lies within a dim of this size; of rank `rank`, of one element in the other dims.
  T within(const At& a, const Expr& size, int d, int rank);
  /// Whether an element of a tensor of these dims is one that it has, over these dims of them; nothing where all are.
  std::optional<T> there(const At& a, const Exprs& dims, const Ints& over);
  std::optional<T> there(const At& a, const Exprs& dims);
  /// x with another value where it has no element, over these dims.
  T masked(const At& a, size_t i, const Ints& over, const T& other);
  T masked(const At& a, size_t i, const Ints& over, double other);
  /// The operand's elements at these places in the order of those that there are; any at places that it does not have.
  T at_places(const At& a, T place);
  /// The operand's elements behind `lo` places of a dim each, in a tensor of the result's dims; `fill` elsewhere.
  T moved(const At& a, const Exprs& lo, const T& fill);
  /// The indices with a place of x's own for those that the index tensor does not have: the first, or, where x may be empty, one behind
  /// all, which x gets; what lies beyond x still does.
  T elsewhere(At& a, const T& i, const T& valid, int dim);
  /// x with one element more at the end of a dim.
  T one_more(const T& x, int dim);
  /// x at these places along a dim, of which there is one even where x is empty.
  T picked(const T& x, const T& places, int dim);
  /// Places along a dim of this size: negative ones counted from its end; those outside of it become `outside`.
  T settled(const T& places, const Expr& size, const Expr& outside);
  void give(const At& a, size_t result, const T& value);
  T scalar(DType t, int64_t v);
  /// The node's value for places beyond its operand, of this type.
  T fill_of(const At& a, DType t);
  T extreme(DType t, End e);

  Graph& g_;
  Builder b_;
  const FoundSizes& sizes_;
  const EqualSizes& equal_;
  std::string file_;
  std::vector<Exprs> dims_;   ///< that values have, by id
  std::vector<ValueId> now_;  ///< what stands for them
  std::vector<bool> known_;   ///< whether they are made already, by id
  std::map<std::string, ValueId> values_;
};

}  // namespace aotc::decompose
