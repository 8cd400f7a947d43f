#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "sym/expr.h"

namespace aotc::import {

/// Reads sympy's text of an integer expression: both srepr ("Add(Integer(1), Symbol('s0', integer=True))") and infix ("2*s0 + 1",
/// "((s0 + 1)//2)", "Max(1, s0)"). Rational parts inside a floor or trunc are followed exactly. `symbol` gives the Expr of a name.
/// Fails with the reason where no Expr equals the text (square roots, true divisions, conditions).
Result<Expr> parse_sym_text(std::string_view text, const std::function<Expr(const std::string&)>& symbol);

/// A condition between integer expressions: "Eq(Mod(s0, 8), 0)", "s0 <= 512", "Ne(s0, s1)".
struct SymCondition {
  enum class Kind : uint8_t { eq, ne, le, lt } kind;
  Expr a, b;
};
Result<SymCondition> parse_sym_condition(std::string_view text, const std::function<Expr(const std::string&)>& symbol);

}  // namespace aotc::import
