/* The calling convention between the runtime and every CPU kernel, generated or from the kernel library. C11 and C++17; includes
 * nothing but <stdint.h>, so that kernels compiled for any instruction set may include it. */
#ifndef AOTC_DETAIL_KERNEL_ABI_H_
#define AOTC_DETAIL_KERNEL_ABI_H_
#include <stdint.h>

enum { AOTC_HELD = 2 };

/* What one step gives to its kernel. Owned by the runtime, alive for the call, the same for all threads but for `scratch` and `held`. */
typedef struct aotc_kargs {
  void* const* ptr;    /* the step's buffers, in the kernel's parameter order */
  const int64_t* size; /* the step's sizes (elements or counts), in the order that the kernel documents */
  const void* config;  /* constant configuration of the step (tile sizes, epilogues), or NULL */
  void* scratch;       /* this thread's scratch, 64-byte aligned, of the step's scratch_bytes; content undefined but for `held` */
  int32_t thread;      /* 0 .. threads-1 */
  int32_t threads;
  volatile int32_t* fault; /* a kernel that meets an index out of range stores AOTC_FAULT_*; the run then fails after the step */
  /* AOTC_HELD words in which a kernel notes what it leaves in `scratch`, or NULL. A thread's first call for a step finds -1 in each, those
   * that follow find words and scratch as the call before left them. */
  int64_t* held;
  int32_t free_denormals; /* not 0: this processor computes with denormal numbers as fast as with others; 0: it may not */
  /* NULL where nothing ends a run. Else kernels with units of more than about 50 us ask within them, too; not 0: the run ends, and the
   * kernel returns as soon as it can, whatever is written by then. */
  int32_t (*ends)(void* user);
  void* ends_user;
} aotc_kargs;

enum { AOTC_FAULT_NONE = 0, AOTC_FAULT_INDEX = 1 };

/* Computes work units [begin, end) of the step. Re-entrant; threads get disjoint ranges; a unit's result does not depend on how the
 * units are split. No allocation, no locks, no errno, MXCSR unchanged. */
typedef void (*aotc_kernel_fn)(const aotc_kargs* args, int64_t begin, int64_t end);

/* An epilogue: consumes the finished accumulators of one tile of a contraction. `acc` points at row m0, column n0 of the tile,
 * `ld_elems` apart row to row, in the accumulation dtype. n0 counts from the segment's first column. Reads and writes its buffers
 * through the contraction's `args` (pointers from args->ptr, sizes from args->size + the contraction's own count). */
typedef void (*aotc_epilogue_fn)(const aotc_kargs* args, const void* acc, int64_t ld_elems, int64_t batch, int64_t m0, int64_t rows,
                                 int64_t n0, int64_t cols);

/* A prologue: computes elements [row0, row0 + rows) x [col0, col0 + cols) of an operand of a contraction, of one batch element, into `dst`:
 * dense rows of the operand's dtype, ld_elems apart (dst points at row0, col0). Called on what is about to be packed; may be called several
 * times for one element. Reads its buffers through the contraction's `args`, as an epilogue does. */
typedef void (*aotc_prologue_fn)(const aotc_kargs* args, int64_t batch, int64_t row0, int64_t rows, int64_t col0, int64_t cols, void* dst,
                                 int64_t ld_elems);

#endif
