#pragma once
// What ops.def says of pointwise ops beside their names and classes.
#include "base/dtype.h"
#include "graph/ops.h"

namespace aotc {

enum class OperandTypes : uint8_t { any, real, numeric, floats, ints, ints_or_bool, bools };
bool takes(OperandTypes set, DType t);

/// Element type of the result: that of the operands, bool, or what the node says.
enum class ResultType : uint8_t { same, boolean, given };

struct PointwiseInfo {
  OperandTypes operands = OperandTypes::any;
  ResultType result = ResultType::same;
  /// In simple operations an element of float32: a polynomial takes 12 or 20, a call a lane 100.
  int cost = 0;
};

/// All zero for ops that are not pointwise.
const PointwiseInfo& pointwise_info(Op op);

}  // namespace aotc
