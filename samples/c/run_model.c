/* Runs any CPU artifact from C.
 *
 *   cc -O2 -I include samples/c/run_model.c -o run_model -ldl -lm
 *   ./run_model model.so [-t THREADS] [-o DIR] x.npy mask.npy ...      inputs in the model's order
 *
 * Without input files it prints what the model takes and gives. -o writes the outputs as DIR/<name>.npy. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aotc/loader.h"
#include "npy.h"

enum { MAX_TENSORS = 64 };

static const char* dtype_text(uint32_t dtype) {
#define AOTC_X(name, value, text, bytes) \
  if (dtype == value) return text;
  AOTC_DTYPE_LIST(AOTC_X)
#undef AOTC_X
  return "?";
}

static uint64_t dtype_size(uint32_t dtype) {
#define AOTC_X(name, value, text, bytes) \
  if (dtype == value) return bytes;
  AOTC_DTYPE_LIST(AOTC_X)
#undef AOTC_X
  return 0;
}

/* 0 after a failure was printed */
static int good(const aotc_api* api, aotc_status status, const char* what) {
  if (status != AOTC_STATUS_OK) fprintf(stderr, "%s: %s: %s\n", what, api->status_name(status), api->last_error());
  return status == AOTC_STATUS_OK;
}

static void describe(const aotc_api* api, const aotc_model* model, int32_t kind, const char* title) {
  int32_t n = 0, i, d;
  api->io_count(model, kind, &n);
  for (i = 0; i < n; ++i) {
    aotc_io_info info = AOTC_IO_INFO_INIT;
    if (!good(api, api->io_get(model, kind, i, &info), "io_get")) return;
    printf("%s %d: %s %s [", title, i, info.name, dtype_text(info.dtype));
    for (d = 0; d < info.rank; ++d) {
      const aotc_dim* dim = &info.dims[d];
      if (!dim->symbol)
        printf("%s%lld", d ? ", " : "", (long long)dim->value);
      else if (dim->max == INT64_MAX)
        printf("%s%s (from %lld)", d ? ", " : "", dim->symbol, (long long)dim->min);
      else
        printf("%s%s (%lld to %lld)", d ? ", " : "", dim->symbol, (long long)dim->min, (long long)dim->max);
    }
    printf("]\n");
  }
}

static double element(const npy_array* a, uint64_t i) {
  switch (a->dtype) {
    case AOTC_DTYPE_F32: return ((const float*)a->data)[i];
    case AOTC_DTYPE_F64: return ((const double*)a->data)[i];
    case AOTC_DTYPE_I64: return (double)((const int64_t*)a->data)[i];
    case AOTC_DTYPE_I32: return ((const int32_t*)a->data)[i];
    case AOTC_DTYPE_BOOL:
    case AOTC_DTYPE_U8: return ((const uint8_t*)a->data)[i];
    case AOTC_DTYPE_BF16: {
      const uint32_t bits = (uint32_t)((const uint16_t*)a->data)[i] << 16;
      float f;
      memcpy(&f, &bits, 4);
      return f;
    }
    default: return NAN;
  }
}

static void print_array(const char* name, const npy_array* a) {
  const uint64_t size = dtype_size(a->dtype), n = size ? a->bytes / size : 0;
  uint64_t i;
  int32_t d;
  double sum = 0;
  printf("%s %s [", name, dtype_text(a->dtype));
  for (d = 0; d < a->rank; ++d) printf("%s%lld", d ? ", " : "", (long long)a->shape[d]);
  printf("]");
  for (i = 0; i < n; ++i) sum += element(a, i);
  for (i = 0; i < n && i < 8; ++i) printf(" %g", element(a, i));
  printf("%s  (sum %g)\n", n > 8 ? " ..." : "", sum);
}

static int run(const aotc_api* api, aotc_model* model, char** files, int n_files, int threads, const char* directory) {
  static npy_array inputs[MAX_TENSORS], outputs[MAX_TENSORS];
  aotc_tensor in[MAX_TENSORS], out[MAX_TENSORS];
  int64_t* shapes[MAX_TENSORS];
  aotc_context* context = NULL;
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  int32_t n_out = 0, i, d, ok;
  const char* why;
  options.num_threads = threads;
  if (!good(api, api->context_create(model, &options, &context), "context_create")) return 1;
  api->io_count(model, AOTC_OUTPUT, &n_out);
  if (n_files > MAX_TENSORS || n_out > MAX_TENSORS) return fprintf(stderr, "too many tensors\n"), 1;
  for (i = 0; i < n_files; ++i) {
    if (!npy_read(files[i], &inputs[i], &why)) return fprintf(stderr, "%s %s\n", files[i], why), 1;
    in[i] = aotc_host_tensor(inputs[i].data, inputs[i].shape, inputs[i].rank, inputs[i].dtype, inputs[i].bytes);
  }
  for (i = 0; i < n_out; ++i) shapes[i] = outputs[i].shape;
  ok = good(api, api->output_bounds(context, in, n_files, shapes, n_out), "inputs");
  for (i = 0; i < n_out && ok; ++i) {
    aotc_io_info info = AOTC_IO_INFO_INIT;
    api->io_get(model, AOTC_OUTPUT, i, &info);
    outputs[i].rank = info.rank;
    outputs[i].dtype = info.dtype;
    outputs[i].bytes = dtype_size(info.dtype);
    for (d = 0; d < info.rank; ++d) outputs[i].bytes *= (uint64_t)outputs[i].shape[d];
    outputs[i].data = malloc(outputs[i].bytes ? outputs[i].bytes : 1);
    if (!outputs[i].data) return fprintf(stderr, "no memory for output %s\n", info.name), 1;
    out[i] = aotc_host_tensor(outputs[i].data, outputs[i].shape, outputs[i].rank, outputs[i].dtype, outputs[i].bytes);
  }
  ok = ok && good(api, api->run(context, in, n_files, out, n_out), "run");
  for (i = 0; i < n_out && ok; ++i) {
    aotc_io_info info = AOTC_IO_INFO_INIT;
    char path[4096];
    api->io_get(model, AOTC_OUTPUT, i, &info);
    print_array(info.name, &outputs[i]);
    snprintf(path, sizeof path, "%s/%s.npy", directory ? directory : ".", info.name);
    if (directory && !npy_write(path, &outputs[i])) {
      fprintf(stderr, "%s cannot be written\n", path);
      ok = 0;
    }
  }
  for (i = 0; i < n_files; ++i) free(inputs[i].data);
  for (i = 0; i < n_out; ++i) free(outputs[i].data);
  api->context_destroy(context);
  return !ok;
}

int main(int argc, char** argv) {
  int at = 2, threads = 1, result = 0;
  const char* directory = NULL;
  aotc_library lib;
  aotc_model* model = NULL;
  if (argc < 2) {
    fprintf(stderr, "usage: run_model model.so [-t THREADS] [-o DIR] [input.npy ...]\n");
    return 2;
  }
  for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
    if (strcmp(argv[at], "-t") == 0) threads = atoi(argv[at + 1]);
    if (strcmp(argv[at], "-o") == 0) directory = argv[at + 1];
  }
  if (aotc_library_open(argv[1], AOTC_DEVICE_DEFAULT, &lib) != AOTC_STATUS_OK) {
    fprintf(stderr, "%s\n", lib.error);
    return 1;
  }
  if (!good(lib.api, lib.api->model_create(NULL, &model), "model_create")) return 1;
  if (at >= argc) {
    describe(lib.api, model, AOTC_INPUT, "input");
    describe(lib.api, model, AOTC_OUTPUT, "output");
    describe(lib.api, model, AOTC_STATE, "state");
  } else {
    result = run(lib.api, model, argv + at, argc - at, threads, directory);
  }
  lib.api->model_destroy(model);
  aotc_library_close(&lib);
  return result;
}
