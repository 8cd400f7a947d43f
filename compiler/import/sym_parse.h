#pragma once
// The texts that export writes about sizes, as trees: sympy's srepr ("Add(Integer(1), Symbol('s0', integer=True))"), its infix form
// ("((s0 + 1)//2)") and the Python of guards ("3*((1 + L['x'].size()[2]) // 3) >= L['x'].size()[2]"). What a tree means is decided by
// its readers: as an Expr or guards (import/sym_text.h), as a number (import/sym_eval.h).
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace aotc::import {

struct SymNode {
  enum class Kind : uint8_t {
    integer,
    real,
    symbol,  ///< name: "s0", or a source such as "L['x'].size()[2]"
    call     ///< name: of the function, one name for all spellings: "Add" also for "+", "Max" also for "max", "And" also for "and"
  } kind = Kind::integer;
  int64_t integer = 0;
  double real = 0;
  std::string name;
  std::vector<SymNode> args;
};

/// Fails with the reason: a column of unexpected text, too deep, too long, a number that no int64 or double holds.
Result<SymNode> parse_sym(std::string_view text);

/// All symbols, each as often as it occurs.
void for_each_symbol(const SymNode& n, const std::function<void(const std::string&)>& fn);

}  // namespace aotc::import
