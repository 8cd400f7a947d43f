// The walk over the steps of a GPU artifact: launches on the context's stream, one by one or as a graph.
#include <string.h>

#include "aotc/detail/check_abi.h"
#include "atomic.h"
#include "context.h"
#include "cuda.h"
#include "cuda_graph.h"
#include "nvtx.h"
#include "probes.h"
#include "states.h"
#include "status.h"

namespace aotc::rt {
namespace {

constexpr uint32_t kMaxWords = 512;  // a kernel's parameter has at most 4 KB
/// A graph of fewer works is no faster than the launch; one with marks keeps the host's launches out of the times.
uint32_t least_nodes(const aotc_context& c) { return c.events ? 1 : 2; }
constexpr uint32_t kMapWords = AOTC_MAP_BYTES / 8, kMapAlignWords = AOTC_MAP_ALIGN / 8;

bool on_host(const aotc_context& c, const aotc_tensor& t) { return t.device != c.model->device; }

/// Whether a step has a tensor map of this input or output: then its data must be aligned as maps need it.
bool is_mapped(const aotc_variant& variant, int32_t kind, uint32_t index) {
  for (uint32_t s = 0; s < variant.n_steps; ++s) {
    const aotc_step& step = variant.steps[s];
    for (uint32_t m = step.first_map; m < step.first_map + step.n_maps; ++m) {
      const aotc_buffer_desc& b = variant.buffers[variant.args[step.first_arg + static_cast<uint32_t>(variant.maps[m].arg)]];
      if (b.kind == kind && static_cast<uint32_t>(b.index) == index) return true;
    }
  }
  return false;
}

/// Device copies of the tensors that the kernels cannot take where they are; *staged: there are some.
aotc_status stage(aotc_context* c, const ShapeEntry& e, const aotc_tensor* in, const aotc_tensor* out, bool* staged) {
  const aotc_method_desc& desc = *e.method->desc;
  const uint32_t n_in = desc.n_inputs, n = n_in + desc.n_outputs;
  const auto tensor = [&](uint32_t i) -> const aotc_tensor& { return i < n_in ? in[i] : out[i - n_in]; };
  const aotc_variant& variant = variant_of(e);
  const auto needs_copy = [&](uint32_t i) {
    if (on_host(*c, tensor(i))) return true;
    if (reinterpret_cast<uintptr_t>(tensor(i).data) % AOTC_MAP_DATA_ALIGN == 0) return false;
    return i < n_in ? is_mapped(variant, AOTC_BUF_INPUT, i) : is_mapped(variant, AOTC_BUF_OUTPUT, i - n_in);
  };
  uint64_t total = 0;
  for (uint32_t i = 0; i < n; ++i)
    if (needs_copy(i)) total += align_up(e.io_bytes[i], 256);
  *staged = false;
  if (total > c->staging.bytes) {
    if (c->staging.base) RT_TRY(cuda_wait(c->model->cuda, c->stream));
    model_free_block(*c->model, &c->staging);
    RT_TRY(model_alloc(*c->model, total, "copies of inputs and outputs", &c->staging));
  }
  uint8_t* at = static_cast<uint8_t*>(c->staging.base);
  take_io(c, *e.method, in, out);
  for (uint32_t i = 0; i < n; ++i) {
    if (!needs_copy(i)) continue;
    *staged = true;
    c->io[i] = at;
    at += align_up(e.io_bytes[i], 256);
    const CopyKind kind = on_host(*c, tensor(i)) ? CopyKind::to_device : CopyKind::on_device;
    if (i < n_in) RT_TRY(cuda_copy(c->model->cuda, c->stream, kind, c->io[i], in[i].data, e.io_bytes[i]));
  }
  return AOTC_STATUS_OK;
}

aotc_status unstage(aotc_context* c, const ShapeEntry& e, const aotc_tensor* out) {
  const aotc_method_desc& desc = *e.method->desc;
  for (uint32_t o = 0; o < desc.n_outputs; ++o) {
    const void* from = c->io[desc.n_inputs + o];
    if (from == out[o].data) continue;
    const CopyKind kind = on_host(*c, out[o]) ? CopyKind::to_host : CopyKind::on_device;
    RT_TRY(cuda_copy(c->model->cuda, c->stream, kind, out[o].data, from, e.io_bytes[desc.n_inputs + o]));
  }
  return AOTC_STATUS_OK;
}

/// Whether a run is over only when its tensors in host memory have been read and written.
bool any_on_host(const aotc_context& c, const aotc_method_desc& desc, const aotc_tensor* in, const aotc_tensor* out) {
  for (uint32_t i = 0; i < desc.n_inputs; ++i)
    if (on_host(c, in[i])) return true;
  for (uint32_t o = 0; o < desc.n_outputs; ++o)
    if (on_host(c, out[o])) return true;
  return false;
}

uint32_t positive(const ShapeEntry& e, int32_t slot, int64_t otherwise) {
  const int64_t v = slot >= 0 ? e.slots[slot] : otherwise;
  return v < 0 ? 0 : v > INT32_MAX ? INT32_MAX : static_cast<uint32_t>(v);
}

/// The step's tensor maps to `to`, made anew where their data moved.
aotc_status take_maps(aotc_context* c, ShapeEntry* e, const aotc_step& step, uint64_t* to) {
  const aotc_variant& variant = variant_of(*e);
  for (uint32_t m = step.first_map; m < step.first_map + step.n_maps; ++m, to += kMapWords) {
    const aotc_map_desc& map = variant.maps[m];
    uint64_t* const made = e->maps + m * kMapWords;
    uint8_t* const data = static_cast<uint8_t*>(e->ptrs[step.first_arg + static_cast<uint32_t>(map.arg)]) + e->slots[map.offset_slot];
    if (e->map_data[m] != data) {
      e->map_data[m] = nullptr;
      RT_TRY(cuda_encode_map(c->model->cuda, map, e->slots, data, made));
      e->map_data[m] = data;
    }
    memcpy(to, made, AOTC_MAP_BYTES);
  }
  return AOTC_STATUS_OK;
}

/// The launch of a step of kind AOTC_STEP_CUDA.
aotc_status kernel_of(aotc_context* c, ShapeEntry* entry, uint32_t number, uint64_t* args, CudaWork* out) {
  const ShapeEntry& e = *entry;
  const aotc_step& step = variant_of(e).steps[number];
  const uint32_t ptr_words = step.n_args ? step.n_args : 1;
  uint32_t words = 2 + ptr_words + (step.n_sizes ? step.n_sizes : 1);
  if (step.n_maps) words = (words + kMapAlignWords - 1) / kMapAlignWords * kMapAlignWords;
  const uint32_t first_map_word = words;
  words += step.n_maps * kMapWords;
  if (words > kMaxWords) return fail(AOTC_STATUS_INTERNAL, "the kernel of %s has too many parameters", step.label ? step.label : "?");
  args[0] = reinterpret_cast<uint64_t>(c->gpu_faults + info_of(e).first_step + number);
  args[1] = reinterpret_cast<uint64_t>(c->base + align_up(e.arena_bytes, 256));  // the run's scratch
  args[2] = args[2 + ptr_words] = 0;
  for (uint32_t i = 0; i < step.n_args; ++i) args[2 + i] = reinterpret_cast<uint64_t>(e.ptrs[step.first_arg + i]);
  for (uint32_t i = 0; i < step.n_sizes; ++i) args[2 + ptr_words + i] = static_cast<uint64_t>(e.sizes[step.first_size + i]);
  CudaLaunch& l = out->launch;
  l.kernel = step.kernel;
  for (int d = 0; d < 3; ++d) {
    l.grid[d] = positive(e, step.grid_slot[d], 1);
    l.block[d] = static_cast<uint32_t>(step.block[d]);
    if (l.grid[d] == 0) return AOTC_STATUS_OK;  // nothing to do
  }
  l.smem_bytes = positive(e, step.smem_slot, 0);
  if (step.n_maps) RT_TRY(take_maps(c, entry, step, args + first_map_word));
  l.overlaps = step.overlaps != 0 && cuda_overlaps(*c->model->cuda);
  l.args = args;
  out->kind = CudaWork::kernel;
  return AOTC_STATUS_OK;
}

/// What a step is to do with the entry's pointers. args: room for kMaxWords; what the work refers to.
aotc_status work_of(aotc_context* c, ShapeEntry* entry, uint32_t number, uint64_t* args, CudaWork* out) {
  const ShapeEntry& e = *entry;
  const aotc_variant& variant = variant_of(e);
  const aotc_step& step = variant.steps[number];
  void* const* ptr = e.ptrs + step.first_arg;
  const auto bytes = [&](uint32_t arg) {
    return static_cast<uint64_t>(e.slots[variant.buffers[variant.args[step.first_arg + arg]].bytes_slot]);
  };
  CudaWork w;
  w.label = step.label;
  switch (step.kind) {
    case AOTC_STEP_CUDA: RT_TRY(kernel_of(c, entry, number, args, &w)); break;
    case AOTC_STEP_COPY:
      w.to = ptr[1], w.from = ptr[0], w.bytes = bytes(1);
      w.kind = w.to == w.from || w.bytes == 0 ? CudaWork::nothing : CudaWork::copy;
      break;
    case AOTC_STEP_ZERO:
      w.to = ptr[0], w.bytes = bytes(0);
      w.kind = w.bytes == 0 ? CudaWork::nothing : CudaWork::zero;
      break;
    default: return fail(AOTC_STATUS_INTERNAL, "a step of kind %d in a GPU artifact (at %s)", step.kind, step.label ? step.label : "?");
  }
  *out = w;
  return AOTC_STATUS_OK;
}

aotc_status do_work(const aotc_context& c, const CudaWork& work) {
  const NvtxRange range(c.model->nvtx, work.label);
  return cuda_do(c.model->cuda, c.stream, work);
}

/// The steps one by one, with the marks of a profile, or waiting for each. streams: weights, whose copies were begun. stop: may be null.
/// *queued: how many there are.
aotc_status queue_steps(aotc_context* c, ShapeEntry* e, bool streams, Stop* stop, uint32_t* queued) {
  Cuda* const cuda = c->model->cuda;
  const uint32_t n = variant_of(*e).n_steps;
  if (c->events) RT_TRY(cuda_mark(cuda, c->stream, c->events[0]));
  for (uint32_t s = 0; s < n; ++s) {
    uint64_t args[kMaxWords];
    CudaWork w;
    bool waits = false;
    if (stop && should_stop(stop)) return AOTC_STATUS_OK;
    RT_TRY(work_of(c, e, s, args, &w));
    if (streams) RT_TRY(ring_before(c, info_of(*e), s, &waits));
    w.launch.overlaps &= !waits;
    *queued = s + 1;
    if (is_traced(aotc_probe_step_start)) probe_step_start(*c, *e, s);
    const aotc_status status = do_work(*c, w);
    if (is_traced(aotc_probe_step_end)) probe_step_end(*c, *e, s);
    RT_TRY(status);
    if (streams) RT_TRY(ring_after(c, info_of(*e), s));
    if (c->events) RT_TRY(cuda_mark(cuda, c->stream, c->events[s + 1]));
    if (c->flags & AOTC_CONTEXT_STEPWISE) RT_TRY(cuda_wait(cuda, c->stream, w.label ? w.label : "?"));
  }
  return AOTC_STATUS_OK;
}

aotc_status run_one_by_one(aotc_context* c, ShapeEntry* e, bool capturing, Stop* stop, uint32_t* queued) {
  const bool streams = info_of(*e).n_copies > 0;
  if (!streams) return queue_steps(c, e, false, stop, queued);
  aotc_status status = ring_begin(c, info_of(*e), capturing);
  if (status == AOTC_STATUS_OK) status = queue_steps(c, e, true, stop, queued);
  const aotc_status ended = ring_end(c, capturing);
  return status == AOTC_STATUS_OK ? ended : status;
}

bool same_pointers(const ShapeEntry& e, uint32_t first, uint32_t n) {
  return memcmp(e.ptrs + first, e.graph_ptrs + first, n * sizeof(void*)) == 0;
}

void note_pointers(ShapeEntry* e) {
  memcpy(e->graph_ptrs, e->ptrs, info_of(*e).n_args * sizeof(void*));
  e->graph_bound_to = e->bound_to;
}

aotc_status make_graph(aotc_context* c, ShapeEntry* e) {
  const uint32_t n = variant_of(*e).n_steps;
  RT_TRY(cuda_graph_make(c->model->cuda, n, &e->graph));
  if (c->events) RT_TRY(cuda_graph_mark(e->graph, c->events[0]));
  for (uint32_t s = 0; s < n; ++s) {
    uint64_t args[kMaxWords];
    CudaWork w;
    RT_TRY(work_of(c, e, s, args, &w));
    RT_TRY(cuda_graph_add(e->graph, w));
    if (c->events) RT_TRY(cuda_graph_mark(e->graph, c->events[s + 1]));
  }
  if (cuda_graph_nodes(*e->graph) >= least_nodes(*c)) RT_TRY(cuda_graph_finish(e->graph));
  note_pointers(e);
  return AOTC_STATUS_OK;
}

/// The graph with the pointers of this run. *fits false: it needs to be made anew.
aotc_status patch_graph(aotc_context* c, ShapeEntry* e, bool* fits) {
  const aotc_variant& variant = variant_of(*e);
  const bool moved = e->graph_bound_to != e->bound_to;  // the workspace: scratch and arena
  *fits = true;
  if (!moved && same_pointers(*e, 0, info_of(*e).n_args)) return AOTC_STATUS_OK;
  for (uint32_t s = 0; s < variant.n_steps; ++s) {
    const aotc_step& step = variant.steps[s];
    if (!moved && same_pointers(*e, step.first_arg, step.n_args)) continue;
    uint64_t args[kMaxWords];
    CudaWork w;
    RT_TRY(work_of(c, e, s, args, &w));
    if (!(*fits = cuda_graph_takes(*e->graph, s, w))) return AOTC_STATUS_OK;
    RT_TRY(cuda_graph_set(e->graph, s, w));
  }
  note_pointers(e);
  return AOTC_STATUS_OK;
}

/// The steps as one launch, where that is wanted and can be; else *done is false and nothing is queued. A shape gets its graph with its
/// second run.
aotc_status run_as_graph(aotc_context* c, ShapeEntry* e, bool capturing, bool* done) {
  *done = false;
  if (!c->wants_graphs || e->graph_refused || e->runs == 0) return AOTC_STATUS_OK;
  if (capturing) return AOTC_STATUS_OK;  // the caller makes a graph of the steps
  bool fits = e->graph != nullptr;
  aotc_status status = fits ? patch_graph(c, e, &fits) : AOTC_STATUS_OK;
  if (status == AOTC_STATUS_OK && !fits) {
    drop_graph(e);
    status = make_graph(c, e);
  }
  if (status != AOTC_STATUS_OK || cuda_graph_nodes(*e->graph) < least_nodes(*c)) {
    drop_graph(e);
    e->graph_refused = true;  // one by one, which tells what is wrong if that does not work either
    return AOTC_STATUS_OK;
  }
  *done = true;
  return cuda_graph_launch(e->graph, c->stream);
}

/// A run that ends before all of it is queued. What is, and copies from the host's memory, go on; with tensors there they are waited for.
[[gnu::cold]] aotc_status end_early(aotc_context* c, ShapeEntry* e, const aotc_tensor* in, const aotc_tensor* out, const Stop& stop,
                                    uint32_t queued) {
  const bool lost = queued > 0 && lose_states(c, *e->method, e->variant);
  if (any_on_host(*c, *e->method->desc, in, out)) RT_TRY(cuda_wait(c->model->cuda, c->stream));
  return stop_failure(stop, variant_of(*e).steps[queued].label, lost);
}

aotc_status check_pointers(const aotc_context& c, ShapeEntry* e, const aotc_tensor* in, const aotc_tensor* out) {
  const aotc_method_desc& desc = *e->method->desc;
  const uint32_t n_in = desc.n_inputs, n = n_in + desc.n_outputs;
  for (uint32_t i = 0; i < n; ++i) {
    const aotc_tensor& t = i < n_in ? in[i] : out[i - n_in];
    if (on_host(c, t) || e->io_bytes[i] == 0 || c.io_checked[i] == t.data) continue;
    RT_TRY(cuda_check_pointer(c.model->cuda, i < n_in ? "input" : "output", i < n_in ? desc.inputs[i].name : desc.outputs[i - n_in].name,
                              t.data));
    c.io_checked[i] = t.data;
  }
  return AOTC_STATUS_OK;
}

/// Whose step of all (VariantInfo::first_step) it is: the last variant that begins there or before and has steps.
void find_step(const aotc_model& m, uint32_t step, const Method** method, uint32_t* variant) {
  for (uint32_t i = 0; i < m.module->n_methods; ++i)
    for (uint32_t v = 0; v < m.methods[i].desc->n_variants; ++v)
      if (m.methods[i].variants[v].first_step <= step) *method = &m.methods[i], *variant = v;
}

/// A run with this fault changed no state: its kernels go by the condition.
bool keeps_states(const aotc_method_desc& method, const aotc_variant& variant, uint32_t step, int32_t fault) {
  const aotc_hidden_desc* hidden = fault == AOTC_FAULT_CHECK ? condition_of(method, variant, step) : nullptr;
  return hidden && hidden->before_writes;
}

/// Takes all faults, the first of them that of this step; says a condition before what an index does that does not meet it. Several runs
/// may have been queued: only where one was is what else it reports no more than that.
[[gnu::cold]] aotc_status take_faults(aotc_context* c, uint32_t first) {
  const aotc_model& m = *c->model;
  struct Fault {
    const Method* method;
    uint32_t variant, step;
    int32_t fault;
  };
  Fault told = {nullptr, 0, 0, AOTC_FAULT_NONE};
  bool kept = false;
  for (int pass = 0; pass < 2; ++pass) {
    const bool last = pass == 1;
    for (uint32_t k = first; k < m.total_steps; ++k) {
      Fault f = {nullptr, 0, 0, load_relaxed(&c->gpu_faults[k])};
      if (f.fault == AOTC_FAULT_NONE) continue;
      find_step(m, k, &f.method, &f.variant);
      f.step = k - f.method->variants[f.variant].first_step;
      const bool keeps = keeps_states(*f.method->desc, f.method->desc->variants[f.variant], f.step, f.fault);
      if (!last && (told.fault == AOTC_FAULT_NONE || (keeps && !kept))) told = f;
      if (!last) kept = kept || keeps;
      if (last && !keeps && !(kept && c->queued <= 1)) lose_states(c, *f.method, f.variant);
      if (last) exchange(&c->gpu_faults[k], static_cast<int32_t>(AOTC_FAULT_NONE));
    }
  }
  c->sizes_known = false;
  return step_fault(*c, *told.method->desc, told.method->desc->variants[told.variant], told.step, told.fault);
}

}  // namespace

void drop_graph(ShapeEntry* e) {
  cuda_graph_free(e->graph);
  e->graph = nullptr;
}

aotc_status take_gpu_fault(aotc_context* c) {
  if (!c->gpu_faults) return AOTC_STATUS_OK;
  const aotc_model& m = *c->model;
  uint32_t first = m.total_steps;
  for (uint32_t i = 0; i < m.total_steps && first == m.total_steps; ++i)
    if (__builtin_expect(load_relaxed(&c->gpu_faults[i]) != AOTC_FAULT_NONE, 0)) first = i;
  if (__builtin_expect(first == m.total_steps, 1)) return AOTC_STATUS_OK;
  return take_faults(c, first);
}

aotc_status run_steps_gpu(aotc_context* c, ShapeEntry* e, const aotc_tensor* in, const aotc_tensor* out, Stop* stop) {
  bool staged = false, capturing = false;
  RT_TRY(take_gpu_fault(c));  // of an earlier run
  RT_TRY(cuda_is_capturing(c->model->cuda, c->stream, &capturing));
  RT_TRY(weights_queued(c, capturing));
  ++c->queued;
  RT_TRY(check_pointers(*c, e, in, out));
  RT_TRY(stage(c, *e, in, out, &staged));
  bind_interface(*c, e);
  c->latest = e;
  if (c->flags & AOTC_CONTEXT_POISON) RT_TRY(cuda_fill(c->model->cuda, c->stream, c->base, 0xff, c->base_bytes));
  bool done;
  uint32_t queued = 0;
  if (stop && should_stop(stop)) return end_early(c, e, in, out, *stop, 0);
  aotc_status status = run_as_graph(c, e, capturing, &done);
  if (status == AOTC_STATUS_OK && !done) status = run_one_by_one(c, e, capturing, stop, &queued);
  if (status == AOTC_STATUS_OK && !done && stop && has_stopped(*stop)) return end_early(c, e, in, out, *stop, queued);
  if (status == AOTC_STATUS_OK && staged) status = unstage(c, *e, out);
  if (status == AOTC_STATUS_OK && any_on_host(*c, *e->method->desc, in, out)) {
    status = cuda_wait(c->model->cuda, c->stream);
    if (status != AOTC_STATUS_OK) {
      lose_states(c, *e->method, e->variant);
    } else {
      status = take_gpu_fault(c);
      c->queued = 0;
      weights_read(c);
      if (status == AOTC_STATUS_OK) swap_states(c, *e);
    }
  } else if (status == AOTC_STATUS_OK) {
    swap_states(c, *e);
  } else {
    lose_states(c, *e->method, e->variant);
  }
  e->runs += e->runs == 0;
  return status;
}

aotc_status gpu_step_times(const aotc_context& c, uint64_t* ns, uint32_t n) {
  const CudaScope scope(c.model->cuda);
  RT_TRY(scope.status());
  RT_TRY(cuda_alive(*c.model->cuda));
  for (uint32_t s = 0; s < n; ++s) RT_TRY(cuda_time_between(c.model->cuda, c.events[s], c.events[s + 1], &ns[s]));
  return AOTC_STATUS_OK;
}

aotc_status wait_for_queued(aotc_context* c) {
  RT_TRY(cuda_alive(*c->model->cuda));
  RT_TRY(cuda_wait(c->model->cuda, c->stream));
  const aotc_status status = take_gpu_fault(c);
  c->queued = 0;
  weights_read(c);
  return status;
}

aotc_status context_synchronize(aotc_context* c) {
  const ContextLock lock(c);
  RT_TRY(lock.status());
  if (!c->model->cuda) return AOTC_STATUS_OK;
  const CudaScope scope(c->model->cuda);
  RT_TRY(scope.status());
  return wait_for_queued(c);
}

}  // namespace aotc::rt
