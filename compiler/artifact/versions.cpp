#include "artifact/versions.h"

#include <algorithm>
#include <optional>

#include "emit/cpu/unit.h"
#include "kernels/cpu/catalog.h"

namespace aotc::artifact {
namespace {

/// The instruction set that has all that the kernels' code for `isa` uses.
std::optional<Isa> used_isa(const plan::PlanSet& plans, Isa isa) {
  std::optional<FeatureSet> used;
  for (const plan::Plan& p : plans.plans)
    for (const plan::Step& s : p.steps) {
      if (s.kind != plan::StepKind::cpu) continue;
      const Isa code = s.library ? kernels::library_isa(s.symbol, isa) : emit::cpu::loop_isa(isa);
      used = used.value_or(FeatureSet()) | features_of(code);
    }
  for (const plan::KernelConfig& c : plans.configs) {
    if (!c.strips) continue;
    for (const forms::StripStage& s : c.strips->stages) used = *used | features_of(kernels::library_isa(s.symbol, isa));
  }
  return used ? std::optional(isa_with(*used, isa)) : std::nullopt;
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
