#pragma once
// PyTorch's type promotion and broadcasting, made explicit.
#include <optional>
#include <span>
#include <vector>

#include "decompose/rule.h"

namespace aotc::decompose {

/// A tensor or a number ("wrapped number"), as the pointwise operators take them.
struct Operand {
  std::optional<ValueId> tensor;
  Rule::Number number;
};
Operand operand(Rule& r, std::string_view name);

/// torch.promote_types.
DType promote_types(DType a, DType b);
/// torch.result_type over several operands: tensors with dims before 0-dim tensors before numbers.
DType result_type(const Builder& b, std::span<const Operand> operands);
DType result_type(const Builder& b, std::initializer_list<ValueId> tensors);
/// Integers and bool become float32, the default dtype; floats stay.
DType float_type(DType t);

/// Broadcast of two shapes; refuses dims that cannot agree.
std::vector<Expr> broadcast_dims(const SymTable& syms, const std::vector<Expr>& a, const std::vector<Expr>& b);
/// Builder::expand, except that a constant fill is made anew at its size.
ValueId expand(Builder& b, ValueId v, std::vector<Expr> dims);
/// The tensor of an operand in this dtype (not expanded; numbers become rank 0).
ValueId materialize(Builder& b, const Operand& o, DType dtype);
/// All tensors expanded to their common dims.
std::vector<Expr> broadcast_all(Builder& b, std::vector<ValueId>& vs);

/// A rank-n constant of any dtype filled with one number.
ValueId full(Builder& b, DType dtype, std::vector<Expr> dims, double value);
ValueId full(Builder& b, DType dtype, std::vector<Expr> dims, const Rule::Number& value);
/// A small literal constant (int64), rank 1 unless dims are given.
ValueId literal(Builder& b, const Ints& values);
ValueId literal_f(Builder& b, const std::vector<double>& values, DType dtype);

}  // namespace aotc::decompose
