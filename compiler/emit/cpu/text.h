#pragma once
// C++ spelling of types, constants, casts and core ops, in terms of kernels/cpu/vec.
#include <functional>
#include <string>
#include <vector>

#include "loop/loop.h"

namespace aotc::emit::cpu {

std::string elem_type(DType t);  ///< in memory: "float", "bf16", "b8"
std::string reg_type(DType t);   ///< in registers: "f32v", "i32v"
/// A vector with the constant in all lanes.
std::string constant(DType t, double imm_f, int64_t imm_i);
/// Value `x` of type `from` as a `to`.
std::string cast(const std::string& x, DType from, DType to);
/// A result that may have left the range of an integer type narrower than its register, brought back into it (modulo); others as they are.
std::string wrapped(const std::string& x, DType t);
/// A pointwise core op. `in` are the dtypes of the arguments, `out` that of the result.
std::string pointwise(Op op, const std::vector<std::string>& args, const std::vector<DType>& in, DType out);
/// The accumulator type of a reduction ("r_sum<f32v>") or scan ("s_max<i64v>") whose argument has dtype t.
std::string accumulator(ReduceKind kind, DType t, bool scan);
/// An expression as int64 C text; `name` gives the text of a symbol.
std::string expr_text(const Expr& e, const SymTable& syms, const std::function<std::string(SymId)>& name);

}  // namespace aotc::emit::cpu
