#include "artifact/versions.h"

#include <algorithm>
#include <optional>

#include "emit/cpu/unit.h"
#include "kernels/cpu/catalog.h"

namespace aotc::artifact {
namespace {

/// The best instruction set among the kernels' code for `isa`.
std::optional<Isa> used_isa(const plan::PlanSet& plans, Isa isa) {
  std::optional<Isa> used;
  for (const plan::Plan& p : plans.plans)
    for (const plan::Step& s : p.steps) {
      if (s.kind != plan::StepKind::cpu) continue;
      const Isa code = s.library ? kernels::library_isa(s.symbol, isa) : emit::cpu::loop_isa(isa);
      used = used ? std::max(*used, code) : code;
    }
  for (const plan::KernelConfig& c : plans.configs) {
    if (!c.strips) continue;
    for (const forms::StripStage& s : c.strips->stages) used = std::max(*used, kernels::library_isa(s.symbol, isa));
  }
  return used;
}

}  // namespace

Target used_target(const plan::PlanSet& plans, const Target& target) {
  Target out = target;
  out.isas.clear();
  for (const Isa isa : target.isas) {
    const Isa used = used_isa(plans, isa).value_or(target.isas.front());
    if (!out.has(used)) out.isas.push_back(used);
  }
  return out;
}

uint32_t cpu_needs(const plan::PlanSet& plans, Isa isa) {
  const auto used = used_isa(plans, isa);
  return used ? isa_features(*used) : 0;
}

}  // namespace aotc::artifact
