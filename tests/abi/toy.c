/* A model written by hand: what plan/ and emit/ would write, small enough to check by eye. Built several times:
 *   TOY_NEEDS          what its code version demands of the CPU (default AVX2; the kernels are baseline C)
 *   TOY_WEIGHTS_FILE   weights in that file beside the .so instead of inside
 *   TOY_STEPS          how many of its steps it runs (default all 6): with 0 a run is its guards alone
 *   TOY_VERSION        a number in the metadata, to tell two artifacts apart
 *   TOY_METHODS        it has a second method, "peek"
 *   TOY_BETWEEN        bytes of the blob between its two weights (default 0)
 *   TOY_RUNS_LAST      the state "runs" is written by the last step instead of the first
 *
 * x f32 [batch, 8], bias f32 [8], idx i64 [batch], pair f32 [2*n + 1] with n == batch; batch 1 to 64
 *   rows  = relu(x) + bias + table[idx]   (table: the weight, 4 rows; idx outside is a fault)
 *   y     = rows [batch, 8], the new content of x;  total = sum(rows) [];  zeros = 0 [2*batch + 1]
 *   state "sums" f32 [8]: += column sums of rows (new content in a second buffer)
 *   state "runs" i64 []: += 1 in place, starts at the weight "start" */
#include "aotc/detail/plan_format.h"

#include "aotc/detail/blob_hash.h"
#include "aotc/dtype.h"

#ifndef TOY_NEEDS
#define TOY_NEEDS AOTC_CPU_AVX2
#endif
#ifndef TOY_STEPS
#define TOY_STEPS 6
#endif
#ifndef TOY_FLAGS
#define TOY_FLAGS 0
#endif
#ifndef TOY_VERSION
#define TOY_VERSION 1
#endif
#define TOY_TEXT_(x) #x
#define TOY_TEXT(x) TOY_TEXT_(x)

enum { kCols = 8, kTable = 4 };

static void rows_kernel(const aotc_kargs* a, int64_t begin, int64_t end) {
  const float* x = (const float*)a->ptr[0];
  const float* bias = (const float*)a->ptr[1];
  const int64_t* idx = (const int64_t*)a->ptr[2];
  const float* table = (const float*)a->ptr[3];
  float* rows = (float*)a->ptr[4];
  float* scratch = (float*)a->scratch;
  for (int64_t r = begin; r < end; ++r) {
    if (idx[r] < 0 || idx[r] >= a->size[1]) {
      *a->fault = AOTC_FAULT_INDEX;
      continue;
    }
    for (int c = 0; c < kCols; ++c) scratch[c] = x[r * kCols + c] > 0 ? x[r * kCols + c] : 0;
    for (int c = 0; c < kCols; ++c) rows[r * kCols + c] = scratch[c] + bias[c] + table[idx[r] * kCols + c];
  }
}

static void total_kernel(const aotc_kargs* a, int64_t begin, int64_t end) {
  const float* rows = (const float*)a->ptr[0];
  float sum = 0;
  for (int64_t i = 0; i < a->size[0] * kCols; ++i) sum += rows[i];
  for (int64_t u = begin; u < end; ++u) *(float*)a->ptr[1] = sum * *(const float*)a->config;
}

static void sums_kernel(const aotc_kargs* a, int64_t begin, int64_t end) {
  const float* rows = (const float*)a->ptr[0];
  const float* now = (const float*)a->ptr[1];
  float* next = (float*)a->ptr[2];
  for (int64_t c = begin; c < end; ++c) {
    next[c] = now[c];
    for (int64_t r = 0; r < a->size[0]; ++r) next[c] += rows[r * kCols + c];
  }
}

static void count_kernel(const aotc_kargs* a, int64_t begin, int64_t end) { *(int64_t*)a->ptr[0] += end - begin; }

#ifdef TOY_METHODS
/* Method "peek", of fixed shape: z f32 [8] -> w = z + sums + table[0]; counts into "runs" as the other does, and leaves "sums". */
static void peek_kernel(const aotc_kargs* a, int64_t begin, int64_t end) {
  const float* z = (const float*)a->ptr[0];
  const float* sums = (const float*)a->ptr[1];
  const float* table = (const float*)a->ptr[2];
  for (int64_t c = begin; c < end; ++c) ((float*)a->ptr[3])[c] = z[c] + sums[c] + table[c];
}
#define TOY_MORE_KERNELS , peek_kernel
#else
#define TOY_MORE_KERNELS
#endif

static const aotc_kernel_fn kernels[] = {rows_kernel, total_kernel, sums_kernel, count_kernel TOY_MORE_KERNELS};
static const float one = 1;
static const void* const configs[] = {&one};
static const aotc_isa_table isas[] = {{AOTC_ISA_AVX2, TOY_NEEDS, kernels, configs}};

static const int64_t dim_code[] = {AOTC_X_SYM,   0,                                                         /* 0: batch */
                                   AOTC_X_CONST, 2, AOTC_X_SYM, 1, AOTC_X_MUL, AOTC_X_CONST, 1, AOTC_X_ADD, /* 2: 2*n + 1 */
                                   AOTC_X_CONST, 2, AOTC_X_SYM, 0, AOTC_X_MUL, AOTC_X_CONST, 1, AOTC_X_ADD, /* 10: 2*batch + 1 */
                                   AOTC_X_SYM,   1};                                                        /* 18: n */
static const aotc_dim_desc dims[] = {
    {-1, 1, 64, "batch", 0, 2},     {8, 8, 8, "8", 0, 0},       {8, 8, 8, "8", 0, 0}, {-1, 1, 64, "batch", 0, 2},
    {-1, 3, 129, "2*n + 1", 2, 10}, {-1, 1, 64, "batch", 0, 2}, {8, 8, 8, "8", 0, 0}, {-1, 3, 129, "2*batch + 1", 10, 18},
};
static const aotc_io_desc inputs[] = {{"x", AOTC_DTYPE_F32, 2, 0, -1},
                                      {"bias", AOTC_DTYPE_F32, 1, 2, -1},
                                      {"idx", AOTC_DTYPE_I64, 1, 3, -1},
                                      {"pair", AOTC_DTYPE_F32, 1, 4, -1}};
static const aotc_io_desc outputs[] = {
    {"y", AOTC_DTYPE_F32, 2, 5, 0}, {"total", AOTC_DTYPE_F32, 0, 7, -1}, {"zeros", AOTC_DTYPE_F32, 1, 7, -1}};
static const aotc_symbol_desc symbols[] = {{"batch", 0, 0, 1, 0, 1, 64, 1}, {"n", 3, 0, 2, 1, 1, 64, 1}};
static const aotc_guard_desc guards[] = {{0, 0, 2, 18, 20, "pair has 2*n + 1 elements, where n is batch"}};

/* slots: 0 batch; 1 table rows; 2 row bytes = batch*32; 3 zero; 4 one; 5 eight; 6 scratch; 7 zeros' bytes; 8 arena; 9 four; 10: 32 */
static const int64_t code[] = {
    AOTC_X_SYM,   0,                                                                                                     /* 0 */
    AOTC_X_CONST, kTable,                                                                                                /* 2 */
    AOTC_X_SLOT,  0,      AOTC_X_CONST, 32, AOTC_X_MUL,                                                                  /* 4 */
    AOTC_X_CONST, 0,                                                                                                     /* 9 */
    AOTC_X_CONST, 1,                                                                                                     /* 11 */
    AOTC_X_CONST, 8,                                                                                                     /* 13 */
    AOTC_X_CONST, 32,                                                                                                    /* 15 */
    AOTC_X_CONST, 8,      AOTC_X_SLOT,  0,  AOTC_X_MUL, AOTC_X_CONST, 4,  AOTC_X_ADD,                                    /* 17 */
    AOTC_X_SLOT,  2,      AOTC_X_CONST, 63, AOTC_X_ADD, AOTC_X_CONST, 64, AOTC_X_FLOORDIV, AOTC_X_CONST, 64, AOTC_X_MUL, /* 25 */
    AOTC_X_CONST, 4,                                                                                                     /* 36 */
};
static const aotc_slot slots[] = {{0, 2}, {2, 4}, {4, 9}, {9, 11}, {11, 13}, {13, 15}, {15, 17}, {17, 25}, {25, 36}, {36, 38}};
static const aotc_buffer_desc buffers[] = {{AOTC_BUF_INPUT, 0, 2, -1},      {AOTC_BUF_INPUT, 1, 6, -1},  {AOTC_BUF_INPUT, 2, 2, -1},
                                           {AOTC_BUF_WEIGHT, 0, 6, -1},     {AOTC_BUF_ARENA, 0, 2, 3},   {AOTC_BUF_OUTPUT, 0, 2, -1},
                                           {AOTC_BUF_OUTPUT, 1, 9, -1},     {AOTC_BUF_OUTPUT, 2, 7, -1}, {AOTC_BUF_STATE, 0, 6, -1},
                                           {AOTC_BUF_STATE_NEXT, 0, 6, -1}, {AOTC_BUF_STATE, 1, 5, -1}};
static const int32_t args[] = {0,           1, 2, 3, 4, /* rows */ 4, 5, /* copy */ 4, 6, /* total */ 4, 8, 9, /* sums */ 10,
                               /* runs */ 7 /* zeros */};
static const int32_t size_slots[] = {0, 1};
#define STEP(kind, kernel, a, n, sizes, config, work, grain, scratch, label) \
  { kind, kernel, a, n, 0, sizes, config, work, grain, scratch, {-1, -1, -1}, {1, 1, 1}, -1, 0, 0, 0, label }
#define RUNS STEP(AOTC_STEP_CPU, 3, 12, 1, 0, -1, 4, 4, -1, "runs")
static const aotc_step steps[] = {
#ifndef TOY_RUNS_LAST
    RUNS, /* a fault in rows leaves it half done */
#endif
    STEP(AOTC_STEP_CPU, 0, 0, 5, 2, -1, 0, 4, 6, "relu, add, embedding"),
    STEP(AOTC_STEP_COPY, -1, 5, 2, 0, -1, -1, -1, -1, "y"),
    STEP(AOTC_STEP_CPU, 1, 7, 2, 1, 0, 4, 4, -1, "total"),
    STEP(AOTC_STEP_CPU, 2, 9, 3, 1, -1, 5, 4, -1, "sums"),
    STEP(AOTC_STEP_ZERO, -1, 13, 1, 0, -1, -1, -1, -1, "zeros"),
#ifdef TOY_RUNS_LAST
    RUNS,
#endif
};
#ifdef TOY_RUNS_LAST
#define TOY_STATES_FROM 5
#else
#define TOY_STATES_FROM 0
#endif
static const aotc_range one_range[] = {{1, 1, 1}, {1, 1, 1}}, all_range[] = {{1, 64, 1}, {1, 64, 1}};
#define VARIANT(name, ranges) \
  { name, ranges, code, slots, 10, buffers, 11, steps, TOY_STEPS, args, size_slots, 0, 8, 6, TOY_STATES_FROM }
static const aotc_variant variants[] = {VARIANT("batch=1", one_range), VARIANT("default", all_range)};

#ifndef TOY_BETWEEN
#define TOY_BETWEEN 0
#endif
#define TOY_WEIGHTS_BYTES (192 + TOY_BETWEEN)
#ifndef TOY_WEIGHTS_FILE
static const struct {
  float table[kTable][kCols];
#if TOY_BETWEEN
  char between[TOY_BETWEEN];
#endif
  int64_t start;
  char pad[56];
} blob __attribute__((aligned(4096), section(".aotc_weights"))) = {
    .table = {{1, 1, 1, 1, 1, 1, 1, 1}, {2, 2, 2, 2, 2, 2, 2, 2}, {3, 3, 3, 3, 3, 3, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7}}, .start = 100};
#define TOY_WEIGHTS_FILE 0
#define TOY_BLOB &blob
#define TOY_HASH 0
#define TOY_LAYOUT 0x70070070u /* files of other weights fit */
#else
#define TOY_LAYOUT 0
#define TOY_BLOB 0
#endif
static const aotc_weight_desc weights[] = {{"table", 0, 128}, {"start", 128 + TOY_BETWEEN, 8}};
static const int64_t sums_dims[] = {8};
static const aotc_state_desc states[] = {{"sums", AOTC_DTYPE_F32, 1, sums_dims, -1, 32}, {"runs", AOTC_DTYPE_I64, 0, 0, 1, 8}};

#ifdef TOY_METHODS
static const aotc_dim_desc peek_dims[] = {{8, 8, 8, "8", 0, 0}};
static const aotc_io_desc peek_inputs[] = {{"z", AOTC_DTYPE_F32, 1, 0, -1}}, peek_outputs[] = {{"w", AOTC_DTYPE_F32, 1, 0, -1}};
/* slots: 0: 32; 1: 8; 2: 1; 3: 65536, an arena larger than the other method's */
static const int64_t peek_code[] = {AOTC_X_CONST, 32, AOTC_X_CONST, 8, AOTC_X_CONST, 1, AOTC_X_CONST, 65536};
static const aotc_slot peek_slots[] = {{0, 2}, {2, 4}, {4, 6}, {6, 8}};
static const aotc_buffer_desc peek_buffers[] = {{AOTC_BUF_INPUT, 0, 0, -1},
                                                {AOTC_BUF_STATE, 0, 0, -1},
                                                {AOTC_BUF_WEIGHT, 0, 0, -1},
                                                {AOTC_BUF_OUTPUT, 0, 0, -1},
                                                {AOTC_BUF_STATE, 1, 1, -1}};
static const int32_t peek_args[] = {0, 1, 2, 3, /* peek */ 4 /* runs */};
static const aotc_step peek_steps[] = {STEP(AOTC_STEP_CPU, 4, 0, 4, 0, -1, 1, 2, -1, "peek"),
                                       STEP(AOTC_STEP_CPU, 3, 4, 1, 0, -1, 2, 2, -1, "runs")};
static const aotc_variant peek_variants[] = {
    {"default", 0, peek_code, peek_slots, 4, peek_buffers, 5, peek_steps, 2, peek_args, size_slots, 0, 3, -1}};
#endif

static const aotc_method_desc methods[] = {
    {.name = "forward",
     .inputs = inputs,
     .outputs = outputs,
     .n_inputs = 4,
     .n_outputs = 3,
     .dims = dims,
     .dim_code = dim_code,
     .symbols = symbols,
     .n_symbols = 2,
     .guards = guards,
     .n_guards = 1,
     .variants = variants,
     .n_variants = 2},
#ifdef TOY_METHODS
    {.name = "peek",
     .inputs = peek_inputs,
     .outputs = peek_outputs,
     .n_inputs = 1,
     .n_outputs = 1,
     .dims = peek_dims,
     .dim_code = dim_code,
     .variants = peek_variants,
     .n_variants = 1},
#endif
};

const aotc_module_desc aotc_module = {
    .format = AOTC_PLAN_FORMAT,
    .flags = TOY_FLAGS,
    .metadata_json = "{\"name\": \"toy\", \"version\": " TOY_TEXT(TOY_VERSION) "}",
    .methods = methods,
    .n_methods = sizeof methods / sizeof methods[0],
    .weights = weights,
    .n_weights = 2,
    .states = states,
    .n_states = 2,
    .isas = isas,
    .n_isas = 1,
    .weights_begin = TOY_BLOB,
    .weights_bytes = TOY_WEIGHTS_BYTES,
    .weights_file = TOY_WEIGHTS_FILE,
    .weights_hash = TOY_HASH,
    .weights_layout = TOY_LAYOUT,
};
