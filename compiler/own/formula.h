#pragma once
// Sizes that a description of a kernel computes from the sizes of its arguments.
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "sym/expr.h"

namespace aotc::own {

/// "floordiv(x.0 + 1, 2)" over names: x.0 (the size of dimension 0 of argument x), x.last, x.numel, x.rank, k (an integer argument), ks.1
/// (of a list).
struct Formula {
  std::string text;
  std::string path;  ///< in kernels.json
  SymTable names;    ///< what the text names
  Expr expr = 0;
};

constexpr size_t kMostFormulaChars = 240;

/// Throws Diagnostic (bad_input) at `file`, `path`.
Formula parse_formula(std::string_view text, const std::string& file, const std::string& path);
Formula constant_formula(int64_t value, const std::string& path);

/// The formula with the names' values. `value_of` gives nothing for a name that there is none of. Throws Diagnostic: of such a name, of a
/// divisor that `syms` lets be zero, of numbers that no int64 holds.
Expr resolve(const Formula& f, const SymTable& syms, const std::string& file,
             const std::function<std::optional<Expr>(const std::string& name)>& value_of);

}  // namespace aotc::own
