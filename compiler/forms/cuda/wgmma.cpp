// Matrix products on Hopper's tensor cores (kernels/cuda/wgmma.cuh): cuda_wgmma of float16, bfloat16, 8-bit floats and, where the user
// allows it, float32 as TF32; cuda_wgmma_parts of float32 at its accuracy, as three products of TF32 with weights that are stored in two
// parts; cuda_wgmma_apart the same of two operands that are computed, the right one taken apart as it comes. Operands that tensor maps
// take: one index contiguous, all other strides multiples of 16 bytes.
#include "emit/cuda/wgmma.h"
#include "emit/cuda/code.h"
#include "emit/cuda/epilogue.h"

#include <algorithm>
#include <optional>

#include "forms/cuda/forms.h"
#include "forms/cuda/hopper.h"
#include "forms/cuda/product.h"
#include "forms/cuda/wgmma_operand.h"
#include "forms/cuda/wgmma_tile.h"
#include "loop/attached.h"

namespace aotc::forms::cuda {

using emit::cuda::OperandOrder;
using emit::cuda::WgmmaTile;
using loop::MatmulKernel;
using loop::Operand;

namespace {

constexpr int64_t kMostRunsInTable = 512;  ///< 4 KB of shared memory

/// The columns of b in two parts, each filled up to whole stages of k; or nothing, where they are no weight that can be stored so.
std::optional<Panels> parts_of(const MatmulKernel& k) {
  if (!k.b_constant || k.b.prologue || k.b_panels_read || k.a.param == k.b.param) return std::nullopt;
  for (const loop::Segment& s : k.segments)
    if (loop::loads(s.epilogue, k.b.param)) return std::nullopt;
  const auto depth = k.k.as_const(), columns = k.n.as_const(), base = k.b.base.as_const(), row = k.b.row_stride.as_const(),
             column = k.b.col_stride.as_const();
  if (!depth || !columns || !base || !row || !column || *depth < 1 || *columns < 1) return std::nullopt;
  if (std::any_of(k.b.batch_strides.begin(), k.b.batch_strides.end(), [](const Expr& e) { return !e.is(0); })) return std::nullopt;
  Panels p;
  p.dtype = k.in;
  p.column_groups = wgmma_deep(k.in);
  p.parts = 2;
  p.col_stride = *column;
  p.rows = {{*depth, *depth, 0, *row, {}}};
  p.matrices = {{*base, *columns, 0}};
  return p;
}
TensorMap map_of_parts(const MatmulKernel& k, int lines) {
  const int64_t bytes = static_cast<int64_t>(dtype_bytes(k.in)), depth = ceil_div(*k.k.as_const(), wgmma_deep(k.in)) * wgmma_deep(k.in);
  TensorMap m;
  m.arg = static_cast<int>(idx(k.b.param));
  m.dtype = k.in;
  m.swizzle_bytes = 128;
  m.dims = {depth, k.n, 2};
  m.stride_bytes = {depth * bytes, k.n * depth * bytes};
  m.box = {wgmma_deep(k.in), lines, 2};
  return m;
}

class Wgmma final : public FormOf<MatmulKernel> {
 public:
  /// products: WgmmaTile::products; apart: the right operand is taken apart in the kernel.
  Wgmma(std::string_view name, int products, bool apart) : name_(name), products_(products), apart_(apart) {}
  std::string_view name() const override { return name_; }
  std::span<const Field> fields() const override { return fields_of<WgmmaChoice>(); }
  bool takes_runs() const override { return products_ == 1; }
  bool takes_twins() const override { return products_ == 1; }
  Fit legal(const Choice& c) const override {
    WgmmaTile t = tile_of(c);
    if (apart_) t.apart = WgmmaTile::Apart::along_k;  // which takes less
    return legal_wgmma(t);
  }

 protected:
  Fit fits(const MatmulKernel& k, const Site& s) const override {
    if (!emit::cuda::has_wgmma(k.in)) return refuse("it takes float32 and smaller floats, not {}", dtype_name(k.in));
    if (k.a.prologue || k.b.prologue) return refuse("it takes operands from memory only");
    if (!s.machine.has(Feature::wgmma)) return refuse("sm_90a has its instructions");
    if (k.in == DType::f32 && products_ < tf32_products(s.numerics))
      return refuse("float32 products keep their accuracy (see --f32-matmul)");
    if (products_ > 1 && (k.in != DType::f32 || tf32_products(s.numerics) == 1)) return refuse("it takes float32 at its own accuracy");
    if (s.syms.interval(k.k).min < 1) return refuse("k may be 0");
    if (const auto runs = k.runs ? k.runs->count.as_const() : 1; !runs || *runs > kMostRunsInTable)
      return refuse("it takes a fixed number of runs, at most {}", kMostRunsInTable);
    if (const Fit a = takes_mapped_operand(k, k.a, "a", s.syms, products_ > 1); !a) return a;
    if (products_ > 1 && !apart_) return parts_of(k) ? Fit::yes() : refuse("b is no weight that can be stored in two parts");
    if (apart_ && parts_of(k)) return refuse("b is a weight, which is stored in two parts");
    if (apart_) return takes_mapped_operand(k, k.b, "b", s.syms, true);
    if (loop::two_sums(k))
      if (const Fit twin = takes_twin(k, s); !twin) return twin;
    return takes_mapped_operand(k, k.b, "b", s.syms);
  }

  std::vector<Candidate> candidates(const MatmulKernel& k, const Site& s) const override {
    std::vector<Candidate> all;
    const WgmmaWork w = work_of(k, s);
    // Weights in two parts are twice the bytes, which few rows wait for.
    const ProductSizes z = sizes_of(k, s.syms);
    const double least = products_ > 1 && !apart_
                             ? 2.0 * 4 * static_cast<double>(z.n) * static_cast<double>(z.k) / gpu_costs(s.machine).wg_parts_bytes_per_ns
                             : 0;
    for (const WgmmaTile& t : wgmma_tiles(w, s.machine))
      if (!k.runs || takes_runs(t))
        all.push_back({pack(*this, WgmmaChoice(t)), Fit::yes(), std::max(least, wgmma_cost_ns(t, w, s.machine))});
    return all;
  }

  std::string contract(const MatmulKernel& k, const Site& s) const override { return product_contract(k, s); }

  StepSpec step(const MatmulKernel& k, const Site& s, const Choice& c) const override {
    const WgmmaTile t = tile_of(k, s, c);
    StepSpec f = wgmma_step(cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name)), wgmma_tiles_of(k, t), t, s.machine);
    TensorMap a = map_of(k, k.a, *order_of(k, k.a, s.syms), t.swap ? t.cols : t.rows());
    TensorMap b = stored() ? map_of_parts(k, t.cols) : map_of(k, k.b, *order_of(k, k.b, s.syms), t.swap ? t.rows() : t.columns());
    if (t.apart == WgmmaTile::Apart::across_k) b.swizzle_bytes = 0, b.box[0] = t.cols;
    if (products_ > 1 && order_of(k, k.a, s.syms) == OperandOrder::across_k) a.swizzle_bytes = 0, a.box[0] = t.rows();
    f.maps = t.swap ? std::vector{b, a} : std::vector{a, b};
    if (k.twin) f.maps.push_back(map_of(k, *k.twin, *order_of(k, *k.twin, s.syms), t.columns()));
    return f;
  }

  std::string source(const MatmulKernel& k, const Site& s, const Choice& c, const std::string& symbol) const override {
    const OperandOrder b = stored() ? OperandOrder::along_k : *order_of(k, k.b, s.syms);
    return emit::cuda::emit_wgmma(k, tile_of(k, s, c), *order_of(k, k.a, s.syms), b, symbol);
  }
  std::optional<std::pair<loop::ParamId, WeightForm>> weight(const MatmulKernel& k, const Choice&) const override {
    if (!stored()) return std::nullopt;
    return std::pair(k.b.param, WeightForm(*parts_of(k)));
  }

 private:
  /// Whether a thread that has a place's sums of both matrices can finish them.
  static Fit takes_twin(const MatmulKernel& k, const Site& s) {
    if (!k.twin) return refuse("of two sums it takes those of two right operands");
    if (!is_half(k.in)) return refuse("of float16 and bfloat16 it takes twins, not of {}", dtype_name(k.in));
    for (const Operand* o : {&k.b, &*k.twin})
      if (order_of(k, *o, s.syms) != OperandOrder::along_k) return refuse("twins have k as the contiguous index");
    if (const Fit b = takes_mapped_operand(k, *k.twin, "b of the twin", s.syms); !b) return b;
    return emit::cuda::finished_in_place(k.segments[0].epilogue) ? Fit::yes()
                                                                 : refuse("the epilogue of the twins is not one store of 16 bits");
  }
  using FormOf::takes_runs;
  /// The table of runs lies beside the tile's memory; blocks that share k have one tile each.
  static bool takes_runs(const WgmmaTile& t) { return t.split == 1 && t.smem_bytes() + 8 * (kMostRunsInTable + 1) <= shared_of(1); }
  /// Whether the right operand is a weight in two parts.
  bool stored() const { return products_ > 1 && !apart_; }
  WgmmaTile::Apart taken_apart(const MatmulKernel& k, const SymTable& syms) const {
    if (!apart_) return WgmmaTile::Apart::no;
    return order_of(k, k.b, syms) == OperandOrder::across_k ? WgmmaTile::Apart::across_k : WgmmaTile::Apart::along_k;
  }
  WgmmaTile tile_of(const Choice& c) const {
    WgmmaTile t = unpack<WgmmaChoice>(c);
    t.products = products_;
    return t;
  }
  WgmmaTile tile_of(const MatmulKernel& k, const Site& s, const Choice& c) const {
    WgmmaTile t = tile_of(c);
    t.apart = taken_apart(k, s.syms);
    t.twin = k.twin.has_value();
    return t;
  }
  WgmmaWork work_of(const MatmulKernel& k, const Site& s) const {
    const ProductSizes z = sizes_of(k, s.syms);
    WgmmaWork w{k.in,
                z.m,
                z.k,
                z.batch,
                {},
                order_of(k, k.a, s.syms) == OperandOrder::across_k,
                products_ == 1 && order_of(k, k.b, s.syms) == OperandOrder::across_k,
                k.b_constant};
    w.products = products_;
    w.turned = is_half(k.in);
    w.twin = k.twin.has_value();
    w.apart = taken_apart(k, s.syms);
    add_segments(w, k, s);
    return w;
  }
  const std::string_view name_;
  const int products_;
  const bool apart_;
};

}  // namespace

const Form& wgmma() {
  static const Wgmma form("cuda_wgmma", 1, false);
  return form;
}
const Form& wgmma_parts() {
  static const Wgmma form("cuda_wgmma_parts", 3, false);
  return form;
}
const Form& wgmma_apart() {
  static const Wgmma form("cuda_wgmma_apart", 3, true);
  return form;
}

}  // namespace aotc::forms::cuda
