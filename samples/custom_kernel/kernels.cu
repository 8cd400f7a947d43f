// samples::lookup and samples::ranked on GPUs: a row a block.
#include "aotc/own_kernel.h"

__device__ void lookup(const aotc_op_args* a) {
  const int64_t bytes = a->in[0].dims[1], rows = a->in[0].dims[0];
  const float* table = static_cast<const float*>(a->in[1].data);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const uint8_t* codes = static_cast<const uint8_t*>(a->in[0].data) + row * bytes;
    const float scale = static_cast<const float*>(a->in[2].data)[row];
    float* out = static_cast<float*>(a->out[0].data) + row * bytes * 2;
    for (int64_t i = threadIdx.x; i < bytes; i += blockDim.x) {
      out[2 * i] = table[codes[i] & 15] * scale;
      out[2 * i + 1] = table[codes[i] >> 4] * scale;
    }
  }
}

// The place of each number is how many come before it. NaN counts as larger than any number.
__device__ void ranked(const aotc_op_args* a) {
  const int64_t n = a->in[0].dims[1], rows = a->in[0].dims[0], k = a->attr[0].value.i;
  const bool descending = a->attr[1].value.i != 0;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* x = static_cast<const float*>(a->in[0].data) + row * n;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
      int64_t before = 0;
      for (int64_t j = 0; j < n; ++j) {
        const float u = descending ? x[i] : x[j], v = descending ? x[j] : x[i];
        const bool less = u < v || (v != v && u == u), more = v < u || (u != u && v == v);
        before += less || (!more && j < i);
      }
      if (before >= k) continue;
      static_cast<float*>(a->out[0].data)[row * k + before] = x[i];
      static_cast<int64_t*>(a->out[1].data)[row * k + before] = i;
    }
  }
}
