#pragma once
#include <functional>
#include <vector>

#include "graph/graph.h"

namespace aotc::passes {

/// A reshape of channels to rows of groups: [N, C, ...] to [N, G, C / G * ...].
struct GroupRows {
  NodeId reshape;
  ValueId of;  ///< what is reshaped
};

/// Norms of groups of channels, computed channel by channel: what lies between a reshape of channels to rows of groups and the one back is
/// computed on the channels, a sum of a group as the sum of its channels' sums. For channels that lie last, which such a reshape would
/// have to bring back; the same values but for the order of the sums. Done for those reshapes of which `which` is true; returns those.
std::vector<GroupRows> spread_groups(Graph& g, const std::function<bool(NodeId reshape)>& which);

}  // namespace aotc::passes
