#pragma once
// Chains of operators with one constant per channel as y = scale * x + shift, in float64.
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace aotc::passes {

using Channels = std::vector<double>;

/// The number of each of `channels` channels along dim `dim` of v, where v is a constant and the same along all other dims.
std::optional<Channels> per_channel(const Graph& g, ValueId v, int dim, int64_t channels);

/// What op(y, c) is, or with `left` false op(c, y), where y = scale * x + shift: changes both; false where that is not of this form.
bool then(Op op, bool left, const Channels& c, Channels& scale, Channels& shift);

/// `values`, one per channel along dim `dim`, as a constant whose other dims are 1.
ConstData channels_constant(std::string name, DType t, int rank, int dim, const Channels& values);

/// Whether per_channel's numbers are those of an exchangeable constant.
bool exchangeable_channels(const Graph& g, ValueId v);

}  // namespace aotc::passes
