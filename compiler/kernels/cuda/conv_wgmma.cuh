// Convolutions of channels-last images as products on Hopper's tensor cores (wgmma.cuh): a row of A is the window of an output pixel, a column
// of B the weights of an output channel, k the channels of one tap after another, each tap's filled up with zeros to a multiple of 128 bytes.
#pragma once
#include "wgmma.cuh"

// One stage of windows: 128 bytes of channels at one tap, of the windows from output pixel `pixel` of all images on. Shape (generated): rank,
// kernel(d), stride(d), padding(d), dilation(d); deep: channels of a stage; stages: of one tap.
template <class Shape> AOTC_DI void conv_copy(u32 to, const TensorMap& map, u32 barrier, int k, int pixel, const int (&out)[Shape::rank]) {
  constexpr int rank = Shape::rank;
  int tap = k / Shape::deep / Shape::stages, at[rank];
  const int c = k - tap * Shape::stages * Shape::deep;
  u16 offset[rank];
#pragma unroll
  for (int d = rank - 1; d >= 0; --d) {
    const int before = pixel / out[d];
    at[d] = (pixel - before * out[d]) * Shape::stride(d) - Shape::padding(d);
    pixel = before;
    offset[d] = static_cast<u16>(tap % Shape::kernel(d) * Shape::dilation(d));
    tap /= Shape::kernel(d);
  }
  if constexpr (rank == 1) copy_windows(to, map, barrier, c, at[0], pixel, offset[0]);
  else if constexpr (rank == 2) copy_windows(to, map, barrier, c, at[1], at[0], pixel, offset[1], offset[0]);
  else copy_windows(to, map, barrier, c, at[2], at[1], at[0], pixel, offset[2], offset[1], offset[0]);
}
