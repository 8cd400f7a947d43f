#pragma once
// What naive sums in fp64 are taken with.
#include <cstdint>

namespace kernel_test {

/// Columns whose naive sums are taken at once, each in a lane of its own and in the order of k.
using Lanes = double __attribute__((vector_size(8 * sizeof(double))));
constexpr int64_t kLanes = sizeof(Lanes) / sizeof(double);

}  // namespace kernel_test
