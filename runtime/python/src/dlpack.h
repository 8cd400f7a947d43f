/* The layout of DLPack 1.x (https://dmlc.github.io/dlpack/latest/), as far as it is used here. */
#ifndef AOTC_PYTHON_DLPACK_H_
#define AOTC_PYTHON_DLPACK_H_
#include <stdint.h>

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6, DL_FLOAT8_E4M3FN = 10, DL_FLOAT8_E5M2 = 12 };
enum { DL_READ_ONLY = 1 }; /* flags */

typedef struct {
  int32_t type, id;
} dl_device;
typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} dl_dtype;
typedef struct {
  void* data;
  dl_device device;
  int32_t ndim;
  dl_dtype dtype;
  int64_t *shape, *strides; /* strides in elements; NULL: dense row-major */
  uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed { /* capsule "dltensor" */
  dl_tensor tensor;
  void* owner;
  void (*deleter)(struct dl_managed*);
} dl_managed;
typedef struct dl_versioned { /* capsule "dltensor_versioned" */
  uint32_t major, minor;
  void* owner;
  void (*deleter)(struct dl_versioned*);
  uint64_t flags;
  dl_tensor tensor;
} dl_versioned;
/* What the attribute __dlpack_c_exchange_api__ of a type points at (a capsule of that name): the same without a call of Python. */
typedef struct dl_exchange {
  uint32_t major, minor;
  struct dl_exchange* before;
  void* allocator;
  int (*from_object)(void* object, dl_versioned** out); /* the producer's stream is not waited for; 0, or -1 with an exception */
  void *to_object, *borrow, *stream;
} dl_exchange;
#endif
