#pragma once
// Index maps: how an index of a node's result becomes an index of its input, and back. All results are simplified with the symbols'
// ranges and extents, so that views that cancel leave the plain loop variables.
#include <functional>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "sym/expr.h"

namespace aotc::loop {

/// Row-major offset of `idx` in a dense tensor of `dims`. Quotient and remainder pairs of one expression are put together again.
Expr linearise(const Exprs& dims, const Exprs& idx, const SymTable& syms);
/// The index in a dense tensor of `dims` of the element at `offset`; offset < product(dims) is taken for granted.
Exprs delinearise(const Expr& offset, const Exprs& dims, const SymTable& syms);
/// An index of a tensor of `from` as an index of the same elements seen as `to`.
Exprs reshape_index(const Exprs& from, const Exprs& idx, const Exprs& to, const SymTable& syms);

/// 0 <= value < extent must hold, else the element is a constant.
struct Within {
  Expr value, extent;
};
struct InputIndex {
  Exprs idx;
  std::vector<Within> within;  ///< what could not be proved
};
/// For a view node: where the input is read for the result's element `idx`.
InputIndex view_input(const Graph& g, const Node& n, const Exprs& idx, const SymTable& syms);
/// For a one-to-one view (reshape, permute, flip) or an input of a cat: where the input's element `idx` stands in the result.
std::optional<Exprs> view_forward(const Graph& g, const Node& n, size_t input, const Exprs& idx, const SymTable& syms);
bool is_one_to_one(const Node& n);  ///< reshape, permute, flip

/// The value of element `idx` of an integer tensor made of iota, sym, full, views and sums alone; none when it takes data.
std::optional<Expr> known_integer(const Graph& g, ValueId v, const Exprs& idx, const SymTable& syms);
/// The same, where it is also proved to lie in [0, extent): an index that needs neither a load nor a check.
std::optional<Expr> known_index(const Graph& g, ValueId v, const Exprs& idx, const Expr& extent, const SymTable& syms);

/// The index that element `at` of the integer tensor v holds, in [0, extent): asked where it takes data.
using LookUp = std::function<Expr(ValueId v, const Exprs& at, const Expr& extent)>;
struct InputRead {
  ValueId value;
  Exprs at;
  std::vector<Within> within;  ///< views: what could not be proved; a cat: where the part begins and ends
};
/// What element `at` of a node's result is computed from, in the order of the inputs; the node is pointwise, a view, a cat, a reduction,
/// a scan or a lookup, whose index tensors are read by `look_up`, before what it takes from. `reduced`: the variables of a reduction's
/// dims, but for those of size 1.
std::vector<InputRead> input_reads(const Graph& g, const Node& n, const Exprs& at, const std::vector<SymId>& reduced, const SymTable& syms,
                                   const LookUp& look_up);

struct Affine {
  Expr base;
  Exprs coefs;  ///< one per variable
};
/// e as base + sum(coefs * vars), where neither base nor coefs depend on vars.
std::optional<Affine> affine(const Expr& e, const std::vector<SymId>& vars);
/// Whether `idx` runs over every element of a tensor of `dims` exactly once while `vars` run over their extents.
bool covers_once(const Exprs& dims, const Exprs& idx, const std::vector<SymId>& vars, const SymTable& syms);
bool depends_on_any(const Exprs& idx, const std::vector<SymId>& vars);

}  // namespace aotc::loop
