#pragma once
// What the texts of products have in common.
#include <string>
#include <vector>

#include "loop/loop.h"

namespace aotc::emit::cuda {

/// The functor of an epilogue over [batch dims.., row] x [column], "struct NAME { const ARGS& a; const i64 b0, b1; .. };": called with a
/// sum, its row and its column. `symbols`: the kernel's sizes. With `runs` it also takes 8 neighbours of a row at once, as
/// kernels/cuda/wgmma.cuh says.
/// An epilogue with two sums takes the twin's behind the first one.
std::string epilogue_struct(const loop::LoopKernel& epilogue, const std::string& name, const std::string& args,
                            const std::vector<SymId>& symbols, bool runs);
/// That of a segment: SYMBOL_epilogueNUMBER over SYMBOL_args.
std::string epilogue_struct(const loop::MatmulKernel& k, size_t number, const std::string& symbol, const std::vector<SymId>& symbols,
                            bool runs);

/// Whether a tensor core's sums are finished in the registers that hold them: one store of 16 bits, few operations.
bool finished_in_place(const loop::LoopKernel& epilogue);

/// "const i64 s3 = a.size[0];" of every symbol.
std::string size_names(const SymTable& syms, const std::vector<SymId>& symbols, int indent);

}  // namespace aotc::emit::cuda
