#include "plan/panel_loads.h"

#include <algorithm>

namespace aotc::plan {

using loop::BufferId;
using loop::KernelId;
using loop::LoopKernel;
using loop::ParamId;

namespace {

/// The load at `at` of the block becomes that of a byte, shifted and without the bits above its four. How many instructions that adds.
size_t split_byte(LoopKernel& k, loop::Block& block, size_t at, const Expr& shift) {
  const loop::InstId value = block.insts[at];
  std::vector<loop::InstId> before;
  const auto add = [&](loop::Inst i) {
    before.push_back(k.insts.push(std::move(i)));
    return before.back();
  };
  const auto op = [](Op o, DType t, std::vector<loop::InstId> args) {
    loop::Inst i;
    i.kind = loop::InstKind::op, i.op = o, i.dtype = t, i.args = std::move(args);
    return i;
  };
  const DType t = k.insts[value].dtype;
  loop::Inst by, low;
  by.kind = loop::InstKind::index, by.dtype = DType::i64, by.index = shift;
  low.kind = loop::InstKind::constant, low.dtype = DType::i32, low.imm_i = 15;
  const loop::InstId byte = add(k.insts[value]), wide = add(op(Op::cast, DType::i32, {byte}));
  const loop::InstId shifts = add(op(Op::cast, DType::i32, {add(std::move(by))}));
  const loop::InstId shifted = add(op(Op::shr, DType::i32, {wide, shifts}));
  const loop::InstId mask = add(std::move(low)), number = add(op(Op::bit_and, DType::i32, {shifted, mask}));
  k.insts[value] = op(Op::cast, t, {number});
  block.insts.insert(block.insts.begin() + static_cast<std::ptrdiff_t>(at), before.begin(), before.end());
  return before.size();
}

}  // namespace

std::vector<Use> uses_of(const loop::Module& m, BufferId b) {
  std::vector<Use> uses;
  for (size_t c = 0; c < m.calls.size(); ++c) {
    const auto params = loop::argument_params(m.kernels[m.calls[c].kernel]);
    for (size_t i = 0; i < params.size(); ++i)
      if (m.calls[c].args.at(i) == b) uses.push_back({c, params[i]});
  }
  return uses;
}

namespace {

void rewrite_loads(loop::Kernel& kernel, ParamId param, int64_t elems, const Panels& panels) {
  for_each_loop(kernel, [&](LoopKernel& k) {
    for (loop::Block& block : k.blocks)
      for (size_t at = 0; at < block.insts.size(); ++at) {
        const loop::Inst& i = k.insts[block.insts[at]];
        if (i.kind != loop::InstKind::load || i.param != param) continue;
        const Expr index = i.index;
        k.insts[block.insts[at]].index = *panel_index(panels, elems, index, k.syms);
        if (panels.bits == 4) at += split_byte(k, block, at, panel_shift(panels, elems, index, k.syms));
      }
  });
}

}  // namespace

/// The kernel of the call, a copy where other calls give that parameter another buffer.
loop::Kernel& PanelLoads::own_kernel(size_t called, ParamId param, BufferId b) {
  loop::Call& call = m_.calls[called];
  const auto params = loop::argument_params(m_.kernels[call.kernel]);
  const auto at = static_cast<size_t>(std::find(params.begin(), params.end(), param) - params.begin());
  const bool alone =
      std::all_of(m_.calls.begin(), m_.calls.end(), [&](const loop::Call& c) { return c.kernel != call.kernel || c.args.at(at) == b; });
  if (alone) return m_.kernels[call.kernel];
  loop::Kernel copy = m_.kernels[call.kernel];
  std::visit([&](auto& k) { k.name = fresh_name(k.name); }, copy);
  const KernelId made = m_.kernels.push(std::move(copy));
  for (loop::Call& c : m_.calls)
    if (&c != &call && c.kernel == call.kernel && c.args.at(at) == b) c.kernel = made;
  call.kernel = made;
  return m_.kernels[made];
}

std::string PanelLoads::fresh_name(const std::string& name) const {
  std::set<std::string> taken;
  for (const loop::Kernel& k : m_.kernels) taken.insert(loop::kernel_name(k));
  for (int i = 0;; ++i)
    if (std::string s = fmt::format("{}_panels{}", name, i); !taken.count(s)) return s;
}

void PanelLoads::rewrite(size_t called, ParamId param, BufferId b, const Panels& panels) {
  if (!done_.insert({b, m_.calls[called].kernel, param}).second) return;  // another call of the same kernel
  loop::Kernel& kernel = own_kernel(called, param, b);
  done_.insert({b, m_.calls[called].kernel, param});
  rewrite_loads(kernel, param, *m_.buffers[b].type.elems().as_const(), panels);
}

void PanelLoads::rewrite_kernel(KernelId kernel, ParamId param, int64_t elems, const Panels& panels) {
  if (kernels_done_.insert({kernel, param}).second) rewrite_loads(m_.kernels[kernel], param, elems, panels);
}

}  // namespace aotc::plan
