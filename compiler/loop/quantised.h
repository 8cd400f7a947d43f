#pragma once
// Weights of few bits: what the prologue of operand b computes, recognised as integers with scales, for the forms that take them as such.
// To all others the prologue says everything.
#include <array>
#include <functional>
#include <vector>

#include "loop/loop.h"

namespace aotc::loop {

/// The smallest and the largest element of a constant of bytes that is given for the parameter; nullopt where its data are not known.
using ByteRange = std::function<std::optional<std::pair<int, int>>(ParamId)>;

/// nullopt where b's prologue computes anything else. Without known data signed bytes take 8 bits, and unsigned ones are not recognised.
/// halves: products of 16 bits have such weights, too.
std::optional<QuantisedWeight> find_quantised(const MatmulKernel& k, const ByteRange& range, bool halves);

/// Values, scales and offsets; kNone for those that there are not.
inline std::array<ParamId, 3> params_of(const QuantisedWeight& q) { return {q.values, q.scales, q.offsets}; }

/// The weight in a kernel in which parameter i is to[i].
QuantisedWeight with_params(QuantisedWeight q, const std::vector<ParamId>& to);

/// Whether the weights, of kernels with these parameters, are numbers in one format.
bool same_format(const QuantisedWeight& a, const IdVec<ParamId, Param>& of_a, const QuantisedWeight& b, const IdVec<ParamId, Param>& of_b);

}  // namespace aotc::loop
