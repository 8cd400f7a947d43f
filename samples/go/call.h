/* What cgo calls of the C ABI: functions in the place of the table's pointers, each of which takes the message of a failure along, since a
 * goroutine may be on another thread at its next call. */
#include <stdlib.h>

#include "aotc/loader.h"

enum { TEXT = 1024, SLICES = 32 };

static aotc_status told(const aotc_api* api, aotc_status status, char text[TEXT]) {
  if (status != AOTC_STATUS_OK) snprintf(text, TEXT, "%s", api->last_error());
  return status;
}

static aotc_status opened(aotc_status status, const aotc_library* lib, aotc_model** model, char text[TEXT]) {
  if (status == AOTC_STATUS_OK) return told(lib->api, lib->api->model_create(NULL, model), text);
  snprintf(text, TEXT, "%s", lib->error);
  return status;
}
static aotc_status open_path(const char* path, aotc_library* lib, aotc_model** model, char text[TEXT]) {
  return opened(aotc_library_open(path, AOTC_DEVICE_DEFAULT, lib), lib, model, text);
}
static aotc_status open_memory(const void* data, uint64_t bytes, aotc_library* lib, aotc_model** model, char text[TEXT]) {
  return opened(aotc_library_open_memory(data, bytes, AOTC_DEVICE_DEFAULT, lib), lib, model, text);
}
static void close_library(aotc_library* lib, aotc_model* model) {
  if (model) lib->api->model_destroy(model);
  aotc_library_close(lib);
}

static aotc_status io_count(const aotc_api* api, const aotc_model* model, int32_t kind, int32_t* n, char text[TEXT]) {
  return told(api, api->io_count(model, kind, n), text);
}
static aotc_status io_get(const aotc_api* api, const aotc_model* model, int32_t method, int32_t kind, int32_t i, aotc_io_info* info,
                          char text[TEXT]) {
  info->struct_size = sizeof *info;
  return told(api, AOTC_HAS(api, method_io_get) ? api->method_io_get(model, method, kind, i, info) : api->io_get(model, kind, i, info),
              text);
}
static aotc_status method_count(const aotc_api* api, const aotc_model* model, int32_t* n, char text[TEXT]) {
  *n = 1;
  return AOTC_HAS(api, method_count) ? told(api, api->method_count(model, n), text) : AOTC_STATUS_OK;
}
/* Of an artifact older than methods: its only one. */
static aotc_status method_get(const aotc_api* api, const aotc_model* model, int32_t i, aotc_method_info* info, char text[TEXT]) {
  info->struct_size = sizeof *info;
  if (AOTC_HAS(api, method_get)) return told(api, api->method_get(model, i, NULL, info), text);
  info->name = "forward";
  info->index = 0;
  if (told(api, api->io_count(model, AOTC_INPUT, &info->n_inputs), text) != AOTC_STATUS_OK) return AOTC_STATUS_INTERNAL;
  return told(api, api->io_count(model, AOTC_OUTPUT, &info->n_outputs), text);
}
static const char* metadata(const aotc_api* api) { return api->metadata_json(); }

static aotc_status context_create(const aotc_api* api, aotc_model* model, int32_t threads, uint32_t flags, aotc_context** out,
                                  char text[TEXT]) {
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  options.num_threads = threads;
  options.flags = flags;
  return told(api, api->context_create(model, &options, out), text);
}
static void context_destroy(const aotc_api* api, aotc_context* context) { api->context_destroy(context); }

static aotc_status output_bounds(const aotc_api* api, aotc_context* context, int32_t method, const aotc_tensor* in, int32_t n_in,
                                 int64_t** shapes, int32_t n_out, char text[TEXT]) {
  int64_t* const* to = (int64_t* const*)shapes;
  return told(api,
              AOTC_HAS(api, method_output_bounds) ? api->method_output_bounds(context, method, in, n_in, to, n_out)
                                                  : api->output_bounds(context, in, n_in, to, n_out),
              text);
}

/* A run on slices of Go: their pointers come as arguments, which keeps each where it is for the call; the tensors lie in C's memory. Both
 * timeout_ns and cancel 0: a run that is not ended early. */
static aotc_status run_slices(const aotc_api* api, aotc_context* context, int32_t method, aotc_tensor* tensors, int32_t n_in, int32_t n_out,
                              uint64_t timeout_ns, const int32_t* cancel, char text[TEXT], void* s0, void* s1, void* s2, void* s3, void* s4,
                              void* s5, void* s6, void* s7, void* s8, void* s9, void* s10, void* s11, void* s12, void* s13, void* s14,
                              void* s15, void* s16, void* s17, void* s18, void* s19, void* s20, void* s21, void* s22, void* s23, void* s24,
                              void* s25, void* s26, void* s27, void* s28, void* s29, void* s30, void* s31) {
  void* const slices[SLICES] = {s0,  s1,  s2,  s3,  s4,  s5,  s6,  s7,  s8,  s9,  s10, s11, s12, s13, s14, s15,
                                s16, s17, s18, s19, s20, s21, s22, s23, s24, s25, s26, s27, s28, s29, s30, s31};
  aotc_run_options options = AOTC_RUN_OPTIONS_INIT;
  const aotc_tensor* out = tensors + n_in;
  aotc_status status;
  int32_t i;
  for (i = 0; i < n_in + n_out && i < SLICES; ++i) tensors[i].data = slices[i];
  if (timeout_ns || cancel) {
    struct timespec now;
    if (!AOTC_HAS(api, run_with)) {
      snprintf(text, TEXT, "the artifact is older than runs that can be ended");
      return AOTC_STATUS_INCOMPATIBLE;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    options.deadline_ns = timeout_ns ? (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + timeout_ns : 0;
    options.cancel = cancel;
    status = api->run_with(context, method, tensors, n_in, out, n_out, &options);
  } else if (AOTC_HAS(api, run_method)) {
    status = api->run_method(context, method, tensors, n_in, out, n_out);
  } else {
    status = api->run(context, tensors, n_in, out, n_out);
  }
  if (status == AOTC_STATUS_OK) status = api->synchronize(context);
  status = told(api, status, text);
  for (i = 0; i < n_in + n_out && i < SLICES; ++i) tensors[i].data = NULL;
  return status;
}

static aotc_status state_reset(const aotc_api* api, aotc_context* context, const char* name, char text[TEXT]) {
  return told(api, api->state_reset(context, name), text);
}
static aotc_status state_copy(const aotc_api* api, aotc_context* context, const char* name, aotc_tensor* tensor, void* data, int32_t write,
                              char text[TEXT]) {
  aotc_status status;
  tensor->data = data;
  status = told(api, write ? api->state_write(context, name, tensor) : api->state_read(context, name, tensor), text);
  tensor->data = NULL;
  return status;
}
