#include "forms/cuda/common.h"

#include "emit/cuda/code.h"

namespace aotc::forms::cuda {

StepSpec cuda_step(const std::vector<SymId>& sizes, const std::string& symbol) {
  StepSpec f;
  f.kind = StepKind::cuda;
  f.symbol = symbol;
  f.overlaps = true;
  for (SymId s : sizes) f.sizes.push_back(Expr::symbol(s));
  return f;
}

StepSpec library_step(const loop::LibraryKernel& k, int threads, const Expr& blocks, int64_t shared_bytes) {
  StepSpec f;
  f.kind = StepKind::cuda;
  f.symbol = emit::cuda::function_name(k.name);
  f.sizes = k.sizes;
  f.block[0] = threads;
  f.grid[0] = blocks;
  f.smem_bytes = f.max_smem_bytes = shared_bytes;
  return f;
}

std::string sized(std::string text, const std::vector<SymId>& sizes, const Site& s) {
  for (SymId sym : sizes) text += fmt::format(" {}={}", s.syms[sym].name, s.syms.hint(Expr::symbol(sym)));
  return text;
}

Fit never_empty(const loop::ConvKernel& k, const SymTable& syms) {
  for (const auto* dims : {&k.x_dims, &k.out_dims})
    for (const Expr& e : *dims)
      if (syms.interval(e).min < 1) return refuse("a size may be 0");
  return Fit::yes();
}

}  // namespace aotc::forms::cuda
