#pragma once
// Tiles of products on the ordinary units, for matrices and convolutions.
#include "base/machine.h"
#include "emit/cuda/launch.h"
#include "forms/choice.h"
#include "forms/form.h"

namespace aotc::forms::cuda {

struct SimtChoice : emit::cuda::SimtTile {
  static std::span<const Member<SimtChoice>> members();
};
/// Whether products of such operands are summed.
Fit takes_products(DType t);
/// As kernels/cuda/simt.cuh demands.
Fit legal_simt(const SimtChoice& t);
/// Those worth a look.
std::span<const SimtChoice> simt_tiles();
/// Nanoseconds of `batch` products; found: instructions that find one element of b, beside its load.
double simt_cost(const SimtChoice& t, int64_t m, int64_t n, int64_t k, int64_t batch, DType acc, double found, const Machine& machine);

/// A size worth tuning for, 1 where it may be none.
int64_t at_least_one(const Expr& e, const Site& s);

}  // namespace aotc::forms::cuda
