#pragma once
// Tiles of Hopper's products (kernels/cuda/wgmma.cuh): which exist, and what they should cost. What the products multiply is the forms'.
#include <vector>

#include "emit/cuda/launch.h"
#include "forms/cuda/hopper.h"

namespace aotc::forms::cuda {

/// The fields of a choice.
struct WgmmaChoice : emit::cuda::WgmmaTile {
  WgmmaChoice() = default;
  WgmmaChoice(const emit::cuda::WgmmaTile& t) : WgmmaTile(t) {}
  static std::span<const Member<WgmmaChoice>> members();
};
Fit legal_wgmma(const emit::cuda::WgmmaTile& t);

/// What is multiplied, at the sizes worth tuning for.
struct WgmmaWork {
  DType in = DType::f16;
  int64_t m = 1, k = 1, batch = 1;
  std::vector<int64_t> columns;                 ///< of each segment
  bool a_across_k = false, b_across_k = false;  ///< the operands' orders
  bool b_constant = false;
  double finish = 1;    ///< what an epilogue takes, of one that only stores
  int products = 1;     ///< WgmmaTile::products
  bool turned = false;  ///< b may be the left operand for any number of rows
  emit::cuda::WgmmaTile::Apart apart = emit::cuda::WgmmaTile::Apart::no;
  bool twin = false;  ///< WgmmaTile::twin
  int left_bits = 0;  ///< of b, the left operand, where it is a weight of few bits
  bool left_floats = false;
  int deep() const { return 128 / static_cast<int>(dtype_bytes(in)); }  ///< elements of k of a stage
  int64_t tiles(const emit::cuda::WgmmaTile& t) const;
};
/// WgmmaWork::finish.
double wgmma_finish(const loop::LoopKernel& epilogue, const Machine& m);
/// The columns of the product's segments, and WgmmaWork::finish.
void add_segments(WgmmaWork& w, const loop::MatmulKernel& k, const Site& s);
/// The tiles worth measuring, each with its stages.
std::vector<emit::cuda::WgmmaTile> wgmma_tiles(const WgmmaWork& w, const Machine& m);
double wgmma_cost_ns(const emit::cuda::WgmmaTile& t, const WgmmaWork& w, const Machine& m);
/// A launch of kernels that compute so many tiles, but for its maps.
StepSpec wgmma_step(StepSpec step, const Expr& tiles, const emit::cuda::WgmmaTile& t, const Machine& m);
/// Blocks of one processor.
int64_t wgmma_resident(const emit::cuda::WgmmaTile& t);

}  // namespace aotc::forms::cuda
