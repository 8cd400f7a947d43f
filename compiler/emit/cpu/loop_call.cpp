#include "emit/cpu/loop_call.h"

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
  return k.inner.empty() ? 1024 : 64;
}

Expr loop_work(const loop::LoopKernel& k) {
  Expr work = 1;
  for (size_t i = 0; i < k.outer.size(); ++i) {
    const bool last = i + 1 == k.outer.size();
    work *= last ? ceildiv(k.outer[i].extent, lane_block(k)) : k.outer[i].extent;
  }
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
