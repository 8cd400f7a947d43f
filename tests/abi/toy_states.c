/* A model written by hand with states of a decoder's shapes: what the tests of parts, files and forks of states drive.
 *   slot i64 [], position i64 [], value f32 []  ->  sum f32 []
 *   state "keys"   f32 [2, 3, 2048, 16]: keys[slot, :, position, :] = value; sum: of keys[slot, 0, :, 0]
 *   state "window" f32 [2, 3, 8, 16]:    window[slot, :, position % 8, :] = value
 *   state "scale"  f32 [16]:             += value; starts at the weight "start", 16 numbers
 *   state "steps"  i64 []:               + 1, in a second buffer */
#include "aotc/detail/plan_format.h"
#include "aotc/dtype.h"

#ifndef TOY_FIRST
#define TOY_FIRST 1
#endif

enum { kHeads = 3, kCache = 2048, kWindow = 8, kWidth = 16 };

static void write_kernel(const aotc_kargs* a, int64_t begin, int64_t end) {
  const int64_t slot = *(const int64_t*)a->ptr[0], position = *(const int64_t*)a->ptr[1];
  const float value = *(const float*)a->ptr[2];
  float *keys = (float*)a->ptr[3], *window = (float*)a->ptr[4], *scale = (float*)a->ptr[5];
  for (int64_t u = begin; u < end; ++u) {
    if (slot < 0 || slot > 1 || position < 0 || position >= kCache) {
      *a->fault = AOTC_FAULT_INDEX;
      return;
    }
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t d = 0; d < kWidth; ++d) {
        keys[((slot * kHeads + h) * kCache + position) * kWidth + d] = value;
        window[((slot * kHeads + h) * kWindow + position % kWindow) * kWidth + d] = value;
      }
    for (int64_t d = 0; d < kWidth; ++d) scale[d] += value;
  }
}

static void sum_kernel(const aotc_kargs* a, int64_t begin, int64_t end) {
  const float* keys = (const float*)a->ptr[0] + *(const int64_t*)a->ptr[1] * kHeads * kCache * kWidth;
  float sum = 0;
  for (int64_t p = 0; p < kCache; ++p) sum += keys[p * kWidth];
  for (int64_t u = begin; u < end; ++u) *(float*)a->ptr[2] = sum;
}

static void count_kernel(const aotc_kargs* a, int64_t begin, int64_t end) {
  for (int64_t u = begin; u < end; ++u) *(int64_t*)a->ptr[1] = *(const int64_t*)a->ptr[0] + 1;
}

static const aotc_kernel_fn kernels[] = {write_kernel, sum_kernel, count_kernel};
static const void* const configs[] = {0};
static const aotc_isa_table isas[] = {{AOTC_ISA_AVX2, 0, kernels, configs}};
static const aotc_dim_desc dims[] = {{1, 1, 1, "1", 0, 0}};
static const aotc_io_desc inputs[] = {
    {"slot", AOTC_DTYPE_I64, 0, 0, -1}, {"position", AOTC_DTYPE_I64, 0, 0, -1}, {"value", AOTC_DTYPE_F32, 0, 0, -1}};
static const aotc_io_desc outputs[] = {{"sum", AOTC_DTYPE_F32, 0, 0, -1}};
static const int64_t code[] = {AOTC_X_CONST, 1, AOTC_X_CONST, 8, AOTC_X_CONST, 0};
static const aotc_slot slots[] = {{0, 2}, {2, 4}, {4, 6}};
static const aotc_buffer_desc buffers[] = {{AOTC_BUF_INPUT, 0, 1, -1}, {AOTC_BUF_INPUT, 1, 1, -1},      {AOTC_BUF_INPUT, 2, 1, -1},
                                           {AOTC_BUF_STATE, 0, 1, -1}, {AOTC_BUF_STATE, 1, 1, -1},      {AOTC_BUF_STATE, 2, 1, -1},
                                           {AOTC_BUF_STATE, 3, 1, -1}, {AOTC_BUF_STATE_NEXT, 3, 1, -1}, {AOTC_BUF_OUTPUT, 0, 1, -1}};
static const int32_t args[] = {0, 1, 2, 3, 4, 5, /* sum */ 3, 0, 8, /* count */ 6, 7};
static const int32_t size_slots[] = {0};
#define STEP(kernel, a, n, label) \
  { AOTC_STEP_CPU, kernel, a, n, 0, 0, -1, 0, 0, -1, {-1, -1, -1}, {1, 1, 1}, -1, 0, 0, 0, label }
static const aotc_step steps[] = {STEP(0, 0, 6, "write"), STEP(1, 6, 3, "sum"), STEP(2, 9, 2, "count")};
static const aotc_variant variants[] = {{"default", 0, code, slots, 3, buffers, 9, steps, 3, args, size_slots, 0, 2, -1, 0}};

static const struct {
  float start[kWidth];
} blob __attribute__((aligned(4096), section(".aotc_weights"))) = {{TOY_FIRST, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
static const aotc_weight_desc weights[] = {{"start", 0, 64}};
static const int64_t keys_dims[] = {2, kHeads, kCache, kWidth}, window_dims[] = {2, kHeads, kWindow, kWidth}, scale_dims[] = {kWidth};
static const aotc_state_desc states[] = {{"keys", AOTC_DTYPE_F32, 4, keys_dims, -1, 4 * 2 * kHeads* kCache* kWidth},
                                         {"window", AOTC_DTYPE_F32, 4, window_dims, -1, 4 * 2 * kHeads* kWindow* kWidth},
                                         {"scale", AOTC_DTYPE_F32, 1, scale_dims, 0, 4 * kWidth},
                                         {"steps", AOTC_DTYPE_I64, 0, 0, -1, 8}};
static const aotc_method_desc methods[] = {{.name = "forward",
                                            .inputs = inputs,
                                            .outputs = outputs,
                                            .n_inputs = 3,
                                            .n_outputs = 1,
                                            .dims = dims,
                                            .variants = variants,
                                            .n_variants = 1}};

const aotc_module_desc aotc_module = {.format = AOTC_PLAN_FORMAT,
                                      .metadata_json = "{\"name\": \"toy_states\"}",
                                      .methods = methods,
                                      .n_methods = 1,
                                      .weights = weights,
                                      .n_weights = 1,
                                      .states = states,
                                      .n_states = 4,
                                      .isas = isas,
                                      .n_isas = 1,
                                      .weights_begin = &blob,
                                      .weights_bytes = sizeof blob};
