#pragma once
// Tables of the core operators that are held to ops.def as they are compiled: an operator that one of them lacks is an error. A row is any
// struct whose first members are `op` and what the table says of it.
#include <array>
#include <initializer_list>

#include "base/diagnostic.h"
#include "graph/ops.h"
#include "graph/pointwise.h"

namespace aotc {

inline constexpr OpInfo kOps[] = {
#define AOTC_OP(id, name, cls, ...) {Op::id, name, OpClass::cls},
#include "graph/ops.def"
#undef AOTC_OP
};
inline constexpr auto kPointwise = [] {
  using enum OperandTypes;
  using enum ResultType;
  return std::array{
#define AOTC_OP(id, name, cls, ...) PointwiseInfo{__VA_ARGS__},
#include "graph/ops.def"
#undef AOTC_OP
  };
}();
constexpr bool is_pointwise(OpClass c) { return c == OpClass::unary || c == OpClass::binary || c == OpClass::ternary; }

/// No operator.
inline constexpr Op kNoOp = static_cast<Op>(UINT16_MAX);

/// The first operator that `wanted` says a table is for and that none of its rows is of; or that several are of, or one that should not.
template <class Rows, class Wanted>
constexpr Op misfit(const Rows& rows, Wanted wanted) {
  for (const OpInfo& o : kOps) {
    int n = 0;
    for (const auto& r : rows) n += r.op == o.op;
    if (n != (wanted(o) ? 1 : 0)) return o.op;
  }
  return kNoOp;
}
template <class Rows>
constexpr Op misfit(const Rows& rows, std::initializer_list<OpClass> classes) {
  return misfit(rows, [&](const OpInfo& o) {
    for (OpClass c : classes)
      if (c == o.cls) return true;
    return false;
  });
}
/// static_assert(Fits<misfit(kRows, {OpClass::view})>::value): the compiler's message has the operator.
template <Op op>
struct Fits {
  static_assert(op == kNoOp, "a table of operators lacks this one, has it twice or should not have it");
  static constexpr bool value = true;
};

template <class Rows>
const auto& row_of(const Rows& rows, Op op) {
  for (const auto& r : rows)
    if (r.op == op) return r;
  AOTC_CHECK(false, "{} has no row", op_name(op));
}

}  // namespace aotc
