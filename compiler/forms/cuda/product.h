#pragma once
// What the CUDA forms of matrix products have in common.
#include <algorithm>

#include "emit/cuda/launch.h"
#include "forms/cuda/common.h"
#include "loop/tidy.h"

namespace aotc::forms::cuda {

/// At the sizes worth tuning for. Of rows in runs: of equal ones, each a batch element.
struct ProductSizes {
  int64_t m, n, k, batch;
};
inline ProductSizes sizes_of(const loop::MatmulKernel& k, const SymTable& syms) {
  auto at_least_one = [&](const Expr& e) { return std::max<int64_t>(1, syms.hint(e)); };
  ProductSizes z{at_least_one(k.m), at_least_one(k.n), at_least_one(k.k), at_least_one(product(k.batch))};
  if (k.runs) {
    z.batch = std::min(z.m, at_least_one(k.runs->count));
    z.m /= z.batch;
  }
  return z;
}
/// Blocks of so many rows; runs are cut one by one.
inline Expr row_blocks(const loop::MatmulKernel& k, int rows) {
  return k.runs ? floordiv(k.m, rows) + min(k.m, k.runs->count) : ceildiv(k.m, rows);
}
/// One contract for all forms of a product: they are measured against each other.
inline std::string product_contract(const loop::MatmulKernel& k, const Site& s) {
  const ProductSizes z = sizes_of(k, s.syms);
  const auto& q = k.b_quantised;
  return sized(
      fmt::format(
          "cuda product {} b{} m{} n{} k{}{}{}", dtype_name(k.in), z.batch, z.m, z.n, z.k,
          k.twin              ? " twin"
          : loop::two_sums(k) ? " mates"
          : k.runs            ? " runs"
                              : "",
          q ? fmt::format(" {} g{}", k.params[q->values].dtype == DType::f8e4m3fn ? "fp8" : fmt::format("bits{}", q->bits), q->group) : ""),
      emit::cuda::size_symbols(k), s);
}
/// Prologues that are computed element by element.
inline Fit takes_points(const loop::MatmulKernel& k) {
  return k.a.prologue && loop::reduces(*k.a.prologue) ? refuse("operand a: it computes elements, not rows with reductions") : Fit::yes();
}
/// Rows that every block computes for itself, in shared memory: `rows` at most.
inline Fit takes_made_rows(const loop::MatmulKernel& k, int64_t rows, const Machine& m) {
  const int64_t most = gpu_costs(m).made_row_bytes;
  const auto depth = k.k.as_const();
  if (!loop::reduces(*k.a.prologue)) return refuse("operand a: of prologues it takes those with reductions");
  if (!k.batch.empty() || !depth) return refuse("operand a: one matrix of rows of a fixed size is computed");
  const int64_t bytes = rows * *depth * dtype_bytes(k.in);
  for (const loop::Param& p : k.a.prologue->params)
    if (p.role == loop::ParamRole::local) return refuse("operand a: its rows keep more than what they are");
  return bytes <= most ? Fit::yes() : refuse("operand a: {} bytes of computed rows, {} is the most", bytes, most);
}
/// ns that `blocks` blocks take for that in so many waves, each all rows: it reads them, mostly from the second cache, before its first
/// product.
inline double made_rows_ns(const loop::MatmulKernel& k, int64_t rows, double blocks, double waves, const GpuCosts& u,
                           const SymTable& syms) {
  if (!k.a.prologue) return 0;
  const double read = static_cast<double>(rows * syms.hint(k.k) * dtype_bytes(k.in)) * 2;
  return u.vector_made_row * static_cast<double>(rows) * waves + blocks * read / u.vector_cache_bytes;
}
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace aotc::forms::cuda
