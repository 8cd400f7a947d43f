#pragma once
// In which order a block's instructions are written, so that few values are live at once: what a C++ compiler keeps of the order that it is
// given, it would otherwise spill, a vector each.
#include <vector>

#include "loop/loop.h"

namespace aotc::loop {

/// The most values of the block that are live at one place of `order`: made before, and used after. Values of other blocks do not count.
int most_live(const LoopKernel& k, const Block& b, const std::vector<InstId>& order);

/// The block's instructions, each once, after what it uses; the block's own order where most_live of that is at most `enough`, or where
/// no other order that is found has fewer. Stores, checks, reductions, scans, what becomes a symbol and loads from what the kernel writes
/// stay in their order to each other, and no load passes a store (an output may lie where an input did).
std::vector<InstId> order_of_few_live(const LoopKernel& k, const Block& b, int enough);

}  // namespace aotc::loop
