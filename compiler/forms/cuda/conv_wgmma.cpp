// Convolutions of channels-last images on Hopper's tensor cores (kernels/cuda/conv_wgmma.cuh): cuda_conv_wgmma of float16, bfloat16 and,
// where the user allows it, float32 as TF32; cuda_conv_wgmma_parts of float32 at its accuracy, as three products of TF32 with weights that
// are stored in two parts. One group, windows that tensor maps copy, weights that are constants.

#include "emit/cuda/code.h"
#include "emit/cuda/contraction.h"
#include "forms/cuda/common.h"
#include "forms/cuda/conv.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/product.h"
#include "forms/cuda/wgmma_tile.h"

namespace aotc::forms::cuda {

using emit::cuda::WgmmaTile;
using loop::ConvKernel;

namespace {

/// What a tensor map of windows may say, by the number of dims between channels and images.
struct Limits {
  int64_t corner, offset;  ///< -corner to corner - 1; the furthest tap
};
constexpr Limits kLimits[] = {{32768, 65535}, {128, 255}, {16, 31}};
constexpr int64_t kMostStep = 8;

int64_t upper_of(const ConvKernel& k, size_t d) { return k.padding_hi[d] - (k.kernel[d] - 1) * k.dilation[d]; }

Expr rows_of(const ConvKernel& k) { return k.out_dims[0] * product(Exprs(k.out_dims.begin() + 2, k.out_dims.end())); }
int64_t taps_of(const ConvKernel& k) {
  int64_t taps = 1;
  for (int64_t n : k.kernel) taps *= n;
  return taps;
}

TensorMap windows_of(const ConvKernel& k, int windows) {
  const int64_t bytes = static_cast<int64_t>(dtype_bytes(k.in));
  TensorMap m;
  m.arg = static_cast<int>(idx(k.x));
  m.dtype = k.in;
  m.swizzle_bytes = 128;
  m.dims = {k.x_dims[1]};
  Expr stride = k.x_dims[1] * bytes;
  for (size_t d = k.kernel.size(); d-- > 0;) {
    m.dims.push_back(k.x_dims[d + 2]);
    m.stride_bytes.push_back(stride);
    stride *= k.x_dims[d + 2];
    m.lower.push_back(static_cast<int32_t>(-k.padding[d]));
    m.upper.push_back(static_cast<int32_t>(upper_of(k, d)));
    m.steps.push_back(static_cast<int32_t>(k.stride[d]));
  }
  m.dims.push_back(k.x_dims[0]);
  m.stride_bytes.push_back(stride);
  m.box = {emit::cuda::conv_wgmma_deep(k), windows};
  return m;
}

TensorMap weights_of(const ConvKernel& k, int lines, int parts) {
  const Expr depth = taps_of(k) * emit::cuda::conv_wgmma_channels(k);
  TensorMap m;
  m.arg = static_cast<int>(idx(k.w));
  m.dtype = k.in;
  m.swizzle_bytes = 128;
  m.dims = {depth, k.out_dims[1]};
  m.stride_bytes = {depth * static_cast<int64_t>(dtype_bytes(k.in))};
  m.box = {emit::cuda::conv_wgmma_deep(k), lines};
  if (parts > 1) {
    m.dims.push_back(parts);
    m.stride_bytes.push_back(k.out_dims[1] * m.stride_bytes[0]);
    m.box.push_back(parts);
  }
  return m;
}

WgmmaWork work_of(const ConvKernel& k, const Site& s, int products) {
  const int64_t depth = taps_of(k) * emit::cuda::conv_wgmma_channels(k);
  return {k.in, at_least_one(rows_of(k), s),         depth,   1, {at_least_one(k.out_dims[1], s)}, false, false,
          true, wgmma_finish(k.epilogue, s.machine), products};
}

class Wgmma final : public FormOf<ConvKernel> {
 public:
  /// products: WgmmaTile::products.
  Wgmma(std::string_view name, int products) : name_(name), products_(products) {}
  std::string_view name() const override { return name_; }
  std::span<const Field> fields() const override { return fields_of<WgmmaChoice>(); }
  Fit legal(const Choice& c) const override { return legal_wgmma(tile_of(c)); }

 protected:
  Fit fits(const ConvKernel& k, const Site& s) const override {
    if (!is_half(k.in) && k.in != DType::f32) return refuse("it takes float16, bfloat16 and float32, not {}", dtype_name(k.in));
    if (!s.machine.has(Feature::wgmma)) return refuse("sm_90a has its instructions");
    if (k.in == DType::f32 && products_ < tf32_products(s.numerics))
      return refuse("float32 products keep their accuracy (see --f32-matmul)");
    if (products_ > 1 && (k.in != DType::f32 || tf32_products(s.numerics) == 1)) return refuse("it takes float32 at its own accuracy");
    if (!k.channels_last || k.transposed) return refuse("it takes channels-last images, not transposed");
    if (k.groups != 1) return refuse("it takes one group, not {}", k.groups);
    if (!k.w_constant) return refuse("the weights must be constant");
    const size_t rank = k.kernel.size();
    if (rank < 1 || rank > 3) return refuse("windows of 1 to 3 dimensions have tensor maps");
    const auto channels = k.x_dims[1].as_const();
    if (!channels || *channels % (kMapAlign / static_cast<int64_t>(dtype_bytes(k.in))))
      return refuse("pixels must be a multiple of 16 bytes");
    const Limits& most = kLimits[rank - 1];
    for (size_t d = 0; d < rank; ++d) {
      const int64_t upper = upper_of(k, d);
      if (k.padding[d] > most.corner || k.padding[d] <= -most.corner || upper < -most.corner || upper >= most.corner ||
          (k.kernel[d] - 1) * k.dilation[d] > most.offset || k.stride[d] > kMostStep)
        return refuse("a window's padding, reach or step is beyond what tensor maps have");
    }
    return never_empty(k, s.syms);
  }
  std::vector<Candidate> candidates(const ConvKernel& k, const Site& s) const override {
    std::vector<Candidate> all;
    const WgmmaWork w = work_of(k, s, products_);
    for (const WgmmaTile& t : wgmma_tiles(w, s.machine))
      all.push_back({pack(*this, WgmmaChoice(t)), Fit::yes(), wgmma_cost_ns(t, w, s.machine)});
    return all;
  }
  std::string contract(const ConvKernel& k, const Site& s) const override { return conv_contract(k, s); }

  StepSpec step(const ConvKernel& k, const Site& s, const Choice& c) const override {
    const WgmmaTile t = tile_of(c);
    const Expr tiles = ceildiv(rows_of(k), t.m_tile()) * ceildiv(k.out_dims[1], t.n_tile());
    StepSpec f = wgmma_step(cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name)), tiles, t, s.machine);
    const TensorMap x = windows_of(k, t.swap ? t.cols : t.rows()), w = weights_of(k, t.swap ? t.rows() : t.cols, products_ > 1 ? 2 : 1);
    f.maps = t.swap ? std::vector{w, x} : std::vector{x, w};
    return f;
  }
  /// Columns: output channels; their rows: the channels of one tap after another.
  std::optional<std::pair<loop::ParamId, WeightForm>> weight(const ConvKernel& k, const Choice&) const override {
    const int64_t taps = taps_of(k), channels = *k.x_dims[1].as_const();
    Panels p;
    p.dtype = k.in;
    p.column_groups = emit::cuda::conv_wgmma_deep(k);
    p.parts = products_ > 1 ? 2 : 1;
    p.col_stride = channels * taps;
    p.rows = {{channels * taps, channels, 1, taps, {}}};
    p.matrices = {{0, *k.out_dims[1].as_const(), 0}};
    return std::pair{k.w, WeightForm(p)};
  }
  std::string source(const ConvKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    return emit::cuda::emit_conv_wgmma(k, tile_of(c), symbol);
  }

 private:
  WgmmaTile tile_of(const Choice& c) const {
    WgmmaTile t = unpack<WgmmaChoice>(c);
    t.products = products_;
    return t;
  }
  const std::string_view name_;
  const int products_;
};

}  // namespace

const Form& conv_wgmma() {
  static const Wgmma form("cuda_conv_wgmma", 1);
  return form;
}
const Form& conv_wgmma_parts() {
  static const Wgmma form("cuda_conv_wgmma_parts", 3);
  return form;
}

}  // namespace aotc::forms::cuda
