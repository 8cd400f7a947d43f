#include "passes/passes.h"

#include <algorithm>
#include <cmath>

#include "aotc/detail/fourier_abi.h"
#include "base/uarch.h"
#include "decompose/waves.h"
#include "graph/fourier_lines.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

constexpr double kLanes = AOTC_FOURIER_LINES;

/// The passes of the kernel over n points, nothing where it has a prime factor that is too large.
std::optional<double> passes_over(int64_t n) {
  double passes = 0;
  for (int64_t p = 3; p <= AOTC_FOURIER_PRIME; p += 2)
    for (; n % p == 0; n /= p) passes += p < 8 ? 1.0 : static_cast<double>(p) / 8;
  int twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  if (n > 1) return std::nullopt;
  return passes + (twos + 2) / 3;
}

bool by_kernel(const Graph& g, const Node& n, const Target& target) {
  const Exprs& dims = g.type(n.inputs[0]).dims;
  const int64_t length = n.get<Expr>(Attr::k).as_const().value();
  if (target.traits().fourier_in_blocks)
    return length >= uarch_of(target).gpu.fourier_shortest &&
           fourier_in_blocks(length, n.get<std::string>(Attr::kind) != "pairs", dtype_bytes(g.type(n.inputs[0]).dtype));
  const CpuCosts& u = uarch_of(target).cpu;
  if (length > u.fourier_longest) return false;
  double lines = 1;
  for (size_t i = 0; i < dims.size(); ++i)
    if (static_cast<int64_t>(i) != n.get<int64_t>(Attr::dim)) lines *= static_cast<double>(std::max<int64_t>(1, g.syms.hint(dims[i])));
  const int64_t points = n.get<std::string>(Attr::kind) != "pairs" && length % 2 == 0 ? length / 2 : length;
  const std::optional<double> passes = passes_over(points);
  if (!passes) return false;
  const double groups = std::ceil(lines / kLanes) * kLanes;
  return groups * static_cast<double>(points) * (*passes + 2) * u.fourier_pass_macs < lines * decompose::products_cost(g, n);
}

}  // namespace

/// Fourier transforms become products with matrices of waves where the target has no kernel of theirs (GPUs: lines that do not lie in
/// shared memory), and where that should be less work: short lines, and too few of them to fill the lanes of a CPU. They sum in another
/// order than the kernel.
void lower_fourier(Graph& g, PassContext& ctx) {
  Rewriter(g).sweep_results([&](Rewriter& r, const Node& n) -> std::optional<std::vector<ValueId>> {
    if (n.op != Op::fourier || by_kernel(g, n, ctx.target)) return std::nullopt;
    return decompose::fourier_by_products(r.b, n);
  });
}

}  // namespace aotc::passes
