#pragma once
// Metadata of contiguous tensors, for programs that tests make by hand.
#include "import/program.h"

namespace aotc::import {

inline TensorMeta dense_meta(DType t, std::vector<Expr> dims) {
  TensorMeta m;
  m.dtype = t;
  m.strides.resize(dims.size());
  Expr stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    m.strides[i] = stride;
    stride = stride * dims[i];
  }
  m.sizes = std::move(dims);
  return m;
}

}  // namespace aotc::import
