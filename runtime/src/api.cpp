// The table, the one exported symbol, and the checks of plain arguments.
#include <errno.h>
#include <string.h>

#include "aotc/aotc.h"
#include "aotc/detail/plan_format.h"
#include "context.h"
#include "model.h"
#include "status.h"

namespace {

using namespace aotc::rt;

#define RT_NOT_NULL(argument) \
  if (!(argument)) return fail(AOTC_INVALID_ARGUMENT, "%s: %s is null", __func__ + 4, #argument)

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
  if (size < sizeof size) return fail(AOTC_INVALID_ARGUMENT, "%s: set struct_size to sizeof the struct", what);
  from.struct_size = size < sizeof from ? size : sizeof from;
  memcpy(to, &from, from.struct_size);
  return AOTC_OK;
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
  info.n_variants = static_cast<int32_t>(model->module->n_variants);
  return give("model_get_info", info, out);
}

aotc_status api_io_count(const aotc_model* model, int32_t kind, int32_t* out) noexcept {
  RT_NOT_NULL(model);
  RT_NOT_NULL(out);
  const aotc_module_desc& m = *model->module;
  const uint32_t counts[] = {m.n_inputs, m.n_outputs, m.n_states};
  if (kind < AOTC_INPUT || kind > AOTC_STATE) return fail(AOTC_INVALID_ARGUMENT, "io_count: unknown kind %d", kind);
  *out = static_cast<int32_t>(counts[kind]);
  return AOTC_OK;
}

aotc_status api_io_get(const aotc_model* model, int32_t kind, int32_t i, aotc_io_info* out) noexcept {
  int32_t n;
  RT_NOT_NULL(out);
  RT_TRY(api_io_count(model, kind, &n));
  if (i < 0 || i >= n) return fail(AOTC_INVALID_ARGUMENT, "io_get: there is no %d-th of %d", i, n);
  const aotc_module_desc& m = *model->module;
  aotc_io_info info = {};
  info.alias_input = -1;
  if (kind == AOTC_STATE) {
    const aotc_state_desc& s = m.states[i];
    info.name = s.name;
    info.dims = model->state_dims[i];
    info.rank = s.rank;
    info.dtype = s.dtype;
  } else {
    const aotc_io_desc& d = kind == AOTC_INPUT ? m.inputs[i] : m.outputs[i];
    info.name = d.name;
    info.dims = model->dims + d.first_dim;
    info.rank = d.rank;
    info.dtype = d.dtype;
    if (kind == AOTC_OUTPUT) info.alias_input = d.alias_input;
    if (kind == AOTC_OUTPUT) info.found = model->found[i];
  }
  return give("io_get", info, out);
}

aotc_status api_workspace_size(const aotc_model* model, const aotc_context_options* options, const aotc_tensor* in, int32_t n,
                               size_t* bytes) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(model);
  RT_NOT_NULL(bytes);
  return workspace_size(*model, options, in, n, bytes);
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
    info.variant = context->model->module->variants[e->variant].name;
  }
  for (const ShapeEntry& e : context->entries) info.graphs += e.graph != nullptr;
  return give("context_get_info", info, out);
}

aotc_status api_output_shapes(aotc_context* context, const aotc_tensor* in, int32_t n_in, int64_t* const* shapes, int32_t n_out) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  return context_output_shapes(context, in, n_in, shapes, n_out);
}

aotc_status api_run(aotc_context* context, const aotc_tensor* in, int32_t n_in, const aotc_tensor* out, int32_t n_out) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  return context_run(context, in, n_in, out, n_out);
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
  return state_read(context, name, to);
}

aotc_status api_state_write(aotc_context* context, const char* name, const aotc_tensor* from) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  RT_NOT_NULL(name);
  RT_NOT_NULL(from);
  return state_write(context, name, from);
}

aotc_status api_context_profile(const aotc_context* context, aotc_profile_step* steps, int32_t* n) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  RT_NOT_NULL(n);
  const ShapeEntry* e = context->latest;
  if (!context->step_ns) return fail(AOTC_WRONG_STATE, "context_profile: the context was made without AOTC_CONTEXT_PROFILE");
  if (!e) return fail(AOTC_WRONG_STATE, "context_profile: nothing has been run");
  const aotc_variant& variant = context->model->module->variants[e->variant];
  const int32_t count = static_cast<int32_t>(variant.n_steps);
  if (steps && context->events) RT_TRY(gpu_step_times(*context, context->step_ns, variant.n_steps));
  for (int32_t s = 0; steps && s < count && s < *n; ++s) steps[s] = {variant.steps[s].label, context->step_ns[s], e->steps[s].tasks, 0};
  *n = count;
  return AOTC_OK;
}

aotc_status api_output_sizes(aotc_context* context, int32_t i, int64_t* sizes) noexcept {
  const KeepErrno keep;
  RT_NOT_NULL(context);
  return context_output_sizes(context, i, sizes);
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
    api_output_shapes,
    api_run,
    api_synchronize,
    api_state_reset,
    api_state_read,
    api_state_write,
    api_context_profile,
    api_output_sizes,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const aotc_api* aotc_get_api(uint32_t min_version) {
  return min_version <= AOTC_ABI_VERSION ? &kApi : nullptr;
}
