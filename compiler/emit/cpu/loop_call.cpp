#include "emit/cpu/loop_call.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "aotc/detail/library_abi.h"
#include "loop/attached.h"

namespace aotc::emit::cpu {
namespace {

void add_shape_symbols(const Expr& e, const SymTable& syms, std::set<SymId>& out) {
  for (SymId s : e.symbols()) {
    const SymInfo& info = syms[s];
    if (info.kind == SymKind::shape) out.insert(s);
  }
}

void add_kernel_symbols(const loop::LoopKernel& k, std::set<SymId>& out) {
  for (const loop::Inst& i : k.insts) {
    add_shape_symbols(i.index, k.syms, out);
    if (i.bind != kNone<SymId> && k.syms[i.bind].extent) add_shape_symbols(*k.syms[i.bind].extent, k.syms, out);
  }
  for (const auto* vars : {&k.outer, &k.inner})
    for (const loop::LoopVar& v : *vars) add_shape_symbols(v.extent, k.syms, out);
  for (const loop::Param& p : k.params)
    if (p.role == loop::ParamRole::local)
      for (const Expr& d : p.dims) add_shape_symbols(d, k.syms, out);
}

/// No common last cache is smaller: results of fewer bytes are never worth passing it by.
constexpr int64_t kLeastFarBytes = 16 << 20;

/// Points of a loop that are worth turning.
constexpr int64_t kLeastTurned = 4;

/// One loop of lanes without a result that needs several points, and at most values of its row before it.
bool is_pointwise(const loop::LoopKernel& k) {
  if (k.lanes == loop::LaneAxis::outer || k.inner.size() != 1 || k.blocks.empty() || !k.blocks.back().over_inner) return false;
  for (const loop::Block& b : k.blocks) {
    if (&b == &k.blocks.back()) break;
    if (b.over_inner) return false;
    for (loop::InstId id : b.insts) {
      const loop::Inst& i = k.insts[id];
      const bool read = i.kind == loop::InstKind::load && k.params[i.param].role == loop::ParamRole::input;
      const bool made = i.kind == loop::InstKind::constant || i.kind == loop::InstKind::index || i.kind == loop::InstKind::op;
      if ((!read && !made) || i.bind != kNone<SymId>) return false;
    }
  }
  for (const loop::Inst& i : k.insts)
    if (i.kind == loop::InstKind::reduce || i.kind == loop::InstKind::scan || i.kind == loop::InstKind::check) return false;
  return k.inner[0].extent.as_const().value_or(kLeastTurned) >= kLeastTurned;
}

std::vector<SymId> sorted(const std::set<SymId>& s) { return {s.begin(), s.end()}; }

}  // namespace

std::vector<SymId> kernel_symbols(const loop::LoopKernel& k) {
  std::set<SymId> out;
  add_kernel_symbols(k, out);
  return sorted(out);
}

std::vector<SymId> attached_symbols(const loop::Kernel& contraction) {
  std::set<SymId> out;
  for (const loop::Attached& a : loop::attached(contraction)) add_kernel_symbols(*a.loop, out);
  return sorted(out);
}

int own_sizes(const loop::Kernel& contraction) {
  if (const auto* m = std::get_if<loop::MatmulKernel>(&contraction)) return AOTC_GEMM_SIZES + 2 * static_cast<int>(m->segments.size());
  AOTC_CHECK(std::holds_alternative<loop::ConvKernel>(contraction), "{} carries no loops", loop::kernel_name(contraction));
  return AOTC_CONV_SIZES;
}

int64_t lane_block(const loop::LoopKernel& k) {
  if (k.lanes != loop::LaneAxis::outer || k.outer.empty()) return 1;
  if (k.inner.empty()) return 1024;
  // Eight vectors side by side keep a core busy; few columns are rather shared by threads, and fewer than eight vectors go four or two at
  // a time instead of one by one.
  constexpr int64_t kManyPoints = 1024;
  Expr points = 1;
  for (const loop::LoopVar& v : k.outer) points *= v.extent;
  int64_t vectors = points.as_const().value_or(kManyPoints) >= kManyPoints ? 8 : 4;
  const int64_t columns = k.outer.back().extent.as_const().value_or(vectors * kMaxLanes);
  while (vectors > 2 && columns < vectors * kMaxLanes && columns >= 2 * kMaxLanes) vectors /= 2;
  return vectors * kMaxLanes;
}

bool is_turned(const loop::LoopKernel& k, const loop::Inst& access, SymId outer) {
  if (access.mask != kNone<loop::InstId>) return false;
  const bool load = access.kind == loop::InstKind::load && k.params[access.param].role == loop::ParamRole::input;
  if (!load && (access.kind != loop::InstKind::store || k.params[access.param].role != loop::ParamRole::output)) return false;
  constexpr int64_t kLeastStride = 8;
  const auto lane = access.index.linear_coefficient(k.inner.back().sym), along = access.index.linear_coefficient(outer);
  return lane && along && along->is(1) && std::abs(lane->as_const().value_or(kLeastStride)) >= kLeastStride;
}

std::optional<Turning> turning(const loop::LoopKernel& k) {
  constexpr int64_t kLine = 64;
  if (!is_pointwise(k)) return std::nullopt;
  for (const loop::Param& p : k.params)
    if (p.role != loop::ParamRole::input && p.role != loop::ParamRole::output) return std::nullopt;
  for (size_t o = k.outer.size(); o-- > 0;) {
    if (k.outer[o].extent.as_const().value_or(kLeastTurned) < kLeastTurned) continue;
    int64_t bytes = kLine;
    for (const loop::Inst& i : k.insts)
      if (i.kind == loop::InstKind::load && is_turned(k, i, k.outer[o].sym)) bytes = std::min(bytes, dtype_bytes(k.params[i.param].dtype));
    if (bytes < kLine) return Turning{o, std::max<int64_t>(kLine / bytes, kMaxLanes)};
  }
  return std::nullopt;
}

std::optional<Turning> turning_rows(const loop::LoopKernel& attached) {
  if (!is_pointwise(attached) || attached.outer.empty()) return std::nullopt;
  const loop::LoopVar& rows = attached.outer.back();
  if (rows.extent.as_const().value_or(kLeastTurned) < kLeastTurned) return std::nullopt;
  for (const loop::Inst& i : attached.insts)
    if (is_turned(attached, i, rows.sym)) return Turning{attached.outer.size() - 1, kMaxLanes};
  return std::nullopt;
}

int64_t unit_points(const loop::LoopKernel& k, size_t outer) {
  if (const std::optional<Turning> t = turning(k); t && t->outer == outer) return t->block;
  return outer + 1 == k.outer.size() ? lane_block(k) : 1;
}

Expr loop_work(const loop::LoopKernel& k) {
  Expr work = 1;
  for (size_t i = 0; i < k.outer.size(); ++i) work *= ceildiv(k.outer[i].extent, unit_points(k, i));
  return work;
}

Expr far_bytes(const loop::LoopKernel& k) {
  Expr bytes = 0;
  for (const loop::Param& p : k.params)
    if (p.role == loop::ParamRole::output && dtype_bytes(p.dtype) >= 4) bytes += product(p.dims) * dtype_bytes(p.dtype);
  return bytes;
}

bool may_store_far(const loop::LoopKernel& k) { return k.syms.interval(far_bytes(k)).max >= kLeastFarBytes; }

LocalLayout local_layout(const loop::LoopKernel& k) {
  LocalLayout layout;
  for (const loop::Param& p : k.params) {
    layout.offset_bytes.push_back(0);
    if (p.role != loop::ParamRole::local) continue;
    const int lanes = k.lanes == loop::LaneAxis::outer ? kMaxLanes : 1;
    layout.offset_bytes.back() = layout.bytes;
    // One vector more than needed, so that whole vectors may be written at the end of a row.
    layout.bytes += align_up(product(p.dims) * (dtype_bytes(p.dtype) * lanes) + 2 * kMaxLanes * 8, 64);
  }
  return layout;
}

}  // namespace aotc::emit::cpu
