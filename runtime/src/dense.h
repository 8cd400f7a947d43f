#pragma once
// Inputs in host memory that are not dense row-major (channels-last, transposed, sliced, expanded): kernels read dense copies of them.
#include "context.h"

namespace aotc::rt {

/// Whether the strides (elements) say dense row-major; those of dimensions of size 1 do not matter. Else the innermost dimension whose
/// stride is another, and what it would be.
bool is_dense(const aotc_tensor& t, int32_t* dim, int64_t* expected);

/// Whether a tensor of which a dense one has `bytes` has elements, and strides that are not dense.
bool needs_copy(const aotc_tensor& t, uint64_t bytes);

/// Bytes from the first to the end of the last element of a tensor whose shape has elements, of which a dense one has `dense`.
/// INVALID_ARGUMENT: a stride is negative, or the end is beyond all memory. `name`: of the input.
aotc_status tensor_span(const char* name, const aotc_tensor& t, uint64_t dense, uint64_t* bytes);

/// The elements of a tensor with strides, which tensor_span has passed, densely to `to`.
void copy_dense(const aotc_tensor& t, void* to);

/// *in with a dense copy in the place of each input that is not dense; *in itself where all are. The inputs were checked. What *in then
/// points to is the context's, until its next run. OUT_OF_MEMORY.
aotc_status make_dense(aotc_context* context, const ShapeEntry& entry, const aotc_tensor** in);

/// Frees the copies.
void free_dense(aotc_context* context);

}  // namespace aotc::rt
