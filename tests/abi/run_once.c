/* Loads an artifact, runs it once with two threads on numbers made of their position, and prints what comes out. Linked for the glibc floor,
 * so that it starts under an older C library (older_libc.sh). Has the names of the first version, with whose headers stored.sh compiles it.
 *
 *   run_once model.so      run_once --glibc */
#include <stdlib.h>

#include "aotc/loader.h"

extern const char* gnu_get_libc_version(void);

enum { MAX_TENSORS = 32, MAX_RANK = 8, SIZE = 3 };

static uint64_t dtype_bytes(uint32_t dtype) {
#define AOTC_X(name, value, text, bytes) \
  if (dtype == value) return bytes;
  AOTC_DTYPE_LIST(AOTC_X)
#undef AOTC_X
  return 0;
}

typedef struct {
  aotc_tensor t;
  int64_t shape[MAX_RANK];
} tensor;

static uint64_t elements(const tensor* x) {
  uint64_t n = 1;
  int32_t d;
  for (d = 0; d < x->t.rank; ++d) n *= (uint64_t)x->shape[d];
  return n;
}

/* Of io_get: fixed dims as they are, others SIZE or what is nearest to it. */
static int make(const aotc_api* api, const aotc_model* model, int32_t kind, int32_t i, tensor* out) {
  aotc_io_info info = AOTC_IO_INFO_INIT;
  int32_t d;
  if (api->io_get(model, kind, i, &info) != AOTC_OK || info.rank > MAX_RANK) return 0;
  for (d = 0; d < info.rank; ++d) {
    const aotc_dim* dim = &info.dims[d];
    out->shape[d] = !dim->symbol ? dim->value : dim->min > SIZE ? dim->min : dim->max < SIZE ? dim->max : SIZE;
  }
  out->t = aotc_host_tensor(NULL, out->shape, info.rank, info.dtype, 0);
  return 1;
}

static int allocate(tensor* x) {
  const uint64_t n = elements(x), bytes = n * dtype_bytes(x->t.dtype);
  x->t.byte_size = bytes;
  x->t.data = calloc(bytes ? bytes : 1, 1);
  return x->t.data != NULL;
}

static void fill(tensor* x) {
  const uint64_t n = elements(x);
  uint64_t i;
  for (i = 0; i < n; ++i) {
    if (x->t.dtype == AOTC_DTYPE_F32) ((float*)x->t.data)[i] = (float)(i * 37 % 101) / 50 - 1;
    if (x->t.dtype == AOTC_DTYPE_F64) ((double*)x->t.data)[i] = (double)(i * 37 % 101) / 50 - 1;
  }
}

static void print(const char* name, const tensor* x) {
  const uint64_t n = elements(x), size = dtype_bytes(x->t.dtype);
  uint64_t i, k;
  for (i = 0; i < n; ++i) {
    printf("%s %llu ", name, (unsigned long long)i);
    if (x->t.dtype == AOTC_DTYPE_F32)
      printf("%.5g\n", ((const float*)x->t.data)[i]);
    else if (x->t.dtype == AOTC_DTYPE_F64)
      printf("%.5g\n", ((const double*)x->t.data)[i]);
    else {
      for (k = 0; k < size; ++k) printf("%02x", ((const unsigned char*)x->t.data)[i * size + k]);
      printf("\n");
    }
  }
}

static int run(const aotc_api* api) {
  static tensor in[MAX_TENSORS], out[MAX_TENSORS];
  static aotc_tensor in_raw[MAX_TENSORS], out_raw[MAX_TENSORS];
  static int64_t* shapes[MAX_TENSORS];
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  aotc_model* model = NULL;
  aotc_context* context = NULL;
  int32_t n_in = 0, n_out = 0, i;
  options.num_threads = 2;
  if (api->model_create(NULL, &model) != AOTC_OK || api->context_create(model, &options, &context) != AOTC_OK) return 0;
  api->io_count(model, AOTC_INPUT, &n_in);
  api->io_count(model, AOTC_OUTPUT, &n_out);
  if (n_in > MAX_TENSORS || n_out > MAX_TENSORS) return 0;
  for (i = 0; i < n_in; ++i) {
    if (!make(api, model, AOTC_INPUT, i, &in[i]) || !allocate(&in[i])) return 0;
    fill(&in[i]);
    in_raw[i] = in[i].t;
  }
  for (i = 0; i < n_out; ++i) {
    if (!make(api, model, AOTC_OUTPUT, i, &out[i])) return 0;
    shapes[i] = out[i].shape;
  }
  if (api->output_shapes(context, in_raw, n_in, shapes, n_out) != AOTC_OK) return 0;
  for (i = 0; i < n_out; ++i) {
    if (!allocate(&out[i])) return 0;
    out_raw[i] = out[i].t;
  }
  if (api->run(context, in_raw, n_in, out_raw, n_out) != AOTC_OK) return 0;
  for (i = 0; i < n_out; ++i) {
    aotc_io_info info = AOTC_IO_INFO_INIT;
    api->io_get(model, AOTC_OUTPUT, i, &info);
    print(info.name, &out[i]);
    free(out[i].t.data);
  }
  for (i = 0; i < n_in; ++i) free(in[i].t.data);
  api->context_destroy(context);
  api->model_destroy(model);
  return 1;
}

int main(int argc, char** argv) {
  aotc_library lib;
  if (argc != 2) return 2;
  if (strcmp(argv[1], "--glibc") == 0) {
    puts(gnu_get_libc_version());
    return 0;
  }
  if (aotc_library_open(argv[1], AOTC_DEFAULT_DEVICE, &lib) != AOTC_OK) {
    puts(lib.error);
    return 1;
  }
  if (!run(lib.api)) {
    puts(lib.api->last_error());
    return 1;
  }
  aotc_library_close(&lib);
  return 0;
}
