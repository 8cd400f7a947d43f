// State buffers: content of the model that outlives a run.
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "cuda.h"
#include "shapes.h"
#include "status.h"

namespace aotc::rt {
namespace {

bool needs_next(const aotc_model& model, uint32_t state) {
  for (uint32_t m = 0; m < model.module->n_methods; ++m)
    for (uint32_t v = 0; v < model.methods[m].desc->n_variants; ++v)
      if (model.methods[m].variants[v].next_used[state]) return true;
  return false;
}

aotc_status reset(aotc_context* c, uint32_t s) {
  const aotc_state_desc& d = c->model->module->states[s];
  const uint8_t* initial = d.initial_weight >= 0 ? c->model->weights.data + c->model->module->weights[d.initial_weight].offset : nullptr;
  if (Cuda* cuda = c->model->cuda) {
    RT_TRY(cuda_alive(*cuda));
    RT_TRY(initial ? cuda_copy(cuda, c->stream, CopyKind::to_device, c->states[s].now, initial, d.bytes)
                   : cuda_fill(cuda, c->stream, c->states[s].now, 0, d.bytes));
  } else if (initial) {
    memcpy(c->states[s].now, initial, d.bytes);
  } else {
    memset(c->states[s].now, 0, d.bytes);
  }
  c->states[s].undefined = false;
  return AOTC_OK;
}

/// Between a state and host memory.
aotc_status move(aotc_context* c, CopyKind kind, void* to, const void* from, uint64_t bytes) {
  if (Cuda* cuda = c->model->cuda) {
    RT_TRY(cuda_alive(*cuda));
    RT_TRY(cuda_copy(cuda, c->stream, kind, to, from, bytes));
    return cuda_wait(cuda, c->stream);
  }
  if (bytes) memcpy(to, from, bytes);
  return AOTC_OK;
}

aotc_status find(const aotc_context& c, const char* name, uint32_t* out) {
  const aotc_module_desc& module = *c.model->module;
  for (uint32_t s = 0; s < module.n_states; ++s)
    if (strcmp(module.states[s].name, name) == 0) {
      *out = s;
      return AOTC_OK;
    }
  return fail(AOTC_NOT_FOUND, "the model has no state '%s'", name);
}

/// The state of that name, and that the tensor is dense host memory of its dtype and shape.
aotc_status find_for(const aotc_context& c, const char* name, const aotc_tensor& t, uint32_t* out) {
  RT_TRY(find(c, name, out));
  const aotc_state_desc& d = c.model->module->states[*out];
  RT_TRY(check_kind("state", name, d.dtype, d.rank, AOTC_HOST, t));
  for (int32_t i = 0; i < d.rank; ++i)
    if (t.shape[i] != d.dims[i])
      return fail(AOTC_SHAPE_MISMATCH, "state '%s': dimension %d is %lld, but must be %lld", name, i, static_cast<long long>(t.shape[i]),
                  static_cast<long long>(d.dims[i]));
  const aotc_io_desc io = {d.name, d.dtype, d.rank, 0, -1};
  return check_data("state", io, t, d.bytes);
}

/// Where each state lies in the block.
void place(aotc_context* c) {
  uint8_t* at = static_cast<uint8_t*>(c->state_block.base);
  for (uint32_t s = 0; s < c->model->module->n_states; ++s) {
    const uint64_t bytes = align_up(c->model->module->states[s].bytes, kAlign);
    c->states[s].now = at;
    at += bytes;
    if (!needs_next(*c->model, s)) continue;
    c->states[s].next = at;
    at += bytes;
  }
}

}  // namespace

aotc_status states_create(aotc_context* c) {
  const aotc_module_desc& module = *c->model->module;
  if (module.n_states == 0) return AOTC_OK;
  uint64_t total = 0;
  for (uint32_t s = 0; s < module.n_states; ++s) total += align_up(module.states[s].bytes, kAlign) * (needs_next(*c->model, s) ? 2 : 1);
  c->states = take<State>(module.n_states);
  if (!c->states) return fail(AOTC_OUT_OF_MEMORY, "no memory for the context");
  RT_TRY(model_alloc(*c->model, total, "the states", &c->state_block));
  place(c);
  for (uint32_t s = 0; s < module.n_states; ++s) RT_TRY(reset(c, s));
  return AOTC_OK;
}

bool lose_states(aotc_context* c, const Method& method, uint32_t v) {
  const aotc_variant& variant = method.desc->variants[v];
  bool any = false;
  for (uint32_t b = 0; b < variant.n_buffers; ++b) {
    const aotc_buffer_desc& buffer = variant.buffers[b];
    if (buffer.kind != AOTC_BUF_STATE || method.variants[v].next_used[buffer.index]) continue;
    c->states[buffer.index].undefined = true;
    any = true;
  }
  return any;
}

void lose_all_states(aotc_context* c) {
  if (!c->states) return;
  place(c);  // the fork may have met swap_states
  for (uint32_t s = 0; s < c->model->module->n_states; ++s) c->states[s].undefined = true;
}

aotc_status states_defined(const aotc_context& c) {
  const aotc_module_desc& module = *c.model->module;
  for (uint32_t s = 0; s < module.n_states; ++s)
    if (c.states[s].undefined)
      return fail(AOTC_WRONG_STATE,
                  "an earlier run failed, or the process was forked, while states were updated, and '%s' is undefined: call state_reset, "
                  "or write it, before the next run",
                  module.states[s].name);
  return AOTC_OK;
}

void states_destroy(aotc_context* c) {
  model_free_block(*c->model, &c->state_block);
  free(c->states);
}

aotc_status state_reset(aotc_context* c, const char* name) {
  const ContextLock lock(c);
  RT_TRY(lock.status());
  const CudaScope scope(c->model->cuda);
  RT_TRY(scope.status());
  if (name) {
    uint32_t s = 0;
    RT_TRY(find(*c, name, &s));
    return reset(c, s);
  }
  for (uint32_t s = 0; s < c->model->module->n_states; ++s) RT_TRY(reset(c, s));
  return AOTC_OK;
}

aotc_status state_read(aotc_context* c, const char* name, const aotc_tensor* to) {
  const ContextLock lock(c);
  RT_TRY(lock.status());
  const CudaScope scope(c->model->cuda);
  RT_TRY(scope.status());
  uint32_t s = 0;
  RT_TRY(find_for(*c, name, *to, &s));
  return move(c, CopyKind::to_host, to->data, c->states[s].now, c->model->module->states[s].bytes);
}

aotc_status state_write(aotc_context* c, const char* name, const aotc_tensor* from) {
  const ContextLock lock(c);
  RT_TRY(lock.status());
  const CudaScope scope(c->model->cuda);
  RT_TRY(scope.status());
  uint32_t s = 0;
  RT_TRY(find_for(*c, name, *from, &s));
  RT_TRY(move(c, CopyKind::to_device, c->states[s].now, from->data, c->model->module->states[s].bytes));
  c->states[s].undefined = false;
  return AOTC_OK;
}

}  // namespace aotc::rt
