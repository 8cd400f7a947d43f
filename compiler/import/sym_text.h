#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "graph/graph.h"
#include "import/sym_parse.h"
#include "sym/expr.h"

namespace aotc::import {

/// The Expr of a symbol or source; may throw.
using SymbolOf = std::function<Expr(const std::string&)>;

/// The Expr that equals an expression of sizes, in all forms of import/sym_parse.h. Rational parts inside a floor or trunc are followed
/// exactly; powers by a size go as far as its range in `syms`. Fails with the reason where no Expr equals the text: square roots, products
/// of floats that round, conditions.
Result<Expr> parse_sym_text(std::string_view text, const SymTable& syms, const SymbolOf& symbol);
Result<Expr> expr_of(const SymNode& tree, const SymTable& syms, const SymbolOf& symbol);

/// A condition ("Eq(Mod(s0, 8), 0)", "x % 3 == 1 and y > 5", "not (a == b) or c < d") as guards that hold together exactly where it is
/// true; where it would divide by zero they do not hold. Without `why`.
Result<std::vector<ShapeGuard>> guards_of(const SymNode& tree, const SymTable& syms, const SymbolOf& symbol);

}  // namespace aotc::import
