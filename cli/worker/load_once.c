/* What a process pays that does nothing but use one artifact: dlopen, probe, model, context, one run, peak memory. A program of its own,
 * without LibTorch, so that the numbers are the artifact's; embedded in aotc and started by `aotc bench`.
 *
 *   load_once model.so threads flags method [dims of input 0] [dims of input 1] ...      dims: "8x128", "scalar"
 *
 * Inputs are zeros that were written; large tensors lie in huge pages, where the system has them for the asking, as arrays of NumPy do:
 * with pages of 4 KB a first call on 64 MB of outputs that nobody has touched is 20 to 30 ms of page faults. Prints one JSON object; exit
 * code 1 and a message on stderr when something fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "aotc/aotc.h"

enum { kMaxIo = 256, kMaxRank = 32, kHuge = 2 << 20 };

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static long peak_kb(void) {
  FILE* f = fopen("/proc/self/status", "r");
  char line[256];
  long kb = 0;
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "VmHWM: %ld", &kb) == 1) break;
  if (f) fclose(f);
  return kb;
}

static int fail(const aotc_api* api, const char* what) {
  fprintf(stderr, "load_once: %s: %s\n", what, api ? api->last_error() : dlerror());
  return 1;
}

static size_t dtype_bytes(uint32_t dtype) {
  switch (dtype) {
#define X(name, value, text, bytes) \
  case value: return bytes;
    AOTC_DTYPE_LIST(X)
#undef X
  }
  return 0;
}

static int32_t parse_dims(const char* text, int64_t* dims) {
  int32_t rank = 0;
  if (strcmp(text, "scalar") == 0) return 0;
  for (char* end; rank < kMaxRank; text = end + 1) {
    dims[rank++] = strtoll(text, &end, 10);
    if (*end != 'x') break;
  }
  return rank;
}

/* data null: no memory. */
static aotc_tensor allocate(const int64_t* dims, int32_t rank, uint32_t dtype) {
  size_t bytes = dtype_bytes(dtype);
  for (int32_t d = 0; d < rank; ++d) bytes *= (size_t)dims[d];
  const size_t align = bytes >= 2 * kHuge ? kHuge : 64;
  void* data = NULL;
  if (posix_memalign(&data, align, bytes ? bytes : 1) != 0) data = NULL;
  if (data && align == kHuge) madvise(data, bytes / kHuge * kHuge, MADV_HUGEPAGE);
  return aotc_host_tensor(data, dims, rank, dtype, bytes);
}

static aotc_status io_get(const aotc_api* api, const aotc_model* model, int32_t method, int32_t kind, int32_t i, aotc_io_info* info) {
  return method ? api->method_io_get(model, method, kind, i, info) : api->io_get(model, kind, i, info);
}

int main(int argc, char** argv) {
  if (argc < 5) return fail(NULL, "usage: load_once model.so threads flags method [dims..]");
  static int64_t in_dims[kMaxIo][kMaxRank], out_dims[kMaxIo][kMaxRank];
  static aotc_tensor in[kMaxIo], out[kMaxIo];
  static int64_t* out_shapes[kMaxIo];
  const long before_kb = peak_kb();
  const double t0 = now_us();
  void* handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!handle) return fail(NULL, "dlopen");
  aotc_get_api_fn get;
  *(void**)&get = dlsym(handle, "aotc_get_api");
  const aotc_api* api = get ? get(AOTC_ABI_VERSION) : NULL;
  if (!api) return fail(NULL, "aotc_get_api");
  aotc_model* model = NULL;
  aotc_model_options model_options = AOTC_MODEL_OPTIONS_INIT;
  model_options.flags = (uint32_t)atoi(argv[3]);
  if (api->model_create(&model_options, &model) != AOTC_STATUS_OK) return fail(api, "model_create");
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  options.num_threads = atoi(argv[2]);
  aotc_context* context = NULL;
  if (api->context_create(model, &options, &context) != AOTC_STATUS_OK) return fail(api, "context_create");
  const double load_us = now_us() - t0;

  const int32_t method = atoi(argv[4]);
  int32_t n_in = 0, n_out = 0;
  if (method == 0) { /* as artifacts older than methods have it, too */
    api->io_count(model, AOTC_INPUT, &n_in);
    api->io_count(model, AOTC_OUTPUT, &n_out);
  } else {
    aotc_method_info m = AOTC_METHOD_INFO_INIT;
    if (api->method_get(model, method, NULL, &m) != AOTC_STATUS_OK) return fail(api, "method_get");
    n_in = m.n_inputs;
    n_out = m.n_outputs;
  }
  if (n_in > kMaxIo || n_out > kMaxIo || argc - 5 < n_in) return fail(api, "dims of every input are needed");
  for (int32_t i = 0; i < n_in; ++i) {
    aotc_io_info info = {.struct_size = sizeof info};
    if (io_get(api, model, method, AOTC_INPUT, i, &info) != AOTC_STATUS_OK) return fail(api, "io_get");
    in[i] = allocate(in_dims[i], parse_dims(argv[5 + i], in_dims[i]), info.dtype);
    if (!in[i].data) return fail(api, "no memory for the inputs");
    memset(in[i].data, 0, in[i].byte_size);
  }
  for (int32_t i = 0; i < n_out; ++i) out_shapes[i] = out_dims[i];
  if ((method ? api->method_output_bounds(context, method, in, n_in, out_shapes, n_out)
              : api->output_bounds(context, in, n_in, out_shapes, n_out)) != AOTC_STATUS_OK)
    return fail(api, "output_bounds");
  for (int32_t i = 0; i < n_out; ++i) {
    aotc_io_info info = {.struct_size = sizeof info};
    if (io_get(api, model, method, AOTC_OUTPUT, i, &info) != AOTC_STATUS_OK) return fail(api, "io_get");
    out[i] = allocate(out_dims[i], info.rank, info.dtype);
    if (!out[i].data) return fail(api, "no memory for the outputs");
  }
  const double t1 = now_us();
  if ((method ? api->run_method(context, method, in, n_in, out, n_out) : api->run(context, in, n_in, out, n_out)) != AOTC_STATUS_OK)
    return fail(api, "run");
  const double first_us = now_us() - t1;
  printf("{\"load_us\": %.1f, \"first_call_us\": %.1f, \"peak_rss_bytes\": %ld, \"base_rss_bytes\": %ld}\n", load_us, first_us,
         peak_kb() * 1024, before_kb * 1024);
  api->context_destroy(context);
  api->model_destroy(model);
  return 0;
}
