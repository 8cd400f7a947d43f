// Generated code calls v_<name> for every pointwise operator of graph/ops.def: one that vec/ lacks does not compile here. What they compute
// is held to the interpreter in tests/unit/emit_cpu/ops.cpp.
#include "vec/vec_reduce.h"

#define AOTC_CALLED_same(id) using ::v_##id;
#define AOTC_CALLED_boolean(id) using ::v_##id;
#define AOTC_CALLED_given(id)  // casts, by their types
#define AOTC_CALLED_unary(id, operands, result, cost) AOTC_CALLED_##result(id)
#define AOTC_CALLED_binary(id, operands, result, cost) AOTC_CALLED_##result(id)
#define AOTC_CALLED_ternary(id, operands, result, cost) AOTC_CALLED_##result(id)
#define AOTC_CALLED_nullary(id)
#define AOTC_CALLED_view(id)
#define AOTC_CALLED_cat(id)
#define AOTC_CALLED_index(id)
#define AOTC_CALLED_reduce(id)
#define AOTC_CALLED_scan(id)
#define AOTC_CALLED_contraction(id)
#define AOTC_CALLED_opaque(id)
namespace called {
#define AOTC_OP(id, name, cls, ...) AOTC_CALLED_##cls(id __VA_OPT__(, ) __VA_ARGS__)
#include "graph/ops.def"
#undef AOTC_OP
}  // namespace called
