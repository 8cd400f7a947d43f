#pragma once
#include <functional>
#include <string>

#include "sym/expr.h"

namespace aotc {

/// Names of the helper functions that the text may call, and the suffix of 64-bit literals.
struct CHelpers {
  const char *floordiv, *floormod, *min, *max;
  const char* suffix = "LL";
};

/// An Expr as C or C++ text over int64: / and % where no sign can be negative, the helpers elsewhere. `name_of` spells the symbols.
std::string c_text(const Expr& e, const SymTable& syms, const CHelpers& helpers, const std::function<std::string(SymId)>& name_of);

}  // namespace aotc
