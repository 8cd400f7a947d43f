#pragma once
// The tables of the families (families.def).
#include "decompose/rule.h"

namespace aotc::decompose {

#define AOTC_FAMILY(name, title, kernels) RuleTable name##_rules();
#include "decompose/families.def"
#undef AOTC_FAMILY

}  // namespace aotc::decompose
