#pragma once
#include <string>
#include <vector>

#include "emit/cuda/launch.h"
#include "loop/loop.h"

namespace aotc::emit::cuda {

/// Whether wgmma.cuh has products of operands of this type; float32 is rounded to TF32.
constexpr bool has_wgmma(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16 || is_float8(t); }

/// How an operand lies in memory: `along_k` with k as the contiguous index, else across it.
enum class OperandOrder : uint8_t { along_k, across_k };

/// struct NAME { static void multiply(float (&d)[columns / 2], .., int add); }: the product of 64 left lines and `columns` right ones over
/// 32 bytes of k, to what d holds where `add`. .. are the operands: u64 left or, when the left one is in registers, u32 p0 to p3 (whose k
/// is theirs by the instruction); u64 right.
std::string wgmma_instruction(const std::string& name, DType t, int columns, OperandOrder left, OperandOrder right, bool left_in_registers);

/// The format of kernels/cuda/slabs.cuh that a weight of few bits has.
std::string_view slab_format(const loop::MatmulKernel& k);

/// The type SYMBOL_tile. left, right: the orders of the operands in the roles that they have in the instruction.
std::string tile_type(const WgmmaTile& tile, DType t, OperandOrder left, OperandOrder right, bool b_constant, const std::string& symbol);
/// The __global__ function `symbol` of a product, over SYMBOL_tile, SYMBOL_instruction and SYMBOL_problem.
std::string wgmma_function(const WgmmaTile& tile, const std::string& symbol);

/// The batch dimensions of the product along which an operand changes, the last one first: the outer coordinates of its tensor map.
std::vector<size_t> mapped_batch(const loop::MatmulKernel& k, const loop::Operand& o);

/// CUDA C++ of one product, its __global__ function `symbol`: an instance of kernels/cuda/wgmma.cuh with the segments' epilogues as
/// functors. Its tensor maps: the operand of 64 lines a warpgroup, then the other one (with `swap` b, then a), then a twin.
std::string emit_wgmma(const loop::MatmulKernel& k, const WgmmaTile& tile, OperandOrder a, OperandOrder b, const std::string& symbol);
}  // namespace aotc::emit::cuda
