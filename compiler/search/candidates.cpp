#include "search/candidates.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "aotc/detail/library_abi.h"

namespace aotc::search {

namespace {

constexpr int64_t kL2 = 1 << 20;  ///< bytes of the second-level cache that blocks are sized for
constexpr int64_t kL1 = 32 << 10;
constexpr int64_t kMaxScratch = 6 << 20;   ///< bytes per thread
constexpr double kNsPerCycle = 1.0 / 3.0;  ///< any constant: costs are compared only with each other
constexpr double kCallCycles = 40;         ///< entering and leaving a register tile
constexpr double kEpilogueCycles = 80;     ///< entering an epilogue
constexpr double kPackCycles = 0.6;        ///< an element of A or of an im2col panel
constexpr double kUnitCycles = 150;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t even_up(int64_t x) { return x + (x & 1); }

/// Lanes of the accumulation type in a vector of the target's best instruction set, and multiply-adds a lane does at once.
struct Lanes {
  int64_t width;
  double macs;
  int64_t mr;
};
Lanes lanes_of(DType t, const Target& target) {
  const bool wide = target.isas.empty() || target.isas.back() != Isa::avx2;
  const bool dot = t == DType::bf16 && target.has(Isa::avx512_bf16);
  const int64_t f32 = wide ? 16 : 8;
  return {t == DType::f64 ? f32 / 2 : f32, dot ? 2.0 : 1.0, wide ? 14 : 6};
}

int64_t acc_bytes(DType t) { return t == DType::f64 || t == DType::i64 ? 8 : 4; }

/// k a pass: chunks of about `about`, of equal length.
int balanced_kc(int64_t k, int64_t about) {
  return static_cast<int>(std::max<int64_t>(2, even_up(ceil_div(k, ceil_div(std::max<int64_t>(k, 1), about)))));
}

/// The slowest thread's share of `units` equal units.
double imbalance(int64_t units, int threads) {
  if (units <= 0) return 1;
  const double share = static_cast<double>(ceil_div(units, threads)) / static_cast<double>(units);
  return units < 4 * threads ? share * 1.03 : share;  // few units leave nothing to even out, and the machine may have more threads
}

void order(std::vector<Candidate>& all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.fit.ok != b.fit.ok ? a.fit.ok : a.cost < b.cost; });
}

Candidate gemm_candidate(const GemmContract& c, const Target& target, plan::GemmChoice choice) {
  Candidate r;
  r.choice = choice;
  const int threads = std::max(1, target.threads_hint);
  const Lanes lanes = lanes_of(c.dtype, target);
  const int64_t m_blocks = ceil_div(c.m, choice.mc), n_blocks = ceil_div(c.n, choice.nc) * c.segments,
                units = c.batch * m_blocks * n_blocks;
  const int64_t rows = ceil_div(c.m, m_blocks), kp = std::min<int64_t>(even_up(c.k), choice.kp), ab = acc_bytes(c.dtype);
  aotc_gemm_config cfg{};
  cfg.mc = choice.mc, cfg.nc = choice.nc, cfg.kc = choice.kc, cfg.kp = choice.kp, cfg.b_packed = c.b_constant;
  const int64_t scratch = aotc_gemm_scratch_bytes(&cfg, c.k, ab);
  if (scratch > kMaxScratch) {
    r.fit = refuse("needs {} bytes of scratch a thread, {} is allowed", scratch, kMaxScratch);
    return r;
  }
  const double macs = static_cast<double>(c.m) * static_cast<double>(ceil_div(c.n, lanes.width) * lanes.width * c.segments) *
                      static_cast<double>(c.k) * static_cast<double>(c.batch);
  double cycles = macs / static_cast<double>(lanes.width) / lanes.macs;
  // Register tiles: entry, and the accumulators' way to memory and back.
  const double tiles = static_cast<double>(ceil_div(rows, lanes.mr) * m_blocks * ceil_div(c.n, 2 * lanes.width) * c.segments * c.batch);
  const double passes = static_cast<double>(ceil_div(c.k, choice.kc));
  cycles += tiles * passes * (kCallCycles + 2.0 * static_cast<double>(std::min(rows, lanes.mr)));
  // Copies of A: kept over the blocks of n when B is a weight, else made for each unit.
  const bool packs_a =
      (choice.pack_a && c.m > 4) || !c.a_rows_contiguous || c.dtype == DType::f16 || (c.dtype == DType::bf16 && lanes.macs < 2);
  const bool kept = c.b_constant && c.k <= choice.kp;
  const double a_elems = static_cast<double>(c.m) * static_cast<double>(c.k) * static_cast<double>(c.batch);
  if (packs_a) cycles += kPackCycles * a_elems * static_cast<double>(kept ? std::min<int64_t>(threads, n_blocks) : n_blocks);
  // In place, rows a large power of two apart share cache sets.
  if (!packs_a && rows > 4) cycles *= c.k * ab % 4096 == 0 ? 1.3 : 1.02;
  if (!c.b_constant && !(c.b_rows_contiguous && c.m <= 2 * lanes.mr)) {
    const double b_elems = static_cast<double>(c.n) * static_cast<double>(c.k) * static_cast<double>(c.batch * c.segments);
    cycles += (c.b_rows_contiguous ? 0.15 : kPackCycles) * b_elems * (c.k <= choice.kp ? 1.0 : static_cast<double>(m_blocks));
    if (choice.nc * kp * ab > kL2 / 2) cycles *= 1.06;
  }
  if (rows * kp * ab > kL2 * 3 / 4) cycles *= 1.04;
  if (choice.kc * AOTC_PANEL_N * ab > kL1) cycles *= 1.02;
  cycles += static_cast<double>(units) * kUnitCycles;
  cycles += kEpilogueCycles *
            static_cast<double>(m_blocks * ceil_div(c.n, std::max<int64_t>(AOTC_PANEL_N, 4096 / std::max<int64_t>(rows, 1))) * c.batch);
  // A weight streams once for each block of rows; some of that hides behind the arithmetic.
  if (c.b_constant)
    cycles += static_cast<double>(c.n * c.k * c.segments * c.batch * dtype_bytes(c.dtype)) * static_cast<double>(m_blocks - 1) / 16;
  r.cost = cycles * imbalance(units, threads) * kNsPerCycle;
  return r;
}

}  // namespace

std::vector<Candidate> candidates(const GemmContract& given, const Target& target) {
  GemmContract c = given;  // an empty product is planned as the smallest one
  for (int64_t* x : {&c.batch, &c.m, &c.n, &c.k}) *x = std::max<int64_t>(*x, 1);
  const Lanes lanes = lanes_of(c.dtype, target);
  const int64_t ab = acc_bytes(c.dtype), m = std::max<int64_t>(c.m, 1), k = std::max<int64_t>(c.k, 1);
  std::set<int> mcs;
  for (int64_t tiles : {1, 2, 4, 8, 12, 18, 36}) mcs.insert(static_cast<int>(std::min(m, tiles * lanes.mr)));
  if (m <= 256) mcs.insert(static_cast<int>(m));
  std::vector<Candidate> all;
  for (int mc : mcs)
    for (int nc : {32, 64, 128, 256})
      for (int64_t about : {256, 128, 512})
        for (bool pack_a : {true, false}) {
          plan::GemmChoice g;
          g.mr = static_cast<int>(lanes.mr), g.nv = 2, g.mc = mc, g.nc = nc, g.pack_a = pack_a;
          g.kc = balanced_kc(k, about);
          // Dynamic sizes of k beyond the tuned one still go in pieces of a few thousand.
          const int64_t rows = c.b_constant ? mc + 16 : mc + 16 + nc, room = std::max<int64_t>(kL2 * 2 / (rows * ab), 1024);
          g.kp = static_cast<int>(g.kc *
                                  std::max<int64_t>(1, std::min<int64_t>(std::max<int64_t>(room, 64), std::max<int64_t>(k, 1024)) / g.kc +
                                                           (k <= room && k % g.kc ? 1 : 0)));
          if (about != 256 && balanced_kc(k, 256) == g.kc) continue;
          all.push_back(gemm_candidate(c, target, g));
        }
  order(all);
  return all;
}

namespace {

/// AOTC_CONV_PHASES: the products of all phases have k values of k together, over a pixel of each.
void add_phases(const ConvContract& c, const Target& target, std::vector<Candidate>& all) {
  const Lanes lanes = lanes_of(c.dtype, target);
  const int threads = std::max(1, target.threads_hint);
  const int64_t ab = acc_bytes(c.dtype), cog = c.co / c.groups, k = std::max<int64_t>(c.depth(), 1), sw = c.stride[2];
  int64_t phases = 1, px = c.n, k_unit = c.c / c.groups;
  for (size_t i = 0; i < 3; ++i) {
    phases *= c.stride[i], px *= ceil_div(c.out[i], c.stride[i]);
    k_unit *= ceil_div(c.kernel[i], c.stride[i] / std::gcd(c.stride[i], c.dilation[i]));
  }
  const int64_t reads = std::min<int64_t>(sw, 3);  // phases of width that differ in what they read, for the usual dilation 1
  k_unit *= reads;
  std::set<int> mcs;
  for (int64_t mc : {32, 64, 128, 256, 512}) mcs.insert(static_cast<int>(std::min<int64_t>(mc, ceil_div(cog, 32) * 32)));
  for (int mc : mcs)
    for (int nc : {32, 64, 96, 128, 192}) {
      plan::ConvChoice choice;
      choice.algo = AOTC_CONV_PHASES;
      choice.mc = mc, choice.nc = nc;
      choice.kc = balanced_kc(ceil_div(k, phases), 128);
      const int64_t tile_bytes = (2 * sw * nc + 3 * (nc + 64)) * AOTC_PANEL_N * ab;
      const int64_t room = std::max<int64_t>(choice.kc, std::min(kL2 * 5 / 2, kMaxScratch - tile_bytes) / ((nc + 64) * ab));
      const int64_t rows = k_unit + sw;
      choice.kp = static_cast<int>(choice.kc * std::max<int64_t>(1, rows <= room ? ceil_div(rows, choice.kc) : room / choice.kc));
      Candidate r;
      r.choice = choice;
      aotc_conv_config cfg{};
      cfg.algo = choice.algo, cfg.mc = mc, cfg.nc = nc, cfg.kp = choice.kp, cfg.w_packed = c.w_constant;
      cfg.stride[2] = static_cast<int32_t>(sw);
      const int64_t scratch = aotc_conv_scratch_bytes(&cfg, k, ab);
      if (scratch > kMaxScratch) {
        r.fit = refuse("needs {} bytes of scratch a thread, {} is allowed", scratch, kMaxScratch);
        all.push_back(r);
        continue;
      }
      const int64_t co_blocks = ceil_div(cog, mc), px_blocks = ceil_div(px, nc), row_phases = c.stride[0] * c.stride[1];
      const int64_t units = c.groups * co_blocks * row_phases * px_blocks, co_panels = ceil_div(cog, AOTC_PANEL_N) * c.groups;
      const double lanes_px = static_cast<double>(ceil_div(px, lanes.width) * lanes.width);
      const double lanes_co = static_cast<double>(ceil_div(cog, lanes.width) * lanes.width);
      double cycles = std::min(lanes_px * static_cast<double>(cog), lanes_co * static_cast<double>(px)) *
                      static_cast<double>(k * c.groups) / static_cast<double>(lanes.width) / lanes.macs;
      const double tiles = static_cast<double>(c.groups * ceil_div(cog, lanes.mr) * ceil_div(px, 2 * lanes.width) * phases);
      cycles += tiles * static_cast<double>(ceil_div(ceil_div(k, phases), choice.kc)) * (kCallCycles + 28);
      const int64_t gathers = k_unit + sw > choice.kp                             ? co_panels / c.groups
                              : co_blocks > 1 && px_blocks * row_phases < threads ? threads
                                                                                  : 1;
      cycles += 0.3 * static_cast<double>(px * k_unit * row_phases * c.groups * gathers);
      if (!c.w_constant) cycles += 2.0 * static_cast<double>(cog * k * c.groups * px_blocks);
      cycles += static_cast<double>(cog * k * c.groups * ab * px_blocks) / 16.0 * (mc * k * ab > kL2 / 2 ? 1.0 : 0.2);
      if ((nc * std::min<int64_t>(k_unit, choice.kp) + 2 * sw * nc * AOTC_PANEL_N) * ab > kL2 * 3 / 4) cycles *= 1.05;
      // Copied, interleaved, and the epilogue entered for each piece of an output row.
      cycles += 0.3 * static_cast<double>(c.pixels() * c.co);
      const double pieces = static_cast<double>(c.pixels()) / static_cast<double>(std::min<int64_t>(c.out[2], nc * sw));
      cycles += pieces * static_cast<double>(co_panels) * kEpilogueCycles;
      cycles += static_cast<double>(units) * kUnitCycles;
      r.cost = cycles * imbalance(units, threads) * kNsPerCycle;
      all.push_back(r);
    }
}

}  // namespace

std::vector<Candidate> candidates(const ConvContract& given, const Target& target) {
  ConvContract c = given;
  for (int64_t* x : {&c.n, &c.c, &c.co, &c.out[0], &c.out[1], &c.out[2]}) *x = std::max<int64_t>(*x, 1);
  const Lanes lanes = lanes_of(c.dtype, target);
  const int threads = std::max(1, target.threads_hint);
  const int64_t ab = acc_bytes(c.dtype), cog = c.co / c.groups, k = std::max<int64_t>(c.depth(), 1), px = std::max<int64_t>(c.pixels(), 1);
  std::vector<Candidate> all;
  const bool integers = !is_float(c.dtype);  // the kernel has no other form for them
  if (c.groups > 1 || integers) {
    Candidate direct;
    plan::ConvChoice choice;
    choice.algo = AOTC_CONV_DIRECT;
    choice.mc = 1, choice.nc = 4096, choice.kc = 2;
    // A strip of at least one row of 64 columns.
    const int64_t strip =
        ((c.kernel[1] - 1) * c.dilation[1] + 1 + c.stride[1]) * (63 * c.stride[2] + (c.kernel[2] - 1) * c.dilation[2] + 1 + c.stride[2]) +
        lanes.width * c.stride[1] * c.stride[2];
    choice.kp = static_cast<int>(std::clamp<int64_t>(even_up(strip), 6144, 1 << 17));
    direct.choice = choice;
    direct.cost =
        static_cast<double>(px * c.co * k) / static_cast<double>(lanes.width) * 1.5 * imbalance(c.n * c.co, threads) * kNsPerCycle;
    if (c.transposed) direct.cost *= 16;
    if (cog > 4 && !integers) direct.fit = refuse("{} output channels a group read each input {} times", cog, cog);
    all.push_back(direct);
    if (integers) return all;
  }
  std::set<int> mcs;
  for (int64_t mc : {32, 64, 128, 256, 512}) mcs.insert(static_cast<int>(std::min<int64_t>(mc, ceil_div(cog, 32) * 32)));
  for (int mc : mcs)
    for (int nc : {32, 64, 96, 128, 192, 256}) {
      plan::ConvChoice choice;
      choice.algo = AOTC_CONV_GEMM;
      choice.mc = mc, choice.nc = nc;
      choice.kc = balanced_kc(k, 128);
      const int64_t room = kL2 * 5 / 2 / ((nc + 64) * ab);
      choice.kp = static_cast<int>(choice.kc * std::max<int64_t>(1, k <= room ? ceil_div(k, choice.kc) : room / choice.kc));
      Candidate r;
      r.choice = choice;
      aotc_conv_config cfg{};
      cfg.mc = mc, cfg.nc = nc, cfg.kp = choice.kp, cfg.w_packed = c.w_constant;
      const int64_t scratch = aotc_conv_scratch_bytes(&cfg, k, ab);
      if (scratch > kMaxScratch) {
        r.fit = refuse("needs {} bytes of scratch a thread, {} is allowed", scratch, kMaxScratch);
        all.push_back(r);
        continue;
      }
      const int64_t co_blocks = ceil_div(cog, mc), px_blocks = ceil_div(px, nc), units = c.groups * co_blocks * px_blocks;
      const double lanes_px = static_cast<double>(ceil_div(px, lanes.width) * lanes.width);
      const double lanes_co = static_cast<double>(ceil_div(cog, lanes.width) * lanes.width);
      const double macs =
          std::min(lanes_px * static_cast<double>(cog), lanes_co * static_cast<double>(px)) * static_cast<double>(k * c.groups);
      double cycles = macs / static_cast<double>(lanes.width) / lanes.macs;
      const double tiles = static_cast<double>(c.groups * ceil_div(cog, lanes.mr) * ceil_div(px, 2 * lanes.width));
      cycles += tiles * static_cast<double>(ceil_div(k, choice.kc)) * (kCallCycles + 28);
      // Gathered once a run of channel blocks of one thread, when all of k is kept.
      const bool kept = k <= choice.kp;
      const double gathers =
          kept ? 1.0 + static_cast<double>(co_blocks > 1 && px_blocks < threads ? threads - 1 : 0) : static_cast<double>(co_blocks);
      cycles += 0.3 * static_cast<double>(px * k * c.groups) * gathers;
      if (!c.w_constant) cycles += 2.0 * static_cast<double>(cog * k * c.groups) * static_cast<double>(px_blocks);
      // Weights stream once a pixel block.
      cycles += static_cast<double>(cog * k * c.groups * ab) * static_cast<double>(px_blocks) / 16.0 * (mc * k * ab > kL2 / 2 ? 1.0 : 0.2);
      if ((nc * std::min<int64_t>(k, choice.kp)) * ab > kL2 * 3 / 4) cycles *= 1.05;
      cycles += static_cast<double>(units) * kUnitCycles;
      cycles += kEpilogueCycles * static_cast<double>(c.groups) * static_cast<double>(ceil_div(px * cog, 8192) + co_blocks * px_blocks);
      r.cost = cycles * imbalance(units, threads) * kNsPerCycle;
      all.push_back(r);
    }
  if (c.transposed) add_phases(c, target, all);
  order(all);
  return all;
}

std::vector<Candidate> candidates(const AttnContract& given, const Target& target) {
  AttnContract c = given;
  for (int64_t* x : {&c.batch, &c.heads, &c.kv_heads, &c.q_len, &c.kv_len, &c.e, &c.ev}) *x = std::max<int64_t>(*x, 1);
  const Lanes lanes = lanes_of(c.dtype, target);
  const int threads = std::max(1, target.threads_hint);
  const int64_t ab = acc_bytes(c.dtype), rows = std::max<int64_t>(1, c.heads / std::max<int64_t>(1, c.kv_heads) * c.q_len);
  std::set<int> q_blocks;
  for (int64_t tiles : {1, 2, 4, 5, 8, 10}) q_blocks.insert(static_cast<int>(std::min<int64_t>(rows, tiles * lanes.mr)));
  std::vector<Candidate> all;
  for (int qb : q_blocks)
    for (int kvb : {64, 128, 256, 512}) {
      if (kvb > 64 && kvb / 2 >= c.kv_len) continue;
      Candidate r;
      r.choice = plan::AttnChoice{qb, kvb};
      aotc_attn_config cfg{};
      cfg.q_block = qb, cfg.kv_block = kvb;
      const int64_t scratch = aotc_attn_scratch_bytes(&cfg, c.e, c.ev, ab);
      if (scratch > kMaxScratch) {
        r.fit = refuse("needs {} bytes of scratch a thread, {} is allowed", scratch, kMaxScratch);
        all.push_back(r);
        continue;
      }
      const int64_t blocks = ceil_div(rows, qb), units = c.batch * c.kv_heads * blocks;
      const double pairs = static_cast<double>(c.batch * c.kv_heads * rows) * static_cast<double>(c.kv_len) * (c.causal ? 0.6 : 1.0);
      double cycles = pairs * static_cast<double>(c.e + ceil_div(c.ev, lanes.width) * lanes.width) / static_cast<double>(lanes.width);
      cycles += pairs * 12.0 / static_cast<double>(lanes.width);  // exponentials
      const bool kept = c.kv_len <= kvb;
      if (rows > 4) cycles += 0.5 * static_cast<double>(c.batch * c.kv_heads * c.kv_len * c.e) * static_cast<double>(kept ? 1 : blocks);
      cycles += static_cast<double>(c.batch * c.kv_heads * rows * ceil_div(std::max<int64_t>(c.kv_len, 1), kvb)) *
                (20.0 + static_cast<double>(c.ev) / 8);
      if ((qb * kvb + kvb * (c.e + c.ev)) * ab > kL2 / 2) cycles *= 1.1;
      cycles += static_cast<double>(units) * 400;
      r.cost = cycles * imbalance(units, threads) * kNsPerCycle;
      all.push_back(r);
    }
  order(all);
  return all;
}

std::string str(const plan::Choice& c) {
  if (const auto* g = std::get_if<plan::GemmChoice>(&c))
    return fmt::format("tile {}x{} block {}x{} k {}/{}{}{}", g->mr, g->nv, g->mc, g->nc, g->kc, g->kp, g->pack_a ? " pack-a" : "",
                       g->pack_b ? " pack-b" : "");
  if (const auto* v = std::get_if<plan::ConvChoice>(&c))
    return v->algo == AOTC_CONV_DIRECT
               ? std::string("direct")
               : fmt::format("{} block {}x{} k {}/{}", v->algo == AOTC_CONV_PHASES ? "phases" : "product", v->mc, v->nc, v->kc, v->kp);
  if (const auto* a = std::get_if<plan::AttnChoice>(&c)) return fmt::format("rows {} keys {}", a->q_block, a->kv_block);
  return "nothing to choose";
}

}  // namespace aotc::search
