#include "loop/tidy.h"

#include <algorithm>
#include <map>
#include <set>

namespace aotc::loop {

bool reduces(const LoopKernel& k) {
  return std::any_of(k.insts.begin(), k.insts.end(), [](const Inst& i) { return i.kind == InstKind::reduce; });
}

void number_insts(LoopKernel& k) {
  IdVec<InstId, Inst> out;
  std::map<InstId, InstId> to;
  for (const Block& b : k.blocks)
    for (InstId i : b.insts) to[i] = static_cast<InstId>(to.size());
  for (Block& b : k.blocks)
    for (InstId& i : b.insts) {
      Inst inst = k.insts[i];
      for (InstId& a : inst.args) a = to.at(a);
      if (inst.mask != kNone<InstId>) inst.mask = to.at(inst.mask);
      out.push(std::move(inst));
      i = to.at(i);
    }
  k.insts = std::move(out);
}

Kernel named(Kernel k, const std::string& name) {
  std::visit([&](auto& x) { x.name = name; }, k);
  if (auto m = std::get_if<MatmulKernel>(&k)) {
    for (size_t i = 0; i < m->segments.size(); ++i) m->segments[i].epilogue.name = fmt::format("{}_epilogue{}", name, i);
    if (m->a.prologue) m->a.prologue->name = name + "_prologue_a";
    if (m->b.prologue) m->b.prologue->name = name + "_prologue_b";
    if (m->twin && m->twin->prologue) m->twin->prologue->name = name + "_prologue_twin";
  }
  if (auto c = std::get_if<ConvKernel>(&k)) c->epilogue.name = name + "_epilogue";
  return k;
}

void drop_unused(Module& m) {
  std::set<KernelId> called;
  std::set<BufferId> used;
  std::vector<std::vector<Call>*> lists = {&m.calls};
  for (std::vector<Call>& calls : m.other_calls) lists.push_back(&calls);
  for (const std::vector<Call>* calls : lists)
    for (const Call& c : *calls) called.insert(c.kernel), used.insert(c.args.begin(), c.args.end());
  std::map<KernelId, KernelId> kernels;
  std::map<BufferId, BufferId> buffers;
  IdVec<KernelId, Kernel> kept;
  IdVec<BufferId, Buffer> kept_buffers;
  for (KernelId k : called) kernels[k] = kept.push(std::move(m.kernels[k]));
  for (size_t i = 0; i < m.buffers.size(); ++i) {
    const BufferId b = static_cast<BufferId>(i);
    if (used.count(b) || m.buffers[b].kind != BufferKind::temp) buffers[b] = kept_buffers.push(std::move(m.buffers[b]));
  }
  m.kernels = std::move(kept);
  m.buffers = std::move(kept_buffers);
  for (std::vector<Call>* calls : lists)
    for (Call& c : *calls) {
      c.kernel = kernels.at(c.kernel);
      for (BufferId& b : c.args) b = buffers.at(b);
    }
  std::erase_if(m.weight_notes, [&](const WeightNote& n) { return !buffers.count(n.buffer); });
  for (WeightNote& n : m.weight_notes) n.buffer = buffers.at(n.buffer);
}

}  // namespace aotc::loop
