#pragma once
// What the forms of scatter and of index_put share.
#include "emit/cuda/library.h"
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

struct IndexPutDims {
  emit::cuda::IndexPutCode code;
  Exprs sizes;                              ///< of x, of the index tensors
  Expr free = 1, indexed = 1, entries = 1;  ///< points of the dims that are not indexed, of those that are; entries of the index tensors
  static IndexPutDims of(const loop::LibraryKernel& k, const SymTable& syms);
};

}  // namespace aotc::forms::cuda
