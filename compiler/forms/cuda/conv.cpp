// Convolutions (kernels/cuda/conv.cuh) as implicit products of each group: on tensor cores for float32 (three tf32 products or one),
// float16 and bfloat16; on the ordinary units for every type; or a thread an output, for groups of few channels.
#include <algorithm>
#include <cmath>

#include "emit/cuda/code.h"
#include "emit/cuda/contraction.h"
#include "emit/cuda/matmul.h"
#include "forms/cuda/conv.h"
#include "forms/cuda/forms.h"

namespace aotc::forms::cuda {

using emit::cuda::MatmulTile;
using loop::ConvKernel;

namespace {

double find_of(const ConvKernel& k, const Site& s) {
  return k.channels_last ? gpu_costs(s.machine).conv_find_apart : gpu_costs(s.machine).conv_find;
}

struct ConvTile : MatmulTile {
  ConvTile() = default;
  explicit ConvTile(const MatmulTile& t) : MatmulTile(t) {}
  static std::span<const Member<ConvTile>> members() {
    static const Member<ConvTile> kRows[] = {
        {{"block_m", 16, 256, 16}, &ConvTile::block_m},
        {{"block_n", 16, 256, 16}, &ConvTile::block_n},
        {{"block_k", 16, 256, 16}, &ConvTile::block_k},
        {{"warp_m", 16, 128, 16}, &ConvTile::warp_m},
        {{"warp_n", 16, 128, 16}, &ConvTile::warp_n},
        {{"stages", 2, 2}, &ConvTile::stages},
        {{"split", 1, 8}, &ConvTile::split},
        {{"resident", 1, 8}, &ConvTile::resident},
    };
    return kRows;
  }
};

/// Of the product of one group.
struct Sizes {
  int64_t m, n, k, groups;
};
Sizes sizes_of(const ConvKernel& k, const Site& s) {
  int64_t taps = 1;
  for (int64_t n : k.kernel) taps *= n;
  Expr columns = k.out_dims[0];
  for (size_t d = 2; d < k.out_dims.size(); ++d) columns *= k.out_dims[d];
  const int64_t groups = std::max<int64_t>(1, k.groups);
  return {std::max<int64_t>(1, at_least_one(k.out_dims[1], s) / groups), at_least_one(columns, s),
          std::max<int64_t>(1, at_least_one(k.x_dims[1], s) / groups * taps), groups};
}
Expr columns_of(const ConvKernel& k) {
  Expr columns = k.out_dims[0];
  for (size_t d = 2; d < k.out_dims.size(); ++d) columns *= k.out_dims[d];
  return columns;
}

class ConvForm : public FormOf<ConvKernel> {
 protected:
  std::string contract(const ConvKernel& k, const Site& s) const override { return conv_contract(k, s); }
  StepSpec product_step(const ConvKernel& k, int block_m, int block_n, int split, int threads) const {
    StepSpec f = cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name));
    f.block[0] = threads;
    f.grid[0] = ceildiv(floordiv(k.out_dims[1], std::max<int64_t>(1, k.groups)), block_m) * ceildiv(columns_of(k), block_n) * split;
    f.grid[1] = min(k.groups, kMaxGridZ);
    return f;
  }
};

class Mma final : public ConvForm {
 public:
  std::string_view name() const override { return "cuda_conv_mma"; }
  std::span<const Field> fields() const override { return fields_of<ConvTile>(); }

 protected:
  Fit fits(const ConvKernel& k, const Site& s) const override {
    if (!emit::cuda::has_matmul(k.in)) return refuse("tensor cores take float32, float16 and bfloat16, not {}", dtype_name(k.in));
    if (!s.machine.has(Feature::tensor_cores)) return refuse("sm_80 or newer has its instructions");
    return Fit::yes();
  }
  std::vector<Candidate> candidates(const ConvKernel& k, const Site& s) const override {
    static constexpr MatmulTile kWide[] = {
        {64, 64, 32, 32, 32, 1, 2, 1, 2}, {128, 64, 16, 64, 32, 1, 2, 1, 2}, {32, 64, 32, 32, 16, 1, 2, 1, 2}};
    static constexpr MatmulTile kNarrow[] = {{128, 128, 32, 64, 32, 1, 2, 1, 1},
                                             {64, 128, 64, 32, 64, 1, 2, 1, 1},
                                             {64, 64, 64, 32, 32, 1, 2, 1, 2},
                                             {32, 64, 64, 32, 16, 1, 2, 1, 2}};
    const Sizes z = sizes_of(k, s);
    std::vector<Candidate> all;
    for (MatmulTile t : dtype_bytes(k.in) == 4 ? std::span<const MatmulTile>(kWide) : std::span<const MatmulTile>(kNarrow))
      for (t.split = 1; t.split <= 8; t.split *= 2) {
        if (t.split > 1 && (z.k < 2 * t.block_k * t.split || blocks_of(z, t) > 2 * s.machine.cores)) break;
        all.push_back(estimate(t, z, k, s));
      }
    return all;
  }
  StepSpec step(const ConvKernel& k, const Site&, const Choice& c) const override {
    const ConvTile t = unpack<ConvTile>(c);
    StepSpec f = product_step(k, t.block_m, t.block_n, t.split, t.threads());
    f.smem_bytes = f.max_smem_bytes = t.smem_bytes(dtype_bytes(k.in));
    return f;
  }
  std::string source(const ConvKernel& k, const Site& s, const Choice& c, const std::string& symbol) const override {
    ConvTile t = unpack<ConvTile>(c);
    t.products = tf32_products(s.numerics);
    return emit::cuda::emit_conv_mma(k, t, symbol);
  }

 private:
  static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
  static int64_t blocks_of(const Sizes& z, const MatmulTile& t) { return ceil_div(z.m, t.block_m) * ceil_div(z.n, t.block_n) * z.groups; }

  Candidate estimate(const MatmulTile& t, const Sizes& z, const ConvKernel& k, const Site& s) const {
    const Machine& m = s.machine;
    const GpuCosts& u = gpu_costs(m);
    Candidate r{pack(*this, ConvTile(t)), Fit::yes(), 0};
    const int bytes = t.smem_bytes(dtype_bytes(k.in));
    if (bytes > m.shared_bytes) r.fit = refuse("{} bytes of shared memory, {} is the most", bytes, m.shared_bytes);
    const double resident =
        std::min(static_cast<double>(t.resident), std::max(1.0, static_cast<double>(blocks_of(z, t) * t.split) / m.cores));
    const double waves = std::ceil(static_cast<double>(blocks_of(z, t) * t.split) / (m.cores * resident));
    const double steps = static_cast<double>(ceil_div(ceil_div(z.k, t.block_k), t.split));
    const double macs = static_cast<double>(t.block_m) * t.block_n * t.block_k /
                        (dtype_bytes(k.in) == 2           ? u.conv_f16_macs
                         : tf32_products(s.numerics) == 1 ? u.conv_tf32_macs
                                                          : u.conv_f32_macs);
    const double finds = u.conv_waits * find_of(k, s) * t.block_n * t.block_k / (u.lanes * u.clock);
    r.cost_ns = u.launch + waves * steps * std::max(u.conv_step, resident * (macs + finds)) + u.conv_end + u.split * t.split;
    return r;
  }
};

class Simt final : public ConvForm {
 public:
  std::string_view name() const override { return "cuda_conv_simt"; }
  std::span<const Field> fields() const override { return fields_of<SimtChoice>(); }
  Fit legal(const Choice& c) const override { return legal_simt(unpack<SimtChoice>(c)); }

 protected:
  Fit fits(const ConvKernel& k, const Site&) const override { return takes_products(k.in); }
  std::vector<Candidate> candidates(const ConvKernel& k, const Site& s) const override {
    const Sizes z = sizes_of(k, s);
    std::vector<Candidate> all;
    for (const SimtChoice& t : simt_tiles())
      all.push_back({pack(*this, t), Fit::yes(), simt_cost(t, z.m, z.n, z.k, z.groups, k.acc, find_of(k, s), s.machine)});
    return all;
  }
  StepSpec step(const ConvKernel& k, const Site&, const Choice& c) const override {
    const SimtChoice t = unpack<SimtChoice>(c);
    return product_step(k, t.block_m, t.block_n, 1, t.threads());
  }
  std::string source(const ConvKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    return emit::cuda::emit_conv_simt(k, unpack<SimtChoice>(c), symbol);
  }
};

class Points final : public ConvForm {
 public:
  std::string_view name() const override { return "cuda_conv_points"; }

 protected:
  Fit fits(const ConvKernel& k, const Site&) const override { return takes_products(k.in); }
  std::vector<Candidate> candidates(const ConvKernel& k, const Site& s) const override {
    const Sizes z = sizes_of(k, s);
    const GpuCosts& u = gpu_costs(s.machine);
    const double outputs = static_cast<double>(z.m * z.groups) * static_cast<double>(z.n),
                 k_ns = static_cast<double>(z.k) * (find_of(k, s) + u.points_mac) / u.clock;
    const double lanes = std::max(1.0, outputs / (s.machine.cores * u.lanes));
    return {{{this, {}}, Fit::yes(), u.launch + lanes * k_ns + u.points_waits * k_ns}};
  }
  StepSpec step(const ConvKernel& k, const Site&, const Choice&) const override {
    StepSpec f = cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name));
    f.block[0] = kThreads;
    f.grid[0] = min(ceildiv(columns_of(k) * k.out_dims[1], kThreads), kMaxGrid);
    return f;
  }
  std::string source(const ConvKernel& k, const Site&, const Choice&, const std::string& symbol) const override {
    return emit::cuda::emit_conv_points(k, kThreads, symbol);
  }

 private:
  static constexpr int kThreads = 256;
};

}  // namespace

std::string conv_contract(const ConvKernel& k, const Site& s) {
  const Sizes z = sizes_of(k, s);
  return sized(fmt::format("cuda conv {}{}{} g{} m{} n{} k{}", dtype_name(k.in), k.transposed ? " transposed" : "",
                           k.channels_last ? " last" : "", z.groups, z.m, z.n, z.k),
               emit::cuda::size_symbols(k), s);
}

const Form& conv_mma() { return instance<Mma>(); }
const Form& conv_simt() { return instance<Simt>(); }
const Form& conv_points() { return instance<Points>(); }

}  // namespace aotc::forms::cuda
