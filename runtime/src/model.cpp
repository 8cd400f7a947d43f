#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "cpu.h"
#include "cuda.h"
#include "memory.h"
#include "nvtx.h"
#include "seal.h"
#include "status.h"

namespace aotc::rt {
namespace {

void log(const aotc_model_options& options, const char* message) {
  if (options.log) options.log(options.log_user, 1, message);
}

/// The code version for this CPU.
aotc_status choose_isa(const aotc_module_desc& module, const aotc_model_options& options, const aotc_isa_table** out) {
  const aotc_isa_table* table = *out = acquire_isa(module.isas, module.n_isas, kHardware);
  if (!table) return AOTC_STATUS_INCOMPATIBLE;
  char buffer[128] = "";
  Text text{buffer, buffer + sizeof buffer - 1};
  text.add("code version %s of %u", isa_name(table->isa), module.n_isas);
  if (table + 1 != module.isas + module.n_isas) text.add("; %s cannot run here", isa_name(table[1].isa));
  log(options, buffer);
  return AOTC_STATUS_OK;
}

bool changes_each_run(int32_t kind) { return kind != AOTC_BUF_WEIGHT && kind != AOTC_BUF_ARENA; }

bool survey_variant(const aotc_module_desc& module, const aotc_variant& variant, VariantInfo* out) {
  for (uint32_t s = 0; s < variant.n_steps; ++s) {
    const aotc_step& step = variant.steps[s];
    if (step.first_arg + step.n_args > out->n_args) out->n_args = step.first_arg + step.n_args;
    if (step.first_map + step.n_maps > out->n_maps) out->n_maps = step.first_map + step.n_maps;
    if (step.first_size + step.n_sizes > out->n_sizes) out->n_sizes = step.first_size + step.n_sizes;
  }
  uint32_t* bound = take<uint32_t>(out->n_args);
  uint8_t* next_used = take<uint8_t>(module.n_states);
  out->bound = bound;
  out->next_used = next_used;
  if (!bound || !next_used) return false;
  for (uint32_t a = 0; a < out->n_args; ++a)
    if (changes_each_run(variant.buffers[variant.args[a]].kind)) bound[out->n_bound++] = a;
  for (uint32_t b = 0; b < variant.n_buffers; ++b)
    if (variant.buffers[b].kind == AOTC_BUF_STATE_NEXT) next_used[variant.buffers[b].index] = 1;
  return true;
}

bool survey_method(const aotc_module_desc& module, aotc_model* model, Method* method) {
  const aotc_method_desc& desc = *method->desc;
  uint32_t n_dims = 0;
  for (uint32_t i = 0; i < desc.n_inputs; ++i) n_dims += static_cast<uint32_t>(desc.inputs[i].rank);
  for (uint32_t i = 0; i < desc.n_outputs; ++i) n_dims += static_cast<uint32_t>(desc.outputs[i].rank);
  method->n_io_dims = n_dims;
  uint32_t table = 0;  // desc.dims has no length of its own
  const auto cover = [&table](const aotc_io_desc& io) {
    const uint32_t end = io.first_dim + static_cast<uint32_t>(io.rank);
    if (end > table) table = end;
  };
  for (uint32_t i = 0; i < desc.n_inputs; ++i) cover(desc.inputs[i]);
  for (uint32_t i = 0; i < desc.n_outputs; ++i) cover(desc.outputs[i]);
  method->dims = take<aotc_dim>(table);
  method->variants = take<VariantInfo>(desc.n_variants);
  method->found = take<const char**>(desc.n_outputs);
  if (!method->dims || !method->variants || !method->found) return false;
  for (uint32_t d = 0; d < table; ++d) {
    const aotc_dim_desc& dim = desc.dims[d];
    const bool fixed = dim.begin == dim.end;
    method->dims[d] = fixed ? aotc_dim{dim.value, dim.value, dim.value, nullptr} : aotc_dim{-1, dim.min, dim.max, dim.text};
  }
  for (uint32_t f = 0; f < desc.n_found; ++f) {
    const aotc_found_desc& dim = desc.found[f];
    const char**& texts = method->found[dim.output];
    if (!texts) texts = take<const char*>(static_cast<size_t>(desc.outputs[dim.output].rank));
    if (!texts) return false;
    texts[dim.dim] = dim.text;
  }
  const auto grow = [](uint32_t* most, uint32_t n) { *most = n > *most ? n : *most; };
  for (uint32_t v = 0; v < desc.n_variants; ++v) {
    if (!survey_variant(module, desc.variants[v], &method->variants[v])) return false;
    method->variants[v].first_step = model->total_steps;
    model->total_steps += desc.variants[v].n_steps;
    grow(&method->max_slots, desc.variants[v].n_slots);
    grow(&method->max_steps, desc.variants[v].n_steps);
    grow(&method->max_args, method->variants[v].n_args);
    grow(&method->max_sizes, method->variants[v].n_sizes);
    grow(&method->max_maps, method->variants[v].n_maps);
  }
  grow(&model->max_steps, method->max_steps);
  return true;
}

bool survey(const aotc_module_desc& module, aotc_model* model) {
  model->state_dims = take<aotc_dim*>(module.n_states);
  model->methods = take<Method>(module.n_methods);
  if (!model->state_dims || !model->methods) return false;
  for (uint32_t i = 0; i < module.n_states; ++i) {
    const aotc_state_desc& state = module.states[i];
    aotc_dim* dims = model->state_dims[i] = take<aotc_dim>(static_cast<size_t>(state.rank));
    if (!dims) return false;
    for (int32_t d = 0; d < state.rank; ++d) dims[d] = {state.dims[d], state.dims[d], state.dims[d], nullptr};
  }
  for (uint32_t m = 0; m < module.n_methods; ++m) {
    model->methods[m].model = model;
    model->methods[m].desc = &module.methods[m];
    if (!survey_method(module, model, &model->methods[m])) return false;
  }
  return true;
}

void method_free(Method* method) {
  for (uint32_t v = 0; method->variants && v < method->desc->n_variants; ++v) {
    free(const_cast<uint32_t*>(method->variants[v].bound));
    free(const_cast<uint8_t*>(method->variants[v].next_used));
    free(method->variants[v].copies);
    free(method->variants[v].ring_at);
  }
  for (uint32_t i = 0; method->found && i < method->desc->n_outputs; ++i) free(method->found[i]);
  free(method->found);
  free(method->variants);
  free(method->dims);
}

void model_free(aotc_model* model) {
  weight_sets_free(model);
  cuda_close(model->cuda);
  for (uint32_t i = 0; model->state_dims && i < model->module->n_states; ++i) free(model->state_dims[i]);
  for (uint32_t m = 0; model->methods && m < model->module->n_methods && model->methods[m].desc; ++m) method_free(&model->methods[m]);
  free(model->state_dims);
  free(model->methods);
  free(model->streaming.place);
  capture_free(model->capture);
  free(model->path);
  free(model);
}

/// For tracers; where there is no memory for it they do without.
char* copy_of_path() {
  char buffer[kPathMax];
  const char* path = own_path(buffer);
  char* copy = path ? take<char>(strlen(path) + 1) : nullptr;
  if (copy) strcpy(copy, path);
  return copy;
}

const aotc_module_desc* cpu_part(const aotc_module_desc& artifact) {
  for (const aotc_module_desc* part = &artifact; part; part = part->next)
    if (!is_gpu(*part)) return part;
  return nullptr;
}

bool has_gpu_part(const aotc_module_desc& artifact) {
  for (const aotc_module_desc* part = &artifact; part; part = part->next)
    if (is_gpu(*part)) return true;
  return false;
}

/// The code of a CPU part for this machine; null with a failure.
const aotc_isa_table* cpu_code(const aotc_module_desc& part) { return select_isa(part.isas, part.n_isas, cpu_features(kHardware)); }

/// The device for AOTC_DEVICE_DEFAULT of an artifact with code for GPUs and for CPUs: GPU 0 where it can run there, else the CPU.
aotc_status choose_default(const aotc_module_desc& artifact, const aotc_model_options* options, int32_t* device,
                           const aotc_module_desc** part) {
  *device = 0;
  if (cuda_probe(artifact, 0, part) == AOTC_STATUS_OK) return AOTC_STATUS_OK;
  char why[512] = "";
  Text text{why, why + sizeof why};
  text.add("%s", last_error());
  *device = AOTC_DEVICE_HOST;
  *part = cpu_part(artifact);
  if (!cpu_code(**part)) {
    char cpu[400] = "";
    Text{cpu, cpu + sizeof cpu}.add("%s", last_error());
    return fail(AOTC_STATUS_INCOMPATIBLE, "%s; and %s", why, cpu);
  }
  char line[600] = "";
  Text{line, line + sizeof line}.add("the code for CPUs is taken: %s", why);
  if (options) log(*options, line);
  return AOTC_STATUS_OK;
}

/// The part of the artifact for *device, which is resolved. options: to log to, may be null.
aotc_status choose_part(const aotc_module_desc& artifact, const aotc_model_options* options, int32_t* device,
                        const aotc_module_desc** part) {
  const aotc_module_desc* const cpu = cpu_part(artifact);
  const bool gpu = has_gpu_part(artifact);
  if (*device == AOTC_DEVICE_DEFAULT) {
    if (cpu && gpu) return choose_default(artifact, options, device, part);
    *device = gpu ? 0 : AOTC_DEVICE_HOST;
  }
  if (!gpu && *device != AOTC_DEVICE_HOST)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "this artifact runs on the CPU: device must be AOTC_DEVICE_HOST (-1), not %d", *device);
  if (*device < 0 && (!cpu || *device != AOTC_DEVICE_HOST))
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "this artifact runs on a GPU: device must be a GPU's ordinal, not %d", *device);
  if (*device >= 0) return cuda_probe(artifact, *device, part);
  *part = cpu;
  return cpu_code(*cpu) ? AOTC_STATUS_OK : AOTC_STATUS_INCOMPATIBLE;
}

aotc_status check_format(const aotc_module_desc& module) {
  if (module.format != AOTC_PLAN_FORMAT)
    return fail(AOTC_STATUS_INTERNAL, "the tables have format %u, the runtime has %d", module.format, AOTC_PLAN_FORMAT);
  return AOTC_STATUS_OK;
}

aotc_status fill(aotc_model* model, const aotc_module_desc& artifact, const aotc_model_options& options) {
  if (&artifact == &aotc_module) RT_TRY(seal_check(options.flags & AOTC_MODEL_VERIFY_WEIGHTS));  // other tables are no file's
  RT_TRY(check_format(artifact));
  RT_TRY(choose_part(artifact, &options, &model->device, &model->module));
  const aotc_module_desc& part = *model->module;
  if (is_gpu(part)) {
    RT_TRY(cuda_open(part, model->device, &model->cuda));
  } else {
    RT_TRY(choose_isa(part, options, &model->isa));
    model->free_denormals = free_denormals(kHardware);
  }
  if (!survey(part, model)) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the model");
  if (model->cuda) RT_TRY(streaming_create(model, options));
  RT_TRY(weight_sets_create(model, options));
  model->weights_bytes = model->cuda ? model->sets.current->own.bytes + model->sets.current->pinned.bytes : part.weights_bytes;
  return AOTC_STATUS_OK;
}

}  // namespace

aotc_status read_options(const char* what, const void* from, size_t known, void* out) {
  size_t given;
  memcpy(&given, from, sizeof given);
  if (given < sizeof given || given > (1u << 20))
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s: struct_size is %zu; set it to sizeof the struct", what, given);
  for (size_t i = known; i < given; ++i)
    if (static_cast<const uint8_t*>(from)[i] != 0)
      return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s: a field that this artifact does not know is set", what);
  memcpy(out, from, given < known ? given : known);
  return AOTC_STATUS_OK;
}

aotc_status probe(const aotc_module_desc& artifact, int32_t device) {
  const aotc_module_desc* part;
  RT_TRY(check_format(artifact));
  return choose_part(artifact, nullptr, &device, &part);
}

aotc_status model_create(const aotc_module_desc& artifact, const aotc_model_options* given, aotc_model** out) {
  aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
  if (given) RT_TRY(read_options("model options", given, sizeof options, &options));
  constexpr uint32_t kKnown = AOTC_MODEL_VERIFY_WEIGHTS | AOTC_MODEL_LAZY_WEIGHTS | AOTC_MODEL_PLACE;
  if (options.flags & ~kKnown) return fail(AOTC_STATUS_INVALID_ARGUMENT, "model options: unknown flags 0x%x", options.flags);
  if ((options.flags & AOTC_MODEL_PLACE) == AOTC_MODEL_PLACE)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "model options: OWN_WEIGHTS and SHARED_WEIGHTS exclude each other");
  aotc_allocator allocator{};
  if (options.allocator) {
    RT_TRY(read_options("allocator", options.allocator, sizeof allocator, &allocator));
    if (!allocator.alloc || !allocator.free) return fail(AOTC_STATUS_INVALID_ARGUMENT, "allocator: alloc or free is null");
  }
  aotc_model* model = take<aotc_model>(1);
  if (!model) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the model");
  model->module = &artifact;  // until the part is chosen
  model->device = options.device;
  model->allocator = allocator;
  model->flags = options.flags;
  model->references = 1;
  model->path = copy_of_path();
  model->nvtx = nvtx_attach();
  aotc_status status = fill(model, artifact, options);
  if (status == AOTC_STATUS_OK) status = capture_create(*model, &model->capture);
  if (status != AOTC_STATUS_OK) {
    model_free(model);
    return status;
  }
  *out = model;
  return AOTC_STATUS_OK;
}

aotc_status model_alloc(const aotc_model& model, size_t bytes, const char* what, Block* out) {
  if (!model.cuda || model.allocator.alloc || bytes == 0) {
    if (block_alloc(model.allocator, model.device, bytes, out)) return AOTC_STATUS_OK;
    return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for %s of %zu bytes", what, bytes);
  }
  void* base = nullptr;
  RT_TRY(cuda_alloc(model.cuda, bytes, what, &base));
  *out = Block{base, bytes};
  return AOTC_STATUS_OK;
}

void model_free_block(const aotc_model& model, Block* block) {
  if (!model.cuda || model.allocator.alloc || !block->base)
    block_free(model.allocator, model.device, block);
  else
    cuda_free(model.cuda, block->base);
  *block = Block{};
}

const Method* find_method(const aotc_model& model, const char* what, int32_t number) {
  const uint32_t n = model.module->n_methods;
  if (number >= 0 && static_cast<uint32_t>(number) < n) return &model.methods[number];
  fail(AOTC_STATUS_INVALID_ARGUMENT, "%s: there is no method %d of %u", what, number, n);
  return nullptr;
}

const char* model_target(const aotc_model& model) { return model.cuda ? cuda_target(*model.cuda) : isa_name(model.isa->isa); }

void model_retain(aotc_model* model) { __atomic_add_fetch(&model->references, 1u, __ATOMIC_RELAXED); }

void model_release(aotc_model* model) {
  if (__atomic_sub_fetch(&model->references, 1u, __ATOMIC_ACQ_REL) == 0) model_free(model);
}

}  // namespace aotc::rt
