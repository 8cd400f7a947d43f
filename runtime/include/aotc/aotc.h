/* The one public header of a model.so. C11 and C++17; needs nothing but the C library.
 *
 * A model.so exports one symbol, aotc_get_api, which returns a table of functions. Load it with aotc/loader.h (C) or aotc/aotc.hpp
 * (C++17), or with dlopen and dlsym; the model.h generated beside it has typed functions for that one model.
 *
 *   const aotc_api* api = aotc_get_api(AOTC_ABI_VERSION);
 *   aotc_model* model;      api->model_create(NULL, &model);
 *   aotc_context* context;  api->context_create(model, NULL, &context);
 *   aotc_tensor x = aotc_host_tensor(data, shape, 2, AOTC_DTYPE_F32, bytes), y = ...;
 *   if (api->run(context, &x, 1, &y, 1) != AOTC_STATUS_OK) puts(api->last_error());
 *
 * Rules that hold for every function
 * - Nothing is thrown. errno, MXCSR, the rounding mode, signal handlers and the current CUDA context are the same after every call.
 * - A function that fails returns a status other than AOTC_STATUS_OK and stores a message for the calling thread (last_error). It has no
 *   other effect, unless its comment says so. Comments write statuses without the prefix AOTC_STATUS_.
 * - Structs that begin with struct_size only grow at their end. Set it to sizeof the struct (the *_INIT macros do), and set fields that you
 *   do not use to zero. A field of a newer header that this artifact does not know must be zero.
 * - Pointers given to a function are borrowed for the call, unless its comment says otherwise. Returned pointers to const are valid as long
 *   as the object that they came from.
 * - Destroy every context and model before dlclose.
 */
#ifndef AOTC_H_
#define AOTC_H_
#include <stddef.h>
#include <stdint.h>

#include "aotc/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AOTC_ABI_VERSION 1u

/* Values never change; new ones are appended. 0 is success. */
#define AOTC_STATUS_LIST(X)                                                             \
  X(OK, 0, "success")                                                                   \
  X(INVALID_ARGUMENT, 1, "an argument is null or malformed")                            \
  X(SHAPE_MISMATCH, 2, "a shape is outside what the model was built for")               \
  X(INCOMPATIBLE, 3, "this machine or ABI cannot run the artifact")                     \
  X(NOT_FOUND, 4, "there is no such file or no such name")                              \
  X(OUT_OF_MEMORY, 5, "memory or threads could not be had")                             \
  X(WRONG_STATE, 6, "the call is not allowed in this state")                            \
  X(DEVICE, 7, "the device driver reported an error")                                   \
  X(INTERNAL, 8, "a bug in aotc")                                                       \
  X(INDEX_OUT_OF_RANGE, 9, "an index in the input data is out of range")                \
  X(DAMAGED, 10, "the artifact or its weights are cut off or damaged")                  \
  X(DEVICE_LOST, 11, "the device is lost to this process")                              \
  X(ASSERTION_FAILED, 12, "a condition of the model does not hold for this input data") \
  X(CANCELLED, 13, "the caller cancelled the run")                                      \
  X(DEADLINE_EXCEEDED, 14, "the run's deadline has passed")                             \
  X(IO, 15, "a descriptor could not be read or written")
#define AOTC_ENUM_(name, value, text) AOTC_STATUS_##name = value,
enum { AOTC_STATUS_LIST(AOTC_ENUM_) };
#undef AOTC_ENUM_
typedef int32_t aotc_status; /* AOTC_STATUS_*. Not the enum type, because the size of an enum may change */

typedef struct aotc_model aotc_model;     /* code and weights on one device; any number of threads may use it at once                    */
typedef struct aotc_context aotc_context; /* workspace, worker threads and states of a sequence of runs; one thread at a time may use it */

/* Devices: a GPU's ordinal n >= 0, or one of these. DEFAULT: the CPU for an artifact with CPU code only, GPU 0 for one with GPU code only;
 * for one with both, GPU 0 if the artifact can run there, else the CPU. */
enum { AOTC_DEVICE_HOST = -1, AOTC_DEVICE_DEFAULT = -2 };

/* Deprecated names, which aotc 0.2 will remove: AOTC_OK for AOTC_STATUS_OK, and so on for every status; AOTC_HOST; AOTC_DEFAULT_DEVICE;
 * output_shapes for output_bounds in the table. Define AOTC_WARN_DEPRECATED before this header to get a warning for each use. */
#ifdef AOTC_WARN_DEPRECATED
#define AOTC_DEPRECATED_(now) __attribute__((deprecated("called " now " now")))
#else
#define AOTC_DEPRECATED_(now)
#endif
#define AOTC_ENUM_(name, value, text) AOTC_##name AOTC_DEPRECATED_("AOTC_STATUS_" #name) = value,
enum { AOTC_STATUS_LIST(AOTC_ENUM_) };
#undef AOTC_ENUM_
enum {
  AOTC_HOST AOTC_DEPRECATED_("AOTC_DEVICE_HOST") = AOTC_DEVICE_HOST,
  AOTC_DEFAULT_DEVICE AOTC_DEPRECATED_("AOTC_DEVICE_DEFAULT") = AOTC_DEVICE_DEFAULT
};

/* A tensor of the caller. This struct never changes (64 bytes). It is borrowed for the call; aotc never frees or keeps it. */
typedef struct aotc_tensor {
  void* data;             /* aligned to the element size. May be NULL if the tensor has no elements. Inputs are not written */
  const int64_t* shape;   /* rank values >= 0. May be NULL if rank is 0 */
  const int64_t* strides; /* in elements; NULL: dense row-major. Inputs in host memory may have any strides >= 0 (channels-last,
                             transposed, a slice, expanded): the run makes a dense copy in memory of the context. All other tensors must be
                             dense row-major */
  uint64_t byte_size; /* bytes that may be accessed from data on, at least up to the end of the last element; checked before any access */
  int32_t rank;
  uint32_t dtype;       /* AOTC_DTYPE_* */
  int32_t device;       /* AOTC_DEVICE_HOST, or n >= 0: the ordinal of the model's GPU */
  uint32_t flags;       /* zero */
  uint64_t reserved[2]; /* zero */
} aotc_tensor;

/* A dense tensor in host memory. For other tensors set `strides` or `device` of the result. */
static inline aotc_tensor aotc_host_tensor(void* data, const int64_t* shape, int32_t rank, uint32_t dtype, uint64_t byte_size) {
  aotc_tensor t;
  t.data = data;
  t.shape = shape;
  t.strides = NULL;
  t.byte_size = byte_size;
  t.rank = rank;
  t.dtype = dtype;
  t.device = AOTC_DEVICE_HOST;
  t.flags = 0;
  t.reserved[0] = t.reserved[1] = 0;
  return t;
}

/* Allocates the large blocks: workspace, states, private copies of weights (a few KB of bookkeeping come from malloc). Called by the
 * functions that make, change or destroy models and contexts, and by run if its shapes need more memory than before. Must outlive the model
 * and its contexts. */
typedef struct aotc_allocator {
  size_t struct_size;
  void* user;
  void* (*alloc)(void* user, size_t bytes, size_t align, int32_t device); /* returns NULL on failure */
  void (*free)(void* user, void* ptr, size_t bytes, int32_t device);
} aotc_allocator;

/* A thread pool of the caller. parallel_for calls task(arg, i) once for every i in [0, tasks), in any order, on any threads, and returns
 * when all calls have returned. width returns the number of threads; only context_create calls it. Must outlive the context. */
typedef struct aotc_thread_pool {
  size_t struct_size;
  void* user;
  int32_t (*width)(void* user);
  void (*parallel_for)(void* user, int32_t tasks, void (*task)(void* arg, int32_t i), void* arg);
} aotc_thread_pool;

/* model_options.flags: any of the first two, and at most one of AOTC_MODEL_PLACE. */
enum {
  AOTC_MODEL_VERIFY_WEIGHTS = 1, /* also check the hash of the weights and of the rest of the artifact's file: about 0.1 s per GB. Without
                                    it, code, tables, and the size and stamp of a weights file are checked */
  AOTC_MODEL_LAZY_WEIGHTS = 2,   /* CPU: runs map a page of the weights when they first touch it. For processes that read only a small
                                    part of the weights (embeddings). Without it, model_create maps all pages (about 0.1 s per GB if the
                                    file is in the page cache), and no run waits for them */
  /* CPU: where the weights are. Neither: as the artifact was built. Both: INVALID_ARGUMENT. */
  AOTC_MODEL_OWN_WEIGHTS = 4,    /* a private copy: model_create copies the weights to memory of this process, in huge pages if the system
                                    has them. It takes about 0.3 s per GB, or more if the system must first free huge pages. Runs that read
                                    many weights for little arithmetic (decoding by a language model) are faster: up to 1.5 times in
                                    virtual machines, where address translation is slow. Other processes cannot share the copy. Artifacts
                                    built with --own-weights or --mode max-autotune do this by default, if the memory is available */
  AOTC_MODEL_SHARED_WEIGHTS = 8, /* no private copy, even if that is the artifact's default */
  AOTC_MODEL_PLACE = AOTC_MODEL_OWN_WEIGHTS | AOTC_MODEL_SHARED_WEIGHTS /* the bits of this choice */
};
/* A source of weights: one of path, fd, data and read, or none for the artifact's own weights. It has the content of a weights file that
 * fits the artifact: the file that was built with it, or one that `aotc weights` made for it. Since revision 5. */
typedef struct aotc_weights_source {
  size_t struct_size;
  const char* path; /* a file, which is mapped, so processes share its pages. It must not be overwritten while it is in use: rename a new
                       file over it */
  const void* data; /* content in memory. If release is NULL, it is copied. Otherwise it must be 64-byte aligned and is used in place */
  uint64_t bytes;   /* of data */
  /* Writes bytes [offset, offset + bytes) of the content to `to`. It is called by the calling thread, one piece of at most 16 MB after the
   * other, the end of the content first. It returns OK, or the status with which the whole call then fails. */
  aotc_status (*read)(void* user, uint64_t offset, void* to, uint64_t bytes);
  void* user;
  void (*release)(void* user); /* may be NULL. Called once, when the memory is no longer used: by the thread that ends the last run on it,
                                  swaps the weights or destroys the model. Not called if the call failed */
  uint32_t flags;              /* AOTC_WEIGHTS_VERIFY */
  int32_t fd;                  /* with the flag AOTC_WEIGHTS_FD: a file that is open for reading; it is mapped like path */
} aotc_weights_source;
#define AOTC_WEIGHTS_SOURCE_INIT \
  { sizeof(aotc_weights_source), NULL, NULL, 0, NULL, NULL, NULL, 0, -1 }
enum {
  AOTC_WEIGHTS_VERIFY =
      1,              /* check the hash of the content (about 0.1 s per GB): DAMAGED if it is wrong. Size and stamp are always checked */
  AOTC_WEIGHTS_FD = 2 /* use fd; the caller may close the descriptor after the call */
};

typedef struct aotc_model_options {
  size_t struct_size;
  int32_t device; /* AOTC_DEVICE_HOST, a GPU's ordinal or AOTC_DEVICE_DEFAULT; the artifact must have code for it */
  uint32_t flags;
  const aotc_allocator* allocator; /* NULL: mmap and the CUDA driver. The struct is copied */
  const char* weights_path;        /* a weights file: the artifact's own, or one that aotc weights made for it. NULL: the weights in the
                                      .so, or NAME.weights beside NAME.so */
  void (*log)(void* user, int32_t level, const char* message); /* NULL: silent. Called by model_create and context_create only */
  void* log_user;
  const aotc_weights_source* weights; /* a source of weights, or NULL; excludes weights_path. Since revision 5 */
  /* GPU: how many bytes of the device's memory weights may take. Weights beyond it stay in pinned host memory; each run copies them to a
   * ring of its context, on a separate stream, before the steps that read them. Results have the same bits. The budget covers the weights
   * that stay on the device and one ring. Each further context has its own ring (model_info.weights_ring). During a swap the weights of
   * both sets are there. Runs are then no CUDA graphs. If the budget is too small to stream the weights, model_create returns
   * INVALID_ARGUMENT, and last_error says how much is enough. 0: weights are streamed if the free memory does not hold them and the states
   * of a context. UINT64_MAX: never. CPU: no effect. Since revision 6 */
  uint64_t weights_budget;
} aotc_model_options;
#define AOTC_MODEL_OPTIONS_INIT \
  { sizeof(aotc_model_options), AOTC_DEVICE_DEFAULT, 0, NULL, NULL, NULL, NULL, NULL, 0 }

/* context_options.flags: any of the first five, and at most one of AOTC_CONTEXT_LAUNCHES. */
enum {
  AOTC_CONTEXT_FLUSH_DENORMALS = 1, /* CPU: runs with flush-to-zero and denormals-are-zero; the caller's MXCSR is restored */
  AOTC_CONTEXT_POISON = 2,          /* fills the workspace with NaN bytes before every run: for tests */
  AOTC_CONTEXT_PROFILE = 4,   /* measures every step (context_profile); costs about 50 ns per step. On a GPU, steps do not overlap. With
                                 CUDA graphs, events between the nodes measure them from the second run of a shape on; without graphs,
                                 times may include the host's launches */
  AOTC_CONTEXT_STEPWISE = 32, /* GPU: waits after every step, so that the message of a device error names the step. For debugging.
                                 CPU: no effect */
  AOTC_CONTEXT_FORKS = 64,    /* CPU: the states are in a memory file, which takes a descriptor. Then states_fork from this context
                                 copies nothing, even right after a run, unless this context is itself a fork. In a child of fork(2)
                                 such a context's states are undefined until state_reset. No effect on a GPU, with an allocator of the
                                 caller, or if the system has no memory files. Since revision 4 */
  /* GPU: how steps are launched. Neither: as the artifact was built. Both: INVALID_ARGUMENT. CPU: no effect. */
  AOTC_CONTEXT_GRAPHS = 8, /* from the second run of a shape on, a run is one launch of a CUDA graph. The context keeps the graphs of the
                              latest eight shapes and updates their pointers for each run; no data are copied. The default of artifacts
                              built with --mode reduce-overhead or max-autotune. With a driver older than CUDA 12.3, while the caller
                              captures the stream, and if weights are streamed (weights_budget), steps are launched one by one */
  AOTC_CONTEXT_NO_GRAPHS = 16,                                         /* steps are launched one by one */
  AOTC_CONTEXT_LAUNCHES = AOTC_CONTEXT_GRAPHS | AOTC_CONTEXT_NO_GRAPHS /* the bits of this choice */
};
enum { AOTC_MAX_THREADS = 1024 };
typedef struct aotc_context_options {
  size_t struct_size;
  void* stream;                    /* GPU: the CUstream or cudaStream_t of all runs; NULL: the default stream */
  const aotc_thread_pool* threads; /* the caller's pool (copied), or NULL */
  void* workspace;       /* memory of the caller, 64-byte aligned, on the model's device, which must outlive the context; NULL: the
                            context allocates it */
  size_t workspace_size; /* its bytes; a run that needs more fails with OUT_OF_MEMORY, and the message says how much it needs */
  int32_t num_threads;   /* threads of a run, with the calling thread. 0 or 1: the calling thread only. -1: the smaller of the CPUs
                            in its affinity mask and the CPU quota of its control groups, rounded up. Ignored if `threads` is set */
  uint32_t flags;
} aotc_context_options;
#define AOTC_CONTEXT_OPTIONS_INIT \
  { sizeof(aotc_context_options), NULL, NULL, NULL, 0, 0, 0 }

typedef struct aotc_dim {
  int64_t value;      /* the size if it is fixed, else -1 */
  int64_t min, max;   /* inclusive; max INT64_MAX: unbounded */
  const char* symbol; /* "batch", "2*seq + 1"; NULL if fixed */
} aotc_dim;
typedef struct aotc_io_info {
  size_t struct_size;
  const char* name;
  const aotc_dim* dims; /* rank entries */
  int32_t rank;
  uint32_t dtype;
  int32_t alias_input; /* outputs: index of the input whose new content this is (the model wrote to that input), else -1 */
  int32_t reserved;
  /* Outputs with data-dependent dimensions: rank texts, "u0" or "2*u0 + 1" for a data-dependent dimension and NULL for the others. NULL:
   * the output has none. For such a dimension, `dims` has the upper bound, for which you allocate the buffer; output_sizes gives the actual
   * size after the run. Since revision 1. */
  const char* const* found;
} aotc_io_info;
#define AOTC_IO_INFO_INIT \
  { sizeof(aotc_io_info), NULL, NULL, 0, 0, -1, 0, NULL }

/* Kinds of io_count and io_get. */
enum { AOTC_INPUT = 0, AOTC_OUTPUT = 1, AOTC_STATE = 2 };

typedef struct aotc_model_info {
  size_t struct_size;
  uint64_t weights_bytes;
  const char* target; /* the code that runs: "avx2", "avx512", "avx512_bf16", "amx", "sm_90a" */
  int32_t device;
  int32_t n_variants;
  uint64_t weights_version; /* of the weights that new runs use; 1: those of model_create. Since revision 5 */
  uint64_t weights_layout;  /* weights files with this number fit; 0: only the artifact's own. Since revision 5 */
  /* GPU: streamed bytes of weights_bytes, and bytes of the ring of each context (weights_budget). Since revision 6 */
  uint64_t weights_streamed, weights_ring;
} aotc_model_info;
#define AOTC_MODEL_INFO_INIT \
  { sizeof(aotc_model_info), 0, NULL, 0, 0, 0, 0, 0, 0 }

/* A method: one of the programs of the artifact. Since revision 2. */
typedef struct aotc_method_info {
  size_t struct_size;
  const char* name; /* as in aotc build NAME=FILE; "forward" if the program had no name */
  int32_t index;    /* the argument `method` of the functions below */
  int32_t n_inputs;
  int32_t n_outputs;
  int32_t n_variants;
} aotc_method_info;
#define AOTC_METHOD_INFO_INIT \
  { sizeof(aotc_method_info), NULL, 0, 0, 0, 0 }

/* Options of one run. Since revision 3. */
typedef struct aotc_run_options {
  size_t struct_size;
  uint64_t deadline_ns;    /* nanoseconds of CLOCK_MONOTONIC (std::chrono::steady_clock); 0: none */
  const int32_t* cancel;   /* NULL, or a flag that must exist until the run returns. If any thread sets it to a value other than 0, by an
                              atomic store, the run ends. aotc only reads it */
  const char* traceparent; /* NULL, or the traceparent header of the request (W3C Trace Context, as OpenTelemetry's propagators write it):
                              "00-<trace id>-<parent id>-<flags>". Probes and NVTX ranges of the run show it. Other text is ignored, as
                              the standard says. Since revision 6 */
} aotc_run_options;
#define AOTC_RUN_OPTIONS_INIT \
  { sizeof(aotc_run_options), 0, NULL, NULL }

/* A part of a state: `length` elements from `offset` on along dimension `dim`. Dimensions without a range in the same call are taken whole.
 * This struct never changes (24 bytes). Since revision 4. */
typedef struct aotc_state_range {
  int32_t dim;      /* from 0; or counted from the last: -1, -2 .. */
  int32_t reserved; /* zero */
  int64_t offset;
  int64_t length;
} aotc_state_range;

typedef struct aotc_context_info {
  size_t struct_size;
  uint64_t workspace_bytes; /* allocated now: arena and scratch of all threads */
  uint64_t arena_bytes;     /* used by the latest run's shapes */
  uint64_t scratch_bytes;   /* used by the latest run's shapes, all threads */
  uint64_t state_bytes;
  const char* variant;      /* of the latest run, or NULL */
  int32_t threads;          /* of a run */
  int32_t graphs;           /* GPU: number of shapes that have a CUDA graph now */
  uint64_t weights_version; /* of the latest run; 0: no run yet. Since revision 5 */
} aotc_context_info;
#define AOTC_CONTEXT_INFO_INIT \
  { sizeof(aotc_context_info), 0, 0, 0, 0, NULL, 0, 0, 0 }

/* One step of the latest run. */
typedef struct aotc_profile_step {
  const char* label; /* the graph nodes that it computes */
  uint64_t ns;
  int32_t threads; /* that worked on it */
  int32_t reserved;
} aotc_profile_step;

/* The table only grows at its end. A revision of ABI version 1 appends functions; fields and flags that came with it say "since revision
 * N". To test the header at compile time: #if AOTC_ABI_REVISION >= 3, or #ifdef AOTC_SINCE_run_with. To test the artifact at run time:
 * AOTC_HAS(api, run_with), or aotc_api_revision(api) >= AOTC_SINCE_run_with. Functions without a number here are in every artifact. */
#define AOTC_ABI_REVISION 6
#define AOTC_SINCE_output_sizes 1
#define AOTC_SINCE_method_count 2
#define AOTC_SINCE_method_get 2
#define AOTC_SINCE_method_io_get 2
#define AOTC_SINCE_method_workspace_size 2
#define AOTC_SINCE_method_output_bounds 2
#define AOTC_SINCE_run_method 2
#define AOTC_SINCE_run_with 3
#define AOTC_SINCE_state_read_range 4
#define AOTC_SINCE_state_write_range 4
#define AOTC_SINCE_states_layout 4
#define AOTC_SINCE_states_save 4
#define AOTC_SINCE_states_load 4
#define AOTC_SINCE_states_fork 4
#define AOTC_SINCE_states_copy 4
#define AOTC_SINCE_states_truncate 4
#define AOTC_SINCE_model_swap_weights 5
#define AOTC_SINCE_model_trim 6

/* Append-only: functions beyond struct_size are missing in this artifact. */
typedef struct aotc_api {
  size_t struct_size;
  uint32_t abi_version;
  uint32_t reserved;

  /* The message of the latest failure on the calling thread: never NULL, at most 1023 bytes, valid until the thread's next failure. */
  const char* (*last_error)(void);
  /* The text of a status; "unknown status" for values that this artifact does not know. Static. */
  const char* (*status_name)(aotc_status status);
  /* The model's description (schemas/metadata.schema.json). Static: valid until dlclose. */
  const char* (*metadata_json)(void);
  /* Tests whether this machine can run the artifact on this device. Creates nothing, and executes no instruction that the machine may lack.
   * INCOMPATIBLE: it cannot; last_error names the missing CPU feature, driver or GPU architecture. DEVICE: the driver failed. */
  aotc_status (*probe)(int32_t device);

  /* Makes a model: selects the code for this machine and maps the weights (CPU: without a copy; GPU: uploads them once). options NULL:
   * AOTC_MODEL_OPTIONS_INIT. Any thread may call it. *out is set on success only.
   * INCOMPATIBLE, DEVICE: as probe. INCOMPATIBLE also: the weights file belongs to another build. NOT_FOUND: the weights file is missing.
   * DAMAGED: it or the artifact is truncated or not what was built. OUT_OF_MEMORY. */
  aotc_status (*model_create)(const aotc_model_options* options, aotc_model** out);
  /* Destroys the model. Its memory is freed when its last context is destroyed too. NULL is allowed. */
  void (*model_destroy)(aotc_model* model);
  aotc_status (*model_get_info)(const aotc_model* model, aotc_model_info* out);

  /* The number of inputs, outputs or states (kind), and the i-th of them, in the order of run. Set out->struct_size first. */
  aotc_status (*io_count)(const aotc_model* model, int32_t kind, int32_t* out);
  aotc_status (*io_get)(const aotc_model* model, int32_t kind, int32_t i, aotc_io_info* out);

  /* The bytes of workspace that a context with these options needs for inputs of these shapes (only dtype, rank and shape are read). in
   * NULL and n 0: for the largest shapes that the model accepts; SHAPE_MISMATCH if a dimension has no maximum. States are not included. */
  aotc_status (*workspace_size)(const aotc_model* model, const aotc_context_options* options, const aotc_tensor* in, int32_t n,
                                size_t* bytes);
  /* Makes a context: worker threads, states with their initial content and, if the shapes are fixed, the workspace. options NULL: runs use
   * the calling thread only. Contexts of one model can run at the same time; they share no lock. *out is set on success only. */
  aotc_status (*context_create)(aotc_model* model, const aotc_context_options* options, aotc_context** out);
  /* Joins the context's threads and frees its memory. Not during a run of this context. NULL is allowed. */
  void (*context_destroy)(aotc_context* context);
  aotc_status (*context_get_info)(const aotc_context* context, aotc_context_info* out);

  /* The shapes of the output buffers to allocate for inputs of these shapes (data may be NULL). shapes[i] has room for the rank of output
   * i, or is NULL if you do not need it. For a data-dependent size (nonzero, x[mask]) this is the upper bound, and output_sizes gives the
   * actual size after the run. All other sizes are exact. Errors as run. */
  union {
    aotc_status (*output_bounds)(aotc_context* context, const aotc_tensor* in, int32_t n_in, int64_t* const* shapes, int32_t n_out);
    aotc_status (*output_shapes)(aotc_context* context, const aotc_tensor* in, int32_t n_in, int64_t* const* shapes, int32_t n_out)
        AOTC_DEPRECATED_("output_bounds");
  };
  /* Runs the model. Inputs and outputs are in the model's order.
   *
   * Outputs have exactly the shapes that output_bounds gives. They must not overlap an input or another output, with one exception: an
   * output that is the new content of an input (alias_input) may have that input's address.
   *
   * CPU: returns when the outputs are written. GPU: tensors are on the model's GPU or in host memory. If all are on the GPU, run returns
   * when the work is queued on the context's stream, and a later call reports errors of the device: synchronize, or the next run. If one is
   * in host memory, run copies it and returns when all is done.
   *
   * On a CPU, a run with a shape that the context has seen makes no allocation, lock or system call except to wake sleeping threads.
   *
   * INVALID_ARGUMENT, SHAPE_MISMATCH: a dtype, rank, dimension, stride, byte size, device or alignment is wrong. All are checked before
   *   anything is computed; no output has changed.
   * INDEX_OUT_OF_RANGE: input data indexes outside of a tensor. last_error has the input, its value and the bounds. ASSERTION_FAILED: a
   *   condition of the model (torch._check) does not hold for this data; last_error says which. The outputs are then undefined. Indices of
   *   writes to states (a position past a KV cache) and the model's conditions are checked before the first write, so no state has changed.
   *   Exception: indices that the model computes from the new content of a state of more than 64 KB; if the write itself reports the error,
   *   the states that the run updates are undefined. On a GPU the kernels of such a run write nothing; a later call reports the error, and
   *   runs that are already queued continue from the unchanged states.
   * OUT_OF_MEMORY: the workspace could not be allocated; nothing has changed.
   * WRONG_STATE: another thread uses the context, or its states are undefined because a run that updates them failed: call state_reset.
   * DEVICE: the driver reported an error. DEVICE_LOST: the device cannot be used by this process any more, as after an illegal access. */
  aotc_status (*run)(aotc_context* context, const aotc_tensor* in, int32_t n_in, const aotc_tensor* out, int32_t n_out);

  /* GPU: waits until the runs of this context are done, and returns their error: DEVICE, DEVICE_LOST, INDEX_OUT_OF_RANGE or
   * ASSERTION_FAILED. CPU: returns at once. */
  aotc_status (*synchronize)(aotc_context* context);

  /* States: buffers of the model that persist from run to run (a KV cache). Each context has its own set. state_reset restores the initial
   * content of a state, or of all states if name is NULL. state_read and state_write copy a whole state to or from a dense tensor of its
   * dtype and shape in host memory; on a GPU they run in stream order and wait. NOT_FOUND: no such state. */
  aotc_status (*state_reset)(aotc_context* context, const char* name);
  aotc_status (*state_read)(aotc_context* context, const char* name, const aotc_tensor* to);
  aotc_status (*state_write)(aotc_context* context, const char* name, const aotc_tensor* from);

  /* The times of the latest run's steps, for a context made with AOTC_CONTEXT_PROFILE (else WRONG_STATE). Fills up to *n entries and sets
   * *n to the number of steps. GPU: waits for the run. */
  aotc_status (*context_profile)(const aotc_context* context, aotc_profile_step* steps, int32_t* n);

  /* The actual shape of output i of the latest run: it differs from that of output_bounds in data-dependent dimensions (io_info.found). The
   * buffer keeps the strides of the shape of output_bounds; in each dimension, the valid elements come first. So if only the first
   * dimension is smaller, the valid elements are the dense beginning of the buffer. Elements past the actual size are unspecified. sizes
   * has room for the output's rank. GPU: waits for the runs of this context. WRONG_STATE: no run yet, or the latest run failed. */
  aotc_status (*output_sizes)(aotc_context* context, int32_t i, int64_t* sizes);

  /* Methods: an artifact can hold several programs (aotc build prefill=a.pt2 decode=b.pt2), each with its own inputs, outputs and shapes.
   * They share the weights and a context's states: a run of any method reads what earlier runs of any method wrote. The functions above
   * mean method 0, with these exceptions: workspace_size with in NULL is that of the method that needs most, and context_profile,
   * output_sizes and context_get_info are about the latest run of any method. An artifact whose table ends before method_count has only
   * method 0. INVALID_ARGUMENT: no method of that index; NOT_FOUND: none of that name. */
  aotc_status (*method_count)(const aotc_model* model, int32_t* out);
  /* name NULL: the i-th method; else the method of that name (i is ignored). */
  aotc_status (*method_get)(const aotc_model* model, int32_t i, const char* name, aotc_method_info* out);
  /* As io_get, workspace_size, output_bounds and run, for one method. States are the same for all methods. For the latest eight shapes of
   * each method, the context keeps what it computed from the shape. Its one workspace grows to the size that the largest run needs. */
  aotc_status (*method_io_get)(const aotc_model* model, int32_t method, int32_t kind, int32_t i, aotc_io_info* out);
  aotc_status (*method_workspace_size)(const aotc_model* model, int32_t method, const aotc_context_options* options, const aotc_tensor* in,
                                       int32_t n, size_t* bytes);
  union {
    aotc_status (*method_output_bounds)(aotc_context* context, int32_t method, const aotc_tensor* in, int32_t n_in, int64_t* const* shapes,
                                        int32_t n_out);
    aotc_status (*method_output_shapes)(aotc_context* context, int32_t method, const aotc_tensor* in, int32_t n_in, int64_t* const* shapes,
                                        int32_t n_out) AOTC_DEPRECATED_("method_output_bounds");
  };
  aotc_status (*run_method)(aotc_context* context, int32_t method, const aotc_tensor* in, int32_t n_in, const aotc_tensor* out,
                            int32_t n_out);

  /* As run_method, with a deadline, a cancel flag and a trace id; options NULL: as run_method. A run that completes has the same bits as
   * run_method. CANCELLED, DEADLINE_EXCEEDED: the run noticed the flag or the deadline before its last step was done. The outputs are then
   * undefined. If the run had written no state in place, the states are unchanged; else they are undefined until state_reset or
   * state_write. last_error says which of the two. A run that ended before its first step changed nothing. CPU: every thread checks before
   * each step, and within long steps about every 50 us, but not within a unit of a kernel's work (a row or a tile; a whole step if its
   * threads work on it together, such as a recurrence). The same holds on a pool of the caller. GPU: the host checks before each launch, or
   * before the launch of a graph. Queued work is completed; with tensors in host memory, the call waits for it. */
  aotc_status (*run_with)(aotc_context* context, int32_t method, const aotc_tensor* in, int32_t n_in, const aotc_tensor* out, int32_t n_out,
                          const aotc_run_options* options);

  /* As state_read and state_write, for the part that n ranges along different dimensions select; the tensor has the shape of the part. n 0:
   * the whole state. SHAPE_MISMATCH: the state lacks that dimension or these elements. */
  aotc_status (*state_read_range)(aotc_context* context, const char* name, const aotc_state_range* ranges, int32_t n,
                                  const aotc_tensor* to);
  aotc_status (*state_write_range)(aotc_context* context, const char* name, const aotc_state_range* ranges, int32_t n,
                                   const aotc_tensor* from);

  /* The next five functions work on all states at once. Ranges select a part of each state. If a state has fewer elements along the
   * dimension (the cache of a sliding window), those of the range that it has are taken; a state without the dimension (a counter) is taken
   * whole. SHAPE_MISMATCH: no state has all elements of the ranges. WRONG_STATE: a state that would be read is undefined.
   *
   * states_layout: a number that identifies the states and the weights of an artifact. It is equal for all its models, and for artifacts
   * that were built with the same weights and states in the same form. */
  aotc_status (*states_layout)(const aotc_model* model, uint64_t* id);
  /* Writes the states to a file, pipe or socket at the descriptor's position: a header with the layout and the ranges, then the content,
   * dense, in the order of io_get. IO: last_error has the system's reason; a part may have been written. */
  aotc_status (*states_save)(aotc_context* context, int fd, const aotc_state_range* ranges, int32_t n);
  /* Reads what states_save wrote, at the descriptor's position, and not a byte more. Elements that were not saved do not change. n 0: into
   * the ranges that were saved; else into these ranges, along the same dimensions and with the same lengths (another slot). An undefined
   * state becomes defined if it was saved whole. Nothing has changed after DAMAGED (not written by states_save), INCOMPATIBLE (another
   * artifact) and SHAPE_MISMATCH (ranges do not fit). The states are undefined after DAMAGED (truncated) and IO. */
  aotc_status (*states_load)(aotc_context* context, int fd, const aotc_state_range* ranges, int32_t n);
  /* Gives `to` the states of `from`, another context of the same model. With ranges (a prefix), everything else gets its initial content.
   * CPU: both contexts share pages (copy on write). The cost is one mapping, or with ranges one mapping for each contiguous range of 64 KB
   * or more; smaller ones are copied. The first fork after a run of `from` first copies its states once, and further forks until its next
   * run share that copy; a context made with AOTC_CONTEXT_FORKS that is not itself a fork needs no such copy. With an allocator of the
   * caller, or if the system has no memory files, the content is copied. GPU: copied on the device in the order of both streams; the call
   * waits. */
  aotc_status (*states_fork)(aotc_context* to, aotc_context* from, const aotc_state_range* ranges, int32_t n);
  /* Copies the part ranges_from of the states of `from` to the part ranges_to of `to`. Both have n ranges, along the same dimensions and
   * with the same lengths. Both contexts belong to one model. They may be the same context (to copy a slot to another): then the parts must
   * not overlap (INVALID_ARGUMENT), and states without these dimensions do not change. */
  aotc_status (*states_copy)(aotc_context* to, const aotc_state_range* ranges_to, aotc_context* from, const aotc_state_range* ranges_from,
                             int32_t n);
  /* Keeps the first `length` elements along `dim` and restores the initial content of the others. If that is zeros, their memory may be
   * returned to the system. name NULL: all states that have more elements. */
  aotc_status (*states_truncate)(aotc_context* context, const char* name, int32_t dim, int64_t length);
  /* Replaces the model's weights while it is in use. Runs that begin after the call has returned use the new weights, in every context.
   * Runs in progress keep the old ones, whose memory is freed when the last of these runs ends. A run never mixes two sets. States keep
   * their content; state_reset and context_create take the initial content from the new set. source NULL: the artifact's own weights again.
   * *version (may be NULL) is set to the number of the set, one more than after the previous swap. Any thread may call it; concurrent swaps
   * run one after the other. GPU: the memory of the old set is freed when each context with queued runs on it has run again, or was
   * synchronized or destroyed. If the caller captured runs into a graph, their set stays until model_destroy.
   * On failure the model keeps its weights. INCOMPATIBLE: weights of another artifact. NOT_FOUND: no such file. DAMAGED: truncated or, with
   * AOTC_WEIGHTS_VERIFY, not what was written. OUT_OF_MEMORY, DEVICE, or the status that `read` returned. */
  aotc_status (*model_swap_weights)(aotc_model* model, const aotc_weights_source* source, uint64_t* version);
  /* Returns the memory of the weights to the system, for a model that will not run for some time. Pages of the artifact or of a weights
   * file are released by the process; the system may keep them in its page cache, and later runs map those that they read again. A
   * private copy (AOTC_MODEL_OWN_WEIGHTS) is freed, and runs read the file's pages until the next swap. Weights from memory or from a
   * function stay. *bytes (may be NULL) is set to the bytes that were released, whether they were in memory or not. Any thread may call it,
   * also during runs; these continue, slower. Results have the same bits. INCOMPATIBLE: the model is on a GPU. OUT_OF_MEMORY: nothing has
   * changed. */
  aotc_status (*model_trim)(aotc_model* model, uint64_t* bytes);
} aotc_api;

/* Whether the artifact has that function of the table. */
#define AOTC_HAS(api, function) ((api)->struct_size > offsetof(aotc_api, function) && (api)->function)
/* The latest revision all of whose functions the artifact has; at most AOTC_ABI_REVISION. */
static inline int32_t aotc_api_revision(const aotc_api* api) {
  return AOTC_HAS(api, model_trim)           ? 6
         : AOTC_HAS(api, model_swap_weights) ? 5
         : AOTC_HAS(api, states_truncate)    ? 4
         : AOTC_HAS(api, run_with)           ? 3
         : AOTC_HAS(api, run_method)         ? 2
         : AOTC_HAS(api, output_sizes)       ? 1
                                             : 0;
}

/* The only symbol that a model.so exports. NULL: the artifact is older than min_version. */
const aotc_api* aotc_get_api(uint32_t min_version);
typedef const aotc_api* (*aotc_get_api_fn)(uint32_t min_version);

#ifdef __cplusplus
}
static_assert(sizeof(aotc_tensor) == 64, "aotc_tensor is frozen");
static_assert(sizeof(aotc_state_range) == 24, "aotc_state_range is frozen");
#else
_Static_assert(sizeof(aotc_tensor) == 64, "aotc_tensor is frozen");
_Static_assert(sizeof(aotc_state_range) == 24, "aotc_state_range is frozen");
#endif
#endif
