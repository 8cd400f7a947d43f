#pragma once
// Weights of few bits: what the prologue of operand b computes, recognised as integers with scales, for the forms that take them as such.
// To all others the prologue says everything.
#include <functional>

#include "loop/loop.h"

namespace aotc::loop {

/// The smallest and the largest element of a constant of bytes that is given for the parameter; nullopt where its data are not known.
using ByteRange = std::function<std::optional<std::pair<int, int>>(ParamId)>;

/// nullopt where b's prologue computes anything else. Without known data signed bytes take 8 bits, and unsigned ones are not recognised.
/// halves: products of 16 bits have such weights, too.
std::optional<QuantisedWeight> find_quantised(const MatmulKernel& k, const ByteRange& range, bool halves);

}  // namespace aotc::loop
