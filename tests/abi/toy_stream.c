/* A GPU artifact written by hand whose weights are worth streaming: y = a chain of "mix" over x f32 [batch, 8], whose every element depends on
 * every element of the weights that a step reads. A constructor writes its tables.
 *
 * Two variants (up to 4 rows, and more) read the weights in different orders; a step may read two, several steps in a row the same, others one
 * that was read long before; one is copied. The method "short" reads a few of them. The state "runs" counts. With TOY_LAYERS n: one variant, a
 * chain over n weights of equal size. The kernels are in fake_cuda.c. */
#include "aotc/detail/plan_format.h"
#include "aotc/dtype.h"

enum { MOST = 64, KB = 1024, ROWS = 64, BLOB = 4 * KB * KB };
static int64_t code[MOST * 8];
static aotc_slot slots[MOST];
static uint32_t n_code, n_slots;
static aotc_weight_desc weights[MOST];
static uint32_t n_weights;
static uint64_t blob_bytes;
static int32_t weight_slot[MOST], weight_elems_slot[MOST];

static int32_t slot_of(const int64_t* words, uint32_t n) {
  slots[n_slots].begin = n_code;
  for (uint32_t i = 0; i < n; ++i) code[n_code++] = words[i];
  slots[n_slots].end = n_code;
  return (int32_t)n_slots++;
}
static int32_t constant(int64_t v) {
  const int64_t words[] = {AOTC_X_CONST, v};
  return slot_of(words, 2);
}
static int32_t weight(const char* name, uint64_t bytes) {
  weights[n_weights].name = name, weights[n_weights].offset = blob_bytes, weights[n_weights].bytes = bytes;
  weight_slot[n_weights] = constant((int64_t)bytes), weight_elems_slot[n_weights] = constant((int64_t)bytes / 4);
  blob_bytes += (bytes + 63) / 64 * 64;
  return (int32_t)n_weights++;
}

/* What the variants are made of. */
typedef struct tables {
  aotc_buffer_desc buffers[MOST];
  aotc_step steps[MOST];
  int32_t args[4 * MOST], sizes[4 * MOST];
  uint32_t n_buffers, n_steps, n_args, n_sizes;
} tables;
static int32_t rows_slot, one_slot, copy_slot;
static int32_t buffer(tables* t, int32_t kind, int32_t index, int32_t bytes, int32_t offset) {
  t->buffers[t->n_buffers] = (aotc_buffer_desc){kind, index, bytes, offset};
  return (int32_t)t->n_buffers++;
}
static int32_t of_weight(tables* t, int32_t w) { return buffer(t, AOTC_BUF_WEIGHT, w, weight_slot[w], -1); }
static aotc_step* step(tables* t, int32_t kind, int32_t kernel, const int32_t* args, uint32_t n, const char* label) {
  aotc_step* s = &t->steps[t->n_steps++];
  *s = (aotc_step){kind, kernel, t->n_args, n, t->n_sizes, 0, -1, -1, -1, -1, {one_slot, -1, -1}, {1, 1, 1}, -1, 0, 0, 1, label};
  for (uint32_t i = 0; i < n; ++i) t->args[t->n_args++] = args[i];
  return s;
}
/* to = mix of from with weights a and b, which may be the same. */
static void mix(tables* t, int32_t from, int32_t a, int32_t b, int32_t to, const char* label) {
  const int32_t args[] = {from, of_weight(t, a), of_weight(t, b), to};
  step(t, AOTC_STEP_CUDA, 0, args, 4, label)->n_sizes = 3;
  t->sizes[t->n_sizes++] = rows_slot, t->sizes[t->n_sizes++] = weight_elems_slot[a], t->sizes[t->n_sizes++] = weight_elems_slot[b];
}

static tables few, many, short_one;
static aotc_variant variants[2], short_variants[1];
static const aotc_range few_ranges[] = {{1, 4, 1}}, all_ranges[] = {{1, ROWS, 1}};
static void finish(const tables* t, const aotc_range* ranges, const char* name, int32_t arena, aotc_variant* out) {
  *out = (aotc_variant){name, ranges, code, slots, 0, t->buffers, t->n_buffers, t->steps, t->n_steps, t->args, t->sizes, 0, arena, -1, 0};
}

enum { START = 0 };
static const int64_t rows_code[] = {AOTC_X_SYM, 0, AOTC_X_CONST, 32, AOTC_X_MUL}, batch_code[] = {AOTC_X_SYM, 0};

__attribute__((constructor)) static void build(void) {
  const int32_t zero = constant(0), next = constant(ROWS * 32), arena = constant(2 * ROWS * 32 + 128 * KB), behind = constant(2 * ROWS * 32);
  const int32_t bytes = slot_of(rows_code, 5), state = constant(8);
  rows_slot = slot_of(batch_code, 2), one_slot = constant(1), copy_slot = constant(128 * KB);
  weight("start", 8);
  tables* const all[] = {&few, &many, &short_one};
  int32_t x[3], y[3], t0[3], t1[3], copied[3], runs[3];
  for (int i = 0; i < 3; ++i) {
    x[i] = buffer(all[i], AOTC_BUF_INPUT, 0, bytes, -1), y[i] = buffer(all[i], AOTC_BUF_OUTPUT, 0, bytes, -1);
    t0[i] = buffer(all[i], AOTC_BUF_ARENA, 0, bytes, zero), t1[i] = buffer(all[i], AOTC_BUF_ARENA, 0, bytes, next);
    copied[i] = buffer(all[i], AOTC_BUF_ARENA, 0, copy_slot, behind), runs[i] = buffer(all[i], AOTC_BUF_STATE, 0, state, -1);
  }
  for (int i = 0; i < 2; ++i) step(all[i], AOTC_STEP_CUDA, 1, &runs[i], 1, "runs");
#ifdef TOY_LAYERS
  static char names[TOY_LAYERS][4];
  (void)copied;
  for (int i = 0; i < TOY_LAYERS; ++i) {
    names[i][0] = 'w', names[i][1] = (char)('0' + i / 10), names[i][2] = (char)('0' + i % 10);
    const int32_t w = weight(names[i], 64 * KB);
    for (int k = 0; k < 2; ++k)
      mix(all[k], i == 0 ? x[k] : i % 2 ? t0[k] : t1[k], w, w, i == TOY_LAYERS - 1 ? y[k] : i % 2 ? t1[k] : t0[k], names[i]);
  }
  mix(&short_one, x[2], 1, 2, y[2], "short");
#else
  const int32_t table = weight("table", 256 * KB), norm = weight("norm", KB);
  const int32_t a0 = weight("a0", 128 * KB), b0 = weight("b0", 192 * KB), a1 = weight("a1", 128 * KB), b1 = weight("b1", 192 * KB + 64);
  const int32_t a2 = weight("a2", 64 * KB), b2 = weight("b2", 320 * KB), head = weight("head", 384 * KB), unread = weight("unread", 512 * KB);
  (void)unread;
  mix(&few, x[0], table, norm, t0[0], "table");
  mix(&few, t0[0], a0, norm, t1[0], "a0");
  mix(&few, t1[0], b0, a0, t0[0], "b0 a0");
  const int32_t copy[] = {of_weight(&few, a1), copied[0]};
  step(&few, AOTC_STEP_COPY, -1, copy, 2, "copy")->overlaps = 0;
  mix(&few, t0[0], norm, a0, t1[0], "a0 again");
  const int32_t by_copy[] = {t1[0], copied[0], of_weight(&few, b1), t0[0]};
  step(&few, AOTC_STEP_CUDA, 0, by_copy, 4, "copied")->n_sizes = 3;
  few.sizes[few.n_sizes++] = rows_slot, few.sizes[few.n_sizes++] = weight_elems_slot[a1], few.sizes[few.n_sizes++] = weight_elems_slot[b1];
  mix(&few, t0[0], a2, b2, t1[0], "a2 b2");
  mix(&few, t1[0], head, head, t0[0], "head");
  mix(&few, t0[0], table, norm, t1[0], "table again");
  mix(&few, t1[0], b2, a1, y[0], "b2 a1");
  mix(&many, x[1], head, norm, t0[1], "head");
  mix(&many, t0[1], b2, b2, t1[1], "b2");
  mix(&many, t1[1], b1, b0, t0[1], "b1 b0");
  mix(&many, t0[1], a0, a1, t1[1], "a0 a1");
  mix(&many, t1[1], a2, norm, t0[1], "a2");
  mix(&many, t0[1], table, head, y[1], "table head");
  mix(&short_one, x[2], b0, b0, t0[2], "b0");
  mix(&short_one, t0[2], head, head, t1[2], "head");
  mix(&short_one, t1[2], a1, a1, t0[2], "a1");
  mix(&short_one, t0[2], table, head, t1[2], "table head"); /* in the smallest ring there is no room for table beside head where that lies */
  mix(&short_one, t1[2], a1, b0, y[2], "a1 b0");
#endif
  finish(&few, few_ranges, "few", arena, &variants[0]);
  finish(&many, all_ranges, "many", arena, &variants[1]);
  finish(&short_one, all_ranges, "short", arena, &short_variants[0]);
  for (int i = 0; i < 2; ++i) variants[i].n_slots = n_slots;
  short_variants[0].n_slots = n_slots;
}

static const int64_t dim_code[] = {AOTC_X_SYM, 0};
static const aotc_dim_desc dims[] = {{-1, 1, ROWS, "batch", 0, 2}, {8, 8, 8, "8", 0, 0}};
static const aotc_io_desc inputs[] = {{"x", AOTC_DTYPE_F32, 2, 0, -1}}, outputs[] = {{"y", AOTC_DTYPE_F32, 2, 0, -1}};
static const aotc_symbol_desc symbols[] = {{"batch", 0, 0, 1, 0, 1, ROWS, 1}};
#define METHOD(called, its_variants, n)                                                                                      \
  {                                                                                                                          \
    .name = called, .inputs = inputs, .outputs = outputs, .n_inputs = 1, .n_outputs = 1, .dims = dims, .dim_code = dim_code, \
    .symbols = symbols, .n_symbols = 1, .variants = its_variants, .n_variants = n                                            \
  }
static const aotc_method_desc methods[] = {METHOD("forward", variants, 2), METHOD("short", short_variants, 1)};
static const char blob[BLOB] __attribute__((aligned(4096)));
static const aotc_state_desc states[] = {{"runs", AOTC_DTYPE_I64, 0, 0, START, 8}};
static const void* const cubins[] = {"cubin of mix", "cubin of count"};
static const aotc_cuda_image images[] = {{9, 0, 'a', 0, cubins}};
static const aotc_cuda_kernel kernels[] = {{"mix", 0}, {"count", 0}};

const aotc_module_desc aotc_module = {
    .format = AOTC_PLAN_FORMAT,
    .flags = AOTC_MODULE_GRAPHS,
    .methods = methods,
    .n_methods = 2,
    .weights = weights,
    .n_weights = TOY_WEIGHTS,
    .states = states,
    .n_states = 1,
    .cuda_images = images,
    .n_cuda_images = 1,
    .cuda_kernels = kernels,
    .n_cuda_kernels = 2,
    .weights_begin = blob,
    .weights_bytes = BLOB,
    .weights_layout = 0x57e4,
};
