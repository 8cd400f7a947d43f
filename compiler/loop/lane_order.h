#pragma once
// Copies in the order of lanes.
#include "loop/lower_detail.h"

namespace aotc::loop {

/// A copy of a buffer whose dims are in another order, and its kernel.
struct LaneCopy {
  Lowered kernel;
  std::string label;
};

/// Where the lanes of a kernel step over a buffer that it reads many times over (FusionRules::reread), they read a copy in which the dim
/// that they run along lies last: a step of some elements takes a load for each lane. Changes what the kernels read; copies are made once.
class LaneOrder {
 public:
  LaneOrder(Module& m, const FusionRules& rules) : m_(m), rules_(rules) {}
  /// The copies that are to be made before the kernel runs.
  std::vector<LaneCopy> apply(Lowered& low);

 private:
  LaneCopy copy(BufferId from, size_t dim, BufferId to) const;
  Module& m_;
  const FusionRules& rules_;
  std::map<std::pair<BufferId, size_t>, BufferId> copies_;
};

}  // namespace aotc::loop
