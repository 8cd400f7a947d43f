#pragma once
// Operands of Hopper's products (kernels/cuda/wgmma.cuh) as tensor maps see them.
#include <optional>

#include "emit/cuda/launch.h"
#include "emit/cuda/wgmma.h"
#include "forms/form.h"

namespace aotc::forms::cuda {

/// Elements of k of a stage.
constexpr int wgmma_deep(DType t) { return 128 / static_cast<int>(dtype_bytes(t)); }
/// The order in which tensor maps see an operand of the product, if they do.
std::optional<emit::cuda::OperandOrder> order_of(const loop::MatmulKernel& k, const loop::Operand& o, const SymTable& syms);
/// turned: it is brought into the other order by the kernel.
Fit takes_mapped_operand(const loop::MatmulKernel& k, const loop::Operand& o, const char* name, const SymTable& syms, bool turned = false);
/// The map whose boxes have this many lines.
TensorMap map_of(const loop::MatmulKernel& k, const loop::Operand& o, emit::cuda::OperandOrder order, int lines);
Expr wgmma_tiles_of(const loop::MatmulKernel& k, const emit::cuda::WgmmaTile& t);

}  // namespace aotc::forms::cuda
