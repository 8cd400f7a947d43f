#include "graph/ops.h"

#include <iterator>
#include <string_view>
#include <unordered_map>

#include "base/diagnostic.h"
#include "graph/op_table.h"

namespace aotc {
const OpInfo& op_info(Op op) {
  AOTC_CHECK(static_cast<size_t>(op) < std::size(kOps), "op {}", static_cast<int>(op));
  return kOps[static_cast<size_t>(op)];
}

std::optional<Op> parse_op(std::string_view name) {
  for (const OpInfo& o : kOps)
    if (o.name == name) return o.op;
  return std::nullopt;
}

const PointwiseInfo& pointwise_info(Op op) { return kPointwise[static_cast<size_t>(op_info(op).op)]; }

bool yields_bool(Op op) { return pointwise_info(op).result == ResultType::boolean; }

bool takes(OperandTypes set, DType t) {
  using enum OperandTypes;
  switch (set) {
    case any: return true;
    case real: return !is_complex(t) && !is_float8(t);
    case numeric: return is_int(t) || (is_float(t) && !is_float8(t));
    case floats: return is_float(t) && !is_float8(t);
    case ints: return is_int(t);
    case ints_or_bool: return is_int(t) || is_bool(t);
    case bools: return is_bool(t);
  }
  return false;
}

}  // namespace aotc
