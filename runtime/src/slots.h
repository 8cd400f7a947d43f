#pragma once
// The postfix evaluator of plan_format.h: sizes, offsets, dimensions and guards from symbol values.
#include "aotc/detail/plan_format.h"

namespace aotc::rt {

/// Evaluates words [begin, end). `slots` may be null where AOTC_X_SLOT does not occur. False: overflow of int64, division by zero, or
/// malformed code; *out is then undefined.
bool eval(const int64_t* code, uint32_t begin, uint32_t end, const int64_t* symbols, const int64_t* slots, int64_t* out);

/// All slots of a variant in order. False as eval.
bool eval_slots(const aotc_variant& variant, const int64_t* symbols, int64_t* slots);

}  // namespace aotc::rt
