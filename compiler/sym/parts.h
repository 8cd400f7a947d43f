#pragma once
// How large expressions are.
#include <cstdint>

#include "sym/expr.h"

namespace aotc::sym {

/// Of an expression, at most. A larger one is a SymError: sums that are multiplied out and extrema of extrema are soon larger than memory,
/// and no model's sizes come near.
constexpr int64_t kMostParts = 1 << 16;

/// How many terms and atoms it is written with.
int64_t parts(const Expr& e);

}  // namespace aotc::sym
