/* With TOY_CPU_PART it has code for CPUs too. A GPU artifact written by hand: y = x * table[idx] (x f32 [batch, 8], idx i64 [batch], table:
 * 4 weights), zeros = 0 [batch], state "runs" i64 [] counts. Its kernels are in fake_cuda.c. */
#include "aotc/detail/plan_format.h"
#include "aotc/dtype.h"

#ifndef TOY_FLAGS
#define TOY_FLAGS 0
#endif

static const int64_t dim_code[] = {AOTC_X_SYM, 0};
static const aotc_dim_desc dims[] = {{-1, 1, 64, "batch", 0, 2}, {8, 8, 8, "8", 0, 0}, {-1, 1, 64, "batch", 0, 2}};
static const aotc_io_desc inputs[] = {{"x", AOTC_DTYPE_F32, 2, 0, -1}, {"idx", AOTC_DTYPE_I64, 1, 2, -1}};
static const aotc_io_desc outputs[] = {{"y", AOTC_DTYPE_F32, 2, 0, -1}, {"zeros", AOTC_DTYPE_F32, 1, 2, -1}};
static const aotc_symbol_desc symbols[] = {{"batch", 0, 0, 1, 0, 1, 64, 1}};
/* slots: 0 batch; 1 rows of the table; 2 batch*32; 3 zero; 4 batch*4; 5 grid; 6 sixteen; 7 eight;
 * 8 thirty-two */
static const int64_t code[] = {AOTC_X_SYM,
                               0,
                               AOTC_X_CONST,
                               4,
                               AOTC_X_SLOT,
                               0,
                               AOTC_X_CONST,
                               32,
                               AOTC_X_MUL,
                               AOTC_X_CONST,
                               0,
                               AOTC_X_SLOT,
                               0,
                               AOTC_X_CONST,
                               4,
                               AOTC_X_MUL,
                               AOTC_X_SLOT,
                               0,
                               AOTC_X_CONST,
                               3,
                               AOTC_X_ADD,
                               AOTC_X_CONST,
                               4,
                               AOTC_X_FLOORDIV,
                               AOTC_X_CONST,
                               16,
                               AOTC_X_CONST,
                               8,
                               AOTC_X_CONST,
                               32};
static const aotc_slot slots[] = {{0, 2}, {2, 4}, {4, 9}, {9, 11}, {11, 16}, {16, 24}, {24, 26}, {26, 28}, {28, 30}};
static const aotc_buffer_desc buffers[] = {{AOTC_BUF_INPUT, 0, 2, -1}, {AOTC_BUF_INPUT, 1, 2, -1},  {AOTC_BUF_WEIGHT, 0, 6, -1},
                                           {AOTC_BUF_ARENA, 0, 2, 3},  {AOTC_BUF_OUTPUT, 0, 2, -1}, {AOTC_BUF_OUTPUT, 1, 4, -1},
                                           {AOTC_BUF_STATE, 0, 7, -1}};
static const int32_t args[] = {0, 1, 2, 3, 3, 4, 5, 6};
static const int32_t size_slots[] = {0, 1};
/* x, seen by the kernel "scale": rows of 8 */
static const aotc_map_desc maps[] = {{0, AOTC_DTYPE_F32, 2, 32, 3, {7, 0}, {8}, {8, 64}}};
static const aotc_step steps[] = {
    {AOTC_STEP_CUDA, 1, 7, 1, 0, 0, -1, -1, -1, -1, {-1, -1, -1}, {1, 1, 1}, -1, 0, 0, 0, "runs"},
    {AOTC_STEP_CUDA, 0, 0, 4, 0, 2, -1, -1, -1, -1, {5, -1, -1}, {4, 1, 1}, -1, 0, 1, 1, "scale"},
    {AOTC_STEP_COPY, -1, 4, 2, 0, 0, -1, -1, -1, -1, {-1, -1, -1}, {1, 1, 1}, -1, 1, 0, 0, "y"},
    {AOTC_STEP_ZERO, -1, 6, 1, 0, 0, -1, -1, -1, -1, {-1, -1, -1}, {1, 1, 1}, -1, 1, 0, 0, "zeros"},
};
static const aotc_range ranges[] = {{1, 64, 1}};
static const aotc_variant variants[] = {{"default", ranges, code, slots, 9, buffers, 7, steps, 4, args, size_slots, maps, 2, -1}};
#define METHOD(called, its_variants)                                                                                         \
  {                                                                                                                          \
    .name = called, .inputs = inputs, .outputs = outputs, .n_inputs = 2, .n_outputs = 2, .dims = dims, .dim_code = dim_code, \
    .symbols = symbols, .n_symbols = 1, .variants = its_variants, .n_variants = 1                                            \
  }
/* TOY_METHODS: the same once more under another name. */
static const aotc_method_desc methods[] = {
    METHOD("forward", variants),
#ifdef TOY_METHODS
    METHOD("again", variants),
#endif
};
static const struct {
  float table[4];
  int64_t start;
} blob __attribute__((aligned(4096))) = {{1, 2, 3, 4}, 40};
static const aotc_weight_desc weights[] = {{"table", 0, 16}, {"start", 16, 8}};
static const aotc_state_desc states[] = {{"runs", AOTC_DTYPE_I64, 0, 0, 1, 8}};
static const void* const cubins[] = {"cubin of scale", "cubin of count"};
static const aotc_cuda_image images[] = {{8, 0, 0, 0, cubins}, {9, 0, 'a', 0, cubins}};
static const aotc_cuda_kernel kernels[] = {{"scale", 64 * 1024}, {"count", 0}};

#ifdef TOY_CPU_PART
static void scale_cpu(const aotc_kargs* a, int64_t begin, int64_t end) {
  const float *x = (const float*)a->ptr[0], *by = (const float*)a->ptr[2];
  const int64_t* idx = (const int64_t*)a->ptr[1];
  (void)begin, (void)end;
  for (int64_t i = 0; i < a->size[0] * 8; ++i) {
    const int64_t row = idx[i / 8];
    if (row < 0 || row >= a->size[1])
      *a->fault = AOTC_FAULT_INDEX;
    else
      ((float*)a->ptr[3])[i] = x[i] * by[row];
  }
}
static void count_cpu(const aotc_kargs* a, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  ++*(int64_t*)a->ptr[0];
}
static const aotc_kernel_fn cpu_kernels[] = {scale_cpu, count_cpu};
static const aotc_isa_table cpu_isas[] = {{AOTC_ISA_AVX2, TOY_CPU_NEEDS, cpu_kernels, 0}};
static const aotc_step cpu_steps[] = {
    {AOTC_STEP_CPU, 1, 7, 1, 0, 0, -1, -1, -1, -1, {-1, -1, -1}, {1, 1, 1}, -1, 0, 0, 0, "runs"},
    {AOTC_STEP_CPU, 0, 0, 4, 0, 2, -1, -1, -1, -1, {-1, -1, -1}, {1, 1, 1}, -1, 0, 0, 0, "scale"},
    {AOTC_STEP_COPY, -1, 4, 2, 0, 0, -1, -1, -1, -1, {-1, -1, -1}, {1, 1, 1}, -1, 0, 0, 0, "y"},
    {AOTC_STEP_ZERO, -1, 6, 1, 0, 0, -1, -1, -1, -1, {-1, -1, -1}, {1, 1, 1}, -1, 0, 0, 0, "zeros"},
};
static const aotc_variant cpu_variants[] = {{"default", ranges, code, slots, 9, buffers, 7, cpu_steps, 4, args, size_slots, 0, 2, -1}};
static const aotc_method_desc cpu_methods[] = {
    METHOD("forward", cpu_variants),
#ifdef TOY_METHODS
    METHOD("again", cpu_variants),
#endif
};
static const aotc_module_desc cpu_part = {
    .format = AOTC_PLAN_FORMAT,
    .methods = cpu_methods,
    .n_methods = sizeof cpu_methods / sizeof cpu_methods[0],
    .weights = weights,
    .n_weights = 2,
    .states = states,
    .n_states = 1,
    .isas = cpu_isas,
    .n_isas = 1,
    .weights_begin = &blob,
    .weights_bytes = sizeof blob,
    .weights_layout = 0x70070071,
};
/* A later architecture's code, and text for the driver's compiler. */
static const aotc_cuda_image later_images[] = {{10, 0, 'a', 0, cubins}, {10, 0, 0, 1, cubins}};
static const aotc_module_desc later_part = {
    .format = AOTC_PLAN_FORMAT,
    .methods = methods,
    .n_methods = sizeof methods / sizeof methods[0],
    .weights = weights,
    .n_weights = 2,
    .states = states,
    .n_states = 1,
    .cuda_images = later_images,
    .n_cuda_images = 2,
    .cuda_kernels = kernels,
    .n_cuda_kernels = 2,
    .weights_begin = &blob,
    .weights_bytes = sizeof blob,
    .weights_layout = 0x70070071,
    .next = &cpu_part,
};
#endif

const aotc_module_desc aotc_module = {
    .format = AOTC_PLAN_FORMAT,
    .flags = TOY_FLAGS,
    .methods = methods,
    .n_methods = sizeof methods / sizeof methods[0],
    .weights = weights,
    .n_weights = 2,
    .states = states,
    .n_states = 1,
    .cuda_images = images,
    .n_cuda_images = 2,
    .cuda_kernels = kernels,
    .n_cuda_kernels = 2,
    .weights_begin = &blob,
    .weights_bytes = sizeof blob,
    .weights_layout = 0x70070071,
#ifdef TOY_CPU_PART
    .next = &later_part,
#endif
};
