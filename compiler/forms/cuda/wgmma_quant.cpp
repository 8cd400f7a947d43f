// Products of many rows by a weight of few bits on Hopper's tensor cores (kernels/cuda/wgmma_quant.cuh): the weight is the left operand,
// made in registers out of its slabs; rows are the right one, by tensor maps.
#include <algorithm>

#include "emit/cuda/code.h"
#include "emit/cuda/wgmma.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/hopper.h"
#include "forms/cuda/product.h"
#include "forms/cuda/slabs.h"
#include "forms/cuda/wgmma_operand.h"
#include "forms/cuda/wgmma_tile.h"
#include "forms/slabs.h"

namespace aotc::forms::cuda {

using emit::cuda::OperandOrder;
using emit::cuda::WgmmaTile;
using loop::MatmulKernel;

namespace {

constexpr int64_t kSlabTileBytes = kSlabColumns * kSlabBytes;  ///< of a strip's slab

/// Boxes of one slab of the strips of a tile.
TensorMap map_of_slabs(const MatmulKernel& k, const WgmmaTile& t) {
  const loop::QuantisedWeight& q = *k.b_quantised;
  const int64_t slabs = slabs_along(*k.k.as_const(), q.bits), strips = ceil_div(*k.n.as_const(), kSlabColumns);
  constexpr int kSlabLine = 256;  // of a box, at most
  TensorMap m;
  m.arg = static_cast<int>(idx(q.values));
  m.dtype = DType::f8e4m3fn;  // bytes
  m.dims = {kSlabLine, slabs * kSlabTileBytes / kSlabLine, strips};
  m.stride_bytes = {kSlabLine, slabs * kSlabTileBytes};
  m.box = {kSlabLine, kSlabTileBytes / kSlabLine, static_cast<int32_t>(t.rows() / kSlabColumns)};
  return m;
}

class WgmmaQuant final : public FormOf<MatmulKernel> {
 public:
  std::string_view name() const override { return "cuda_wgmma_quant"; }
  std::span<const Field> fields() const override { return fields_of<WgmmaChoice>(); }
  Fit legal(const Choice& c) const override { return legal_wgmma(tile_of(c)); }

 protected:
  Fit fits(const MatmulKernel& k, const Site& s) const override {
    if (const Fit b = takes_slabs(k); !b) return b;
    if (!s.machine.has(Feature::wgmma)) return refuse("sm_90a has its instructions");
    if (k.a.prologue) return refuse("it takes rows from memory only");
    if (!s.syms.simplify(product(k.batch)).is(1)) return refuse("it takes one matrix");
    for (const loop::Segment& x : k.segments)
      if (!s.syms.proves_divisible(x.n_begin, kSlabColumns)) return refuse("columns of a segment do not begin with a strip of the weight");
    return takes_mapped_operand(k, k.a, "a", s.syms);
  }

  std::vector<Candidate> candidates(const MatmulKernel& k, const Site& s) const override {
    std::vector<Candidate> all;
    const WgmmaWork w = work_of(k, s);
    for (const WgmmaTile& t : wgmma_tiles(w, s.machine))
      all.push_back({pack(*this, WgmmaChoice(t)), Fit::yes(), wgmma_cost_ns(t, w, s.machine)});
    return all;
  }

  std::string contract(const MatmulKernel& k, const Site& s) const override { return product_contract(k, s); }

  StepSpec step(const MatmulKernel& k, const Site& s, const Choice& c) const override {
    const WgmmaTile t = tile_of(c);
    StepSpec f = wgmma_step(cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name)), wgmma_tiles_of(k, t), t, s.machine);
    f.maps = {map_of_slabs(k, t), map_of(k, k.a, *order_of(k, k.a, s.syms), t.cols)};
    return f;
  }

  std::string source(const MatmulKernel& k, const Site& s, const Choice& c, const std::string& symbol) const override {
    WgmmaTile t = tile_of(c);
    t.left_bits = k.b_quantised->bits;
    return emit::cuda::emit_wgmma(k, t, *order_of(k, k.a, s.syms), OperandOrder::along_k, symbol);
  }
  std::optional<std::pair<loop::ParamId, WeightForm>> weight(const MatmulKernel& k, const Choice&) const override { return slab_weight(k); }

 private:
  /// Its bytes do not depend on the number of bits.
  static WgmmaTile tile_of(const Choice& c) {
    WgmmaTile t = unpack<WgmmaChoice>(c);
    t.left_bits = 8;
    return t;
  }
  static WgmmaWork work_of(const MatmulKernel& k, const Site& s) {
    const loop::QuantisedWeight& q = *k.b_quantised;
    const ProductSizes z = sizes_of(k, s.syms);
    WgmmaWork w;
    w.in = k.in, w.m = z.m, w.k = z.k;
    w.a_across_k = order_of(k, k.a, s.syms) == OperandOrder::across_k;
    w.b_constant = true;
    w.left_bits = q.bits;
    w.left_floats = k.params[q.values].dtype == DType::f8e4m3fn;
    add_segments(w, k, s);
    return w;
  }
};

}  // namespace

const Form& wgmma_quant() { return instance<WgmmaQuant>(); }

}  // namespace aotc::forms::cuda
