#include "context.h"

#include <stdlib.h>
#include <string.h>

#include "atomic.h"
#include "capture.h"
#include "cuda.h"
#include "cuda_graph.h"
#include "dense.h"
#include "nvtx.h"
#include "probes.h"
#include "shapes.h"
#include "slots.h"
#include "states.h"
#include "status.h"
#include "traceparent.h"

namespace aotc::rt {
namespace {

constexpr uint64_t kScratchAlign = 256;  // keeps the threads' scratch off each other's cache lines

/// Bytes of the whole workspace; false on overflow.
bool total_bytes(uint64_t arena, uint64_t scratch_stride, int32_t width, uint64_t* total) {
  uint64_t scratch;
  return !__builtin_mul_overflow(scratch_stride, static_cast<uint64_t>(width), &scratch) &&
         !__builtin_add_overflow(align_up(arena, kScratchAlign), scratch, total) && *total <= static_cast<uint64_t>(INT64_MAX) / 2;
}

/// Scratch of a context: a thread's each; on a GPU launches follow each other.
int32_t scratches(const aotc_model& model, int32_t width) { return model.cuda ? 1 : width; }

/// Arena and scratch of evaluated slots.
aotc_status space(const aotc_variant& variant, const int64_t* slots, uint64_t* arena, uint64_t* scratch_stride) {
  const int64_t a = variant.arena_slot >= 0 ? slots[variant.arena_slot] : 0;
  const int64_t s = variant.scratch_slot >= 0 ? slots[variant.scratch_slot] : 0;
  if (a < 0 || s < 0 || a > INT64_MAX / 2 || s > INT64_MAX / 2)
    return fail(AOTC_STATUS_OUT_OF_MEMORY, "the workspace for these shapes is beyond all memory");
  *arena = static_cast<uint64_t>(a);
  *scratch_stride = align_up(static_cast<uint64_t>(s), kScratchAlign);
  return AOTC_STATUS_OK;
}

aotc_status entry_storage(ShapeEntry* e) {
  if (e->storage) return AOTC_STATUS_OK;
  const Method& m = *e->method;
  const aotc_method_desc& desc = *m.desc;
  const uint64_t words = uint64_t{desc.n_symbols} + m.n_io_dims + desc.n_inputs + desc.n_outputs + m.max_slots + m.max_sizes +
                         2 * uint64_t{m.max_args} + m.max_steps * (sizeof(ReadyStep) / 8) + m.max_maps * (AOTC_MAP_BYTES / 8 + 1) +
                         AOTC_MAP_ALIGN / 8;
  static_assert(sizeof(ReadyStep) % 8 == 0 && sizeof(void*) == 8, "laid out in words");
  int64_t* at = take<int64_t>(words);
  if (!at) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the shapes");
  e->storage = at;
  const auto cut = [&at](uint64_t n) {
    int64_t* from = at;
    at += n;
    return from;
  };
  e->symbols = cut(desc.n_symbols);
  e->io_dims = cut(m.n_io_dims);
  e->io_bytes = reinterpret_cast<uint64_t*>(cut(uint64_t{desc.n_inputs} + desc.n_outputs));
  e->slots = cut(m.max_slots);
  e->sizes = cut(m.max_sizes);
  e->ptrs = reinterpret_cast<void**>(cut(m.max_args));
  e->graph_ptrs = reinterpret_cast<void**>(cut(m.max_args));
  e->map_data = reinterpret_cast<const void**>(cut(m.max_maps));
  e->steps = reinterpret_cast<ReadyStep*>(cut(m.max_steps * (sizeof(ReadyStep) / 8)));
  e->maps = reinterpret_cast<uint64_t*>(align_up(reinterpret_cast<uintptr_t>(at), AOTC_MAP_ALIGN));
  return AOTC_STATUS_OK;
}

aotc_status fill_entry(const aotc_context& context, ShapeEntry* e) {
  const Method& m = *e->method;
  memcpy(e->symbols, context.symbols, m.desc->n_symbols * sizeof(int64_t));
  RT_TRY(pick_variant(m, e->symbols, &e->variant));
  RT_TRY(eval_interface(m, e->symbols, e->io_dims, e->io_bytes));
  const aotc_variant& variant = variant_of(*e);
  if (!eval_slots(variant, e->symbols, e->slots))
    return fail(AOTC_STATUS_SHAPE_MISMATCH, "the sizes that follow from these shapes overflow");
  for (uint32_t i = 0; i < info_of(*e).n_sizes; ++i) e->sizes[i] = e->slots[variant.size_slots[i]];
  RT_TRY(space(variant, e->slots, &e->arena_bytes, &e->scratch_stride));
  e->max_tasks = 1;
  for (uint32_t i = 0; i < m.max_maps; ++i) e->map_data[i] = nullptr;
  if (!context.model->cuda) ready_steps(context, e);
  if (e->graph) {
    const CudaScope scope(context.model->cuda);
    drop_graph(e);
  }
  e->graph_refused = false;
  e->runs = 0;
  e->bound_to = 0;
  return AOTC_STATUS_OK;
}

aotc_status grow_workspace(aotc_context* c, const ShapeEntry& e) {
  uint64_t needed;
  if (!total_bytes(e.arena_bytes, e.scratch_stride, scratches(*c->model, c->threads.width), &needed))
    return fail(AOTC_STATUS_OUT_OF_MEMORY, "the workspace for these shapes is beyond all memory");
  if (needed <= c->base_bytes) return AOTC_STATUS_OK;
  if (c->callers_workspace)
    return fail(AOTC_STATUS_OUT_OF_MEMORY, "these shapes need a workspace of %llu bytes; the caller's has %llu",
                static_cast<unsigned long long>(needed), static_cast<unsigned long long>(c->base_bytes));
  if (c->model->cuda && c->workspace.base) RT_TRY(cuda_wait(c->model->cuda, c->stream));
  model_free_block(*c->model, &c->workspace);  // first: so that both never stand side by side
  c->base = nullptr;
  c->base_bytes = 0;
  ++c->workspace_generation;
  RT_TRY(model_alloc(*c->model, needed, "a workspace", &c->workspace));
  c->base = static_cast<uint8_t*>(c->workspace.base);
  c->base_bytes = c->workspace.bytes;
  return AOTC_STATUS_OK;
}

aotc_status read_context_options(const aotc_context_options* given, aotc_context_options* out, aotc_thread_pool* pool) {
  constexpr uint32_t kKnown = AOTC_CONTEXT_FLUSH_DENORMALS | AOTC_CONTEXT_POISON | AOTC_CONTEXT_PROFILE | AOTC_CONTEXT_LAUNCHES |
                              AOTC_CONTEXT_STEPWISE | AOTC_CONTEXT_FORKS;
  *out = AOTC_CONTEXT_OPTIONS_INIT;
  if (given) RT_TRY(read_options("context options", given, sizeof *out, out));
  if (out->flags & ~kKnown) return fail(AOTC_STATUS_INVALID_ARGUMENT, "context options: unknown flags 0x%x", out->flags & ~kKnown);
  if ((out->flags & AOTC_CONTEXT_LAUNCHES) == AOTC_CONTEXT_LAUNCHES)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "context options: GRAPHS and NO_GRAPHS exclude each other");
  if (out->threads) {
    *pool = {};
    RT_TRY(read_options("thread pool", out->threads, sizeof *pool, pool));
    out->threads = pool;
  }
  return AOTC_STATUS_OK;
}

/// What the methods need at most of each.
struct Most {
  uint64_t io = 0, symbols = 0, hidden = 0;
  bool found = false;
  explicit Most(const aotc_module_desc& module) {
    const auto grow = [](uint64_t* most, uint64_t n) { *most = n > *most ? n : *most; };
    for (uint32_t m = 0; m < module.n_methods; ++m) {
      const aotc_method_desc& d = module.methods[m];
      grow(&io, uint64_t{d.n_inputs} + d.n_outputs + d.n_hidden);
      grow(&symbols, d.n_symbols);
      grow(&hidden, d.n_hidden);
      found |= d.n_found != 0;
    }
  }
};

/// Memory of the outputs that the caller does not get. The methods share it: it tells of the latest run.
aotc_status make_hidden(aotc_context* c, const Most& most) {
  if (most.hidden == 0) return AOTC_STATUS_OK;
  const uint64_t bytes = most.hidden * AOTC_HIDDEN_BYTES;
  void* at = nullptr;
  if (c->model->cuda)
    RT_TRY(cuda_alloc_shared(c->model->cuda, bytes, "a context", &at));
  else
    at = take<uint64_t>(bytes / sizeof(uint64_t));
  c->hidden = static_cast<uint8_t*>(at);
  if (most.found) c->found_at = take<int64_t>(most.symbols + most.hidden);
  if (!at || (most.found && !c->found_at)) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the context");
  return AOTC_STATUS_OK;
}

aotc_status fill_gpu(aotc_context* c, const Most& most, const aotc_context_options& options) {
  const aotc_model& m = *c->model;
  const aotc_module_desc& module = *m.module;
  if (options.flags & AOTC_CONTEXT_FLUSH_DENORMALS)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "context options: AOTC_CONTEXT_FLUSH_DENORMALS is for CPU artifacts");
  RT_TRY(cuda_alive(*m.cuda));
  void* faults = nullptr;
  RT_TRY(cuda_alloc_shared(m.cuda, m.total_steps * sizeof(int32_t), "a context", &faults));
  c->gpu_faults = static_cast<int32_t*>(faults);
  c->io_checked = take<const void*>(most.io);
  if (!c->io_checked) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the context");
  const bool asked = (module.flags & AOTC_MODULE_GRAPHS) || (options.flags & (AOTC_CONTEXT_GRAPHS | AOTC_CONTEXT_PROFILE));
  const bool one_by_one = options.flags & (AOTC_CONTEXT_NO_GRAPHS | AOTC_CONTEXT_STEPWISE);
  c->wants_graphs = asked && !one_by_one && cuda_has_graphs(*m.cuda) && m.streaming.max_copies == 0;
  RT_TRY(ring_create(c));
  if (!c->step_ns) return AOTC_STATUS_OK;
  c->events = take<void*>(m.max_steps + 1);
  if (!c->events) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the context");
  for (uint32_t i = 0; i <= m.max_steps; ++i) RT_TRY(cuda_make_event(m.cuda, EventKind::timed, &c->events[i]));
  return AOTC_STATUS_OK;
}

aotc_status fill(aotc_context* c, const aotc_context_options& options) {
  const aotc_module_desc& module = *c->model->module;
  const Most most(module);
  c->stream = options.stream;
  c->flags = options.flags;
  c->workspace_generation = 1;
  c->symbols = take<int64_t>(most.symbols);
  const bool times = options.flags & AOTC_CONTEXT_PROFILE;
  if (times) c->step_ns = take<uint64_t>(c->model->max_steps);
  c->io = take<void*>(most.io);
  c->dense_in = take<aotc_tensor>(most.io);
  c->entries = take<ShapeEntry>(uint64_t{module.n_methods} * kShapeEntries);
  if (!c->symbols || !c->io || !c->dense_in || !c->entries || (times && !c->step_ns))
    return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the context");
  c->n_entries = module.n_methods * kShapeEntries;
  for (uint32_t i = 0; i < c->n_entries; ++i) c->entries[i].method = &c->model->methods[i / kShapeEntries];
  RT_TRY(make_hidden(c, most));
  if (options.workspace) {
    const uint64_t at = reinterpret_cast<uintptr_t>(options.workspace);
    if (at % kAlign) return fail(AOTC_STATUS_INVALID_ARGUMENT, "the workspace is not aligned to %zu bytes", kAlign);
    c->base = static_cast<uint8_t*>(options.workspace);
    c->base_bytes = options.workspace_size;
    c->callers_workspace = true;
  }
  if (c->model->cuda) {
    RT_TRY(fill_gpu(c, most, options));
  } else {
    RT_TRY(threads_create(options.num_threads, options.threads, &c->threads));
  }
  RT_TRY(states_create(c));
  for (uint32_t m = 0; m < module.n_methods; ++m) {  // fixed shapes: everything can be ready before the first run
    if (module.methods[m].n_symbols > 0) continue;
    ShapeEntry& e = c->entries[m * kShapeEntries];
    RT_TRY(entry_storage(&e));
    RT_TRY(fill_entry(*c, &e));
    RT_TRY(grow_workspace(c, e));
    e.stamp = ++c->clock;
  }
  for (uint32_t i = 0; i < c->n_entries; ++i)
    if (c->entries[i].stamp) RT_TRY(bind_workspace(c, &c->entries[i]));
  return AOTC_STATUS_OK;
}

/// What a workspace of `width` threads needs at these symbol values. slots: room for method.max_slots.
aotc_status workspace_at(const Method& method, const int64_t* symbols, uint32_t variant, int32_t width, int64_t* slots, size_t* bytes) {
  uint64_t arena, stride, total;
  const aotc_variant& v = method.desc->variants[variant];
  if (!eval_slots(v, symbols, slots)) return fail(AOTC_STATUS_SHAPE_MISMATCH, "the sizes that follow from these shapes overflow");
  RT_TRY(space(v, slots, &arena, &stride));
  if (!total_bytes(arena, stride, scratches(*method.model, width), &total))
    return fail(AOTC_STATUS_OUT_OF_MEMORY, "the workspace for these shapes is beyond all memory");
  *bytes = total;
  return AOTC_STATUS_OK;
}

aotc_status workspace_max(const Method& method, int32_t width, int64_t* symbols, int64_t* slots, size_t* bytes) {
  const aotc_method_desc& desc = *method.desc;
  size_t most = 0;
  for (uint32_t v = 0; v < desc.n_variants; ++v) {
    for (uint32_t s = 0; s < desc.n_symbols; ++s) {
      const aotc_range& r = desc.variants[v].ranges[s];
      const int64_t top = r.max < desc.symbols[s].max ? r.max : desc.symbols[s].max;
      if (top == INT64_MAX)
        return fail(AOTC_STATUS_SHAPE_MISMATCH, "%s has no maximum: ask with the shapes of inputs", desc.symbols[s].name);
      symbols[s] = r.multiple_of > 1 ? top / r.multiple_of * r.multiple_of : top;
    }
    size_t needed;
    RT_TRY(workspace_at(method, symbols, v, width, slots, &needed));
    most = needed > most ? needed : most;
  }
  *bytes = most;
  return AOTC_STATUS_OK;
}

aotc_status workspace_for(const Method& method, const aotc_tensor* in, int32_t n, int32_t width, int64_t* symbols, int64_t* dims,
                          uint64_t* io_bytes, int64_t* slots, size_t* bytes) {
  uint32_t variant;
  RT_TRY(read_symbols(method, in, n, symbols));
  RT_TRY(pick_variant(method, symbols, &variant));
  RT_TRY(eval_interface(method, symbols, dims, io_bytes));
  RT_TRY(check_dims(method, in, dims, symbols));
  return workspace_at(method, symbols, variant, width, slots, bytes);
}

aotc_status run_all_steps(aotc_context* c, ShapeEntry* e, const aotc_tensor* in, const aotc_tensor* out, Stop* stop) {
  const Nvtx* const tool = c->model->nvtx;
  const Traceparent request = tool ? read_traceparent(c->traceparent) : Traceparent{};
  const NvtxRange of_request(request.text[0] ? tool : nullptr, request.text), range(tool, e->method->desc->name);
  return c->model->cuda ? run_steps_gpu(c, e, in, out, stop) : run_steps(c, e, in, out, stop);
}

[[gnu::always_inline]] inline aotc_status run_checked(aotc_context* c, const Method& method, const aotc_tensor* in, int32_t n_in,
                                                      const aotc_tensor* out, int32_t n_out, Stop* stop) {
  ShapeEntry* e;
  RT_TRY(find_entry(c, method, in, n_in, &e));
  const aotc_method_desc& desc = *method.desc;
  for (uint32_t i = 0; i < desc.n_inputs; ++i) RT_TRY(check_input(desc.inputs[i], in[i], e->io_bytes[i]));
  RT_TRY(check_outputs(method, in, out, n_out, e->io_dims, e->io_bytes));
  RT_TRY(states_defined(*c));
  if (c->model->cuda) RT_TRY(cuda_alive(*c->model->cuda));
  if (stop && should_stop(stop)) return stop_failure(*stop, "its beginning", false);
  RT_TRY(bind_workspace(c, e));
  RT_TRY(make_dense(c, *e, &in));
  RT_TRY(states_touch(c));
  c->weights_version = c->weights->version;
  c->sizes_known = false;
  if (c->found_at) memcpy(c->found_at, e->symbols, desc.n_symbols * sizeof(int64_t));
  if (is_traced(aotc_probe_run_start)) probe_run_start(*c, *e);
  const aotc_status status = run_all_steps(c, e, in, out, stop);
  if (is_traced(aotc_probe_run_end)) probe_run_end(*c, *e, status);
  c->sizes_known = status == AOTC_STATUS_OK;
  return status;
}

[[gnu::cold, gnu::noinline]] aotc_status run_captured(aotc_context* c, const Method& method, const aotc_tensor* in, int32_t n_in,
                                                      const aotc_tensor* out, int32_t n_out, Stop* stop) {
  CapturedRun captured(c, method, in, n_in, out, n_out);
  return captured.end(run_checked(c, method, in, n_in, out, n_out, stop));
}

/// In a forked child, where the fork met a call of a thread that is not here: what that call may have left half done is made anew. Its
/// memory is not freed: some of it may be already.
void recover(aotc_context* c) {
  for (uint32_t i = 0; i < c->n_entries; ++i) {
    const Method* method = c->entries[i].method;
    c->entries[i] = ShapeEntry{};
    c->entries[i].method = method;
  }
  c->latest = nullptr;
  c->sizes_known = false;
  c->dense = Block{};
  if (!c->callers_workspace) {
    c->workspace = Block{};
    c->base = nullptr;
    c->base_bytes = 0;
  }
  ++c->workspace_generation;
  lose_all_states(c);
}

}  // namespace

ContextLock::ContextLock(aotc_context* c) : context_(nullptr) {
  if (exchange(c->busy, 1u) != 0) {
    fail(AOTC_STATUS_WRONG_STATE, "the context is in use by another thread");
    return;
  }
  if (__builtin_expect(c->state_file != nullptr, 0) && states_left_behind(*c) && states_leave(c) != AOTC_STATUS_OK) {
    store_release(c->busy, 0u);
    return;
  }
  context_ = c;
  if (__builtin_expect(c->in_call, 0)) recover(c);
  c->in_call = true;
}

ContextLock::~ContextLock() {
  if (!context_) return;
  context_->in_call = false;
  store_release(context_->busy, 0u);
}

aotc_status find_entry(aotc_context* c, const Method& m, const aotc_tensor* in, int32_t n_in, ShapeEntry** out) {
  RT_TRY(read_symbols(m, in, n_in, c->symbols));
  ShapeEntry* oldest = nullptr;  // but that of the latest run, of which the context tells
  ShapeEntry* found = nullptr;
  ShapeEntry* const entries = c->entries + (&m - c->model->methods) * kShapeEntries;
  for (int i = 0; i < kShapeEntries; ++i) {
    ShapeEntry& e = entries[i];
    if (&e != c->latest && (!oldest || e.stamp < oldest->stamp)) oldest = &e;
    bool same = e.stamp != 0;
    for (uint32_t s = 0; s < m.desc->n_symbols && same; ++s) same = e.symbols[s] == c->symbols[s];
    if (same) {
      found = &e;
      break;
    }
  }
  if (!found) {
    found = oldest;
    found->stamp = 0;
    RT_TRY(entry_storage(found));
    RT_TRY(fill_entry(*c, found));
  }
  found->stamp = ++c->clock;
  RT_TRY(check_dims(m, in, found->io_dims, found->symbols));
  *out = found;
  return AOTC_STATUS_OK;
}

aotc_status bind_workspace(aotc_context* c, ShapeEntry* e) {
  RT_TRY(grow_workspace(c, *e));
  const WeightSet& set = *c->weights;
  if (e->bound_to == c->workspace_generation && e->bound_weights == set.number) return AOTC_STATUS_OK;
  const aotc_variant& variant = variant_of(*e);
  const VariantInfo& info = info_of(*e);
  for (uint32_t a = 0; a < info.n_args; ++a) {
    const aotc_buffer_desc& b = variant.buffers[variant.args[a]];
    if (b.kind == AOTC_BUF_ARENA)
      e->ptrs[a] = c->base + e->slots[b.offset_slot];
    else if (b.kind == AOTC_BUF_WEIGHT)
      e->ptrs[a] = info.ring_at && info.ring_at[a] != kNotStreamed ? static_cast<uint8_t*>(c->ring.memory.base) + info.ring_at[a]
                                                                   : const_cast<uint8_t*>(set.at[b.index]);
  }
  e->bound_to = c->workspace_generation;
  e->bound_weights = set.number;
  return AOTC_STATUS_OK;
}

aotc_status workspace_size(const Method& method, const aotc_context_options* given, const aotc_tensor* in, int32_t n, size_t* bytes) {
  aotc_context_options options;
  aotc_thread_pool pool;
  RT_TRY(read_context_options(given, &options, &pool));
  int32_t width;
  RT_TRY(threads_width(options.num_threads, options.threads, &width));
  const aotc_method_desc& desc = *method.desc;
  const uint64_t n_io = uint64_t{desc.n_inputs} + desc.n_outputs;
  int64_t* words = take<int64_t>(uint64_t{desc.n_symbols} + method.n_io_dims + n_io + method.max_slots);
  if (!words) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the shapes");
  int64_t* dims = words + desc.n_symbols;
  uint64_t* io_bytes = reinterpret_cast<uint64_t*>(dims + method.n_io_dims);
  int64_t* slots = reinterpret_cast<int64_t*>(io_bytes + n_io);
  const aotc_status status = in || n ? workspace_for(method, in, n, width, words, dims, io_bytes, slots, bytes)
                                     : workspace_max(method, width, words, slots, bytes);
  free(words);
  return status;
}

aotc_status context_create(aotc_model* model, const aotc_context_options* given, aotc_context** out) {
  aotc_context_options options;
  aotc_thread_pool pool;
  RT_TRY(read_context_options(given, &options, &pool));
  aotc_context* c = take<aotc_context>(1);
  if (!c) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the context");
  c->model = model;
  void* const page = take_page_of_process();
  c->busy = page ? static_cast<uint32_t*>(page) : &c->busy_word;
  if (page) c->busy[1] = 1;
  model_retain(model);
  weight_sets_join(c);
  const CudaScope scope(model->cuda);
  aotc_status status = scope.status();
  if (status == AOTC_STATUS_OK) {
    const WeightsInUse weights(c);
    status = fill(c, options);
  }
  if (status != AOTC_STATUS_OK) {
    context_destroy(c);
    return status;
  }
  *out = c;
  return AOTC_STATUS_OK;
}

void context_destroy(aotc_context* c) {
  if (!c) return;
  threads_destroy(&c->threads);
  {
    const CudaScope scope(c->model->cuda);
    if (c->latest && c->model->cuda) cuda_wait(c->model->cuda, c->stream);
    ring_destroy(c);
    weights_read(c);
    states_destroy(c);
    model_free_block(*c->model, &c->workspace);
    model_free_block(*c->model, &c->staging);
    free_dense(c);
    for (uint32_t i = 0; i < c->n_entries; ++i) drop_graph(&c->entries[i]);
    for (uint32_t i = 0; c->events && i <= c->model->max_steps && c->events[i]; ++i) cuda_free_event(c->model->cuda, c->events[i]);
    if (c->gpu_faults) cuda_free_shared(c->model->cuda, c->gpu_faults);
    if (c->hidden && c->model->cuda) cuda_free_shared(c->model->cuda, c->hidden);
  }
  if (!c->model->cuda) free(c->hidden);
  free(c->found_at);
  for (uint32_t i = 0; i < c->n_entries; ++i) free(c->entries[i].storage);
  free(c->entries);
  free(c->events);
  free(c->io_checked);
  free(c->symbols);
  free(c->io);
  free(c->dense_in);
  free(c->step_ns);
  if (c->busy != &c->busy_word) free_page_of_process(c->busy);
  weight_sets_leave(c);
  model_release(c->model);
  free(c);
}

aotc_status context_run(aotc_context* c, const Method& method, const aotc_tensor* in, int32_t n_in, const aotc_tensor* out, int32_t n_out,
                        Stop* stop, const char* traceparent) {
  const ContextLock lock(c);
  RT_TRY(lock.status());
  const WeightsInUse weights(c);
  const CudaScope scope(c->model->cuda);
  RT_TRY(scope.status());
  c->traceparent = traceparent;
  if (__builtin_expect(c->model->capture != nullptr, 0)) return run_captured(c, method, in, n_in, out, n_out, stop);
  return run_checked(c, method, in, n_in, out, n_out, stop);
}

aotc_status context_output_bounds(aotc_context* c, const Method& method, const aotc_tensor* in, int32_t n_in, int64_t* const* shapes,
                                  int32_t n_out) {
  const ContextLock lock(c);
  RT_TRY(lock.status());
  const aotc_method_desc& desc = *method.desc;
  RT_TRY(check_output_count(method, n_out));
  if (n_out > 0 && !shapes) return fail(AOTC_STATUS_INVALID_ARGUMENT, "shapes is null");
  ShapeEntry* e;
  RT_TRY(find_entry(c, method, in, n_in, &e));
  const int64_t* dims = e->io_dims;
  for (uint32_t i = 0; i < desc.n_inputs; ++i) dims += desc.inputs[i].rank;
  for (uint32_t o = 0; o < desc.n_outputs; ++o) {
    const size_t rank = static_cast<size_t>(desc.outputs[o].rank);
    if (shapes[o] && rank) memcpy(shapes[o], dims, rank * sizeof *dims);
    dims += rank;
  }
  return AOTC_STATUS_OK;
}

aotc_status context_output_sizes(aotc_context* c, int32_t output, int64_t* sizes) {
  const ContextLock lock(c);
  RT_TRY(lock.status());
  const aotc_method_desc& desc = *(c->latest ? c->latest->method : c->model->methods)->desc;
  if (output < 0 || static_cast<uint32_t>(output) >= desc.n_outputs)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "output_sizes: there is no output %d of %u", output, desc.n_outputs);
  const aotc_io_desc& io = desc.outputs[output];
  if (io.rank > 0 && !sizes) return fail(AOTC_STATUS_INVALID_ARGUMENT, "output_sizes: sizes is null");
  if (c->model->cuda && c->latest) {
    const CudaScope scope(c->model->cuda);
    RT_TRY(scope.status());
    RT_TRY(cuda_alive(*c->model->cuda));
    RT_TRY(cuda_wait(c->model->cuda, c->stream));
    RT_TRY(take_gpu_fault(c));
  }
  return output_sizes_within(c, output, sizes);
}

aotc_status output_sizes_within(aotc_context* c, int32_t output, int64_t* sizes) {
  if (!c->sizes_known)
    return fail(AOTC_STATUS_WRONG_STATE, "output_sizes: %s", c->latest ? "the latest run failed" : "nothing has been run");
  const aotc_method_desc& desc = *(c->latest ? c->latest->method : c->model->methods)->desc;
  const aotc_io_desc& io = desc.outputs[output];
  int64_t* const symbols = c->found_at ? c->found_at : c->latest->symbols;
  for (uint32_t h = 0; c->found_at && h < desc.n_hidden; ++h)
    memcpy(&symbols[desc.n_symbols + h], c->hidden + h * AOTC_HIDDEN_BYTES, sizeof(int64_t));
  const auto evaluate = [&](uint32_t begin, uint32_t end, int64_t* to) {
    return eval(desc.dim_code, begin, end, symbols, nullptr, to) ? AOTC_STATUS_OK
                                                                 : fail(AOTC_STATUS_INTERNAL, "output_sizes: a size overflows");
  };
  for (int32_t d = 0; d < io.rank; ++d) {
    const aotc_dim_desc& dim = desc.dims[io.first_dim + static_cast<uint32_t>(d)];
    sizes[d] = dim.value;
    if (dim.begin != dim.end) RT_TRY(evaluate(dim.begin, dim.end, &sizes[d]));
  }
  for (uint32_t f = 0; f < desc.n_found; ++f) {
    const aotc_found_desc& found = desc.found[f];
    if (found.output == static_cast<uint32_t>(output)) RT_TRY(evaluate(found.begin, found.end, &sizes[found.dim]));
  }
  return AOTC_STATUS_OK;
}

}  // namespace aotc::rt
