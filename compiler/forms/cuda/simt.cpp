// Matrix products on the ordinary units (kernels/cuda/simt.cuh): every type, on every machine, operands computed on their way.
#include "emit/cuda/code.h"
#include "emit/cuda/contraction.h"
#include "emit/cuda/matmul.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/product.h"
#include "forms/cuda/simt_tile.h"

namespace aotc::forms::cuda {

using loop::MatmulKernel;

namespace {

class Simt final : public FormOf<MatmulKernel> {
 public:
  std::string_view name() const override { return "cuda_simt"; }
  std::span<const Field> fields() const override { return fields_of<SimtChoice>(); }
  Fit legal(const Choice& c) const override { return legal_simt(unpack<SimtChoice>(c)); }
  Fit takes_prologue(DType t, uint32_t, const Machine& m) const override {
    if (emit::cuda::has_matmul(t) && m.has(Feature::tensor_cores)) return refuse("tensor cores take operands from memory only");
    return Fit::yes();
  }
  Fit takes_few_bits(DType, const Machine&) const override { return Fit::yes(); }
  bool takes_runs() const override { return true; }

 protected:
  Fit fits(const MatmulKernel& k, const Site&) const override {
    if (const Fit points = takes_points(k); !points) return points;
    return takes_products(k.in);
  }
  std::vector<Candidate> candidates(const MatmulKernel& k, const Site& s) const override {
    std::vector<Candidate> all;
    const ProductSizes z = sizes_of(k, s.syms);
    for (const SimtChoice& t : simt_tiles())
      all.push_back({pack(*this, t), Fit::yes(), simt_cost(t, z.m, z.n, z.k, z.batch, k.acc, 0, s.machine)});
    return all;
  }

  std::string contract(const MatmulKernel& k, const Site& s) const override {
    return sized(fmt::format("cuda plain product {} b{} m{} n{} k{}", dtype_name(k.in), s.syms.hint(product(k.batch)), s.syms.hint(k.m),
                             s.syms.hint(k.n), s.syms.hint(k.k)) +
                     (k.runs ? fmt::format(" runs{}", s.syms.hint(k.runs->count)) : ""),
                 emit::cuda::size_symbols(k), s);
  }

  StepSpec step(const MatmulKernel& k, const Site&, const Choice& c) const override {
    const SimtChoice t = unpack<SimtChoice>(c);
    StepSpec f = cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name));
    f.block[0] = t.threads();
    Expr columns = 0;
    for (const loop::Segment& seg : k.segments) columns += ceildiv(seg.n_end - seg.n_begin, t.block_n);
    f.grid[0] = columns * row_blocks(k, t.block_m);
    f.grid[2] = min(product(k.batch), kMaxGridZ);
    return f;
  }

  std::string source(const MatmulKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    return emit::cuda::emit_simt_matmul(k, unpack<SimtChoice>(c), symbol);
  }
};

}  // namespace

const Form& simt() { return instance<Simt>(); }

}  // namespace aotc::forms::cuda
