#pragma once
// The ways in which a convolution of a graph may be computed, as far as the graph shows them.
#include <cstdint>

namespace aotc {

enum class ConvAs : uint8_t {
  channels_first,  ///< conv
  channels_last,   ///< conv {channels_last}
  product,         ///< matmul of the pixels with a matrix, channels last: where the kernel is one pixel and nothing is skipped or padded
};

}  // namespace aotc
