// Matrix products of few rows (kernels/cuda/vector.cuh): every type, on every machine, where k is contiguous in both operands: those of
// decoding, which take as long as their weights take to come.
#include <cmath>

#include "emit/cuda/code.h"
#include "emit/cuda/contraction.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/hopper.h"
#include "forms/cuda/product.h"
#include "forms/cuda/simt_tile.h"

namespace aotc::forms::cuda {

using emit::cuda::VectorTile;
using loop::MatmulKernel;
using loop::Operand;

namespace {

constexpr int64_t kMostRows = 8;

/// The rows are the kernel's.
struct Tile {
  int warps = 4, deep = 8;
  static std::span<const Member<Tile>> members() {
    static constexpr Member<Tile> kRows[] = {{{"warps", 1, 16}, &Tile::warps}, {{"deep", 1, 16}, &Tile::deep}};
    return kRows;
  }
};
int64_t most_rows(const MatmulKernel& k, const SymTable& syms) { return syms.interval(k.m).max; }
VectorTile tile_of(const Tile& t, const MatmulKernel& k, const SymTable& syms) {
  return {t.warps, static_cast<int>(most_rows(k, syms)), t.deep};
}

Fit takes_operand(const MatmulKernel& k, const Operand& o, const char* name, const SymTable& syms) {
  const bool is_a = &o == &k.a;
  const Expr &along = is_a ? o.col_stride : o.row_stride, &lines = is_a ? o.row_stride : o.col_stride;
  if (!along.is(1)) return refuse("operand {}: k must be the contiguous index", name);
  const bool one = is_a && k.m.is(1);
  if ((!one && !takes_stride(lines, k.in, syms)) || !takes_offset(o.base, k.in, syms))
    return refuse("operand {}: rows must be a multiple of 16 bytes apart", name);
  for (const Expr& stride : o.batch_strides)
    if (!takes_offset(stride, k.in, syms)) return refuse("operand {}: matrices must be a multiple of 16 bytes apart", name);
  return Fit::yes();
}

class Vector final : public FormOf<MatmulKernel> {
 public:
  std::string_view name() const override { return "cuda_vector"; }
  std::span<const Field> fields() const override { return fields_of<Tile>(); }

 protected:
  Fit fits(const MatmulKernel& k, const Site& s) const override {
    if (const Fit t = takes_products(k.in); !t) return t;
    if (k.a.prologue || k.b.prologue) return refuse("it takes operands from memory only");
    if (most_rows(k, s.syms) > kMostRows || s.syms.interval(k.m).min < 1) return refuse("1 to {} rows", kMostRows);
    if (const Fit a = takes_operand(k, k.a, "a", s.syms); !a) return a;
    return takes_operand(k, k.b, "b", s.syms);
  }

  std::vector<Candidate> candidates(const MatmulKernel& k, const Site& s) const override {
    std::vector<Candidate> all;
    for (int warps : {4, 8, 2})
      for (int deep : {8, 4, 2}) {
        const Tile t{warps, deep};
        all.push_back({pack(*this, t), Fit::yes(), cost_ns(t, k, s)});
      }
    return all;
  }
  std::string contract(const MatmulKernel& k, const Site& s) const override { return product_contract(k, s); }

  StepSpec step(const MatmulKernel& k, const Site&, const Choice& c) const override {
    const Tile t = unpack<Tile>(c);
    StepSpec f = cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name));
    f.block[0] = t.warps * 32;
    Expr columns = 0;
    for (const loop::Segment& seg : k.segments) columns += ceildiv(seg.n_end - seg.n_begin, t.warps);
    f.grid[0] = max(1, columns);
    f.grid[2] = max(1, min(product(k.batch), kMaxGridZ));
    return f;
  }
  std::string source(const MatmulKernel& k, const Site& s, const Choice& c, const std::string& symbol) const override {
    return emit::cuda::emit_vector_matmul(k, tile_of(unpack<Tile>(c), k, s.syms), symbol);
  }

 private:
  /// Weights that come at the memory's pace where enough of them are under way, and the instructions of their products.
  static double cost_ns(const Tile& t, const MatmulKernel& k, const Site& s) {
    constexpr double kStart = 900, kUnderWay = 32 << 10;  // ns of a step that overlaps the one before; bytes of a processor
    constexpr double kChunk = 14, kRow = 18;              // instructions of 16 bytes, and of each row's products with them
    const ProductSizes z = sizes_of(k, s.syms);
    const double bytes = static_cast<double>(z.batch * z.n * z.k * dtype_bytes(k.in)), warps = static_cast<double>(z.batch * z.n);
    const double chunks = std::ceil(static_cast<double>(z.k * dtype_bytes(k.in)) / 512), deep = std::min<double>(t.deep, chunks);
    const double beside = std::min(warps / s.machine.cores, 2048.0 / (32 * (2 + deep / 4)));  // warps of a processor
    const double pace = std::min(1.0, beside * deep * 512 / kUnderWay);
    const double wide = dtype_bytes(k.acc) == 8 ? 2 : 1;
    const double instructions = bytes / 512 * (kChunk + kRow * wide * static_cast<double>(most_rows(k, s.syms)));
    const double finish = 0.01 * (t.warps == 4 ? 0 : 1);
    return (kStart + std::max(bytes / (static_cast<double>(s.machine.bytes_per_ns) * pace), instructions / (s.machine.cores * 4 * 1.6))) *
           (1 + finish);
  }
};

}  // namespace

const Form& vector() {
  static const Vector form;
  return form;
}

}  // namespace aotc::forms::cuda
