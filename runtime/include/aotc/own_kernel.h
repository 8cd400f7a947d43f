/* The interface of your own kernels for custom operators (aotc build --kernels kernels.json). C11, C++17 and CUDA C++; includes only
 * <stdint.h> and aotc/dtype.h. A kernel is one of these functions:
 *
 *     void my_op(const aotc_op_args* a, int64_t begin, int64_t end);              CPU, extern "C"
 *     __device__ void my_op(const aotc_op_args* a);                               GPU, as CUDA source
 *     extern "C" __global__ void my_op(aotc_op_launch<TENSORS, WORDS> a);         GPU, compiled: a cubin or PTX
 *
 * CPU: a call computes the units [begin, end) of "work" in the description. Threads get disjoint ranges, and the result of a unit must not
 * depend on how they are split. The function must be re-entrant: it writes no globals, takes no locks and leaves MXCSR unchanged. It may
 * call functions of the C library of glibc 2.17 and of libm. C++ must do without exceptions, RTTI and the compiled part of the standard
 * library. GPU: all threads of the launch call the function. */
#ifndef AOTC_OWN_KERNEL_H_
#define AOTC_OWN_KERNEL_H_
#include <stdint.h>

#include "aotc/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Dense and row-major. If an optional tensor is absent, data is NULL and rank 0. */
typedef struct aotc_op_tensor {
  void* data; /* do not write to inputs; inputs and outputs do not overlap */
  const int64_t* dims;
  int32_t rank;
  uint32_t dtype; /* AOTC_DTYPE_* */
} aotc_op_tensor;

enum {
  AOTC_OP_NONE = 0, /* None */
  AOTC_OP_INT = 1,  /* ints and bools, dtypes as AOTC_DTYPE_*: value.i */
  AOTC_OP_REAL = 2, /* value.f */
  AOTC_OP_TEXT = 3, /* value.text, zero-terminated; count: its bytes */
  AOTC_OP_INTS = 4, /* count of value.ints */
  AOTC_OP_REALS = 5 /* count of value.reals */
};
/* An argument of the operator that is not a tensor. */
typedef struct aotc_op_attr {
  int32_t kind, count;
  union {
    int64_t i;
    double f;
    const char* text;
    const int64_t* ints;
    const double* reals;
  } value;
} aotc_op_attr;

typedef struct aotc_op_args {
  const aotc_op_tensor* in;  /* the operator's tensor arguments, in the order of its schema */
  const aotc_op_tensor* out; /* its results */
  const aotc_op_attr* attr;  /* its other arguments, in the order of its schema */
  int32_t n_in, n_out, n_attr;
  int32_t thread, threads; /* CPU: 0 .. threads-1 */
  void* scratch;           /* scratch_bytes of the description, uninitialised. CPU: per thread, 64-byte aligned; GPU: per launch */
  volatile int32_t* fault; /* set *fault = 1 if an index is out of range: the run fails with AOTC_STATUS_INDEX_OUT_OF_RANGE */
} aotc_op_args;

#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
/* The only parameter of a compiled kernel.
 * data: the tensor arguments that are present, then the results, in the order of the schema.
 * words: all sizes of these tensors, one after the other, then the other arguments: ints, bools and dtypes as they are, floats as the bits
 * of a double (__longlong_as_double), lists as their elements, None as 0. If there are no words, WORDS is 1. */
template <int TENSORS, int WORDS>
struct aotc_op_launch {
  volatile int32_t* fault;
  void* scratch;
  void* data[TENSORS];
  int64_t words[WORDS];
};
#endif
#endif
