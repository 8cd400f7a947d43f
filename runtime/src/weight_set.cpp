#include "weight_set.h"

#include <sched.h>
#include <stdlib.h>

#include "atomic.h"
#include "context.h"
#include "cuda.h"
#include "model.h"
#include "status.h"
#include "streamed.h"

namespace aotc::rt {
namespace {

/// Held for a few instructions a context.
class Lock {
 public:
  explicit Lock(WeightSets* sets) : word_(sets->lock) {
    constexpr int kSpins = 64;
    for (int i = 0; exchange(word_, 1u) != 0; ++i) i < kSpins ? spin_pause() : static_cast<void>(sched_yield());
  }
  ~Lock() { store_release(word_, 0u); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  uint32_t* word_;
};

void set_free(const aotc_model& model, WeightSet* set, bool taken) {
  if (model.cuda) {
    const CudaScope scope(model.cuda);
    if (set->pinned.base) cuda_free_shared(model.cuda, set->pinned.base);
    if (set->own.base) cuda_free(model.cuda, set->own.base);
  } else {
    block_free(model.allocator, AOTC_DEVICE_HOST, &set->own);
  }
  weights_close(&set->weights, model.allocator, taken);
  free(set->at);
  free(set);
}

/// What of the blob is this part's: [begin, end).
struct Part {
  uint64_t begin = UINT64_MAX, end = 0;
  explicit Part(const aotc_module_desc& part) {
    for (uint32_t i = 0; i < part.n_weights; ++i) {
      const aotc_weight_desc& w = part.weights[i];
      begin = w.offset < begin ? w.offset : begin;
      end = w.offset + w.bytes > end ? w.offset + w.bytes : end;
    }
  }
};

/// Each weight is in the blob.
void point_into_blob(const aotc_module_desc& part, WeightSet* set) {
  for (uint32_t i = 0; i < part.n_weights; ++i) set->at[i] = set->weights.data + part.weights[i].offset;
}

/// Where each weight is: in the blob, or in a copy of what of it is this part's. CPU.
aotc_status place(const aotc_model& model, WeightSet* set) {
  const aotc_module_desc& part = *model.module;
  const uint32_t flags = model.flags;
  const auto [begin, end] = Part(part);
  point_into_blob(part, set);
  if (begin >= end || set->weights.memory.base) return AOTC_STATUS_OK;  // what was copied is the process's own
  const bool asked = flags & AOTC_MODEL_OWN_WEIGHTS;
  const bool by_itself = part.flags & AOTC_MODULE_OWN_WEIGHTS && !(flags & (AOTC_MODEL_SHARED_WEIGHTS | AOTC_MODEL_LAZY_WEIGHTS));
  if (asked || by_itself) {
    if (!block_alloc(model.allocator, AOTC_DEVICE_HOST, end - begin, &set->own) && asked)
      return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for weights of %llu bytes", static_cast<unsigned long long>(end - begin));
  }
  if (set->own.base) {
    uint8_t* const to = static_cast<uint8_t*>(set->own.base);
    weights_copy(set->weights, begin, end, to);
    for (uint32_t i = 0; i < part.n_weights; ++i) set->at[i] = to + (part.weights[i].offset - begin);
  } else if (!(flags & AOTC_MODEL_LAZY_WEIGHTS)) {
    weights_map_pages(set->weights, begin, end);
  }
  return AOTC_STATUS_OK;
}

/// To the device. What was read from memory or by a function is needed on the host only for what states begin with.
aotc_status upload(const aotc_model& model, WeightSet* set) {
  const aotc_module_desc& part = *model.module;
  {
    const CudaScope scope(model.cuda);
    RT_TRY(scope.status());
    RT_TRY(cuda_alive(*model.cuda));
    RT_TRY(model.streaming.place ? streamed_upload(model, set->weights.data, set)
                                 : cuda_upload(model.cuda, part, set->weights.data, set->at, &set->own));
  }
  bool needed = false;
  for (uint32_t s = 0; s < part.n_states; ++s) needed = needed || part.states[s].initial_weight >= 0;
  if (!needed) weights_close(&set->weights, model.allocator, true);
  return AOTC_STATUS_OK;
}

aotc_status fill(aotc_model* model, const aotc_model_options& options, const aotc_weights_source& source, WeightSet* set) {
  const aotc_module_desc& part = *model->module;
  bool given;
  RT_TRY(source_given(source, &given));
  if (given && options.weights_path)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "model options: weights and weights_path exclude each other");
  const bool verify = source.flags & AOTC_WEIGHTS_VERIFY || options.flags & AOTC_MODEL_VERIFY_WEIGHTS;
  RT_TRY(given ? weights_open(part, source, verify, model->allocator, &set->weights) : weights_open_own(part, options, &set->weights));
  set->at = take<const uint8_t*>(part.n_weights);
  if (!set->at) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the model");
  return model->cuda ? upload(*model, set) : place(*model, set);
}

aotc_status set_create(aotc_model* model, const aotc_model_options& options, const aotc_weights_source* given, WeightSet** out) {
  aotc_weights_source source = AOTC_WEIGHTS_SOURCE_INIT;
  if (given) RT_TRY(read_options("weights", given, sizeof source, &source));
  WeightSet* set = take<WeightSet>(1);
  if (!set) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the model");
  const aotc_status status = fill(model, options, source, set);
  if (status == AOTC_STATUS_OK)
    *out = set;
  else
    set_free(*model, set, false);
  return status;
}

/// Of the retired sets, those that no context has, taken from their list. Within the lock.
WeightSet* take_unused(WeightSets* sets) {
  WeightSet* unused = nullptr;
  for (WeightSet** at = &sets->retired; *at;) {
    WeightSet* const set = *at;
    bool used = set == sets->trimmed || __atomic_load_n(&set->captured, __ATOMIC_SEQ_CST);
    for (aotc_context* c = sets->contexts; c && !used; c = c->next_of_model)
      used = __atomic_load_n(&c->weights, __ATOMIC_SEQ_CST) == set || __atomic_load_n(&c->queued_weights, __ATOMIC_SEQ_CST) == set;
    if (used) {
      at = &set->next;
      continue;
    }
    *at = set->next;
    set->next = unused;
    unused = set;
  }
  return unused;
}

void free_all(const aotc_model& model, WeightSet* sets) {
  while (sets) {
    WeightSet* const next = sets->next;
    set_free(model, sets, true);
    sets = next;
  }
}

void free_unused(aotc_model* model) {
  WeightSet* unused;
  {
    const Lock lock(&model->sets);
    unused = take_unused(&model->sets);
  }
  free_all(*model, unused);
}

}  // namespace

aotc_status weight_sets_create(aotc_model* model, const aotc_model_options& options) {
  WeightSets& sets = model->sets;
  void* const page = take_page_of_process();
  sets.lock = page ? static_cast<uint32_t*>(page) : &sets.lock_word;
  RT_TRY(set_create(model, options, options.weights, &sets.current));
  sets.current->version = sets.version = 1;
  sets.current->number = sets.number = 1;
  return AOTC_STATUS_OK;
}

void weight_sets_free(aotc_model* model) {
  WeightSets& sets = model->sets;
  if (sets.current) set_free(*model, sets.current, true);
  free_all(*model, sets.retired);
  if (sets.lock && sets.lock != &sets.lock_word) free_page_of_process(sets.lock);
}

void weight_sets_join(aotc_context* c) {
  WeightSets& sets = c->model->sets;
  const Lock lock(&sets);
  c->next_of_model = sets.contexts;
  sets.contexts = c;
}

void weight_sets_leave(aotc_context* c) {
  WeightSets& sets = c->model->sets;
  const Lock lock(&sets);
  for (aotc_context** at = &sets.contexts; *at; at = &(*at)->next_of_model)
    if (*at == c) {
      *at = c->next_of_model;
      return;
    }
}

uint64_t weights_version(aotc_model* model) {
  const Lock lock(&model->sets);
  return model->sets.version;
}

aotc_status swap_weights(aotc_model* model, const aotc_weights_source* given, uint64_t* version) {
  WeightSets& sets = model->sets;
  aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
  options.flags = model->flags;
  WeightSet *set, *unused;
  RT_TRY(set_create(model, options, given, &set));
  {
    const Lock lock(&sets);
    set->version = ++sets.version;
    set->number = ++sets.number;
    if (version) *version = set->version;
    WeightSet* const old = sets.current;
    __atomic_store_n(&sets.current, set, __ATOMIC_SEQ_CST);
    old->next = sets.retired;
    sets.retired = old;
    unused = take_unused(&sets);
  }
  free_all(*model, unused);
  return AOTC_STATUS_OK;
}

namespace {

/// A set of the same weights that reads them where they are mapped, in the place of one that has a copy of its own: that goes with the last
/// run on it. Within the lock; `fresh` has room for the weights' places.
void read_from_file(aotc_model* model, WeightSet* fresh) {
  WeightSets& sets = model->sets;
  WeightSet* const old = sets.current;
  fresh->version = old->version;
  fresh->number = ++sets.number;
  fresh->weights = old->weights;
  old->weights = Weights{};
  point_into_blob(*model->module, fresh);
  __atomic_store_n(&sets.current, fresh, __ATOMIC_SEQ_CST);
  old->next = sets.retired;
  sets.retired = old;
}

}  // namespace

aotc_status trim_weights(aotc_model* model, uint64_t* bytes) {
  if (bytes) *bytes = 0;
  if (model->cuda) return fail(AOTC_STATUS_INCOMPATIBLE, "weights of a model on a GPU stay there until model_destroy");
  const Part part(*model->module);
  if (part.begin >= part.end) return AOTC_STATUS_OK;
  WeightSets& sets = model->sets;
  WeightSet* fresh = take<WeightSet>(1);
  if (fresh) fresh->at = take<const uint8_t*>(model->module->n_weights);
  if (!fresh || !fresh->at) {
    free(fresh);
    return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory to trim the model");
  }
  uint64_t given = 0;
  WeightSet *set = nullptr, *unused = nullptr;
  {
    const Lock lock(&sets);
    if (!sets.trimmed) {  // else another thread is at it
      if (sets.current->own.base && sets.current->weights.of_file) {
        given = sets.current->own.bytes;
        read_from_file(model, fresh);
        fresh = nullptr;
      }
      set = sets.trimmed = sets.current;
    }
  }
  if (set) given += weights_drop_pages(set->weights, part.begin, part.end);
  {
    const Lock lock(&sets);
    if (set) sets.trimmed = nullptr;
    unused = take_unused(&sets);
  }
  free_all(*model, unused);
  if (fresh) free(fresh->at);
  free(fresh);
  if (bytes) *bytes = given;
  return AOTC_STATUS_OK;
}

aotc_status weights_queued(aotc_context* c, bool capturing) {
  WeightSet* const set = c->weights;
  if (capturing) {
    __atomic_store_n(&set->captured, true, __ATOMIC_SEQ_CST);
    return AOTC_STATUS_OK;
  }
  if (c->queued_weights == set) return AOTC_STATUS_OK;
  if (c->queued_weights) {
    RT_TRY(cuda_wait(c->model->cuda, c->stream));
    weights_read(c);
  }
  exchange(&c->queued_weights, set);
  return AOTC_STATUS_OK;
}

void weights_read(aotc_context* c) {
  WeightSet* const set = exchange(&c->queued_weights, static_cast<WeightSet*>(nullptr));
  if (set && __atomic_load_n(&c->model->sets.current, __ATOMIC_SEQ_CST) != set) free_unused(c->model);
}

// A run says which set it is about to read, then looks whether that is still the model's: whoever retires a set after that sees the run.
// When it ends it says so, then looks whether the set was retired meanwhile: then either the swap has seen that no run reads it, or this
// call does.
WeightsInUse::WeightsInUse(aotc_context* c) : context_(c) {
  WeightSets& sets = c->model->sets;
  WeightSet* set = load_acquire(&sets.current);
  exchange(&c->weights, set);
  if (__builtin_expect(__atomic_load_n(&sets.current, __ATOMIC_SEQ_CST) == set, 1)) return;
  for (WeightSet* now; (now = __atomic_load_n(&sets.current, __ATOMIC_SEQ_CST)) != set; set = now) exchange(&c->weights, now);
  free_unused(c->model);  // the swap may have seen this call at a set that it never read
}

WeightsInUse::~WeightsInUse() {
  aotc_context* const c = context_;
  WeightSet* const set = exchange(&c->weights, static_cast<WeightSet*>(nullptr));
  if (__builtin_expect(__atomic_load_n(&c->model->sets.current, __ATOMIC_SEQ_CST) == set, 1)) return;
  free_unused(c->model);
}

}  // namespace aotc::rt
