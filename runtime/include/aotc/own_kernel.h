/* A kernel of your own for a custom operator: what aotc build --kernels links in, or compiles for GPUs, is given this. C11, C++17 and CUDA
 * C++; includes nothing but <stdint.h> and aotc/dtype.h.
 *
 *     void my_op(const aotc_op_args* a, int64_t begin, int64_t end);              on CPUs, extern "C"
 *     __device__ void my_op(const aotc_op_args* a);                               on GPUs, as a source
 *     extern "C" __global__ void my_op(aotc_op_launch<TENSORS, WORDS> a);         on GPUs, compiled: a cubin or PTX
 *
 * On a CPU the call computes units [begin, end) of what the description calls "work"; threads get disjoint ranges, and what a unit gives
 * must not depend on how they are cut. Re-entrant: no globals that are written, no locks, MXCSR as it was. A kernel may call what the C
 * library of glibc 2.17 and libm have; C++ without exceptions, RTTI and the compiled part of the standard library. On a GPU all threads of
 * the launch make the call. */
#ifndef AOTC_OWN_KERNEL_H_
#define AOTC_OWN_KERNEL_H_
#include <stdint.h>

#include "aotc/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Dense and row-major. An optional tensor that the model does not give has data NULL and rank 0. */
typedef struct aotc_op_tensor {
  void* data; /* inputs are only read; inputs and outputs do not overlap */
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
/* An argument of the operator that is no tensor. */
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
  void* scratch;           /* CPU: this thread's, 64-byte aligned; GPU: the launch's. scratch_bytes of the description, content undefined */
  volatile int32_t* fault; /* *fault = 1: an index is out of range, the run fails with AOTC_STATUS_INDEX_OUT_OF_RANGE */
} aotc_op_args;

#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
/* The one parameter of a compiled kernel. data: the tensor arguments that the model gives, then the results, in the order of the schema.
 * words: the sizes of these tensors, one after the other; then the other arguments: ints, bools and dtypes, floats as the bits of a double
 * (__longlong_as_double), lists as their elements, None as 0. A kernel without words has WORDS 1. */
template <int TENSORS, int WORDS>
struct aotc_op_launch {
  volatile int32_t* fault;
  void* scratch;
  void* data[TENSORS];
  int64_t words[WORDS];
};
#endif
#endif
