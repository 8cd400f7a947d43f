#include "forms/joining.h"

#include "forms/list.h"
#include "loop/text.h"
#include "loop/tidy.h"

namespace aotc::forms {

Joining::Joining(loop::Module& m, const Goal& goal) : m_(m), goal_(goal) {
  for (size_t k = 0; k < m.kernels.size(); ++k) {
    names_.insert(loop::kernel_name(m.kernels.raw()[k]));
    made_.try_emplace(loop::structure(m.kernels.raw()[k]), static_cast<loop::KernelId>(k));
  }
  for (const loop::Call& c : m.calls)
    for (loop::BufferId b : c.args) ++uses_[b];
}

size_t Joining::uses(loop::BufferId b) const {
  const auto it = uses_.find(b);
  return it == uses_.end() ? 0 : it->second;
}

std::optional<double> Joining::cost_ns(const loop::Kernel& k) const {
  const std::vector<Candidate> all = candidates({k, m_.syms, goal_.machine, goal_.numerics});
  return all.empty() || !all.front().fit ? std::nullopt : std::optional(all.front().cost_ns);
}

loop::KernelId Joining::known(loop::Kernel k, std::string name) {
  const auto [it, fresh] = made_.try_emplace(loop::structure(k), kNone<loop::KernelId>);
  if (!fresh) return it->second;
  name = name.substr(0, 64);
  const std::string base = name;
  for (int n = 2; !names_.insert(name).second; ++n) name = fmt::format("{}_{}", base, n);
  return it->second = m_.kernels.push(loop::named(std::move(k), name));
}

bool Joining::pays(const loop::Kernel& both, const loop::Kernel& first, const loop::Kernel& second) const {
  const auto cost = cost_ns(both), one = cost_ns(first), other = cost_ns(second);
  return cost && one && other && *cost <= *one + *other;
}

void Joining::merge(loop::Call& into, const loop::Call& other, loop::Kernel both, std::vector<loop::BufferId> args) {
  const std::string name = loop::kernel_name(m_.kernels[into.kernel]) + "_" + loop::kernel_name(m_.kernels[other.kernel]);
  into.kernel = known(std::move(both), name);
  into.args = std::move(args);
  into.label += " " + other.label;
  into.nodes.insert(into.nodes.end(), other.nodes.begin(), other.nodes.end());
}

void move_loop(loop::LoopKernel& k, IdVec<loop::ParamId, loop::Param> params, const std::vector<loop::ParamId>& to) {
  const size_t before = to.size(), now = params.size();
  for (size_t p = before; p < k.params.size(); ++p) params.push(k.params[static_cast<loop::ParamId>(p)]);
  k.params = std::move(params);
  for (loop::Inst& i : k.insts)
    if (i.param != kNone<loop::ParamId>)
      i.param = idx(i.param) < before ? to[idx(i.param)] : static_cast<loop::ParamId>(idx(i.param) - before + now);
}

}  // namespace aotc::forms
