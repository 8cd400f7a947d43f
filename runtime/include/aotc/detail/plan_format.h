/* The tables of a model.so: what the compiler writes (plan/ and emit/) and the runtime walks. Pure data: the only code it points at is
 * kernels. Internal between one version of the compiler and the runtime that it links in; not a public ABI. C11 and C++17. */
#ifndef AOTC_DETAIL_PLAN_FORMAT_H_
#define AOTC_DETAIL_PLAN_FORMAT_H_
#include <stdint.h>

#include "aotc/detail/cpu_features.h"
#include "aotc/detail/kernel_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sizes: every size, offset, extent and work count of a variant is a slot, evaluated once per new set of symbol values -------- */
/* Postfix code over int64 words. Division and modulo round towards minus infinity. */
enum {
  AOTC_X_CONST = 0, /* next word is pushed */
  AOTC_X_SYM = 1,   /* next word: index of a symbol of the method */
  AOTC_X_SLOT = 2,  /* next word: an earlier slot */
  AOTC_X_ADD = 3,
  AOTC_X_SUB = 4,
  AOTC_X_MUL = 5,
  AOTC_X_FLOORDIV = 6,
  AOTC_X_MOD = 7,
  AOTC_X_MIN = 8,
  AOTC_X_MAX = 9
};
enum { AOTC_X_MAX_DEPTH = 32 };
typedef struct aotc_slot {
  uint32_t begin, end;
} aotc_slot; /* half-open range of words in aotc_variant.code */

/* ---- buffers ----------------------------------------------------------------------------------------------------------------------- */
enum {
  AOTC_BUF_INPUT = 0,     /* index: input number */
  AOTC_BUF_OUTPUT = 1,    /* index: output number */
  AOTC_BUF_WEIGHT = 2,    /* index: weight number */
  AOTC_BUF_ARENA = 3,     /* offset_slot: bytes from the arena's start */
  AOTC_BUF_STATE = 4,     /* index: state number; content kept between runs */
  AOTC_BUF_STATE_NEXT = 5 /* the state's new content, when it cannot be updated in place; swapped in when the run has succeeded */
};
typedef struct aotc_buffer_desc {
  int32_t kind;
  int32_t index;
  int32_t bytes_slot;
  int32_t offset_slot; /* arena only, else -1 */
} aotc_buffer_desc;

/* ---- tensor maps: how the bulk copies of a CUDA kernel see one of its arguments (cuTensorMapEncodeTiled; with windows
 * cuTensorMapEncodeIm2col). Dimensions go from the contiguous one outwards; what a box or a window has beyond the tensor is read as zeros
 * ------------------------------------------------------------
 */
enum { AOTC_MAP_MAX_RANK = 5, AOTC_MAP_BYTES = 128, AOTC_MAP_ALIGN = 64, AOTC_MAP_DATA_ALIGN = 16 };
typedef struct aotc_map_desc {
  int32_t arg;                                /* of the step's arguments */
  uint32_t dtype;                             /* AOTC_DTYPE_* */
  int32_t rank;                               /* 2 to AOTC_MAP_MAX_RANK */
  int32_t swizzle_bytes;                      /* 0, 32, 64 or 128 */
  int32_t offset_slot;                        /* bytes from the argument's start */
  int32_t dim_slot[AOTC_MAP_MAX_RANK];        /* elements */
  int32_t stride_slot[AOTC_MAP_MAX_RANK - 1]; /* bytes, of dimensions 1, 2 .. */
  int32_t box[AOTC_MAP_MAX_RANK];             /* elements; with windows: channels of a pixel, and how many windows */
  int32_t windows;                            /* not 0: copies of windows. Of dimensions 1 to rank - 2: */
  int32_t lower[AOTC_MAP_MAX_RANK - 2];       /* where the first window begins, beside the first element */
  int32_t upper[AOTC_MAP_MAX_RANK - 2];       /* where the last one begins, beside the last element */
  int32_t steps[AOTC_MAP_MAX_RANK - 2];       /* from one to the next */
} aotc_map_desc;

/* ---- steps ------------------------------------------------------------------------------------------------------------------------- */
enum {
  AOTC_STEP_CPU = 0,  /* kernel: index into aotc_isa_table.kernels */
  AOTC_STEP_CUDA = 1, /* kernel: index into aotc_module.cuda_kernels. Its one parameter, by value, is
                         { int* fault; void* scratch; void* ptr[max(n_args, 1)]; int64_t size[max(n_sizes, 1)]; } and, where n_maps > 0,
                         the tensor maps after it, at a multiple of AOTC_MAP_ALIGN bytes; fault: as aotc_kargs.fault; scratch: the
                         variant's, of the launch alone */
  AOTC_STEP_COPY = 2, /* args[0] -> args[1], bytes of args[1] */
  AOTC_STEP_ZERO = 3  /* args[0] filled with zero bytes */
};
typedef struct aotc_step {
  int32_t kind;
  int32_t kernel;
  uint32_t first_arg, n_args;   /* aotc_variant.args: buffer numbers */
  uint32_t first_size, n_sizes; /* aotc_variant.size_slots: slot numbers */
  int32_t config;               /* index into aotc_isa_table.configs, or -1 */
  int32_t work_slot;            /* CPU: number of work units; CUDA: unused */
  int32_t grain_slot;           /* CPU: least units a thread should get, >= 1; more threads are not woken below it */
  int32_t scratch_slot;         /* CPU: bytes of scratch per thread, or -1 */
  int32_t grid_slot[3];         /* CUDA */
  int32_t block[3];             /* CUDA */
  int32_t smem_slot;            /* CUDA: dynamic shared memory bytes, or -1 */
  uint32_t first_map, n_maps;   /* CUDA: aotc_variant.maps */
  int32_t overlaps;             /* CUDA: not 0: it may start before the step before it has ended, for which it waits itself */
  const char* label;            /* graph nodes, for profiles and errors */
} aotc_step;

/* ---- inputs, outputs, symbols ------------------------------------------------------------------------------------------------------- */
typedef struct aotc_io_desc {
  const char* name;
  uint32_t dtype;
  int32_t rank;
  uint32_t first_dim;  /* aotc_method_desc.dims */
  int32_t alias_input; /* outputs: the input whose new content this is, or -1 */
} aotc_io_desc;
/* A dimension: a constant (symbol -1, value), or an expression. Evaluated against symbol values: dim == value, or == code result. */
typedef struct aotc_dim_desc {
  int64_t value;       /* constant, or -1 when symbolic */
  int64_t min, max;    /* allowed range over all variants; max INT64_MAX: unbounded */
  const char* text;    /* "1024", "batch", "2*seq + 1" */
  uint32_t begin, end; /* postfix code in aotc_method_desc.dim_code over symbols (AOTC_X_SLOT does not occur); empty when constant */
} aotc_dim_desc;
/* An output that the caller does not get: the context has a word of 64 bytes for each. Their buffers have numbers from n_outputs on. */
enum {
  AOTC_HIDDEN_SIZE = 0,  /* int64: a size that the run found */
  AOTC_HIDDEN_CHECK = 1, /* bool: a condition; text: what is said where it does not hold */
  AOTC_HIDDEN_INDEX = 2  /* the same of an index, which comes with it (detail/check_abi.h) */
};
enum { AOTC_HIDDEN_BYTES = 64 };
typedef struct aotc_hidden_desc {
  int32_t kind;          /* AOTC_HIDDEN_* */
  int32_t before_writes; /* of a condition, not 0: GPU: the kernels change no state where it does not hold */
  const char* text;
} aotc_hidden_desc;
/* A dimension of an output whose size is found in data. */
typedef struct aotc_found_desc {
  uint32_t output, dim;
  uint32_t begin, end; /* postfix code in aotc_method_desc.dim_code over symbols and, after these, hidden outputs */
  const char* text;
} aotc_found_desc;
/* A symbol's value is read from a dimension of an input: (dim - add) / mul, which must divide exactly. */
typedef struct aotc_symbol_desc {
  const char* name;
  int32_t input, dim;
  int64_t mul, add;
  int64_t min, max, multiple_of; /* over all variants */
} aotc_symbol_desc;
typedef struct aotc_range {
  int64_t min, max, multiple_of;
} aotc_range;
/* a == b, a <= b or a % b == 0, over symbols; `why` is shown when it does not hold. */
typedef struct aotc_guard_desc {
  int32_t kind; /* 0 eq, 1 le, 2 divisible */
  uint32_t a_begin, a_end, b_begin, b_end;
  const char* why;
} aotc_guard_desc;

/* ---- a variant: one plan for a range of shapes ----------------------------------------------------------------------------------------
 */
typedef struct aotc_variant {
  const char* name;
  const aotc_range* ranges; /* one per symbol */
  const int64_t* code;
  const aotc_slot* slots;
  uint32_t n_slots;
  const aotc_buffer_desc* buffers;
  uint32_t n_buffers;
  const aotc_step* steps;
  uint32_t n_steps;
  const int32_t* args;
  const int32_t* size_slots;
  const aotc_map_desc* maps;
  int32_t arena_slot;   /* bytes */
  int32_t scratch_slot; /* largest scratch of any step, bytes per thread */
  uint32_t states_from; /* CPU: the first step that writes a state where it lies: a run that fails before it leaves all as they were */
} aotc_variant;

/* ---- a method: one program of the artifact, with an interface and variants of its own; weights, states and code are the artifact's ---
 */
typedef struct aotc_method_desc {
  const char* name;
  const aotc_io_desc* inputs;
  const aotc_io_desc* outputs;
  uint32_t n_inputs, n_outputs;
  const aotc_hidden_desc* hidden;
  uint32_t n_hidden;
  const aotc_found_desc* found;
  uint32_t n_found;
  const aotc_dim_desc* dims;
  const int64_t* dim_code;
  const aotc_symbol_desc* symbols;
  uint32_t n_symbols;
  const aotc_guard_desc* guards;
  uint32_t n_guards;
  const aotc_variant* variants; /* tried in order: the first whose ranges hold is run */
  uint32_t n_variants;
} aotc_method_desc;

typedef struct aotc_weight_desc {
  const char* name;
  uint64_t offset, bytes;
} aotc_weight_desc; /* offset: 64-byte aligned, in the blob */
typedef struct aotc_state_desc {
  const char* name;
  uint32_t dtype;
  int32_t rank;
  const int64_t* dims;
  int32_t initial_weight; /* weight number whose content is the initial one, or -1 for zeros */
  uint64_t bytes;
} aotc_state_desc;

typedef struct aotc_isa_table {
  int32_t isa;    /* AOTC_ISA_*: what to call it */
  uint32_t needs; /* AOTC_CPU_* of all its kernels; the runtime takes the last table that the machine can run */
  const aotc_kernel_fn* kernels;
  const void* const* configs;
} aotc_isa_table;

typedef struct aotc_cuda_image {
  int32_t sm_major, sm_minor;
  char arch_suffix;
  int32_t is_ptx;            /* not 0: texts, zero-terminated, that the driver compiles for this architecture and later ones */
  const void* const* cubins; /* one a kernel of aotc_module_desc.cuda_kernels */
} aotc_cuda_image;
typedef struct aotc_cuda_kernel {
  const char* name; /* of the function in its cubin */
  int32_t max_smem_bytes;
} aotc_cuda_kernel;

enum { AOTC_PLAN_FORMAT = 7 };
/* aotc_module_desc.flags */
enum {
  AOTC_MODULE_GRAPHS = 1,     /* GPU: contexts run as with AOTC_CONTEXT_GRAPHS unless told otherwise */
  AOTC_MODULE_OWN_WEIGHTS = 2 /* CPU: models load as with AOTC_MODEL_OWN_WEIGHTS unless told otherwise */
};
typedef struct aotc_module_desc {
  uint32_t format; /* AOTC_PLAN_FORMAT */
  uint32_t flags;  /* AOTC_MODULE_* */
  const char* metadata_json;
  const aotc_method_desc* methods; /* at least one; the first is what calls that name no method mean */
  uint32_t n_methods;
  const aotc_weight_desc* weights;
  uint32_t n_weights;
  const aotc_state_desc* states;
  uint32_t n_states;
  const aotc_isa_table* isas;
  uint32_t n_isas;
  const aotc_cuda_image* cuda_images;
  uint32_t n_cuda_images;
  const aotc_cuda_kernel* cuda_kernels;
  uint32_t n_cuda_kernels;
  const void* weights_begin; /* page-aligned blob in this object, or NULL when in a file */
  uint64_t weights_bytes;
  const char* weights_file; /* file name beside the .so (blob, then aotc_weights_trailer of blob_hash.h), or NULL */
  uint64_t weights_hash;    /* aotc_blob_hash of the blob (detail/blob_hash.h), checked for a file */
  uint64_t weights_layout;  /* which blobs may take its place: those of files with this number; 0: none */
  /* The same methods for another kind of machine, or NULL: the same interfaces and blob, its own plans and code; metadata with the first.
   * Of GPU architectures the best image of all parts is taken; at most one part has code for CPUs. */
  const struct aotc_module_desc* next;
} aotc_module_desc;

/* Defined by the generated tables, read by the linked-in runtime. Hidden. */
extern const aotc_module_desc aotc_module;

#ifdef __cplusplus
}
#endif
#endif
