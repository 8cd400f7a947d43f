#pragma once
// Host tensors from and to plain numbers, for tests.
#include <cmath>
#include <vector>

#include "graph/interp.h"
#include "graph/scalar.h"

namespace aotc::test {

inline HostTensor tensor(DType t, std::vector<int64_t> dims, const std::vector<double>& values) {
  HostTensor h{t, std::move(dims), {}};
  h.bytes.resize(values.size() * dtype_bytes(t));
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* p = h.bytes.data() + i * dtype_bytes(t);
    const auto n = static_cast<int64_t>(values[i]);
    if (is_float(t)) {
      store_f64(t, &values[i], p, 1);
    } else {
      store_i64(t, &n, p, 1);
    }
  }
  return h;
}

inline std::vector<double> values(const HostTensor& h) {
  std::vector<double> v(h.elems());
  if (is_float(h.dtype)) {
    load_f64(h.dtype, h.bytes.data(), v.data(), h.elems());
    return v;
  }
  std::vector<int64_t> n(h.elems());
  load_i64(h.dtype, h.bytes.data(), n.data(), h.elems());
  return {n.begin(), n.end()};
}

/// Equal, both NaN, or within a relative tolerance.
inline bool close(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return true;
  return std::fabs(a - b) <= tolerance * std::max(1.0, std::max(std::fabs(a), std::fabs(b)));
}

}  // namespace aotc::test
