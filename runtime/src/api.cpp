// The table, the one exported symbol, and the checks of plain arguments.
#include <errno.h>
#include <string.h>

#include "aotc/aotc.h"
#include "aotc/detail/plan_format.h"
#include "context.h"
#include "model.h"
#include "states.h"
#include "status.h"

namespace {

using namespace aotc::rt;

#define RT_NOT_NULL(argument) \
  if (!(argument)) return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s: %s is null", __func__ + 4, #argument)

/// A call leaves errno as it was.
struct KeepErrno {
  const int saved = errno;
  ~KeepErrno() { errno = saved; }
};

/// Copies as much of `from` as the caller's struct has, and says so in its struct_size.
template <class T>
aotc_status give(const char* what, T from, T* to) {
  size_t size;
  memcpy(&size, to, sizeof size);
  if (size < sizeof size) return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s: set struct_size to sizeof the struct", what);
  from.struct_size = size < sizeof from ? size : sizeof from;
  memcpy(to, &from, from.struct_size);
  return AOTC_STATUS_OK;
}

const char* api_last_error() noexcept { return last_error(); }
const char* api_status_name(aotc_status status) noexcept { return status_name(status); }
const char* api_metadata_json() noexcept { return aotc_module.metadata_json ? aotc_module.metadata_json : "{}"; }
aotc_status api_probe(int32_t device) noexcept {
  const KeepErrno keep;
  return probe(aotc_module, device);
}

aotc_status api_model_create(const aotc_model_options* options, aotc_model** out) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(out);
  return model_create(aotc_module, options, out);
}

void api_model_destroy(aotc_model* model) noexcept {
  const KeepErrno keep;
  if (model) model_release(model);
}

aotc_status api_model_get_info(const aotc_model* model, aotc_model_info* out) noexcept {
  RT_NOT_NULL(model);
  RT_NOT_NULL(out);
  aotc_model_info info = {};
  info.weights_bytes = model->weights_bytes;
  info.target = model_target(*model);
  info.device = model->device;
  info.n_variants = static_cast<int32_t>(model->methods[0].desc->n_variants);
  info.weights_version = weights_version(const_cast<aotc_model*>(model));
  info.weights_layout = model->module->weights_layout;
  info.weights_streamed = model->streaming.host_bytes;
  info.weights_ring = model->streaming.ring_bytes;
  return give("model_get_info", info, out);
}

aotc_status api_method_count(const aotc_model* model, int32_t* out) noexcept {
  RT_NOT_NULL(model);
  RT_NOT_NULL(out);
  *out = static_cast<int32_t>(model->module->n_methods);
  return AOTC_STATUS_OK;
}

aotc_status api_method_get(const aotc_model* model, int32_t i, const char* name, aotc_method_info* out) noexcept {
  RT_NOT_NULL(model);
  RT_NOT_NULL(out);
  const aotc_module_desc& m = *model->module;
  if (name) {
    i = 0;
    while (static_cast<uint32_t>(i) < m.n_methods && strcmp(m.methods[i].name, name) != 0) ++i;
    if (static_cast<uint32_t>(i) == m.n_methods) return fail(AOTC_STATUS_NOT_FOUND, "method_get: there is no method '%s'", name);
  }
  const Method* method = find_method(*model, "method_get", i);
  if (!method) return AOTC_STATUS_INVALID_ARGUMENT;
  aotc_method_info info = {};
  info.name = method->desc->name;
  info.index = i;
  info.n_inputs = static_cast<int32_t>(method->desc->n_inputs);
  info.n_outputs = static_cast<int32_t>(method->desc->n_outputs);
  info.n_variants = static_cast<int32_t>(method->desc->n_variants);
  return give("method_get", info, out);
}

aotc_status io_count(const aotc_model& model, const aotc_method_desc& method, int32_t kind, int32_t* out) {
  const uint32_t counts[] = {method.n_inputs, method.n_outputs, model.module->n_states};
  if (kind < AOTC_INPUT || kind > AOTC_STATE) return fail(AOTC_STATUS_INVALID_ARGUMENT, "io_count: unknown kind %d", kind);
  *out = static_cast<int32_t>(counts[kind]);
  return AOTC_STATUS_OK;
}

aotc_status api_io_count(const aotc_model* model, int32_t kind, int32_t* out) noexcept {
  RT_NOT_NULL(model);
  RT_NOT_NULL(out);
  return io_count(*model, *model->methods[0].desc, kind, out);
}

aotc_status api_method_io_get(const aotc_model* model, int32_t number, int32_t kind, int32_t i, aotc_io_info* out) noexcept {
  int32_t n = 0;
  RT_NOT_NULL(model);
  RT_NOT_NULL(out);
  const Method* method = find_method(*model, "io_get", number);
  if (!method) return AOTC_STATUS_INVALID_ARGUMENT;
  RT_TRY(io_count(*model, *method->desc, kind, &n));
  if (i < 0 || i >= n) return fail(AOTC_STATUS_INVALID_ARGUMENT, "io_get: there is no %d-th of %d", i, n);
  aotc_io_info info = {};
  info.alias_input = -1;
  if (kind == AOTC_STATE) {
    const aotc_state_desc& s = model->module->states[i];
    info.name = s.name;
    info.dims = model->state_dims[i];
    info.rank = s.rank;
    info.dtype = s.dtype;
  } else {
    const aotc_io_desc& d = kind == AOTC_INPUT ? method->desc->inputs[i] : method->desc->outputs[i];
    info.name = d.name;
    info.dims = method->dims + d.first_dim;
    info.rank = d.rank;
    info.dtype = d.dtype;
    if (kind == AOTC_OUTPUT) info.alias_input = d.alias_input;
    if (kind == AOTC_OUTPUT) info.found = method->found[i];
  }
  return give("io_get", info, out);
}

aotc_status api_io_get(const aotc_model* model, int32_t kind, int32_t i, aotc_io_info* out) noexcept {
  return api_method_io_get(model, 0, kind, i, out);
}

aotc_status api_method_workspace_size(const aotc_model* model, int32_t number, const aotc_context_options* options, const aotc_tensor* in,
                                      int32_t n, size_t* bytes) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(model);
  RT_NOT_NULL(bytes);
  const Method* method = find_method(*model, "workspace_size", number);
  return method ? workspace_size(*method, options, in, n, bytes) : AOTC_STATUS_INVALID_ARGUMENT;
}

/// The most that any method needs at its largest shapes; for shapes that are given, the first's.
aotc_status api_workspace_size(const aotc_model* model, const aotc_context_options* options, const aotc_tensor* in, int32_t n,
                               size_t* bytes) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(model);
  RT_NOT_NULL(bytes);
  if (in || n) return workspace_size(model->methods[0], options, in, n, bytes);
  size_t most = 0;
  for (uint32_t m = 0; m < model->module->n_methods; ++m) {
    size_t needed;
    RT_TRY(workspace_size(model->methods[m], options, in, n, &needed));
    most = needed > most ? needed : most;
  }
  *bytes = most;
  return AOTC_STATUS_OK;
}

aotc_status api_context_create(aotc_model* model, const aotc_context_options* options, aotc_context** out) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(model);
  RT_NOT_NULL(out);
  return context_create(model, options, out);
}

void api_context_destroy(aotc_context* context) noexcept {
  const KeepErrno keep;
  context_destroy(context);
}

aotc_status api_context_get_info(const aotc_context* context, aotc_context_info* out) noexcept {
  RT_NOT_NULL(context);
  RT_NOT_NULL(out);
  aotc_context_info info = {};
  info.workspace_bytes = context->base_bytes;
  info.state_bytes = context->state_block.bytes;
  info.threads = context->threads.width;
  if (const ShapeEntry* e = context->latest) {
    info.arena_bytes = e->arena_bytes;
    info.scratch_bytes = e->scratch_stride * static_cast<uint64_t>(context->model->cuda ? 1 : context->threads.width);
    info.variant = variant_of(*e).name;
  }
  info.weights_version = context->weights_version;
  for (uint32_t i = 0; i < context->n_entries; ++i) info.graphs += context->entries[i].graph != nullptr;
  return give("context_get_info", info, out);
}

aotc_status api_method_output_bounds(aotc_context* context, int32_t number, const aotc_tensor* in, int32_t n_in, int64_t* const* shapes,
                                     int32_t n_out) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  const Method* method = find_method(*context->model, "output_bounds", number);
  return method ? context_output_bounds(context, *method, in, n_in, shapes, n_out) : AOTC_STATUS_INVALID_ARGUMENT;
}

aotc_status api_output_bounds(aotc_context* context, const aotc_tensor* in, int32_t n_in, int64_t* const* shapes, int32_t n_out) noexcept {
  return api_method_output_bounds(context, 0, in, n_in, shapes, n_out);
}

aotc_status api_run_method(aotc_context* context, int32_t number, const aotc_tensor* in, int32_t n_in, const aotc_tensor* out,
                           int32_t n_out) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  const Method* method = find_method(*context->model, "run_method", number);
  return method ? context_run(context, *method, in, n_in, out, n_out, nullptr, nullptr) : AOTC_STATUS_INVALID_ARGUMENT;
}

aotc_status api_run_with(aotc_context* context, int32_t number, const aotc_tensor* in, int32_t n_in, const aotc_tensor* out, int32_t n_out,
                         const aotc_run_options* given) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  aotc_run_options options = AOTC_RUN_OPTIONS_INIT;
  if (given) RT_TRY(read_options("run options", given, sizeof options, &options));
  Stop stop = {options.cancel, options.deadline_ns, AOTC_STATUS_OK};
  const Method* method = find_method(*context->model, "run_with", number);
  if (!method) return AOTC_STATUS_INVALID_ARGUMENT;
  return context_run(context, *method, in, n_in, out, n_out, can_stop(stop) ? &stop : nullptr, options.traceparent);
}

aotc_status api_run(aotc_context* context, const aotc_tensor* in, int32_t n_in, const aotc_tensor* out, int32_t n_out) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  return context_run(context, context->model->methods[0], in, n_in, out, n_out, nullptr, nullptr);
}

aotc_status api_synchronize(aotc_context* context) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  return context_synchronize(context);
}

aotc_status api_state_reset(aotc_context* context, const char* name) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  return state_reset(context, name);
}

aotc_status api_state_read(aotc_context* context, const char* name, const aotc_tensor* to) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  RT_NOT_NULL(name);
  RT_NOT_NULL(to);
  return state_read(context, name, {}, to);
}

aotc_status api_state_write(aotc_context* context, const char* name, const aotc_tensor* from) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  RT_NOT_NULL(name);
  RT_NOT_NULL(from);
  return state_write(context, name, {}, from);
}

aotc_status api_state_read_range(aotc_context* context, const char* name, const aotc_state_range* ranges, int32_t n,
                                 const aotc_tensor* to) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  RT_NOT_NULL(name);
  RT_NOT_NULL(to);
  return state_read(context, name, {ranges, n}, to);
}

aotc_status api_state_write_range(aotc_context* context, const char* name, const aotc_state_range* ranges, int32_t n,
                                  const aotc_tensor* from) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  RT_NOT_NULL(name);
  RT_NOT_NULL(from);
  return state_write(context, name, {ranges, n}, from);
}

aotc_status api_states_layout(const aotc_model* model, uint64_t* id) noexcept {
  RT_NOT_NULL(model);
  RT_NOT_NULL(id);
  *id = states_layout(*model);
  return AOTC_STATUS_OK;
}

aotc_status api_states_save(aotc_context* context, int fd, const aotc_state_range* ranges, int32_t n) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  return states_save(context, fd, {ranges, n});
}

aotc_status api_states_load(aotc_context* context, int fd, const aotc_state_range* ranges, int32_t n) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  return states_load(context, fd, {ranges, n});
}

aotc_status api_states_fork(aotc_context* to, aotc_context* from, const aotc_state_range* ranges, int32_t n) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(to);
  RT_NOT_NULL(from);
  return states_fork(to, from, {ranges, n});
}

aotc_status api_states_copy(aotc_context* to, const aotc_state_range* ranges_to, aotc_context* from, const aotc_state_range* ranges_from,
                            int32_t n) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(to);
  RT_NOT_NULL(from);
  return states_copy(to, {ranges_to, n}, from, {ranges_from, n});
}

aotc_status api_states_truncate(aotc_context* context, const char* name, int32_t dim, int64_t length) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  return states_truncate(context, name, dim, length);
}

aotc_status api_context_profile(const aotc_context* context, aotc_profile_step* steps, int32_t* n) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  RT_NOT_NULL(n);
  const ShapeEntry* e = context->latest;
  if (!context->step_ns) return fail(AOTC_STATUS_WRONG_STATE, "context_profile: the context was made without AOTC_CONTEXT_PROFILE");
  if (!e) return fail(AOTC_STATUS_WRONG_STATE, "context_profile: nothing has been run");
  const aotc_variant& variant = variant_of(*e);
  const int32_t count = static_cast<int32_t>(variant.n_steps);
  if (steps && context->events) RT_TRY(gpu_step_times(*context, context->step_ns, variant.n_steps));
  for (int32_t s = 0; steps && s < count && s < *n; ++s) steps[s] = {variant.steps[s].label, context->step_ns[s], e->steps[s].tasks, 0};
  *n = count;
  return AOTC_STATUS_OK;
}

aotc_status api_output_sizes(aotc_context* context, int32_t i, int64_t* sizes) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  return context_output_sizes(context, i, sizes);
}

aotc_status api_model_swap_weights(aotc_model* model, const aotc_weights_source* source, uint64_t* version) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(model);
  return swap_weights(model, source, version);
}

aotc_status api_model_trim(aotc_model* model, uint64_t* bytes) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(model);
  return trim_weights(model, bytes);
}

const aotc_api kApi = {
    sizeof(aotc_api),
    AOTC_ABI_VERSION,
    0,
    api_last_error,
    api_status_name,
    api_metadata_json,
    api_probe,
    api_model_create,
    api_model_destroy,
    api_model_get_info,
    api_io_count,
    api_io_get,
    api_workspace_size,
    api_context_create,
    api_context_destroy,
    api_context_get_info,
    {api_output_bounds},
    api_run,
    api_synchronize,
    api_state_reset,
    api_state_read,
    api_state_write,
    api_context_profile,
    api_output_sizes,
    api_method_count,
    api_method_get,
    api_method_io_get,
    api_method_workspace_size,
    {api_method_output_bounds},
    api_run_method,
    api_run_with,
    api_state_read_range,
    api_state_write_range,
    api_states_layout,
    api_states_save,
    api_states_load,
    api_states_fork,
    api_states_copy,
    api_states_truncate,
    api_model_swap_weights,
    api_model_trim,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const aotc_api* aotc_get_api(uint32_t min_version) {
  return min_version <= AOTC_ABI_VERSION ? &kApi : nullptr;
}
