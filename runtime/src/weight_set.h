#pragma once
// The weights that runs of a model read. A model has one set for new runs; a set that another took the place of lives until the last run on
// it ends.
#include <stdint.h>

#include "aotc/aotc.h"
#include "weights.h"

struct aotc_context;

namespace aotc::rt {

struct WeightSet {
  uint64_t version;  ///< of its content
  uint64_t number;   ///< of this model's sets that no other has: where its weights are
  Weights weights;
  Block own;           ///< a copy of what of the weights is this part's, on the model's device, or empty
  Block pinned;        ///< GPU: of those that are streamed, in memory of the host, or empty
  bool captured;       ///< GPU: a graph of the caller's may read it whenever he launches that; atomic
  const uint8_t** at;  ///< per weight, on the model's device; of one that is streamed, in `pinned`
  WeightSet* next;     ///< of those that are no longer the model's
};

/// The sets and the contexts of a model.
struct WeightSets {
  WeightSet* current;
  WeightSet* retired;      ///< within the lock
  WeightSet* trimmed;      ///< whose pages a call drops now, or null; within the lock
  aotc_context* contexts;  ///< within the lock
  uint64_t version;        ///< of the latest content, within the lock
  uint64_t number;         ///< of the latest set, within the lock
  uint32_t* lock;          ///< 1: taken. In a page of the process, where there are such pages: a forked child finds it free
  uint32_t lock_word;      ///< where there are none
};

/// The model's first set. options: weights, weights_path, flags.
aotc_status weight_sets_create(aotc_model* model, const aotc_model_options& options);
void weight_sets_free(aotc_model* model);
/// A context that may run, until weight_sets_leave.
void weight_sets_join(aotc_context* context);
void weight_sets_leave(aotc_context* context);
uint64_t weights_version(aotc_model* model);  ///< of the set that new runs take
/// given: null for the artifact's own weights.
aotc_status swap_weights(aotc_model* model, const aotc_weights_source* given, uint64_t* version);

/// Gives memory of the model's weights back to the system, *bytes of it; runs read them from the file again.
aotc_status trim_weights(aotc_model* model, uint64_t* bytes);

/// GPU: the set of the run under way is what its stream reads from now on. What the stream still holds on an earlier one is waited for.
/// capturing: the stream records the run for a graph of the caller's.
aotc_status weights_queued(aotc_context* context, bool capturing);
/// GPU: nothing that the context queued reads weights any more.
void weights_read(aotc_context* context);

/// The model's set, as context.weights, for the length of a call that has the context. Neither locks nor allocates, unless it was the last
/// call on a set that is no longer the model's.
class WeightsInUse {
 public:
  explicit WeightsInUse(aotc_context* context);
  ~WeightsInUse();
  WeightsInUse(const WeightsInUse&) = delete;
  WeightsInUse& operator=(const WeightsInUse&) = delete;

 private:
  aotc_context* context_;
};

}  // namespace aotc::rt
