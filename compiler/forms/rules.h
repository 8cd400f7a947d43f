#pragma once
#include "base/machine.h"
#include "loop/rules.h"

namespace aotc::forms {
/// What the forms of this machine allow and prefer, for the fusion and the schedule.
loop::FusionRules rules_of(const Machine& machine);
}  // namespace aotc::forms
