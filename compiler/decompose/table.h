#pragma once
// The rule tables by family, for those who tell of them.
#include <vector>

#include "decompose/rule.h"

namespace aotc::decompose {

struct Family {
  const char* title;    ///< "reductions"
  const char* kernels;  ///< what its operators become beside fused loops (kinds of pipeline/support.cpp), or ""
  RuleTable rules;
};
std::vector<Family> families();

}  // namespace aotc::decompose
