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
 * - Nothing is thrown. errno, MXCSR, the rounding mode, signal handlers and the current CUDA context are as before after every call.
 * - A function that fails returns a status other than AOTC_STATUS_OK, has no effect unless it says so, and leaves a message for the calling
 *   thread in last_error. Below statuses stand without their AOTC_STATUS_.
 * - Structs that start with struct_size grow at their end only: set it to sizeof the struct as you know it (the *_INIT macros do), and
 *   zero what you do not use. A field of a newer header that this artifact does not know must be zero.
 * - Pointers given to a function are borrowed for the call, unless it says otherwise. Pointers to const that are returned live as long as
 *   the object that they were asked from.
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

/* Values are pinned for ever; new ones are appended. 0 is success. */
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
typedef int32_t aotc_status; /* AOTC_STATUS_*. Not the enum: an enum's size may change */

typedef struct aotc_model aotc_model;     /* code and weights on one device; any number of threads may use it at once            */
typedef struct aotc_context aotc_context; /* workspace, threads and states of one stream of runs; one thread at a time uses it */

/* Devices: a GPU's ordinal n >= 0, or one of these. DEFAULT: host for a CPU artifact, GPU 0 for a GPU artifact. */
enum { AOTC_DEVICE_HOST = -1, AOTC_DEVICE_DEFAULT = -2 };

/* Names of before, which go with aotc 0.2: AOTC_OK for AOTC_STATUS_OK and so with every status, AOTC_HOST, AOTC_DEFAULT_DEVICE, and
 * output_shapes for output_bounds in the table. AOTC_WARN_DEPRECATED, defined before this header is included: uses of them warn. */
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

/* A tensor of the caller's. Frozen: 64 bytes. Borrowed for the call; aotc never frees or keeps it. */
typedef struct aotc_tensor {
  void* data;             /* aligned to the element size is enough; may be NULL when there is no element. Inputs are not written */
  const int64_t* shape;   /* rank values >= 0; may be NULL when rank is 0 */
  const int64_t* strides; /* in elements; NULL: dense row-major. Inputs in host memory may have any that are 0 or more (channels-last,
                             transposed, a slice, expanded): the run reads a dense copy, which the context keeps memory for. All other
                             tensors must be dense row-major */
  uint64_t byte_size;     /* bytes that may be accessed behind data: at least to the end of the last element; checked before any access */
  int32_t rank;
  uint32_t dtype;       /* AOTC_DTYPE_* */
  int32_t device;       /* AOTC_DEVICE_HOST, or n >= 0: the ordinal of the model's GPU */
  uint32_t flags;       /* zero */
  uint64_t reserved[2]; /* zero */
} aotc_tensor;

/* A dense tensor in host memory; one with strides is the same with `strides` set. */
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

/* Gives the large blocks: workspace and states (not the few KB of bookkeeping, which come from malloc). Called by context_create,
 * context_destroy, and by run when it meets shapes that need more than before. Must outlive the model. */
typedef struct aotc_allocator {
  size_t struct_size;
  void* user;
  void* (*alloc)(void* user, size_t bytes, size_t align, int32_t device); /* NULL when it cannot */
  void (*free)(void* user, void* ptr, size_t bytes, int32_t device);
} aotc_allocator;

/* A thread pool of the caller's. parallel_for runs task(arg, i) once for every i in [0, tasks), in any order, on any threads, and returns
 * when all are done. width: the most tasks worth asking for; asked once, by context_create. Must outlive the context. */
typedef struct aotc_thread_pool {
  size_t struct_size;
  void* user;
  int32_t (*width)(void* user);
  void (*parallel_for)(void* user, int32_t tasks, void (*task)(void* arg, int32_t i), void* arg);
} aotc_thread_pool;

/* model_options.flags: any of the first, and one of AOTC_MODEL_PLACE or none. */
enum {
  AOTC_MODEL_VERIFY_WEIGHTS = 1, /* hash the weights too, wherever they lie, and all else of the artifact's file: about 0.1 s a GB. Code
                                    and tables, and the size and stamp of a weights file, are compared always */
  AOTC_MODEL_LAZY_WEIGHTS = 2,   /* CPU: leave it to the runs to map the weights' pages, each when it is first touched; nothing is copied
                                    but with OWN_WEIGHTS. For models of whose weights a process reads little (embeddings); else
                                    model_create maps them all, in about 0.1 s a GB where the file is in memory already, and the first
                                    run meets no page of them that is missing */
  /* CPU: where the weights lie. Neither: as the artifact was built. Both: INVALID_ARGUMENT. */
  AOTC_MODEL_OWN_WEIGHTS = 4,    /* model_create copies them to memory of the process's own, in huge pages where the system grants them,
                                    which takes 0.3 s a GB, and more where it has to make them. Runs that read many weights for little
                                    arithmetic (a language model's next token) are faster the slower the machine translates addresses: up
                                    to 1.5 times in virtual machines. Processes that load one artifact share its weights without this, not
                                    with it. Artifacts of --own-weights and --mode max-autotune do so by themselves where that memory can
                                    be had */
  AOTC_MODEL_SHARED_WEIGHTS = 8, /* they stay where they are mapped, whatever the artifact does by itself */
  AOTC_MODEL_PLACE = AOTC_MODEL_OWN_WEIGHTS | AOTC_MODEL_SHARED_WEIGHTS /* the bits of this choice */
};
/* Where weights come from: one of path, fd, data and read. What it gives is the content of a weights file that fits the artifact: the one
 * that was built with it, or one that `aotc weights` made for it. None of them: the artifact's own weights. Since revision 5. */
typedef struct aotc_weights_source {
  size_t struct_size;
  const char* path; /* of a file, which is mapped: processes that do so share its pages. It must not be written over while it is in use: a
                       new file is renamed to its place */
  const void* data; /* content in memory. release NULL: it is copied, and borrowed for the call; else it is 64-byte aligned and stays */
  uint64_t bytes;   /* of data */
  /* Gives bytes [offset, offset + bytes) of the content, into the process's own memory: called one after another, by the calling thread,
   * for pieces of at most 16 MB, the last of the content first. OK, or the status that the call fails with. */
  aotc_status (*read)(void* user, uint64_t offset, void* to, uint64_t bytes);
  void* user;
  void (*release)(void* user); /* may be NULL. Called once when a source that was taken is no longer used, with the last run on it, by the
                                  thread that ends that run, swaps, or destroys the model. Never for a call that failed */
  uint32_t flags;              /* AOTC_WEIGHTS_VERIFY */
  int32_t fd;                  /* a file that is open for reading, mapped as by its path, where AOTC_WEIGHTS_FD is among the flags */
} aotc_weights_source;
#define AOTC_WEIGHTS_SOURCE_INIT \
  { sizeof(aotc_weights_source), NULL, NULL, 0, NULL, NULL, NULL, 0, -1 }
enum {
  AOTC_WEIGHTS_VERIFY =
      1,              /* hash the content, about 0.1 s a GB: DAMAGED where it is not what was written. Size and stamp always are compared */
  AOTC_WEIGHTS_FD = 2 /* fd is meant; the descriptor stays the caller's, who may close it after the call */
};

typedef struct aotc_model_options {
  size_t struct_size;
  int32_t device; /* AOTC_DEVICE_HOST for a CPU artifact, the GPU's ordinal for a GPU artifact, or AOTC_DEVICE_DEFAULT */
  uint32_t flags;
  const aotc_allocator* allocator; /* NULL: mmap and the CUDA driver. Copied */
  const char* weights_path;        /* a weights file, the artifact's own or one for it (aotc weights). NULL: the weights in the .so, or
                                      the file of its name beside the .so */
  void (*log)(void* user, int32_t level, const char* message); /* NULL: silent. Called by model_create and context_create only */
  void* log_user;
  const aotc_weights_source* weights; /* NULL, or where the weights come from; excludes weights_path. Since revision 5 */
} aotc_model_options;
#define AOTC_MODEL_OPTIONS_INIT \
  { sizeof(aotc_model_options), AOTC_DEVICE_DEFAULT, 0, NULL, NULL, NULL, NULL, NULL }

/* context_options.flags: any of the first, and one of AOTC_CONTEXT_LAUNCHES or none. */
enum {
  AOTC_CONTEXT_FLUSH_DENORMALS = 1, /* CPU: runs with flush-to-zero and denormals-are-zero; the caller's MXCSR is restored */
  AOTC_CONTEXT_POISON = 2,          /* fills the workspace with NaN bytes before every run: for tests */
  AOTC_CONTEXT_PROFILE = 4,         /* measures every step, see context_profile; costs about 50 ns a step; on a GPU steps do not overlap,
                                       and from the second run of a shape on events between the nodes of a graph are their ends, where
                                       there are graphs (else, and with NO_GRAPHS, the host's launches may show in the times) */
  AOTC_CONTEXT_STEPWISE = 32,       /* GPU: waits after every step, so that an error of the device is reported with its step: for finding
                                       faults. CPU: no effect */
  AOTC_CONTEXT_FORKS = 64,          /* CPU: the states lie in a memory file from the beginning, which takes a descriptor: a states_fork
                                       from this context copies nothing, even the first after a run, as long as it was not a fork itself.
                                       In a child of fork(2) such a context's states are undefined until state_reset. Without memory
                                       files, or with an allocator of the caller's: no effect. GPU: no effect. Since revision 4 */
  /* GPU: how steps are launched. Neither: as the artifact was built. Both: INVALID_ARGUMENT. CPU: no effect. */
  AOTC_CONTEXT_GRAPHS = 8,     /* from the second run of a shape on, a run is one launch of a CUDA graph, made for the latest eight shapes
                                  each and patched with the pointers of the run; nothing is copied for it. What artifacts of --mode
                                  reduce-overhead and max-autotune do by themselves. Needs a driver of CUDA 12.3; with an older one, and
                                  while the caller captures the stream, steps are launched one by one */
  AOTC_CONTEXT_NO_GRAPHS = 16, /* one by one */
  AOTC_CONTEXT_LAUNCHES = AOTC_CONTEXT_GRAPHS | AOTC_CONTEXT_NO_GRAPHS /* the bits of this choice */
};
enum { AOTC_MAX_THREADS = 1024 };
typedef struct aotc_context_options {
  size_t struct_size;
  void* stream;                    /* GPU: CUstream / cudaStream_t that all runs are queued on; NULL: the default stream */
  const aotc_thread_pool* threads; /* the caller's pool (copied), or NULL */
  void* workspace;                 /* the caller's, 64-byte aligned, on the model's device, for the context's life; NULL: own */
  size_t workspace_size;           /* bytes of it; a run that needs more fails with AOTC_STATUS_OUT_OF_MEMORY and says how much */
  int32_t num_threads;             /* of the context's own pool, the calling thread included. 0 or 1: the calling thread only; -1: as many
                                      as the calling thread may use: its affinity, and the CPU time of its control groups,
                                      rounded up. Ignored when threads is set */
  uint32_t flags;
} aotc_context_options;
#define AOTC_CONTEXT_OPTIONS_INIT \
  { sizeof(aotc_context_options), NULL, NULL, NULL, 0, 0, 0 }

typedef struct aotc_dim {
  int64_t value;      /* the size when it is fixed, else -1 */
  int64_t min, max;   /* inclusive; max INT64_MAX: unbounded */
  const char* symbol; /* "batch", "2*seq + 1"; NULL when fixed */
} aotc_dim;
typedef struct aotc_io_info {
  size_t struct_size;
  const char* name;
  const aotc_dim* dims; /* rank of them */
  int32_t rank;
  uint32_t dtype;
  int32_t alias_input; /* outputs: the input whose new content this is (the model wrote to that input), else -1 */
  int32_t reserved;
  /* Outputs: rank texts ("u0", "2*u0 + 1"), of each dimension whose size a run finds in its data, and NULL for each other; NULL: there is
   * no such dimension. `dims` has the most that it can be, for which the buffer is made; what it was, output_sizes tells after the run.
   * Since revision 1. */
  const char* const* found;
} aotc_io_info;
#define AOTC_IO_INFO_INIT \
  { sizeof(aotc_io_info), NULL, NULL, 0, 0, -1, 0, NULL }

/* Kinds of io_count and io_get. */
enum { AOTC_INPUT = 0, AOTC_OUTPUT = 1, AOTC_STATE = 2 };

typedef struct aotc_model_info {
  size_t struct_size;
  uint64_t weights_bytes;
  const char* target; /* code version in use: "avx2", "avx512", "avx512_bf16", "amx", "sm_90a" */
  int32_t device;
  int32_t n_variants;
  uint64_t weights_version; /* that new runs take: 1 for those of model_create. Since revision 5 */
  uint64_t weights_layout;  /* files of weights with this number fit; 0: none but the artifact's own. Since revision 5 */
} aotc_model_info;
#define AOTC_MODEL_INFO_INIT \
  { sizeof(aotc_model_info), 0, NULL, 0, 0, 0, 0 }

/* A method: one of the programs of the artifact. Since revision 2. */
typedef struct aotc_method_info {
  size_t struct_size;
  const char* name; /* as the artifact was built with; "forward" where it was built of one program without a name */
  int32_t index;    /* what the calls below take */
  int32_t n_inputs;
  int32_t n_outputs;
  int32_t n_variants;
} aotc_method_info;
#define AOTC_METHOD_INFO_INIT \
  { sizeof(aotc_method_info), NULL, 0, 0, 0, 0 }

/* What one run is given beside its tensors. Since revision 3. */
typedef struct aotc_run_options {
  size_t struct_size;
  uint64_t deadline_ns;  /* of CLOCK_MONOTONIC (std::chrono::steady_clock), in nanoseconds; 0: none */
  const int32_t* cancel; /* NULL, or a word of the caller's that stands until the run returns: any thread sets it to other than 0, by an
                            atomic store, and the run ends. aotc only reads it */
} aotc_run_options;
#define AOTC_RUN_OPTIONS_INIT \
  { sizeof(aotc_run_options), 0, NULL }

/* A part of a state: `length` elements along dimension `dim` from `offset` on, and all along the others, but where another range of the
 * same call is along one of them. Frozen: 24 bytes. Since revision 4. */
typedef struct aotc_state_range {
  int32_t dim;      /* from 0; or from the last back: -1, -2 .. */
  int32_t reserved; /* zero */
  int64_t offset;
  int64_t length;
} aotc_state_range;

typedef struct aotc_context_info {
  size_t struct_size;
  uint64_t workspace_bytes; /* held now: arena and scratch of all threads */
  uint64_t arena_bytes;     /* used by the latest run's shapes */
  uint64_t scratch_bytes;   /* used by the latest run's shapes, all threads */
  uint64_t state_bytes;
  const char* variant;      /* of the latest run, or NULL */
  int32_t threads;          /* granted */
  int32_t graphs;           /* GPU: shapes whose runs are one launch of a CUDA graph now */
  uint64_t weights_version; /* of the latest run; 0: nothing was run. Since revision 5 */
} aotc_context_info;
#define AOTC_CONTEXT_INFO_INIT \
  { sizeof(aotc_context_info), 0, 0, 0, 0, NULL, 0, 0, 0 }

/* One step of the latest run. */
typedef struct aotc_profile_step {
  const char* label; /* graph nodes */
  uint64_t ns;
  int32_t threads; /* that took part */
  int32_t reserved;
} aotc_profile_step;

/* The table grows at its end: a revision of ABI version 1 appends functions, and what else came with them ("since revision" at fields and
 * flags). A program asks its header by #if: AOTC_ABI_REVISION >= 3, or defined AOTC_SINCE_run_with; an artifact, when it runs:
 * AOTC_HAS(api, run_with), or aotc_api_revision(api) >= AOTC_SINCE_run_with. What has no number here every artifact has. */
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

/* Append-only; struct_size says how much of it this artifact has. */
typedef struct aotc_api {
  size_t struct_size;
  uint32_t abi_version;
  uint32_t reserved;

  /* The message of the latest failure on the calling thread; never NULL, at most 1023 bytes. Valid until the thread's next failure. */
  const char* (*last_error)(void);
  /* The text of a status; "unknown status" for values of the future. Static. */
  const char* (*status_name)(aotc_status status);
  /* The model's description (schemas/metadata.schema.json). Static: valid until dlclose. */
  const char* (*metadata_json)(void);
  /* Can this machine run the artifact on this device? Creates nothing; executes no instruction that the machine may lack.
   * INCOMPATIBLE: no, last_error names the missing CPU feature, driver or GPU architecture. DEVICE: the driver failed. */
  aotc_status (*probe)(int32_t device);

  /* Makes a model: picks the code for this machine, maps the weights (no copy on a CPU; uploaded once on a GPU). options NULL:
   * AOTC_MODEL_OPTIONS_INIT. Any thread. INCOMPATIBLE, DEVICE as probe; NOT_FOUND: the weights
   * file is missing; INCOMPATIBLE: it belongs to another build; DAMAGED: it or the artifact is cut off or not what was built;
   * OUT_OF_MEMORY. *out is set on success only. */
  aotc_status (*model_create)(const aotc_model_options* options, aotc_model** out);
  /* Ends the caller's use; the memory goes when the last context of the model is destroyed too. NULL is fine. */
  void (*model_destroy)(aotc_model* model);
  aotc_status (*model_get_info)(const aotc_model* model, aotc_model_info* out);

  /* How many inputs, outputs or states there are, and what the i-th is, in the order of run. Set out->struct_size first. */
  aotc_status (*io_count)(const aotc_model* model, int32_t kind, int32_t* out);
  aotc_status (*io_get)(const aotc_model* model, int32_t kind, int32_t i, aotc_io_info* out);

  /* Bytes that a context with these options needs as workspace for inputs of these shapes (data may be NULL, only dtype, rank and shape
   * are looked at). in NULL and n 0: for the largest shapes that the model takes; SHAPE_MISMATCH when a dimension has no maximum.
   * States are not counted. */
  aotc_status (*workspace_size)(const aotc_model* model, const aotc_context_options* options, const aotc_tensor* in, int32_t n,
                                size_t* bytes);
  /* Makes a context: threads, states with their initial content, and the workspace when the shapes are fixed. options NULL: the calling
   * thread only. Contexts of one model run at the same time without any shared lock. *out is set on success only. */
  aotc_status (*context_create)(aotc_model* model, const aotc_context_options* options, aotc_context** out);
  /* Joins the context's threads and frees its memory. NULL is fine. Not while a run of this context is under way. */
  void (*context_destroy)(aotc_context* context);
  aotc_status (*context_get_info)(const aotc_context* context, aotc_context_info* out);

  /* The shapes of the outputs' buffers for inputs of these shapes (data may be NULL). shapes[i] has room for the rank of output i; may be
   * NULL where not wanted. Where a run finds a size in its data (nonzero, x[mask]) this is the most that it can be, and output_sizes tells
   * after the run what it was; all others are as the run will find them. Errors as run. */
  union {
    aotc_status (*output_bounds)(aotc_context* context, const aotc_tensor* in, int32_t n_in, int64_t* const* shapes, int32_t n_out);
    aotc_status (*output_shapes)(aotc_context* context, const aotc_tensor* in, int32_t n_in, int64_t* const* shapes, int32_t n_out)
        AOTC_DEPRECATED_("output_bounds");
  };
  /* Computes. Inputs and outputs in the model's order; outputs have exactly the shapes that output_bounds gives, and overlap no input and
   * no other output, with one exception: an output that is the new content of an input (alias_input) may lie exactly on that input. Before
   * anything is computed, everything is checked: dtype, rank, dimensions, strides, byte size, device, alignment: INVALID_ARGUMENT or
   * SHAPE_MISMATCH, and no output was touched. INDEX_OUT_OF_RANGE: the data of an input indexes outside of a tensor; ASSERTION_FAILED: a
   * condition that the model states (torch._check) does not hold for this data, last_error says which; the outputs then have undefined
   * content. Where a state would be written out of range (a position past a KV cache) last_error has the input, its value and the bounds,
   * and no state is changed, be it of a layer before: all such indices, and the model's conditions, are checked before the first write. Not
   * those that the model computes from the new content of a state of more than 64 KB: the write reports them, and the states that the run
   * updates are then undefined. On a GPU such a run's kernels write nothing; its error comes as all others do, runs queued behind it go on
   * from the states as they were. OUT_OF_MEMORY: the workspace could not be had; nothing was touched. WRONG_STATE: the context is in use by
   * another thread, or its states are undefined (a run that updates them in place failed halfway): state_reset. CPU: returns when the
   * outputs are written. GPU: tensors are on the model's GPU or in host memory. When all are on the GPU it returns when the work is queued
   * on the context's stream, and errors of the device come with a later call: synchronize, or the next run (DEVICE; DEVICE_LOST for ever
   * once the device is lost, as after an access outside of memory). With a tensor in host memory it copies, and returns when all is done.
   * No allocation, lock or system call on a CPU once a shape has been seen, but for waking parked threads. */
  aotc_status (*run)(aotc_context* context, const aotc_tensor* in, int32_t n_in, const aotc_tensor* out, int32_t n_out);

  /* GPU: waits until the runs of this context are done and reports what went wrong in them: DEVICE, DEVICE_LOST, INDEX_OUT_OF_RANGE,
   * ASSERTION_FAILED.
   * CPU: nothing to wait for. */
  aotc_status (*synchronize)(aotc_context* context);

  /* States: buffers of the model that outlive a run (a KV cache), one set a context. name NULL: all of them back to the initial content.
   * Read and write copy the whole state from or to a dense tensor of its dtype and shape, in host memory; on a GPU in stream order,
   * waiting. NOT_FOUND: no such state. */
  aotc_status (*state_reset)(aotc_context* context, const char* name);
  aotc_status (*state_read)(aotc_context* context, const char* name, const aotc_tensor* to);
  aotc_status (*state_write)(aotc_context* context, const char* name, const aotc_tensor* from);

  /* Times of the latest run's steps, for a context made with AOTC_CONTEXT_PROFILE (else WRONG_STATE). Fills up to *n entries and sets *n
   * to how many there are. GPU: waits for the run. */
  aotc_status (*context_profile)(const aotc_context* context, aotc_profile_step* steps, int32_t* n);

  /* The shape that output i has after the latest run, where that found sizes in its data (io_info.found), else that of output_bounds. The
   * run wrote a tensor of the shape of output_bounds; in each dimension the elements that there are come first. So where only the first
   * dimension is smaller they are the beginning of the buffer, densely; else row r of dimension 0 begins where it would in the whole
   * buffer. What lies behind them is written too, and means nothing. sizes: room for the output's rank. GPU: waits for the runs of this
   * context. WRONG_STATE: nothing was run, or the latest run failed. */
  aotc_status (*output_sizes)(aotc_context* context, int32_t i, int64_t* sizes);

  /* Methods: an artifact may hold several programs (aotc build prefill=a.pt2 decode=b.pt2), each with inputs, outputs and shapes of its
   * own. They share the weights, and a context's states: what a run of one method writes to a state, the next run of any method reads.
   * Every function above that names no method means method 0, but for workspace_size with in NULL, which is that of the method that
   * needs most. context_profile, output_sizes and context_get_info tell of the latest run, whatever its method. An artifact whose table
   * ends before method_count has one method: method 0. A method that is not there is INVALID_ARGUMENT, a name NOT_FOUND. */
  aotc_status (*method_count)(const aotc_model* model, int32_t* out);
  /* name NULL: the i-th; else the method of that name, i is not looked at. */
  aotc_status (*method_get)(const aotc_model* model, int32_t i, const char* name, aotc_method_info* out);
  /* As io_get, workspace_size, output_bounds and run, of a method. States are the artifact's: alike for all methods. The context keeps
   * what it worked out for the latest eight shapes of each method, and one workspace that grows to what the largest run needed. */
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

  /* As run_method, of a run that may be ended before it is done; options NULL: as run_method. CANCELLED, DEADLINE_EXCEEDED: the flag was
   * set, or the time has come, before the last step was done, and the run noticed. The outputs then have undefined content; states are as
   * before the run where it had written none in place, else undefined until state_reset or state_write, and last_error says which of the
   * two. A run that was ended before its first step touched nothing. CPU: looked at by every thread before each step, and within long ones
   * about every 50 us, at least between two units of the kernel's work (rows or tiles; those of a step that its threads do together, as a
   * recurrence, in one piece); on a pool of the caller's too. The results are those of run_method to the bit. GPU: looked at before each
   * launch, and before the launch of a graph: what is queued already is done to its end, and, with tensors in host memory, waited for. */
  aotc_status (*run_with)(aotc_context* context, int32_t method, const aotc_tensor* in, int32_t n_in, const aotc_tensor* out, int32_t n_out,
                          const aotc_run_options* options);

  /* Parts of states. As state_read and state_write, of the part that n ranges along different dimensions name: the tensor has their lengths
   * there. n 0: the whole state. SHAPE_MISMATCH: the state does not have that dimension, or not these elements. */
  aotc_status (*state_read_range)(aotc_context* context, const char* name, const aotc_state_range* ranges, int32_t n,
                                  const aotc_tensor* to);
  aotc_status (*state_write_range)(aotc_context* context, const char* name, const aotc_state_range* ranges, int32_t n,
                                   const aotc_tensor* from);

  /* All states at once. Ranges name a part of each: of a state that has fewer elements along a dimension (a window's cache) those that it
   * has of them, and a state without that dimension (a count) whole; SHAPE_MISMATCH where no state has all that is named. The states that
   * are read must be defined (WRONG_STATE, as run).
   *
   * What identifies the states of an artifact, in an order of their own, and its weights: equal for all models of it, and for artifacts
   * that were built of the same weights and states in the same form. */
  aotc_status (*states_layout)(const aotc_model* model, uint64_t* id);
  /* Writes them to a descriptor, from where it stands: a header with the layout and the ranges, then the content, dense, in the order of
   * io_get. Any file, pipe or socket. IO: last_error has the system's reason; a part may have been written. */
  aotc_status (*states_save)(aotc_context* context, int fd, const aotc_state_range* ranges, int32_t n);
  /* Reads what states_save wrote, from where the descriptor stands, and not a byte more; leaves alone what was not saved. n 0: to where it
   * was; else to these ranges, along the same dimensions and of the same lengths (another slot). Before anything is changed: DAMAGED (not
   * what states_save wrote), INCOMPATIBLE (of another artifact), SHAPE_MISMATCH (other ranges). After: DAMAGED (cut off), IO; the states
   * are then undefined. States that were undefined are defined where they were saved whole. */
  aotc_status (*states_load)(aotc_context* context, int fd, const aotc_state_range* ranges, int32_t n);
  /* Makes the states of `to` those of `from`, another context of the same model. With ranges (a prefix): what lies outside has its initial
   * content. CPU: both have the same pages until one of them writes to one (copy on write); the price is a mapping, and for each range of a
   * state one of 64 KB or more, less is copied. Where `from` has no image of its states (it has none after a run, unless it was made with
   * AOTC_CONTEXT_FORKS and was not forked itself) one is made first, at the price of a copy; forks until its next run share it. With an
   * allocator of the caller's, and without memory files, the content is copied. GPU: copied on the device, in order of both streams,
   * waiting. */
  aotc_status (*states_fork)(aotc_context* to, aotc_context* from, const aotc_state_range* ranges, int32_t n);
  /* Copies the part at ranges_from of the states of `from` to the part at ranges_to of `to`: n each, along the same dimensions and of the
   * same lengths. The contexts are of one model, or the same one (from one slot to another), where the parts may not overlap
   * (INVALID_ARGUMENT) and states without the dimensions stay as they are. */
  aotc_status (*states_copy)(aotc_context* to, const aotc_state_range* ranges_to, aotc_context* from, const aotc_state_range* ranges_from,
                             int32_t n);
  /* Declares that along `dim` the first `length` elements count: what lies behind them has its initial content again, and where that is
   * zeros, memory of it may be given back to the system. name NULL: of all states that have more. */
  aotc_status (*states_truncate)(aotc_context* context, const char* name, int32_t dim, int64_t length);
  /* Gives the model other weights while it is in use. Runs that begin after it has returned take them, in every context; runs under way
   * keep those that they began with, whose memory goes when the last of them ends. A run has all its weights of one set. States keep their
   * content; state_reset and context_create take their initial content from the new set. source NULL: the artifact's own weights again.
   * *version (may be NULL): of the set, one more than that of the latest swap. Any thread; swaps come one after another. On failure the
   * model keeps the weights that it has. INCOMPATIBLE: the weights are another artifact's; NOT_FOUND: no such file; DAMAGED: cut off or,
   * with AOTC_WEIGHTS_VERIFY, not what was written; OUT_OF_MEMORY; DEVICE; what `read` returned. GPU: the old set's memory goes when each
   * context that has queued runs on it runs again, is synchronized or destroyed; that of a set whose runs the caller captured into a graph
   * stays as long as the model. */
  aotc_status (*model_swap_weights)(aotc_model* model, const aotc_weights_source* source, uint64_t* version);
  /* Gives the memory of a model's weights back to the system: for a model that will not run for a while. Pages of the artifact or of a
   * weights file leave the process; the system keeps them as long as it has room, and the next run brings back those that it reads, from
   * the disk where need be. A copy of the process's own (AOTC_MODEL_OWN_WEIGHTS) is freed, and runs read the file's pages until the next
   * swap. Weights of memory, of a function or of a caller's own stay. *bytes (may be NULL): how many were given back, in or out of memory
   * before. Any thread, also while runs are under way, which go on, slower. Answers are the same bits. INCOMPATIBLE: the model is on a
   * GPU; OUT_OF_MEMORY: nothing changed. */
  aotc_status (*model_trim)(aotc_model* model, uint64_t* bytes);
} aotc_api;

/* 1 when the artifact has that function of the table. */
#define AOTC_HAS(api, function) ((api)->struct_size > offsetof(aotc_api, function) && (api)->function)
/* The latest revision all of whose functions the artifact has; of a later one than this header knows: AOTC_ABI_REVISION. */
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
