#include "forms/cuda/wgmma_tile.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <numeric>
#include <set>

#include "forms/cuda/product.h"
#include "kernels/cuda/limits.cuh"
#include "loop/cost.h"

namespace aotc::forms::cuda {

using emit::cuda::WgmmaTile;

namespace {

struct Shape {
  int warp_m, cols, groups, ping_pong;
};
constexpr Shape kShapes[] = {
    {128, 128, 2, 1}, {128, 128, 2, 0}, {64, 256, 2, 1}, {64, 256, 2, 0}, {64, 224, 2, 1}, {64, 224, 2, 0},
    {64, 208, 2, 1},  {64, 192, 2, 1},  {64, 192, 2, 0}, {64, 160, 2, 1}, {64, 160, 2, 0}, {64, 128, 2, 1},
    {64, 128, 2, 0},  {64, 96, 2, 1},   {64, 96, 2, 0},  {128, 96, 2, 1}, {128, 64, 2, 1}, {64, 64, 2, 1},
    {64, 64, 2, 0},   {128, 64, 1, 0},  {64, 128, 1, 0}, {64, 96, 1, 0},  {64, 64, 1, 0},  {64, 32, 1, 0},
};
constexpr int kSwapCols[] = {8, 16, 32, 64, 128};
// Those whose left operand are the weights, for any number of rows, which are cut into equal tiles: cols is the most, least the least.
struct Turned {
  Shape shape;
  int least;
};
constexpr Turned kTurned[] = {{{128, 144, 2, 1}, 64}, {{64, 200, 2, 0}, 128}};
/// Of weights of few bits: the most rows of a tile; warpgroups, and blocks of a processor for small tiles.
constexpr int kSlabCols[] = {256, 224, 192, 160, 128, 96, 64, 32, 16};
struct SlabGroups {
  int most, groups, resident;
};
constexpr SlabGroups kSlabGroups[] = {{256, 2, 1}, {128, 1, 2}, {64, 1, 3}};

constexpr int sums_of_thread(const WgmmaTile& t) { return t.warp_m / 64 * t.cols / 2; }

/// A tile with as many stages as there is room for; small ones leave room for a second block.
WgmmaTile with_stages(WgmmaTile t, const GpuCosts& u) {
  t.resident = t.groups > 1 ? 1 : std::max(2, t.resident);
  const int64_t most = shared_of(t.resident);
  t.stages = 8;
  while (t.stages > 2 && t.smem_bytes() > most) --t.stages;
  // Warpgroups that finish a tile together read its operands then: they find them in the first cache where the ring leaves it room.
  const bool together = t.groups > 1 && !t.ping_pong && t.split == 1 && !t.swap;
  while (together && t.stages > 4 && t.stages * t.stage_bytes() > u.wg_ring_together) --t.stages;
  return t;
}

}  // namespace

std::span<const Member<WgmmaChoice>> WgmmaChoice::members() {
  static const std::vector<Member<WgmmaChoice>> rows = {
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

Fit legal_wgmma(const WgmmaTile& t) {
  const int share = t.pieces() / t.split;
  if (t.pieces() % t.split || (t.split & (t.split - 1))) return refuse("split: {} parts of {} pieces", t.split, t.pieces());
  if (!t.swap && (share > 4 ? share % (t.split > 1 ? 4 : 2) != 0 : (share & (share - 1)) != 0))
    return refuse("cols: a share of {} pieces of 8 columns", share);
  if (!t.swap && (t.cols > 32 ? t.cols % 16 != 0 : (t.cols / 8 & (t.cols / 8 - 1)) != 0))
    return refuse("cols: {} are no multiple of 16", t.cols);
  if (t.ping_pong && (t.groups != 2 || t.split > 1)) return refuse("ping_pong: two warpgroups that have k for themselves");
  if (t.products > 1 && (t.warp_m > 64 || t.swap)) return refuse("warp_m: 64 lines of a warpgroup are taken apart");
  if (t.left_bits && (t.warp_m > 64 || !t.swap)) return refuse("swap: weights of few bits are left operands of 64 lines");
  if (t.left_bits && t.ping_pong) return refuse("ping_pong: warpgroups make weights of few bits beside each other's products");
  if (t.apart != WgmmaTile::Apart::no && t.groups == 1) return refuse("groups: the warps beside two of them take operands apart");
  if (sums_of_thread(t) > (t.swap && t.groups > 1 ? 144 : 128))
    return refuse("{} x {} sums are too many for the registers", t.warp_m, t.cols);
  if (t.sums_bytes() > t.stages * t.stage_bytes())
    return refuse("split: the sums are {} bytes, the ring has {}", t.sums_bytes(), t.stages * t.stage_bytes());
  if (t.smem_bytes() > shared_of(1)) return refuse("{} bytes of shared memory, {} is the most", t.smem_bytes(), shared_of(1));
  return Fit::yes();
}

int64_t WgmmaWork::tiles(const WgmmaTile& t) const {
  int64_t n = 0;
  for (int64_t c : columns) n += ceil_div(c, t.n_tile());
  return n * ceil_div(m, t.m_tile()) * batch;
}

int64_t wgmma_resident(const WgmmaTile& t) { return std::max<int64_t>(1, std::min<int64_t>(t.resident, blocks_with(t.smem_bytes()))); }

StepSpec wgmma_step(StepSpec step, const Expr& tiles, const WgmmaTile& t, const Machine& m) {
  step.block[0] = t.threads();
  step.grid[0] = t.split > 1 ? tiles * t.split : min(tiles, int64_t{m.cores} * wgmma_resident(t));
  step.smem_bytes = step.max_smem_bytes = t.smem_bytes();
  return step;
}

std::vector<WgmmaTile> wgmma_tiles(const WgmmaWork& w, const Machine& m) {
  std::vector<WgmmaTile> all;
  auto add = [&](WgmmaTile t, int most_split = 8) {
    t.products = w.products, t.apart = w.apart, t.left_bits = w.left_bits, t.twin = w.twin;
    if (t.twin && (t.swap || t.cols % 32)) return;
    if (w.products > 1 && sums_of_thread(t) > kWgmmaTwoSets) return;
    if (is_float8(w.in) && (t.ping_pong || sums_of_thread(t) > kWgmmaOneSet / (t.groups > 1 ? 1 : 2))) return;
    if ((t.swap ? w.a_across_k : w.b_across_k) && t.cols % 64) return;
    for (t.split = 1; t.split <= (t.twin ? 1 : most_split); t.split *= 2) {
      const WgmmaTile whole = with_stages(t, gpu_costs(m));
      if (t.split > 1 && (t.ping_pong || w.k < 2 * w.deep() * t.split || w.tiles(t) * t.split > 4 * m.cores)) break;
      if (legal_wgmma(whole)) all.push_back(whole);
    }
  };
  if (w.left_bits) {
    std::set<int64_t> seen;
    for (int most : kSlabCols) {
      const int64_t tiles = ceil_div(w.m, most), equal = ceil_div(ceil_div(w.m, tiles), 8) * 8;
      for (int64_t cols :
           {tiles > gpu_costs(m).wg_equal_tiles ? int64_t{most} : equal, int64_t{most}})  // the second: blocks share k, of powers of two
        if ((cols == equal || cols < 2 * w.m) && seen.insert(cols).second)
          for (const SlabGroups& x : kSlabGroups)
            if (cols <= x.most) add({64, static_cast<int>(cols), x.groups, 0, 4, 1, 1, x.resident});
    }
    return all;
  }
  for (const Shape& x : kShapes) add({x.warp_m, x.cols, x.groups, x.ping_pong});
  for (const auto& [x, least] : kTurned)
    for (int cols = x.cols; cols >= least && w.turned; cols -= 8) {
      const int64_t tiles = ceil_div(w.m, cols);
      if (tiles > 1 && tiles <= gpu_costs(m).wg_equal_tiles && ceil_div(ceil_div(w.m, tiles), 8) * 8 == cols)
        add({x.warp_m, cols, x.groups, x.ping_pong, 4, 1, 1}, 1);
    }
  for (int cols : kSwapCols)
    if (w.m <= 64 && cols < std::max<int64_t>(2 * w.m + 8, 17))  // blocks share k from 16 on
      for (int groups : {1, 2}) add({64, cols, groups, 0, 4, 1, 1});
  return all;
}

double wgmma_finish(const loop::LoopKernel& epilogue, const Machine& m) {
  const GpuCosts& u = gpu_costs(m);
  double cost = 1;
  for (const loop::Inst& i : epilogue.insts) {
    if (i.kind == loop::InstKind::op) cost += u.wg_finish_op * (i.op == Op::cast ? 1 : loop::op_cost(i.op, i.dtype));
    if (i.kind != loop::InstKind::load || !loop::takes_argument(epilogue.params[i.param].role)) continue;
    const auto symbols = epilogue.syms.simplify(i.index).symbols();
    const auto runs_along = [&](SymId s) { return std::find(symbols.begin(), symbols.end(), s) != symbols.end(); };
    if (!epilogue.outer.empty() && !epilogue.inner.empty() && runs_along(epilogue.outer.back().sym) && runs_along(epilogue.inner[0].sym))
      cost += u.wg_finish_operand;
  }
  return cost;
}

void add_segments(WgmmaWork& w, const loop::MatmulKernel& k, const Site& s) {
  for (const loop::Segment& x : k.segments) {
    w.columns.push_back(std::max<int64_t>(1, s.syms.hint(x.n_end - x.n_begin)));
    w.finish = std::max(w.finish, wgmma_finish(x.epilogue, s.machine));
  }
}

/// Fitted to timings of 27 to 42 tiles at each of 146 products on an H200, clusters of 8 and 160 columns to 593 of 36 more, then what
/// warpgroups share, what L2 gives, epilogues and sums handed on to 129 of 21 (tests/gpu/notes/products.md).
double wgmma_cost_ns(const WgmmaTile& t, const WgmmaWork& w, const Machine& m) {
  const GpuCosts& u = gpu_costs(m);
  const double in_clusters[] = {1, 1, u.wg_clusters4, u.wg_clusters8};  // by log2 of the blocks
  const double split = t.split, sums = static_cast<double>(t.rows()) * t.cols;
  const double blocks = static_cast<double>(w.tiles(t)) * split;
  const double cores = m.cores * in_clusters[static_cast<int>(std::log2(split))], resident = static_cast<double>(wgmma_resident(t));
  const double steps = static_cast<double>(ceil_div(ceil_div(w.k, w.deep()), t.split));
  const double turns = std::ceil(blocks / cores),
               rounds = std::ceil(blocks / (cores * resident));  // tiles of a processor, and one after another
  const double beside = cuda::beside(blocks, resident, cores);
  const double together = t.groups > 1 && !t.ping_pong ? 1 + u.wg_together / t.cols : 1;
  // Copies write a stage, and every instruction reads its 64 lines and all columns; of few bits, lines are read once.
  const double lines = t.left_bits ? 32 : w.products > 1 && w.a_across_k ? 64 * u.wg_conflict : 64;
  const double shared = t.stage_bytes() + t.warp_m / 64 * (lines + t.cols) * 128 * (t.ping_pong ? 1 : t.groups);
  const double products = dtype_bytes(w.in) == 4 ? u.wg_products / 2 / w.products
                          : is_float8(w.in)      ? u.wg_of_bytes * u.wg_products
                                                 : u.wg_products;
  double stage = std::max(together * sums * w.deep() / products, shared / u.wg_shared);
  double waits = std::max(u.wg_stage, u.wg_stages / t.stages);
  if (t.left_bits) {
    const double convert = t.rows() * w.deep() * (w.left_floats ? u.wg_convert_floats : t.left_bits == 4 ? u.wg_convert4 : u.wg_convert8);
    stage = std::max(stage, convert) + u.wg_convert_shown * std::min(stage, convert);
    if (t.groups == 1) waits = std::max(waits, u.wg_convert_chain);
  }
  const double ahead = is_float8(w.in) && sums_of_thread(t) > kWgmmaTwoSets ? u.wg_not_ahead : 1;
  if (w.products > 1) {
    const double alone =
        std::max(t.ping_pong ? stage : stage / t.groups, u.wg_chain) + u.wg_aside;  // of a warpgroup that nothing multiplies beside
    stage = t.ping_pong ? alone : t.groups > 1 ? std::max(stage, alone) : std::max(stage, u.wg_beside_parts);
    waits = std::max({waits, alone, u.wg_stages / std::max(1, t.stages - 2)});
  }
  // The warps that take a stage's right operand apart work beside those that multiply.
  if (w.apart != WgmmaTile::Apart::no) stage = std::max(stage, u.wg_apart * t.cols), waits = std::max(waits, u.wg_apart * t.cols);
  const double one = sums / split / (t.twin ? 2 : 1) * u.wg_finish * w.finish;
  double multiply = ahead * steps * std::max(stage * turns, waits * rounds), finish = turns * one / t.groups / beside;
  if (t.ping_pong) {
    const double first = steps * std::max(stage, waits);
    multiply = first + (turns - 1) * std::max(first + u.wg_shown * one, (steps * stage + one) / 2);
    finish = one;
  }
  const double copy = blocks * steps * t.stage_bytes() / (u.wg_l2_bytes * m.cores / u.wg_l2_processors);
  const double share = t.split > 1 ? u.wg_share * std::min(blocks, cores * resident) + u.wg_push * sums * (1 - 1 / split) * rounds : 0;
  // Weights come from memory, by a fit to 12 products of 33 to 117 MB (tests/gpu/notes/language_models.md).
  const int64_t n = std::accumulate(w.columns.begin(), w.columns.end(), int64_t{0});
  const double weights = w.b_constant
                             ? static_cast<double>(w.batch * n * w.k) * (t.twin ? 2 : 1) *
                                   (w.left_bits ? static_cast<double>(w.left_bits) / CHAR_BIT : static_cast<double>(dtype_bytes(w.in)))
                             : 0;
  const double memory = weights / (static_cast<double>(m.bytes_per_ns) * u.wg_memory);
  const double computed = std::pow(std::pow(multiply, u.wg_both) + std::pow(copy, u.wg_both), 1 / u.wg_both);
  const double streamed = std::pow(std::pow(computed, u.wg_hidden) + std::pow(memory, u.wg_hidden), 1 / u.wg_hidden);
  const bool alone = w.m <= 64 && w.b_constant && t.smem_bytes() > shared_of(2);
  const double empty = 1 - std::min(1.0, static_cast<double>(w.m) / t.m_tile());
  return (u.wg_start + u.wg_round * rounds + streamed + finish + share) * (1 + u.wg_empty * empty) *
             (t.cols == 160 && !t.left_bits ? u.wg_of_160 : 1) +
         (alone ? u.wg_alone : 0);
}

}  // namespace aotc::forms::cuda
