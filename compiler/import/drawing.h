#pragma once
// Nodes of a program that make random numbers of given distributions out of `kRandomBits` and ordinary operators.
#include "import/program.h"

namespace aotc::import {

/// Tensors in the making: what they are called, and what they are.
struct Drawn {
  std::string name;
  DType dtype;
  std::vector<Expr> sizes;
  operator Arg() const { return TensorRef{name}; }
};

/// What takes the place of one node. Nothing of the program changes until its owner takes `nodes` and `tensors`.
class Drawing {
 public:
  /// `slot`: that of the next bits, counted on; `program` and `node` must outlive it.
  Drawing(const Program& program, const PNode& node, std::string state, int64_t& slot);

  // The node's arguments: nothing where they are absent or of another type.
  std::optional<double> number(std::string_view name) const;
  std::optional<Expr> integer(std::string_view name) const;  ///< symbolic ones, too
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<Drawn> tensor(std::string_view name) const;
  bool absent(std::string_view name) const;  ///< or None

  /// A node with one result, of this type; `args` are all of its schema's, in order.
  Drawn emit(std::string_view target, std::vector<NamedArg> args, DType dtype, std::vector<Expr> sizes);
  /// One of more results, of which the others are not used.
  Drawn emit(std::string_view target, std::vector<NamedArg> args, DType dtype, std::vector<Expr> sizes, size_t result, size_t results);

  Drawn add(const Drawn& x, Arg other) {
    return emit("aten.add.Tensor", {{"self", x}, {"other", std::move(other)}, {"alpha", Expr(1)}}, x.dtype, x.sizes);
  }
  Drawn mul(const Drawn& x, Arg other) { return emit("aten.mul.Tensor", {{"self", x}, {"other", std::move(other)}}, x.dtype, x.sizes); }
  Drawn div(const Drawn& x, Arg other) { return emit("aten.div.Tensor", {{"self", x}, {"other", std::move(other)}}, x.dtype, x.sizes); }
  Drawn unary(std::string_view target, const Drawn& x) { return emit(target, {{"self", x}}, x.dtype, x.sizes); }
  Drawn to(const Drawn& x, DType dtype);

  // Numbers, one an element. Floats have the type of `compute_type`, float32 or float64.
  Drawn bits(const std::vector<Expr>& sizes);               ///< int64, all of its 64
  Drawn some_bits(const Drawn& bits, int from, int count);  ///< int64 below 2^count
  Drawn uniform(const std::vector<Expr>& sizes, DType dtype,
                bool open_at_0 = false);                           ///< in [0, 1), or in (0, 1]: multiples of 2^-digits(dtype)
  Drawn normal(const std::vector<Expr>& sizes, DType dtype);       ///< of mean 0 and deviation 1, by Box and Muller's transform
  Drawn exponential(const std::vector<Expr>& sizes, DType dtype);  ///< of rate 1
  Drawn chance(const std::vector<Expr>& sizes, double p);          ///< bool, true with probability p, in [0, 1]
  Drawn chance(const std::vector<Expr>& sizes, const Drawn& p);    ///< with those of p, which has these sizes

  std::vector<PNode> nodes;
  std::map<std::string, TensorMeta> tensors;

 private:
  const Arg* find(std::string_view name) const;
  const Program& p_;
  const PNode& node_;
  std::string state_, prefix_;
  int64_t& slot_;
};

/// Dense, row-major.
TensorMeta dense_meta(DType dtype, const std::vector<Expr>& sizes);

}  // namespace aotc::import
