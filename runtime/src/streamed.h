#pragma once
// Weights above the memory of a GPU. Some of them stay on the device; the others lie in memory of the host, and every run copies them to a
// ring of its context, on a stream of the context's own, ahead of the steps that read them. What is copied when and where to is worked out
// once, with the model. Every function below the tables needs a CudaScope.
#include <stdint.h>

#include "aotc/aotc.h"
#include "aotc/detail/plan_format.h"
#include "memory.h"

struct aotc_context;
struct aotc_model;

namespace aotc::rt {

struct VariantInfo;
struct WeightSet;
struct Weights;

/// A copy of a weight to the ring, for steps that read it there. Of a variant they are in the order in which they are made.
struct StreamedCopy {
  uint32_t weight;
  uint32_t step;    ///< the first that reads it
  int32_t after;    ///< the last step that reads what lies there before; -1: none of this run
  uint64_t offset;  ///< in the ring
};

enum : uint64_t { kNotStreamed = UINT64_MAX };  ///< VariantInfo::ring_at of other arguments

enum class WeightPlace : uint8_t {
  nowhere,  ///< no step reads it
  device,   ///< in the set's block on the device
  ring      ///< in the host's memory, and in rings
};

/// Of a model. place null: all its weights are on the device.
struct Streaming {
  WeightPlace* place;
  uint64_t device_bytes;  ///< of what stays there
  uint64_t host_bytes;    ///< of what does not
  uint64_t ring_bytes;    ///< of a context
  uint32_t max_copies;    ///< of a variant
};

/// Decides what of the model's weights is streamed, after `weights_budget` of the options and the memory that is free.
aotc_status streaming_create(aotc_model* model, const aotc_model_options& options);
/// Puts the weights of the blob where they belong, and says where that is: set->at of those that are streamed is on the host.
aotc_status streamed_upload(const aotc_model& model, const uint8_t* blob, WeightSet* set);

/// A context's place of what is streamed.
struct Ring {
  Block memory;
  void* stream;              ///< of the copies
  void** arrived;            ///< an event a copy: it is there. Recorded with the last copy of a step's
  void* released;            ///< in the order of the context's stream: what was read is not read any more
  uint32_t queued, awaited;  ///< copies of the run under way
  bool captured;             ///< a graph of the caller's uses it too
};
aotc_status ring_create(aotc_context* context);
void ring_destroy(aotc_context* context);
// Of a run, in this order: begins, before and after each step that is queued, ends (also where a step failed). `variant` has copies.
aotc_status ring_begin(aotc_context* context, const VariantInfo& variant, bool capturing);
/// *waits: the step begins after copies.
aotc_status ring_before(aotc_context* context, const VariantInfo& variant, uint32_t step, bool* waits);
aotc_status ring_after(aotc_context* context, const VariantInfo& variant, uint32_t step);
/// Whoever waits for the context's stream then waits for the copies, too.
aotc_status ring_end(aotc_context* context, bool capturing);

}  // namespace aotc::rt
