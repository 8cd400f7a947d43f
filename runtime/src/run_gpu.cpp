// The walk over the steps of a GPU artifact: launches on the context's stream.
#include <string.h>

#include "atomic.h"
#include "context.h"
#include "cuda.h"
#include "status.h"

namespace aotc::rt {
namespace {

constexpr uint32_t kMaxWords = 512;  // a kernel's parameter has at most 4 KB
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
  const aotc_module_desc& module = *c->model->module;
  const uint32_t n_in = module.n_inputs, n = n_in + module.n_outputs;
  const auto tensor = [&](uint32_t i) -> const aotc_tensor& { return i < n_in ? in[i] : out[i - n_in]; };
  const aotc_variant& variant = module.variants[e.variant];
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
    if (!model_alloc(*c->model, total, &c->staging))
      return fail(AOTC_OUT_OF_MEMORY, "no memory on the GPU for copies of %llu bytes of inputs and outputs",
                  static_cast<unsigned long long>(total));
  }
  uint8_t* at = static_cast<uint8_t*>(c->staging.base);
  for (uint32_t i = 0; i < n; ++i) {
    c->io[i] = tensor(i).data;
    if (!needs_copy(i)) continue;
    *staged = true;
    c->io[i] = at;
    at += align_up(e.io_bytes[i], 256);
    const CopyKind kind = on_host(*c, tensor(i)) ? CopyKind::to_device : CopyKind::on_device;
    if (i < n_in) RT_TRY(cuda_copy(c->model->cuda, c->stream, kind, c->io[i], in[i].data, e.io_bytes[i]));
  }
  return AOTC_OK;
}

aotc_status unstage(aotc_context* c, const ShapeEntry& e, const aotc_tensor* out) {
  const aotc_module_desc& module = *c->model->module;
  for (uint32_t o = 0; o < module.n_outputs; ++o) {
    const void* from = c->io[module.n_inputs + o];
    if (from == out[o].data) continue;
    const CopyKind kind = on_host(*c, out[o]) ? CopyKind::to_host : CopyKind::on_device;
    RT_TRY(cuda_copy(c->model->cuda, c->stream, kind, out[o].data, from, e.io_bytes[module.n_inputs + o]));
  }
  return AOTC_OK;
}

/// Whether a run is over only when its tensors in host memory have been read and written.
bool any_on_host(const aotc_context& c, const aotc_tensor* in, const aotc_tensor* out) {
  for (uint32_t i = 0; i < c.model->module->n_inputs; ++i)
    if (on_host(c, in[i])) return true;
  for (uint32_t o = 0; o < c.model->module->n_outputs; ++o)
    if (on_host(c, out[o])) return true;
  return false;
}

uint32_t positive(const ShapeEntry& e, int32_t slot, int64_t otherwise) {
  const int64_t v = slot >= 0 ? e.slots[slot] : otherwise;
  return v < 0 ? 0 : v > INT32_MAX ? INT32_MAX : static_cast<uint32_t>(v);
}

/// The step's tensor maps to `to`, made anew where their data moved.
aotc_status take_maps(aotc_context* c, ShapeEntry* e, const aotc_step& step, uint64_t* to) {
  const aotc_variant& variant = c->model->module->variants[e->variant];
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
  return AOTC_OK;
}

aotc_status launch(aotc_context* c, ShapeEntry* entry, const aotc_step& step) {
  const ShapeEntry& e = *entry;
  const uint32_t ptr_words = step.n_args ? step.n_args : 1;
  uint32_t words = 2 + ptr_words + (step.n_sizes ? step.n_sizes : 1);
  if (step.n_maps) words = (words + kMapAlignWords - 1) / kMapAlignWords * kMapAlignWords;
  const uint32_t first_map_word = words;
  words += step.n_maps * kMapWords;
  if (words > kMaxWords) return fail(AOTC_INTERNAL, "the kernel of %s has too many parameters", step.label ? step.label : "?");
  uint64_t args[kMaxWords];
  args[0] = reinterpret_cast<uint64_t>(c->gpu_fault);
  args[1] = reinterpret_cast<uint64_t>(c->base + align_up(e.arena_bytes, 256));  // the run's scratch
  args[2] = args[2 + ptr_words] = 0;
  for (uint32_t i = 0; i < step.n_args; ++i) args[2 + i] = reinterpret_cast<uint64_t>(e.ptrs[step.first_arg + i]);
  for (uint32_t i = 0; i < step.n_sizes; ++i) args[2 + ptr_words + i] = static_cast<uint64_t>(e.sizes[step.first_size + i]);
  CudaLaunch l{};
  l.kernel = step.kernel;
  for (int d = 0; d < 3; ++d) {
    l.grid[d] = positive(e, step.grid_slot[d], 1);
    l.block[d] = static_cast<uint32_t>(step.block[d]);
    if (l.grid[d] == 0) return AOTC_OK;  // nothing to do
  }
  l.smem_bytes = positive(e, step.smem_slot, 0);
  if (step.n_maps) RT_TRY(take_maps(c, entry, step, args + first_map_word));
  l.overlaps = step.overlaps != 0;
  l.args = args;
  return cuda_launch(c->model->cuda, c->stream, l);
}

aotc_status run_one(aotc_context* c, ShapeEntry* entry, const aotc_variant& variant, const aotc_step& step) {
  const ShapeEntry& e = *entry;
  const auto bytes = [&](uint32_t arg) {
    return static_cast<uint64_t>(e.slots[variant.buffers[variant.args[step.first_arg + arg]].bytes_slot]);
  };
  void* const* ptr = e.ptrs + step.first_arg;
  switch (step.kind) {
    case AOTC_STEP_CUDA: return launch(c, entry, step);
    case AOTC_STEP_COPY:
      return ptr[0] == ptr[1] ? AOTC_OK : cuda_copy(c->model->cuda, c->stream, CopyKind::on_device, ptr[1], ptr[0], bytes(1));
    case AOTC_STEP_ZERO: return cuda_fill(c->model->cuda, c->stream, ptr[0], 0, bytes(0));
    default: return fail(AOTC_INTERNAL, "a step of kind %d in a GPU artifact (at %s)", step.kind, step.label ? step.label : "?");
  }
}

}  // namespace

aotc_status take_gpu_fault(aotc_context* c) {
  if (!c->gpu_fault || exchange(c->gpu_fault, static_cast<int32_t>(AOTC_FAULT_NONE)) == AOTC_FAULT_NONE) return AOTC_OK;
  c->states_undefined = c->latest && c->model->variants[c->latest->variant].updates_states;
  return fail(AOTC_INDEX_OUT_OF_RANGE, "an index in the input data of a run was out of range; its outputs are undefined");
}

aotc_status run_steps_gpu(aotc_context* c, ShapeEntry* e, const aotc_tensor* in, const aotc_tensor* out) {
  const aotc_variant& variant = c->model->module->variants[e->variant];
  bool staged = false;
  RT_TRY(cuda_alive(*c->model->cuda));
  RT_TRY(take_gpu_fault(c));  // of an earlier run
  RT_TRY(stage(c, *e, in, out, &staged));
  bind_interface(*c, e);
  c->latest = e;
  if (c->flags & AOTC_CONTEXT_POISON) RT_TRY(cuda_fill(c->model->cuda, c->stream, c->base, 0xff, c->base_bytes));
  aotc_status status = AOTC_OK;
  for (uint32_t s = 0; s < variant.n_steps && status == AOTC_OK; ++s) status = run_one(c, e, variant, variant.steps[s]);
  if (status == AOTC_OK && staged) status = unstage(c, *e, out);
  if (status == AOTC_OK && any_on_host(*c, in, out)) {
    status = cuda_wait(c->model->cuda, c->stream);
    if (status == AOTC_OK) status = take_gpu_fault(c);
  }
  if (status == AOTC_OK)
    swap_states(c, *e);
  else
    c->states_undefined = c->model->variants[e->variant].updates_states;
  return status;
}

aotc_status context_synchronize(aotc_context* c) {
  const TryLock lock(&c->busy);
  if (!lock.held()) return fail(AOTC_WRONG_STATE, "the context is in use by another thread");
  if (!c->model->cuda) return AOTC_OK;
  const CudaScope scope(c->model->cuda);
  RT_TRY(cuda_alive(*c->model->cuda));
  RT_TRY(cuda_wait(c->model->cuda, c->stream));
  return take_gpu_fault(c);
}

}  // namespace aotc::rt
