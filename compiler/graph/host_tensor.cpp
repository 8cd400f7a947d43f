#include "graph/interp.h"

namespace aotc {

int64_t HostTensor::elems() const {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

}  // namespace aotc
