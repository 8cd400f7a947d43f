#pragma once
// Greedy suppression: exclude of aotc/detail/exclude_abi.h.
#include "aotc/detail/exclude_abi.h"
#include "entry.h"

namespace {

inline void exclude(const aotc_kargs* args, int64_t begin, int64_t end) {
  const int64_t n = args->size[1];
  for (int64_t m = begin; m < end; ++m) {
    const auto* x = static_cast<const unsigned char*>(args->ptr[0]) + m * n * n;
    auto* __restrict stays = static_cast<unsigned char*>(args->ptr[1]) + m * n;
    for (int64_t i = 0; i < n; ++i) stays[i] = 1;
    for (int64_t i = 0; i < n; ++i) {
      const unsigned char* __restrict row = x + i * n;
      for (int64_t j = stays[i] ? i + 1 : n; j < n; ++j) stays[j] &= row[j] ^ 1;
    }
  }
}

}  // namespace
