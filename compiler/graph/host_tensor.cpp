#include <cstring>

#include "graph/interp.h"

namespace aotc {

int64_t HostTensor::elems() const {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

HostTensor beginning(const HostTensor& whole, const std::vector<int64_t>& dims) {
  HostTensor t{whole.dtype, dims, {}};
  const auto element = static_cast<size_t>(dtype_bytes(whole.dtype));
  t.bytes.resize(static_cast<size_t>(t.elems()) * element);
  if (t.bytes.empty()) return t;
  const size_t row = (dims.empty() ? 1 : static_cast<size_t>(dims.back())) * element;
  for (size_t at = 0, n = t.bytes.size() / row; at < n; ++at) {
    size_t rest = at, from = 0, stride = dims.empty() ? 0 : static_cast<size_t>(whole.dims.back());
    for (size_t d = dims.size(); d-- > 1;) {
      from += rest % static_cast<size_t>(dims[d - 1]) * stride;
      rest /= static_cast<size_t>(dims[d - 1]);
      stride *= static_cast<size_t>(whole.dims[d - 1]);
    }
    std::memcpy(t.bytes.data() + at * row, whole.bytes.data() + from * element, row);
  }
  return t;
}

}  // namespace aotc
