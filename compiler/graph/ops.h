#pragma once
// The core op table: names and classes. The rows are in ops.def.
#include <cstdint>
#include <optional>
#include <string_view>

namespace aotc {

enum class Op : uint16_t {
#define AOTC_OP(id, ...) id,
#include "graph/ops.def"
#undef AOTC_OP
};

enum class OpClass : uint8_t { nullary, unary, binary, ternary, view, cat, index, reduce, scan, contraction, opaque };

struct OpInfo {
  Op op;
  std::string_view name;
  OpClass cls;
};

const OpInfo& op_info(Op op);
std::optional<Op> parse_op(std::string_view name);

inline OpClass op_class(Op op) { return op_info(op).cls; }
inline std::string_view op_name(Op op) { return op_info(op).name; }
/// One result element depends on one element of each input at the same index.
inline bool is_pointwise(Op op) {
  const OpClass c = op_class(op);
  return c == OpClass::unary || c == OpClass::binary || c == OpClass::ternary;
}
inline bool is_view(Op op) { return op_class(op) == OpClass::view; }
/// eq ne lt le gt ge isnan isinf: the result is bool whatever the inputs are.
bool yields_bool(Op op);

}  // namespace aotc
