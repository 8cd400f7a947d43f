#pragma once
// Numbers that a program reads out of tensors (item()): here they stay tensors of rank 0. What is computed with them, and places that they
// say, are values of the graph then; only sizes cannot be.
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "decompose/tensor.h"
#include "graph/builder.h"
#include "import/program.h"

namespace aotc::decompose {

/// Of two integers, as an expression's atoms have it; not of symbols.
Op op_of(Expr::AtomKind kind);

class ReadNumbers {
 public:
  static bool reads(const import::PNode& node);
  bool occurs_in(const Expr& e) const;
  /// The node's results are the one element of this tensor; symbols that are sizes of inputs stay these.
  void add(Builder& b, const import::PNode& node, ValueId of, const std::function<bool(SymId)>& is_size);
  /// An integer in which such numbers occur, as an int64 of rank 0; nothing where none does.
  std::optional<ValueId> integer(Builder& b, const Expr& e) const;
  /// A float or bool, as a float64 of rank 0; nothing where this is no number that was read.
  std::optional<ValueId> other(const std::string& name) const;

 private:
  /// One factor of an integer's terms; nothing where no such number occurs in it.
  std::optional<T> factor(Builder& b, const Expr::Atom& x) const;
  std::map<SymId, ValueId> integers_;
  std::map<std::string, ValueId> others_;
};

}  // namespace aotc::decompose
