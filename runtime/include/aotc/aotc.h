/* A sketch of the one public header of a model.so (C11 and C++17): a starting point, to be bettered. */
#ifndef AOTC_H_
#define AOTC_H_
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define AOTC_ABI_VERSION 1u

/* Values are pinned for ever; new ones are appended. 0 is success. */
#define AOTC_STATUS_LIST(X)                                               \
  X(OK, 0, "success")                                                     \
  X(INVALID_ARGUMENT, 1, "an argument is null or malformed")              \
  X(SHAPE_MISMATCH, 2, "a shape is outside what the model was built for") \
  X(INCOMPATIBLE, 3, "this machine or ABI cannot run the artifact")       \
  X(NOT_FOUND, 4, "no input, output or weight has that name")             \
  X(OUT_OF_MEMORY, 5, "an allocator returned null")                       \
  X(WRONG_STATE, 6, "the call is not allowed in this state")              \
  X(DEVICE, 7, "the device driver reported an error")                     \
  X(INTERNAL, 8, "a bug in aotc")
#define AOTC_ENUM_(name, value, text) AOTC_##name = value,
enum { AOTC_STATUS_LIST(AOTC_ENUM_) };
#undef AOTC_ENUM_
typedef int32_t aotc_status; /* not the enum: an enum's size may change */

typedef struct aotc_model aotc_model;     /* immutable, any thread            */
typedef struct aotc_weights aotc_weights; /* mutable until commit, then shared */
typedef struct aotc_context aotc_context; /* scratch: one per thread/stream    */

typedef struct aotc_tensor { /* frozen: 64 bytes, borrowed for the call */
  void* data;
  const int64_t* shape;
  const int64_t* strides; /* in elements; NULL: dense row-major */
  uint64_t byte_size;     /* bytes behind data, checked before any access */
  int32_t rank;
  uint32_t dtype; /* AOTC_DTYPE_* */
  int32_t device; /* -1 host, n >= 0 GPU ordinal */
  uint32_t flags;
  uint64_t reserved[2]; /* zero */
} aotc_tensor;

typedef struct aotc_allocator {
  size_t struct_size;
  void* user;
  void* (*alloc)(void* user, size_t bytes, size_t align, int32_t device);
  void (*free)(void* user, void* ptr, size_t bytes, int32_t device);
} aotc_allocator;

typedef struct aotc_thread_pool {
  size_t struct_size;
  void* user;
  int32_t (*width)(void* user);
  void (*parallel_for)(void* user, int32_t tasks, void (*task)(void* arg, int32_t i), void* arg);
} aotc_thread_pool;

typedef struct aotc_model_options {
  size_t struct_size; /* sizeof(aotc_model_options) as the caller knows it */
  int32_t device;
  uint32_t flags;
  const aotc_allocator* allocator; /* NULL: default */
  const char* weights_path;        /* NULL: embedded, or beside the .so */
  void (*log)(void* user, int32_t level, const char* message);
  void* log_user;
} aotc_model_options;

typedef struct aotc_context_options {
  size_t struct_size;
  void* stream;                    /* cudaStream_t; NULL: default stream */
  const aotc_thread_pool* threads; /* NULL: the caller's thread only */
  void* workspace;                 /* NULL: allocated once, here */
  size_t workspace_size;
} aotc_context_options;

typedef struct aotc_dim {
  int64_t value, min, max;
  const char* symbol;
} aotc_dim;
typedef struct aotc_io_info {
  size_t struct_size;
  const char* name;
  const aotc_dim* dims;
  int32_t rank;
  uint32_t dtype;
} aotc_io_info;

enum { AOTC_INPUT = 0, AOTC_OUTPUT = 1, AOTC_WEIGHT = 2 };
enum { AOTC_COPY = 0, AOTC_BORROW = 1 };

/* Append-only table; struct_size says how much of it this artifact has. */
typedef struct aotc_api {
  size_t struct_size;
  uint32_t abi_version;
  uint32_t reserved;
  const char* (*last_error)(void); /* thread-local, never NULL */
  const char* (*status_name)(aotc_status);
  const char* (*metadata_json)(void);   /* schemas/metadata.schema.json */
  aotc_status (*probe)(int32_t device); /* can this machine run it, and why not */

  aotc_status (*model_create)(const aotc_model_options*, aotc_model** out);
  void (*model_destroy)(aotc_model*); /* NULL is fine */
  aotc_status (*io_count)(const aotc_model*, int32_t kind, int32_t* out);
  aotc_status (*io_get)(const aotc_model*, int32_t kind, int32_t i, aotc_io_info* out);

  aotc_status (*workspace_size)(const aotc_model*, const aotc_tensor* in, int32_t n, size_t* bytes);
  aotc_status (*context_create)(aotc_model*, const aotc_context_options*, aotc_context** out);
  void (*context_destroy)(aotc_context*);
  aotc_status (*output_shapes)(aotc_context*, const aotc_tensor* in, int32_t n_in, int64_t* const* shapes, int32_t n_out);
  aotc_status (*run)(aotc_context*, const aotc_tensor* in, int32_t n_in, const aotc_tensor* out, int32_t n_out);

  aotc_status (*weights_create)(aotc_model*, const aotc_weights* base, aotc_weights** out);
  aotc_status (*weights_set)(aotc_weights*, const char* name, const aotc_tensor*, int32_t mode);
  aotc_status (*weights_commit)(aotc_weights*, void* stream);
  aotc_status (*model_use_weights)(aotc_model*, aotc_weights*);
  void (*weights_release)(aotc_weights*);
} aotc_api;

/* The only symbol a model.so exports. NULL: artifact older than min_version. */
const aotc_api* aotc_get_api(uint32_t min_version);

#ifdef __cplusplus
}
static_assert(sizeof(aotc_tensor) == 64, "aotc_tensor is frozen");
#else
_Static_assert(sizeof(aotc_tensor) == 64, "aotc_tensor is frozen");
#endif
#endif
