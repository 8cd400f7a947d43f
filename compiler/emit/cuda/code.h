#pragma once
// Instructions of the Loop IR as CUDA C++ text, shared by the loop-kernel and the epilogue emitters. Everything that decides lives in
// launch.h; here only text is made.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "loop/rounding.h"
#include "sym/c_text.h"

namespace aotc::emit::cuda {

/// The function of a kernel. Kernels are named after operators, which CUDA's own headers have functions for ("exp").
std::string function_name(const std::string& kernel);

/// "float", "i64", "bf16": the type of kernels/cuda/device.cuh.
std::string_view c_type(DType t);

/// An integer expression in terms of device.cuh; `name_of` gives the C name of a symbol.
std::string c_expr(const Expr& e, const SymTable& syms, const std::function<std::string(SymId)>& name_of);

/// A number of this type: float64 for f64, else float32. Infinities and NaN by their bits.
std::string float_text(double v, DType t);

/// Names of the C variables of one kernel: symbols by id, instructions v0, v1 .., parameters p0, p1 ..
class Names {
 public:
  Names(const loop::LoopKernel& kernel, const std::vector<SymId>& size_symbols);
  std::string symbol(SymId s) const;      ///< loop symbols at<id>, shape symbols s<id>, bound values v<inst>
  std::string expr(const Expr& e) const;  ///< simplified by the kernel's table
  std::string param(loop::ParamId p) const;
  std::string inst(loop::InstId i) const;
  const loop::LoopKernel& kernel() const { return kernel_; }
  /// Of loop::products_to_round.
  bool is_rounded_product(loop::InstId i) const { return rounded_products_[idx(i)]; }

 private:
  const loop::LoopKernel& kernel_;
  std::map<SymId, std::string> symbols_;
  std::vector<bool> rounded_products_;
};

/// How one kernel kind reaches what the shared instruction text cannot know.
struct AccessRules {
  /// C lvalue of a local or acc parameter at `index`; empty for module parameters (plain pointers).
  std::function<std::string(loop::ParamId p, const Expr& index)> place;
  /// C lvalue of one load's or store's element when it comes from a wide access; empty: none. May be null.
  std::function<std::string(loop::InstId i)> wide;
  /// Another form of an op, or empty: the function op_<name>. May be null.
  std::function<std::string(loop::InstId i)> op;
  /// Text that combines an instruction's value into its running reduction ("r12 = ...").
  std::function<std::string(loop::InstId i)> reduce;
  /// A condition under which stores happen ("threadIdx.x == 0"), or empty: always.
  std::string store_guard;
};

/// The text of `insts`, one line each, indented by `indent`.
std::string code_of(const std::vector<loop::InstId>& insts, const Names& names, const AccessRules& rules, int indent);

/// Of the values that a reduce or scan instruction combines: running sums and products of floats are kept in a wider type, as PyTorch's
/// are.
DType combined_type(const loop::LoopKernel& k, const loop::Inst& i);
/// "ReduceSum<float>", for a reduce or scan instruction.
std::string reducer(const loop::LoopKernel& k, const loop::Inst& i);
bool is_arg(ReduceKind kind);

}  // namespace aotc::emit::cuda
