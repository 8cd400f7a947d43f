// samples::ranked on CPUs: a row a unit of work, its places sorted in this thread's scratch. NaN counts as larger than any number.
#include <algorithm>

#include "aotc/own_kernel.h"

extern "C" void ranked(const aotc_op_args* a, int64_t begin, int64_t end) {
  const int64_t n = a->in[0].dims[1], k = a->attr[0].value.i;
  const bool descending = a->attr[1].value.i != 0;
  auto* order = static_cast<int64_t*>(a->scratch);
  for (int64_t row = begin; row < end; ++row) {
    const float* x = static_cast<const float*>(a->in[0].data) + row * n;
    const auto less = [&](float u, float v) { return u < v || (v != v && u == u); };
    const auto before = [&](int64_t i, int64_t j) {
      const bool first = descending ? less(x[j], x[i]) : less(x[i], x[j]), second = descending ? less(x[i], x[j]) : less(x[j], x[i]);
      return first || (!second && i < j);
    };
    for (int64_t i = 0; i < n; ++i) order[i] = i;
    std::partial_sort(order, order + k, order + n, before);
    for (int64_t i = 0; i < k; ++i) {
      static_cast<float*>(a->out[0].data)[row * k + i] = x[order[i]];
      static_cast<int64_t*>(a->out[1].data)[row * k + i] = order[i];
    }
  }
}
