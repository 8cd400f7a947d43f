#include "graph/ops.h"

#include <iterator>
#include <string_view>
#include <unordered_map>

#include "base/diagnostic.h"

namespace aotc {
namespace {

constexpr OpInfo kOps[] = {
#define AOTC_OP(id, name, cls) {Op::id, name, OpClass::cls},
#include "graph/ops.def"
#undef AOTC_OP
};

}  // namespace

const OpInfo& op_info(Op op) {
  AOTC_CHECK(static_cast<size_t>(op) < std::size(kOps), "op {}", static_cast<int>(op));
  return kOps[static_cast<size_t>(op)];
}

std::optional<Op> parse_op(std::string_view name) {
  for (const OpInfo& o : kOps)
    if (o.name == name) return o.op;
  return std::nullopt;
}

bool yields_bool(Op op) {
  switch (op) {
    case Op::eq:
    case Op::ne:
    case Op::lt:
    case Op::le:
    case Op::gt:
    case Op::ge:
    case Op::isnan:
    case Op::isinf: return true;
    default: return false;
  }
}

}  // namespace aotc
