#pragma once
// What the files of lower share.
#include "loop/build.h"
#include "loop/partition.h"

namespace aotc::loop {

struct Lowered {
  Kernel kernel;
  std::vector<BufferId> args;
};
Lowered lower_loop(const Partition& p, GroupId id, Buffers& buffers);
Lowered lower_matmul(const Partition& p, GroupId id, Buffers& buffers);
Lowered lower_conv(const Partition& p, GroupId id, Buffers& buffers);
Lowered lower_attention(const Partition& p, GroupId id, Buffers& buffers);
Lowered lower_library(const Partition& p, GroupId id, Buffers& buffers);

/// "softmax_layer_norm" from the names of the archive's nodes, or of the ops.
std::string describe(const Graph& g, const std::vector<NodeId>& nodes);

}  // namespace aotc::loop
