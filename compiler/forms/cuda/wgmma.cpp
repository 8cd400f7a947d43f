// Matrix products on Hopper's tensor cores (kernels/cuda/wgmma.cuh): float16, bfloat16 and, where the user allows it, float32 as TF32.
// Operands that tensor maps take: one index contiguous, all other strides multiples of 16 bytes.
#include "emit/cuda/wgmma.h"
#include "emit/cuda/code.h"

#include <cmath>
#include <optional>

#include "forms/cuda/forms.h"
#include "forms/cuda/product.h"

namespace aotc::forms::cuda {

using emit::cuda::OperandOrder;
using emit::cuda::WgmmaTile;
using loop::MatmulKernel;
using loop::Operand;

namespace {

constexpr int64_t kSharedBytes = 227 << 10;                                   // the most of one block, and
constexpr int64_t kSharedOfProcessor = 228 << 10, kSharedOfDriver = 1 << 10;  // of all blocks of a processor, with what each takes beside
constexpr int64_t kMapAlign = 16;

struct Tile : WgmmaTile {
  Tile() = default;
  Tile(const WgmmaTile& t) : WgmmaTile(t) {}
  static std::span<const Member<Tile>> members() {
    static const std::vector<Member<Tile>> rows = {
        {{"warp_m", 64, 128, 64}, &WgmmaTile::warp_m},
        {{"cols", 8, 256, 8}, &WgmmaTile::cols},
        {{"groups", 1, 2}, &WgmmaTile::groups},
        {{"ping_pong", 0, 1}, &WgmmaTile::ping_pong},
        {{"stages", 2, 16}, &WgmmaTile::stages},
        {{"split", 1, 8}, &WgmmaTile::split},
        {{"swap", 0, 1}, &WgmmaTile::swap},
        {{"resident", 1, 3}, &WgmmaTile::resident},
    };
    return rows;
  }
};

/// Elements of k of a stage.
int deep(DType t) { return 128 / static_cast<int>(dtype_bytes(t)); }

/// The stride of an operand along k, and that from line to line (a row of a, a column of b).
const Expr& k_stride(const MatmulKernel& k, const Operand& o) { return &o == &k.a ? o.col_stride : o.row_stride; }
const Expr& line_stride(const MatmulKernel& k, const Operand& o) { return &o == &k.a ? o.row_stride : o.col_stride; }

bool takes_stride(const Expr& elements, DType t, const SymTable& syms) {
  return syms.interval(elements).min >= 1 && syms.proves_divisible(elements * static_cast<int64_t>(dtype_bytes(t)), kMapAlign);
}

/// The order in which tensor maps see an operand, if they do.
std::optional<OperandOrder> order_of(const MatmulKernel& k, const Operand& o, const SymTable& syms) {
  if (k_stride(k, o).is(1) && takes_stride(line_stride(k, o), k.in, syms)) return OperandOrder::along_k;
  if (line_stride(k, o).is(1) && takes_stride(k_stride(k, o), k.in, syms)) return OperandOrder::across_k;
  return std::nullopt;
}

Fit takes_operand(const MatmulKernel& k, const Operand& o, const char* name, const SymTable& syms) {
  const auto order = order_of(k, o, syms);
  if (!order) return refuse("operand {}: one index must be contiguous, and rows a multiple of 16 bytes apart", name);
  if (k.in == DType::f32 && *order == OperandOrder::across_k)
    return refuse("operand {}: TF32 products take k as the contiguous index", name);
  if (!syms.proves_divisible(o.base * static_cast<int64_t>(dtype_bytes(k.in)), kMapAlign))
    return refuse("operand {} does not begin at a multiple of 16 bytes", name);
  const size_t n = o.batch_strides.size();
  for (size_t d : emit::cuda::mapped_batch(k, o))
    if (!takes_stride(o.batch_strides[n - k.batch.size() + d], k.in, syms))
      return refuse("operand {}: matrices must be a multiple of 16 bytes apart", name);
  return Fit::yes();
}

TensorMap map_of(const MatmulKernel& k, const Operand& o, OperandOrder order, int lines) {
  const int64_t bytes = static_cast<int64_t>(dtype_bytes(k.in));
  const bool along = order == OperandOrder::along_k;
  const Expr n_lines = &o == &k.a ? k.m : k.n;
  TensorMap m;
  m.arg = static_cast<int>(idx(o.param));
  m.dtype = k.in;
  m.swizzle_bytes = 128;
  m.offset_bytes = o.base * bytes;
  m.dims = along ? Exprs{k.k, n_lines} : Exprs{n_lines, k.k};
  m.stride_bytes = {(along ? line_stride(k, o) : k_stride(k, o)) * bytes};
  m.box = along ? std::vector<int32_t>{deep(k.in), lines} : std::vector<int32_t>{64, deep(k.in)};
  for (size_t d : emit::cuda::mapped_batch(k, o)) {
    m.dims.push_back(k.batch[d]);
    m.stride_bytes.push_back(o.batch_strides[o.batch_strides.size() - k.batch.size() + d] * bytes);
    m.box.push_back(1);
  }
  return m;
}

Expr tiles_of(const MatmulKernel& k, const WgmmaTile& t) {
  Expr columns = 0;
  for (const loop::Segment& s : k.segments) columns += ceildiv(s.n_end - s.n_begin, t.n_tile());
  return columns * ceildiv(k.m, t.m_tile()) * product(k.batch);
}

/// Shapes of tiles worth a look: lines of a warpgroup, columns, warpgroups, whether they take turns.
struct Shape {
  int warp_m, cols, groups, ping_pong;
};
constexpr Shape kShapes[] = {
    {128, 128, 2, 1}, {64, 256, 2, 0}, {64, 192, 2, 1}, {64, 192, 2, 0}, {64, 128, 2, 1}, {64, 128, 2, 0},
    {64, 64, 2, 0},   {128, 64, 1, 0}, {64, 128, 1, 0}, {64, 64, 1, 0},  {64, 32, 1, 0},
};
constexpr int kSwapCols[] = {8, 16, 32, 64, 128};

/// A tile with as many stages as there is room for; small ones leave room for a second block.
WgmmaTile with_stages(WgmmaTile t) {
  const int64_t most = t.groups > 1 ? kSharedBytes : kSharedOfProcessor / 2 - kSharedOfDriver;
  t.stages = 8;
  while (t.stages > 2 && t.smem_bytes() > most) --t.stages;
  t.resident = t.groups > 1 ? 1 : 2;
  return t;
}

class Wgmma final : public FormOf<MatmulKernel> {
 public:
  std::string_view name() const override { return "cuda_wgmma"; }
  std::span<const Field> fields() const override { return fields_of<Tile>(); }
  Fit legal(const Choice& c) const override {
    const Tile t = unpack<Tile>(c);
    const int share = t.pieces() / t.split;
    if (t.pieces() % t.split || (t.split & (t.split - 1))) return refuse("split: {} parts of {} pieces", t.split, t.pieces());
    if (share > 4 ? share % 4 != 0 : (share & (share - 1)) != 0) return refuse("cols: a share of {} pieces of 8 columns", share);
    if (t.cols / 8 > 4 ? t.cols / 8 % 4 != 0 : (t.cols / 8 & (t.cols / 8 - 1)) != 0)
      return refuse("cols: {} are no multiple of 32", t.cols);
    if (t.ping_pong && (t.groups != 2 || t.split > 1)) return refuse("ping_pong: two warpgroups that have k for themselves");
    if (t.warp_m / 64 * t.cols / 2 > 128) return refuse("{} x {} sums are too many for the registers", t.warp_m, t.cols);
    if (t.smem_bytes() > kSharedBytes) return refuse("{} bytes of shared memory, {} is the most", t.smem_bytes(), kSharedBytes);
    return Fit::yes();
  }

 protected:
  Fit fits(const MatmulKernel& k, const Site& s) const override {
    if (!emit::cuda::has_wgmma(k.in)) return refuse("it takes float32, float16 and bfloat16, not {}", dtype_name(k.in));
    if (k.a.prologue || k.b.prologue) return refuse("it takes operands from memory only");
    if (!s.machine.hopper) return refuse("sm_90a has its instructions");
    if (k.in == DType::f32 && s.machine.f32_matmul == F32Matmul::highest)
      return refuse("float32 products keep their accuracy (see --f32-matmul)");
    if (s.syms.interval(k.k).min < 1) return refuse("k may be 0");
    if (const Fit a = takes_operand(k, k.a, "a", s.syms); !a) return a;
    return takes_operand(k, k.b, "b", s.syms);
  }

  std::vector<Candidate> candidates(const MatmulKernel& k, const Site& s) const override {
    const ProductSizes z = sizes_of(k, s.syms);
    std::vector<Candidate> all;
    auto add = [&](WgmmaTile t) {
      const bool swap = t.swap != 0;
      if (order_of(k, swap ? k.a : k.b, s.syms) == OperandOrder::across_k && t.cols % 64) return;
      for (t.split = 1; t.split <= 8; t.split *= 2) {
        const WgmmaTile whole = with_stages(t);
        const Choice c = pack(*this, Tile(whole));
        if (t.split > 1 && (t.ping_pong || z.k < 2 * deep(k.in) * t.split || tiles(z, k, s, t) * t.split > 4 * s.machine.cores)) break;
        if (check(c)) all.push_back({c, Fit::yes(), estimate(whole, z, k, s)});
      }
    };
    for (const Shape& x : kShapes) add({x.warp_m, x.cols, x.groups, x.ping_pong});
    for (int cols : kSwapCols)
      if (z.m <= 64 && cols < 2 * z.m + 8)
        for (int groups : {1, 2}) add({64, cols, groups, 0, 4, 1, 1});
    return all;
  }

  std::string contract(const MatmulKernel& k, const Site& s) const override { return product_contract(k, s); }

  StepSpec step(const MatmulKernel& k, const Site& s, const Choice& c) const override {
    const Tile t = unpack<Tile>(c);
    StepSpec f = cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name));
    f.block[0] = t.threads();
    const Expr tiles = tiles_of(k, t);
    f.grid[0] = t.split > 1 ? tiles * t.split : min(tiles, int64_t{s.machine.cores} * blocks_of_processor(t));
    f.max_smem_bytes = t.smem_bytes();
    f.smem_bytes = f.max_smem_bytes;
    f.overlaps = true;
    const TensorMap a = map_of(k, k.a, *order_of(k, k.a, s.syms), t.swap ? t.cols : t.rows());
    const TensorMap b = map_of(k, k.b, *order_of(k, k.b, s.syms), t.swap ? t.rows() : t.cols);
    f.maps = t.swap ? std::vector{b, a} : std::vector{a, b};
    return f;
  }

  std::string source(const MatmulKernel& k, const Site& s, const Choice& c, const std::string& symbol) const override {
    return emit::cuda::emit_wgmma(k, unpack<Tile>(c), *order_of(k, k.a, s.syms), *order_of(k, k.b, s.syms), symbol);
  }

 private:
  static int64_t blocks_of_processor(const WgmmaTile& t) {
    return std::max<int64_t>(1, std::min<int64_t>(t.resident, kSharedOfProcessor / (t.smem_bytes() + kSharedOfDriver)));
  }
  static int64_t tiles(const ProductSizes& z, const MatmulKernel& k, const Site& s, const WgmmaTile& t) {
    int64_t columns = 0;
    for (const loop::Segment& x : k.segments) columns += ceil_div(std::max<int64_t>(1, s.syms.hint(x.n_end - x.n_begin)), t.n_tile());
    return columns * ceil_div(z.m, t.m_tile()) * z.batch;
  }

  /// Fitted to 340 timings on an H200 (tests/gpu/README.md): 12 % off in the median, and what it prefers is 4 % slower than the best.
  static double estimate(const WgmmaTile& t, const ProductSizes& z, const MatmulKernel& k, const Site& s) {
    constexpr double kStart = 730, kTile = 120;           // ns of a step that overlaps the one before; of each tile of a processor
    constexpr double kProducts = 3300, kStage = 127;      // multiply-adds of 16 bits a ns of a processor; the least ns of a stage
    constexpr double kTogether = 1.15;                    // warpgroups that share a tile wait for each other
    constexpr double kFromL2 = 11200, kFinish = 0.096;    // bytes a ns of all processors; ns of a sum in the epilogue of one warpgroup
    constexpr double kShown = 0.035;                      // of an epilogue that another warpgroup multiplies under
    constexpr double kSplit = 180, kPush = 0.4;           // ns of a doubling of the blocks that share k; of a sum that is sent
    constexpr double kInClusters[] = {1, 1, 0.91, 0.85};  // processors that clusters of 1, 2, 4, 8 blocks reach
    constexpr double kAlone = 600;                        // ns of few rows whose next step finds no room to fetch its weights
    const double split = t.split, sums = static_cast<double>(t.rows()) * t.cols;
    const double blocks = static_cast<double>(tiles(z, k, s, t)) * split;
    const double cores = s.machine.cores * kInClusters[static_cast<int>(std::log2(split))];
    const double steps = static_cast<double>(ceil_div(ceil_div(z.k, deep(k.in)), t.split));
    const double turns = std::ceil(blocks / cores);  // tiles of a processor; `beside` of them at a time
    const double beside = std::min(static_cast<double>(blocks_of_processor(t)), std::max(1.0, blocks / cores));
    const double together = t.groups > 1 && !t.ping_pong ? kTogether : 1;
    const double stage = together * sums * deep(k.in) / (k.in == DType::f32 ? kProducts / 2 : kProducts);
    const double multiply = steps * std::max(stage * turns, kStage * std::ceil(turns / beside));
    const double copy = blocks * steps * t.stage_bytes() / (kFromL2 * s.machine.cores / 132);
    const double one = sums / split * kFinish * 2;
    const double finish = t.ping_pong ? one + (turns - 1) * one * kShown : turns * one / t.groups / beside;
    const double share = t.split > 1 ? kSplit * std::log2(split) + kPush * sums * (1 - 1 / split) : 0;
    const bool alone = z.m <= 64 && k.b_constant && t.smem_bytes() > kSharedOfProcessor / 2 - kSharedOfDriver;
    return kStart + kTile * std::ceil(turns / beside) + std::max(multiply, copy) + finish + share + (alone ? kAlone : 0);
  }
};

}  // namespace

const Form& wgmma() {
  static const Wgmma form;
  return form;
}

}  // namespace aotc::forms::cuda
