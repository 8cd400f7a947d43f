#include "states.h"

#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "shapes.h"
#include "status.h"
#include "weight_set.h"

namespace aotc::rt {
namespace {

bool needs_next(const aotc_model& model, uint32_t state) {
  for (uint32_t m = 0; m < model.module->n_methods; ++m)
    for (uint32_t v = 0; v < model.methods[m].desc->n_variants; ++v)
      if (model.methods[m].variants[v].next_used[state]) return true;
  return false;
}

/// The initial content of a state, in host memory; null: zeros.
const uint8_t* initial_of(const aotc_context& c, uint32_t s) {
  const aotc_module_desc& module = *c.model->module;
  const int32_t weight = module.states[s].initial_weight;
  if (weight < 0) return nullptr;
  return is_gpu(module) ? c.weights->weights.data + module.weights[weight].offset : c.weights->at[weight];
}

aotc_status reset(aotc_context* c, uint32_t s) {
  if (c->model->cuda) RT_TRY(cuda_alive(*c->model->cuda));
  RT_TRY(state_reset_piece(c, s, 0, c->model->module->states[s].bytes));
  c->states[s].undefined = false;
  return AOTC_STATUS_OK;
}

aotc_status find(const aotc_context& c, const char* name, uint32_t* out) {
  const aotc_module_desc& module = *c.model->module;
  for (uint32_t s = 0; s < module.n_states; ++s)
    if (strcmp(module.states[s].name, name) == 0) {
      *out = s;
      return AOTC_STATUS_OK;
    }
  return fail(AOTC_STATUS_NOT_FOUND, "the model has no state '%s'", name);
}

/// The state of that name, the part of it, and that the tensor is dense host memory of its dtype and the part's shape.
aotc_status find_for(const char* what, const aotc_context& c, const char* name, const Ranges& ranges, const aotc_tensor& t, uint32_t* out,
                     Part* part) {
  RT_TRY(find(c, name, out));
  const aotc_state_desc& d = c.model->module->states[*out];
  RT_TRY(part_of(what, d, ranges, part));
  RT_TRY(check_kind("state", name, d.dtype, d.rank, AOTC_DEVICE_HOST, t));
  for (int32_t i = 0; i < part->rank; ++i)
    if (t.shape[i] != part->count[i])
      return fail(AOTC_STATUS_SHAPE_MISMATCH, "state '%s': dimension %d is %lld, but must be %lld", name, i,
                  static_cast<long long>(t.shape[i]), static_cast<long long>(part->count[i]));
  const aotc_io_desc io = {d.name, d.dtype, d.rank, 0, -1};
  return check_data("state", io, t, part->bytes());
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
  if (module.n_states == 0) return AOTC_STATUS_OK;
  for (uint32_t s = 0; s < module.n_states; ++s)
    if (module.states[s].rank > kMaxStateRank)
      return fail(AOTC_STATUS_INTERNAL, "state '%s' has %d dimensions", module.states[s].name, module.states[s].rank);
  uint64_t total = 0;
  for (uint32_t s = 0; s < module.n_states; ++s) total += align_up(module.states[s].bytes, kAlign) * (needs_next(*c->model, s) ? 2 : 1);
  c->states = take<State>(module.n_states);
  if (!c->states) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the context");
  bool zeros;
  RT_TRY(states_alloc(c, total, &zeros));
  place(c);
  for (uint32_t s = 0; s < module.n_states; ++s)
    if (!zeros || initial_of(*c, s)) RT_TRY(reset(c, s));
  return AOTC_STATUS_OK;
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
      return fail(AOTC_STATUS_WRONG_STATE,
                  "an earlier run failed, or the process was forked, while states were updated, and '%s' is undefined: call state_reset, "
                  "or write it, before the next run",
                  module.states[s].name);
  return AOTC_STATUS_OK;
}

void states_destroy(aotc_context* c) {
  states_free(c);
  free(c->states);
}

aotc_status state_reset_piece(aotc_context* c, uint32_t s, uint64_t offset, uint64_t bytes) {
  const uint8_t* const initial = initial_of(*c, s);
  uint8_t* const at = c->states[s].now + offset;
  if (Cuda* cuda = c->model->cuda)
    return initial ? cuda_copy(cuda, c->stream, CopyKind::to_device, at, initial + offset, bytes)
                   : cuda_fill(cuda, c->stream, at, 0, bytes);
  if (initial)
    memcpy(at, initial + offset, bytes);
  else
    states_clear(*c, at, bytes);
  return AOTC_STATUS_OK;
}

bool state_has_initial(const aotc_context& c, uint32_t s) { return initial_of(c, s) != nullptr; }

aotc_status state_move(aotc_context* c, CopyKind kind, void* to, const void* from, uint64_t bytes) {
  if (Cuda* cuda = c->model->cuda) return cuda_copy(cuda, c->stream, kind, to, from, bytes);
  if (bytes) memcpy(to, from, bytes);
  return AOTC_STATUS_OK;
}

aotc_status states_wait(aotc_context* c) { return c->model->cuda ? cuda_wait(c->model->cuda, c->stream) : AOTC_STATUS_OK; }

aotc_status state_reset(aotc_context* c, const char* name) {
  const ContextLock lock(c);
  RT_TRY(lock.status());
  const WeightsInUse weights(c);
  const CudaScope scope(c->model->cuda);
  RT_TRY(scope.status());
  uint32_t s = 0;
  if (name) RT_TRY(find(*c, name, &s));
  RT_TRY(states_touch(c));
  if (name) return reset(c, s);
  for (; s < c->model->module->n_states; ++s) RT_TRY(reset(c, s));
  return AOTC_STATUS_OK;
}

aotc_status state_read(aotc_context* c, const char* name, const Ranges& ranges, const aotc_tensor* to) {
  const ContextLock lock(c);
  RT_TRY(lock.status());
  const CudaScope scope(c->model->cuda);
  RT_TRY(scope.status());
  uint32_t s = 0;
  Part part;
  RT_TRY(find_for("state_read", *c, name, ranges, *to, &s, &part));
  if (c->model->cuda) RT_TRY(cuda_alive(*c->model->cuda));
  uint8_t* at = static_cast<uint8_t*>(to->data);
  RT_TRY(for_each_piece(part, [&](uint64_t offset, uint64_t bytes) {
    RT_TRY(state_move(c, CopyKind::to_host, at, c->states[s].now + offset, bytes));
    at += bytes;
    return aotc_status{AOTC_STATUS_OK};
  }));
  return states_wait(c);
}

aotc_status state_write(aotc_context* c, const char* name, const Ranges& ranges, const aotc_tensor* from) {
  const ContextLock lock(c);
  RT_TRY(lock.status());
  const CudaScope scope(c->model->cuda);
  RT_TRY(scope.status());
  uint32_t s = 0;
  Part part;
  RT_TRY(find_for("state_write", *c, name, ranges, *from, &s, &part));
  if (c->model->cuda) RT_TRY(cuda_alive(*c->model->cuda));
  RT_TRY(states_touch(c));
  const uint8_t* at = static_cast<const uint8_t*>(from->data);
  RT_TRY(for_each_piece(part, [&](uint64_t offset, uint64_t bytes) {
    RT_TRY(state_move(c, CopyKind::to_device, c->states[s].now + offset, at, bytes));
    at += bytes;
    return aotc_status{AOTC_STATUS_OK};
  }));
  RT_TRY(states_wait(c));
  if (part.whole()) c->states[s].undefined = false;
  return AOTC_STATUS_OK;
}

aotc_status states_truncate(aotc_context* c, const char* name, int32_t dim, int64_t length) {
  const ContextLock lock(c);
  RT_TRY(lock.status());
  const WeightsInUse weights(c);
  const CudaScope scope(c->model->cuda);
  RT_TRY(scope.status());
  const aotc_module_desc& module = *c->model->module;
  const aotc_state_range range = {dim, 0, 0, length};
  const Ranges ranges = {&range, 1};
  uint32_t only = 0;
  Part part;
  if (name) {
    RT_TRY(find(*c, name, &only));
    RT_TRY(part_of("states_truncate", module.states[only], ranges, &part));
  } else {
    RT_TRY(check_for_all("states_truncate", module, ranges));
  }
  if (c->model->cuda) RT_TRY(cuda_alive(*c->model->cuda));
  RT_TRY(states_touch(c));
  for (uint32_t s = 0; s < module.n_states; ++s) {
    bool named;
    if (name && s != only) continue;
    part_of_all(module.states[s], ranges, &part, &named);
    RT_TRY(for_each_piece_outside(part, [&](uint64_t offset, uint64_t bytes) { return state_reset_piece(c, s, offset, bytes); }));
  }
  return states_wait(c);
}

}  // namespace aotc::rt
