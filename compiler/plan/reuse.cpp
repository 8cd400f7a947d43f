#include "plan/reuse.h"

#include <algorithm>

#include "loop/attached.h"

namespace aotc::plan {

using loop::InstKind;
using loop::LoopKernel;
using loop::ParamId;

namespace {

struct Access {
  Expr index;
  size_t block = 0, position = 0;
  bool over_inner = false;
};

/// Accesses of one kind to a param, in program order.
std::vector<Access> accesses(const LoopKernel& k, ParamId p, InstKind kind) {
  std::vector<Access> r;
  for (size_t b = 0; b < k.blocks.size(); ++b) {
    const auto& insts = k.blocks[b].insts;
    for (size_t i = 0; i < insts.size(); ++i) {
      const loop::Inst& x = k.insts[insts[i]];
      if (x.kind == kind && x.param == p) r.push_back({x.index, b, i, k.blocks[b].over_inner});
    }
  }
  return r;
}

bool loop_may_overwrite(const LoopKernel& k, ParamId in, ParamId out) {
  const auto loads = accesses(k, in, InstKind::load), stores = accesses(k, out, InstKind::store);
  if (!accesses(k, in, InstKind::store).empty() || !accesses(k, out, InstKind::load).empty()) return false;
  if (stores.size() != 1) return false;
  const Access& s = stores[0];
  return std::all_of(loads.begin(), loads.end(), [&](const Access& l) {
    if (l.over_inner != s.over_inner) return false;
    if (std::pair(l.block, l.position) > std::pair(s.block, s.position)) return false;
    return l.index == s.index || k.syms.proves_eq(l.index, s.index);
  });
}

struct MayOverwrite {
  ParamId in, out;
  bool operator()(const LoopKernel& k) const { return loop_may_overwrite(k, in, out); }
  bool operator()(const loop::MatmulKernel& k) const {
    for (const loop::Operand* o : loop::operands(k))
      if (o->prologue ? !accesses(*o->prologue, in, InstKind::load).empty() : o->param == in) return false;
    if (k.runs && k.runs->ends == in) return false;
    bool stored = false;
    for (const loop::Segment& s : k.segments) {
      const bool stores = !accesses(s.epilogue, out, InstKind::store).empty(), loads = !accesses(s.epilogue, in, InstKind::load).empty();
      if (stores && (stored || !loop_may_overwrite(s.epilogue, in, out))) return false;
      if (loads && !stores) return false;
      stored |= stores;
    }
    return stored;
  }
  bool operator()(const loop::ConvKernel& k) const { return k.x != in && k.w != in && loop_may_overwrite(k.epilogue, in, out); }
  bool operator()(const loop::AttentionKernel&) const { return false; }
  bool operator()(const loop::LibraryKernel& k) const {
    // The result of these starts as a copy of x, their first param; out follows its sources.
    if (in != ParamId{0}) return false;
    if (k.algorithm == "scatter") return out == ParamId{3};
    if (k.algorithm == "add_rows") return idx(out) + 1 == k.params.size();
    return k.algorithm == "index_put" && out == ParamId{2};
  }
};

}  // namespace

bool may_overwrite(const loop::Kernel& kernel, ParamId in, ParamId out) {
  if (in == out) return loop::kernel_params(kernel)[in].role == loop::ParamRole::inout;
  if (loop::kernel_params(kernel)[in].role != loop::ParamRole::input || loop::kernel_params(kernel)[out].role != loop::ParamRole::output)
    return false;
  return std::visit(MayOverwrite{in, out}, kernel);
}

}  // namespace aotc::plan
