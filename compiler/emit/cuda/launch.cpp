#include "emit/cuda/launch.h"

#include <algorithm>
#include <set>

namespace aotc::emit::cuda {

using loop::InstKind;
using loop::LoopKernel;
using loop::MatmulKernel;
using loop::ParamId;
using loop::ParamRole;

std::string_view mapping_name(Mapping m) {
  switch (m) {
    case Mapping::flat: return "flat";
    case Mapping::row: return "row";
    case Mapping::serial: return "serial";
  }
  return "?";
}

namespace {

constexpr int kMaxSharedBytes = 200 * 1024;  // per block on sm_80 and newer, less what static arrays take
constexpr int64_t kMaxGrid = 1 << 30;
constexpr int64_t kMaxGridZ = 65535;
constexpr int64_t kProcessors = 132;  // of an H100 or H200; choices aim at two blocks for each

void add_symbols(const Expr& e, const SymTable& syms, std::set<SymId>& out) {
  for (SymId s : syms.simplify(e).symbols())
    if (syms[s].kind == SymKind::shape) out.insert(s);
}

void add_symbols(const LoopKernel& k, std::set<SymId>& out) {
  for (const auto* vars : {&k.outer, &k.inner})
    for (const loop::LoopVar& v : *vars) add_symbols(v.extent, k.syms, out);
  for (const loop::Inst& i : k.insts) add_symbols(i.index, k.syms, out);
}

std::vector<Expr> as_exprs(const std::vector<SymId>& symbols) {
  std::vector<Expr> out;
  for (SymId s : symbols) out.push_back(Expr::symbol(s));
  return out;
}

/// 32 .. 256 threads for a row of this many points.
int row_threads(int64_t inner_hint, int lanes) {
  int threads = 32;
  while (threads < 256 && threads * lanes * 4 < inner_hint) threads *= 2;
  return threads;
}

constexpr int kWideBytes = 16;         // of one access
constexpr int kRowRegisters = 64;      // 4-byte values of a row that a thread may hold
constexpr int64_t kCached = 16 << 20;  // bytes written beyond which they are not kept in the cache

/// The most lanes that some access takes as a wide one, and all that could be wide fit kWideBytes.
int lanes_of(const LoopKernel& k) {
  if (k.inner.empty() && k.outer.empty()) return 1;
  const loop::LoopVar& last = k.inner.empty() ? k.outer.back() : k.inner.back();
  for (int lanes : {8, 4, 2}) {
    if (!k.syms.proves_divisible(last.extent, lanes)) continue;
    int64_t bytes = 0;
    bool global = false;
    for (uint32_t n = 0; n < k.insts.size(); ++n) {
      const loop::InstId id = static_cast<loop::InstId>(n);
      if (!is_wide(k, id, last.sym, lanes)) continue;
      bytes = std::max<int64_t>(bytes, dtype_bytes(k.insts[id].dtype));
      global |= k.params[k.insts[id].param].role != ParamRole::local;
    }
    if (global && bytes * lanes <= kWideBytes) return lanes;
  }
  return 1;
}

bool streams_of(const LoopKernel& k) {
  int64_t written = 0;
  for (const loop::Inst& i : k.insts)
    if (i.kind == InstKind::store && k.params[i.param].role == ParamRole::output)
      written += k.syms.hint(product(k.params[i.param].dims)) * dtype_bytes(i.dtype);
  return written > kCached;
}

/// 4-byte values of a row that a thread holds in `steps` groups of lanes.
int64_t held_words(const LoopKernel& k, int64_t steps, int lanes) {
  int64_t words = 0;
  for (const loop::Param& p : k.params)
    if (p.role == ParamRole::local || p.role == ParamRole::input) words += steps * lanes * std::max<int64_t>(1, dtype_bytes(p.dtype) / 4);
  return words;
}

/// Groups of lanes that a thread holds in registers, 0 when a row is too long for that or its length is not known.
int steps_of(const LoopKernel& k, int threads, int lanes) {
  const auto points = k.syms.simplify(k.inner_points()).as_const();
  if (!points || *points == 0 || lanes == 1) return 0;
  const int64_t steps = (*points + threads * lanes - 1) / (threads * lanes);
  return held_words(k, steps, lanes) <= kRowRegisters ? static_cast<int>(steps) : 0;
}

/// Blocks of one processor when a thread has 16 registers beside the row's values.
int resident_of(int64_t words, int threads) {
  const int64_t registers = (words + 16 + 7) / 8 * 8;
  return static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(65536 / (registers * threads), 2048 / threads * 3 / 4)));
}

}  // namespace

bool is_wide(const LoopKernel& k, loop::InstId id, SymId last, int lanes) {
  const loop::Inst& i = k.insts[id];
  if ((i.kind != InstKind::load && i.kind != InstKind::store) || i.mask != kNone<loop::InstId>) return false;
  if (k.params[i.param].role == ParamRole::local) return true;
  const Expr index = k.syms.simplify(i.index);
  for (SymId s : index.symbols())
    if (k.syms[s].kind == SymKind::value) return false;
  const auto step = index.linear_coefficient(last);
  return step && step->is(1) && k.syms.proves_divisible(index.substitute({{last, Expr(0)}}), lanes);
}

std::vector<SymId> size_symbols(const LoopKernel& k) {
  std::set<SymId> out;
  add_symbols(k, out);
  return {out.begin(), out.end()};
}

std::vector<SymId> size_symbols(const MatmulKernel& k) {
  std::set<SymId> out;
  auto add = [&](const Expr& e) { add_symbols(e, k.syms, out); };
  for (const Expr& e : k.batch) add(e);
  for (const Expr* e : {&k.m, &k.n, &k.k}) add(*e);
  for (const loop::Operand* o : {&k.a, &k.b}) {
    for (const Expr& e : o->batch_strides) add(e);
    for (const Expr* e : {&o->base, &o->row_stride, &o->col_stride}) add(*e);
  }
  for (const loop::Segment& s : k.segments) {
    add(s.n_begin), add(s.n_end);
    add_symbols(s.epilogue, out);
  }
  return {out.begin(), out.end()};
}

Launch launch_of(const LoopKernel& k) {
  Launch l;
  l.sizes = as_exprs(size_symbols(k));
  bool reduces = false, scans = false, outer_stores = false;
  for (const loop::Block& b : k.blocks)
    for (loop::InstId id : b.insts) {
      const InstKind kind = k.insts[id].kind;
      reduces |= kind == InstKind::reduce;
      scans |= kind == InstKind::scan;
      outer_stores |= kind == InstKind::store && !b.over_inner;
    }
  Expr local_bytes = 0;
  l.local_offset.resize(k.params.size());
  bool has_local = false;
  for (uint32_t p = 0; p < k.params.size(); ++p) {
    const loop::Param& param = k.params[static_cast<ParamId>(p)];
    if (param.role != ParamRole::local) continue;
    has_local = true;
    l.local_offset[p] = local_bytes;
    local_bytes = align_up(local_bytes + k.inner_points() * dtype_bytes(param.dtype), 16);
  }
  const Expr outer = k.outer_points();
  if (scans && has_local)
    throw Diagnostic(ExitCode::unsupported, {}, fmt::format("kernel {}: a scan with row scratch has no CUDA form", k.name));
  if (!reduces && !scans && !has_local && !(outer_stores && !k.inner.empty())) {
    l.mapping = Mapping::flat;
    l.block[0] = 256;
    l.lanes = lanes_of(k);
    l.streams = streams_of(k);
    l.grid[0] = max(1, min(ceildiv(outer * k.inner_points(), 256 * l.lanes), kMaxGrid));
    return l;
  }
  if (scans || (k.lanes == loop::LaneAxis::outer && !has_local)) {
    l.mapping = Mapping::serial;
    l.block[0] = 128;
    l.grid[0] = max(1, min(ceildiv(outer, 128), kMaxGrid));
    return l;
  }
  l.mapping = Mapping::row;
  l.lanes = k.inner.empty() ? 1 : lanes_of(k);
  l.streams = streams_of(k);
  l.block[0] = row_threads(k.syms.hint(k.inner_points()), l.lanes);
  l.steps = steps_of(k, l.block[0], l.lanes);
  if (l.steps) l.resident = resident_of(held_words(k, l.steps, l.lanes), l.block[0]);
  l.grid[0] = max(1, min(outer, kMaxGrid));
  l.smem_bytes = k.syms.simplify(local_bytes);
  const int64_t most = k.syms.interval(l.smem_bytes).max;
  if (most > kMaxSharedBytes)
    throw Diagnostic(ExitCode::unsupported, {},
                     fmt::format("kernel {}: a row needs {} bytes of shared memory; {} is the most", k.name,
                                 most == kInf ? "an unbounded number of" : std::to_string(most), kMaxSharedBytes))
        .note("bound the row's dimension in shapes.json (dims.NAME.max)");
  l.max_smem_bytes = most;
  return l;
}

int MatmulTile::smem_bytes(int elem_bytes) const {
  const int ring = stages * (block_m + block_n) * (block_k * elem_bytes + 16);
  const bool sums_parts = k_warps > 1 || split > 1;
  return sums_parts ? std::max(ring, k_warps * block_m * (block_n + 4) * 4) : ring;
}

MatmulTile tile_of(const MatmulKernel& k) {
  const int64_t m = k.syms.hint(k.m), n = k.syms.hint(k.n), depth = k.syms.hint(k.k), batch = k.syms.hint(product(k.batch));
  const bool wide = dtype_bytes(k.in) == 4;
  auto blocks = [&](const MatmulTile& t) { return (m + t.block_m - 1) / t.block_m * ((n + t.block_n - 1) / t.block_n) * batch; };
  const MatmulTile big = wide ? MatmulTile{128, 64, 16, 64, 32, 1, 4, 1, 3} : MatmulTile{128, 128, 64, 64, 32, 1, 3, 1, 2};
  if (blocks(big) >= kProcessors) return big;
  MatmulTile t = {64, 64, wide ? 32 : 64, 32, 32, 1, 4, 1};
  int64_t most = 2 * kProcessors;  // blocks with k divided
  if (m <= 32) {
    t = wide ? MatmulTile{32, 32, 64, 32, 16, 4, 4, 1} : MatmulTile{32, 64, 128, 32, 16, 4, 4, 1};
    if (!wide && blocks(t) < kProcessors / 4) t.k_warps = 2, t.stages = 3;  // the blocks of a long sum take less each
    most = wide ? 2 * kProcessors : kProcessors;
  } else if (m <= 64) {
    t.k_warps = 2;
    most = kProcessors;
  }
  while (t.split < 8 && blocks(t) * t.split * 2 <= most && depth >= 4 * t.block_k * t.split) t.split *= 2;
  return t;
}

Launch launch_of(const MatmulKernel& k, const MatmulTile& tile) {
  Launch l;
  l.sizes = as_exprs(size_symbols(k));
  l.block[0] = tile.threads();
  Expr columns = 0;
  for (const loop::Segment& s : k.segments) columns += ceildiv(s.n_end - s.n_begin, tile.block_n);
  l.grid[0] = max(1, columns * ceildiv(k.m, tile.block_m)) * tile.split;
  l.grid[2] = max(1, min(product(k.batch), kMaxGridZ));
  l.max_smem_bytes = tile.smem_bytes(dtype_bytes(k.in));
  l.smem_bytes = l.max_smem_bytes;
  return l;
}

}  // namespace aotc::emit::cuda
