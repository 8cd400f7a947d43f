/* Prints what the C ABI fixes for ever: where each field lies, how many bytes it has, and what each number means. A line each; later
 * versions have the same lines and more (stored.sh). With an argument: without the names of before. */
#include <stdio.h>

#include "aotc/aotc.h"

#define FIELD(type, field) printf("%s.%s at %zu, %zu bytes\n", #type, #field, offsetof(type, field), sizeof(((type*)0)->field));
// clang-format off
#define FIELDS(X) \
  X(aotc_tensor, data) X(aotc_tensor, shape) X(aotc_tensor, strides) X(aotc_tensor, byte_size) X(aotc_tensor, rank) \
  X(aotc_tensor, dtype) X(aotc_tensor, device) X(aotc_tensor, flags) X(aotc_tensor, reserved) X(aotc_allocator, struct_size) \
  X(aotc_allocator, user) X(aotc_allocator, alloc) X(aotc_allocator, free) X(aotc_thread_pool, struct_size) X(aotc_thread_pool, user) \
  X(aotc_thread_pool, width) X(aotc_thread_pool, parallel_for) X(aotc_model_options, struct_size) X(aotc_model_options, device) \
  X(aotc_model_options, flags) X(aotc_model_options, allocator) X(aotc_model_options, weights_path) X(aotc_model_options, log) \
  X(aotc_model_options, log_user) X(aotc_context_options, struct_size) X(aotc_context_options, stream) X(aotc_context_options, threads) \
  X(aotc_context_options, workspace) X(aotc_context_options, workspace_size) X(aotc_context_options, num_threads) \
  X(aotc_context_options, flags) X(aotc_dim, value) X(aotc_dim, min) X(aotc_dim, max) X(aotc_dim, symbol) X(aotc_io_info, struct_size) \
  X(aotc_io_info, name) X(aotc_io_info, dims) X(aotc_io_info, rank) X(aotc_io_info, dtype) X(aotc_io_info, alias_input) \
  X(aotc_io_info, found) X(aotc_model_info, struct_size) X(aotc_model_info, weights_bytes) X(aotc_model_info, target) \
  X(aotc_model_info, device) X(aotc_model_info, n_variants) X(aotc_context_info, struct_size) X(aotc_context_info, workspace_bytes) \
  X(aotc_context_info, arena_bytes) X(aotc_context_info, scratch_bytes) X(aotc_context_info, state_bytes) X(aotc_context_info, variant) \
  X(aotc_context_info, threads) X(aotc_context_info, graphs) X(aotc_profile_step, label) X(aotc_profile_step, ns) \
  X(aotc_profile_step, threads) X(aotc_api, struct_size) X(aotc_api, abi_version) X(aotc_api, last_error) X(aotc_api, status_name) \
  X(aotc_api, metadata_json) X(aotc_api, probe) X(aotc_api, model_create) X(aotc_api, model_destroy) X(aotc_api, model_get_info) \
  X(aotc_api, io_count) X(aotc_api, io_get) X(aotc_api, workspace_size) X(aotc_api, context_create) X(aotc_api, context_destroy) \
  X(aotc_api, context_get_info) X(aotc_api, output_bounds) X(aotc_api, run) X(aotc_api, synchronize) X(aotc_api, state_reset) \
  X(aotc_api, state_read) X(aotc_api, state_write) X(aotc_api, context_profile) X(aotc_api, output_sizes) \
  X(aotc_run_options, struct_size) X(aotc_run_options, deadline_ns) X(aotc_run_options, cancel) X(aotc_run_options, traceparent) X(aotc_api, method_count) \
  X(aotc_api, method_get) X(aotc_api, method_io_get) X(aotc_api, method_workspace_size) X(aotc_api, method_output_bounds) \
  X(aotc_api, run_method) X(aotc_api, run_with) X(aotc_state_range, dim) X(aotc_state_range, reserved) X(aotc_state_range, offset) \
  X(aotc_state_range, length) X(aotc_api, state_read_range) X(aotc_api, state_write_range) X(aotc_api, states_layout) \
  X(aotc_api, states_save) X(aotc_api, states_load) X(aotc_api, states_fork) X(aotc_api, states_copy) X(aotc_api, states_truncate) \
  X(aotc_api, model_swap_weights) X(aotc_api, model_trim) X(aotc_weights_source, struct_size) \
  X(aotc_weights_source, path) X(aotc_weights_source, data) X(aotc_weights_source, bytes) X(aotc_weights_source, read) \
  X(aotc_weights_source, user) X(aotc_weights_source, release) X(aotc_weights_source, flags) X(aotc_weights_source, fd) \
  X(aotc_model_options, weights) X(aotc_model_info, weights_version) X(aotc_model_info, weights_layout) \
  X(aotc_context_info, weights_version) X(aotc_model_options, weights_budget) X(aotc_model_info, weights_streamed) \
  X(aotc_model_info, weights_ring)
// clang-format on
#define NUMBER(name) printf("%s = %lld\n", #name, (long long)(name));
// clang-format off
#define NUMBERS(X) \
  X(AOTC_ABI_VERSION) X(AOTC_ABI_REVISION) X(AOTC_DEVICE_HOST) X(AOTC_DEVICE_DEFAULT) X(AOTC_MODEL_VERIFY_WEIGHTS) X(AOTC_MODEL_LAZY_WEIGHTS) \
  X(AOTC_MODEL_OWN_WEIGHTS) X(AOTC_MODEL_SHARED_WEIGHTS) X(AOTC_MODEL_PLACE) X(AOTC_CONTEXT_FLUSH_DENORMALS) X(AOTC_CONTEXT_POISON) X(AOTC_CONTEXT_PROFILE) \
  X(AOTC_CONTEXT_GRAPHS) X(AOTC_CONTEXT_NO_GRAPHS) X(AOTC_CONTEXT_LAUNCHES) X(AOTC_CONTEXT_STEPWISE) X(AOTC_CONTEXT_FORKS) X(AOTC_MAX_THREADS) X(AOTC_INPUT) \
  X(AOTC_OUTPUT) X(AOTC_STATE) X(AOTC_WEIGHTS_VERIFY) X(AOTC_WEIGHTS_FD)
// clang-format on

static void before(void) {
  FIELD(aotc_api, output_shapes)
  FIELD(aotc_api, method_output_shapes)
  NUMBER(AOTC_HOST)
  NUMBER(AOTC_DEFAULT_DEVICE)
#define OLD_STATUS(name, value, text) printf("AOTC_%s = %d\n", #name, AOTC_##name);
  AOTC_STATUS_LIST(OLD_STATUS)
}

int main(int argc, char** argv) {
  (void)argv;
  FIELDS(FIELD)
  NUMBERS(NUMBER)
#define STATUS(name, value, text) printf("AOTC_STATUS_%s = %d\n", #name, AOTC_STATUS_##name);
  AOTC_STATUS_LIST(STATUS)
  if (argc == 1) before();
#define DTYPE(name, value, text, bytes) printf("AOTC_DTYPE_%s = %d, %s, %d bytes\n", #name, AOTC_DTYPE_##name, text, bytes);
  AOTC_DTYPE_LIST(DTYPE)
  printf("aotc_tensor has %zu bytes\naotc_dim has %zu bytes\naotc_profile_step has %zu bytes\n", sizeof(aotc_tensor), sizeof(aotc_dim),
         sizeof(aotc_profile_step));
  return 0;
}
