#pragma once
// What the forms of scatter share.
#include "loop/loop.h"

namespace aotc::forms::cuda {

/// Of rank 1 at least; sizes: the dims of x, of the index, of src.
struct ScatterDims {
  size_t rank = 1, dim = 0;
  Exprs sizes;
  Expr lines = 1, extent;
  const Expr& updates() const { return sizes[rank + dim]; }  ///< of a line
  static ScatterDims of(const loop::LibraryKernel& k);
};

}  // namespace aotc::forms::cuda
