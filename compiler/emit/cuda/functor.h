#pragma once
// The loops that a contraction carries, as functors over the kernel's arguments, and what else the text of all contractions has in common.
#include <string>
#include <string_view>
#include <vector>

#include "loop/loop.h"

namespace aotc::emit::cuda {

/// struct NAME { const ARGS& a; void operator()(acc, i64 outer0, .., i64 inner) const; }: what becomes of one sum. loads_ahead: what
/// depends on no sum is loaded by Held ahead(i64 outer0, .., i64 inner) const, whose result operator() takes after the sums.
std::string epilogue_functor(const loop::LoopKernel& e, DType acc, const std::string& name, const std::string& args,
                             const std::vector<SymId>& size_symbols, bool loads_ahead = false);
/// struct NAME { const ARGS& a; T operator()(i64 outer0, .., i64 inner) const; }: an element of an operand.
std::string prologue_functor(const loop::LoopKernel& p, DType operand, const std::string& name, const std::string& args,
                             const std::vector<SymId>& size_symbols);
/// "const i64 s3 = a.size[0];  // batch" for each, indented.
std::string size_names(const std::vector<SymId>& size_symbols, const SymTable& syms, int indent);
/// An expression over shape symbols, which have the names of size_names.
std::string size_text(const Expr& e, const SymTable& syms);
/// What a product reads beside its operands, asked for by the first block while it waits: the weights of the steps between have driven it
/// out of the second cache.
std::string prefetches_beside(const loop::MatmulKernel& k, int threads);
/// "static AOTC_DI constexpr int NAME(int d) { .. }", a number for each d.
std::string constants_function(const char* name, const Ints& values);
/// The start of a step that overlaps the one before and touches nothing until that has ended.
std::string wait_first();
/// extern "C" __global__ void __launch_bounds__(threads, resident) SYMBOL(const __grid_constant__ SYMBOL_args a) {
/// The number of blocks of so many rows of a product, at least one, over m and the sizes' names.
std::string row_blocks(const loop::MatmulKernel& k, int rows);
/// Of rows in runs: the constant `run` (RunRows of runs.cuh), which has the rows of block `row`; a block without rows returns. Else
/// nothing.
std::string rows_of_run(const loop::MatmulKernel& k, int rows);
std::string function_head(const std::string& symbol, int cluster, int threads, int resident);
/// The same with its body.
std::string global_function(const std::string& symbol, int cluster, int threads, int resident, const std::string& body);

}  // namespace aotc::emit::cuda
