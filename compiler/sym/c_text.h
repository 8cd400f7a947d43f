#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sym/expr.h"

namespace aotc {

/// Names of the helper functions that the text may call, and the suffix of 64-bit literals.
struct CHelpers {
  const char *floordiv, *floormod, *min, *max;
  const char* suffix = "LL";
  /// Functions for / and % of what fits 32 bits without a sign; null: there are none.
  const char *narrow_div = nullptr, *narrow_mod = nullptr;
};

/// An Expr as C or C++ text over int64: / and % where no sign can be negative, the helpers elsewhere. `name_of` spells the symbols.
std::string c_text(const Expr& e, const SymTable& syms, const CHelpers& helpers, const std::function<std::string(SymId)>& name_of);

/// Any text for a comment in generated code (either kind): printable ASCII on one line that neither ends the comment nor opens another.
/// What else there is stands as \x0a or \u00f6.
std::string c_comment(std::string_view text);

/// The characters of a text: code points of UTF-8, single bytes where it is none.
std::vector<uint32_t> characters(std::string_view text);

}  // namespace aotc
