/* A program with the names that aotc.h had before AOTC_STATUS_OK, AOTC_DEVICE_HOST and output_bounds, and none of those: C11 and C++17. Runs
 * the model of toy.c; exit status 0 when all is right.    old_names toy.so */
#ifdef __cplusplus
#include "aotc/aotc.hpp"
#else
#include "aotc/loader.h"
#endif

static int fails(const char* what) {
  printf("old_names: %s\n", what);
  return 1;
}

/* Each status once, as a switch has them. */
static const char* name_of(aotc_status status) {
  switch (status) {
    case AOTC_OK: return "OK";
    case AOTC_INVALID_ARGUMENT: return "INVALID_ARGUMENT";
    case AOTC_SHAPE_MISMATCH: return "SHAPE_MISMATCH";
    case AOTC_INCOMPATIBLE: return "INCOMPATIBLE";
    case AOTC_NOT_FOUND: return "NOT_FOUND";
    case AOTC_OUT_OF_MEMORY: return "OUT_OF_MEMORY";
    case AOTC_WRONG_STATE: return "WRONG_STATE";
    case AOTC_DEVICE: return "DEVICE";
    case AOTC_INTERNAL: return "INTERNAL";
    case AOTC_INDEX_OUT_OF_RANGE: return "INDEX_OUT_OF_RANGE";
    case AOTC_DAMAGED: return "DAMAGED";
    case AOTC_DEVICE_LOST: return "DEVICE_LOST";
    case AOTC_ASSERTION_FAILED: return "ASSERTION_FAILED";
    case AOTC_CANCELLED: return "CANCELLED";
    case AOTC_DEADLINE_EXCEEDED: return "DEADLINE_EXCEEDED";
    case AOTC_IO: return "IO";
    default: return "another";
  }
}

static int names_are_right(void) {
#define IS(name, value, text) \
  if (strcmp(name_of(value), #name) != 0) return 0;
  AOTC_STATUS_LIST(IS)
#undef IS
  return AOTC_HOST == -1 && AOTC_DEFAULT_DEVICE == -2;
}

#ifdef __cplusplus
static int in_cpp(const char* path) {
  aotc::host::Model model;
  aotc::host::Context context;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<float> x(24), bias(8), pair(7);
  std::vector<int64_t> idx(3);
  const std::vector<aotc::host::Tensor> in = {aotc::host::tensor(x.data(), {3, 8}), aotc::host::tensor(bias.data(), {8}),
                                              aotc::host::tensor(idx.data(), {3}), aotc::host::tensor(pair.data(), {7})};
  if (aotc::host::Model::load(path, &model).code != AOTC_OK || model.context(&context).code != AOTC_OK) return fails("Model::load");
  if (context.output_shapes(in, &shapes).code != AOTC_OK || shapes[0] != std::vector<int64_t>{3, 8}) return fails("output_shapes in C++");
  return 0;
}
#endif

int main(int argc, char** argv) {
  float x[24] = {0}, bias[8] = {0}, pair[7] = {0};
  int64_t idx[3] = {0}, rows[2] = {3, 8}, eight = 8, three = 3, seven = 7, shape[2] = {0, 0}, last[1];
  int64_t* shapes[3];
  aotc_tensor in[4];
  aotc_library lib;
  aotc_model* model = NULL;
  aotc_context* context = NULL;
  if (argc != 2 || !names_are_right()) return fails("a name means something else");
  if (aotc_library_open(argv[1], AOTC_DEFAULT_DEVICE, &lib) != AOTC_OK) return fails(lib.error);
  if (lib.api->model_create(NULL, &model) != AOTC_OK || lib.api->context_create(model, NULL, &context) != AOTC_OK)
    return fails(lib.api->last_error());
  in[0] = aotc_host_tensor(x, rows, 2, AOTC_DTYPE_F32, sizeof x);
  in[1] = aotc_host_tensor(bias, &eight, 1, AOTC_DTYPE_F32, sizeof bias);
  in[2] = aotc_host_tensor(idx, &three, 1, AOTC_DTYPE_I64, sizeof idx);
  in[3] = aotc_host_tensor(pair, &seven, 1, AOTC_DTYPE_F32, sizeof pair);
  if (in[0].device != AOTC_HOST) return fails("AOTC_HOST");
  shapes[0] = shape, shapes[1] = NULL, shapes[2] = last;
  if (!AOTC_HAS(lib.api, output_shapes) || lib.api->output_shapes(context, in, 4, shapes, 3) != AOTC_OK) return fails("output_shapes");
  if (shape[0] != 3 || shape[1] != 8 || last[0] != 7) return fails("output_shapes gives other shapes");
  shape[0] = 0;
  if (!AOTC_HAS(lib.api, method_output_shapes) || lib.api->method_output_shapes(context, 0, in, 4, shapes, 3) != AOTC_OK)
    return fails("method_output_shapes");
  if (shape[0] != 3) return fails("method_output_shapes gives other shapes");
  if (lib.api->output_shapes(context, in, 1, shapes, 3) != AOTC_INVALID_ARGUMENT) return fails("a refusal");
  lib.api->context_destroy(context);
  lib.api->model_destroy(model);
  aotc_library_close(&lib);
#ifdef __cplusplus
  return in_cpp(argv[1]);
#else
  return 0;
#endif
}
