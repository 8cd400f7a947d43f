#pragma once
// A model: the tables of this artifact bound to this machine, and its methods. Immutable once created, but for its weights (weight_set.h).
#include <stdint.h>

#include "aotc/aotc.h"
#include "aotc/detail/plan_format.h"
#include "memory.h"
#include "streamed.h"
#include "weight_set.h"

namespace aotc::rt {

/// What the walk over a variant's tables told once and for all.
struct VariantInfo {
  uint32_t n_args = 0, n_sizes = 0;    ///< lengths of aotc_variant.args and size_slots
  uint32_t n_maps = 0;                 ///< of aotc_variant.maps
  uint32_t first_step = 0;             ///< steps of the variants before, over all methods
  uint32_t n_bound = 0;                ///< args whose pointer changes from run to run: inputs, outputs, states
  const uint32_t* bound = nullptr;     ///< their positions in args
  const uint8_t* next_used = nullptr;  ///< per state: has a STATE_NEXT buffer, to be swapped in after the run
  StreamedCopy* copies = nullptr;      ///< GPU: of streamed weights, in order
  uint32_t n_copies = 0;
  uint64_t* ring_at = nullptr;  ///< GPU, where weights are streamed: per arg, where it lies in the ring, or kNotStreamed
};

/// What the walk over a method's tables told.
struct Method {
  const aotc_model* model;
  const aotc_method_desc* desc;
  VariantInfo* variants;
  uint32_t max_slots, max_args, max_sizes, max_steps, max_maps;
  uint32_t n_io_dims;   ///< dimensions of all inputs, then of all outputs
  aotc_dim* dims;       ///< public form of desc->dims
  const char*** found;  ///< per output: texts of the sizes that a run finds, or null
};

struct Capture;
struct Cuda;
struct Nvtx;

}  // namespace aotc::rt

struct aotc_model {
  const aotc_module_desc* module;  ///< the part of the artifact for this device
  const aotc_isa_table* isa;       ///< null for a GPU artifact
  bool free_denormals;             ///< see aotc_kargs
  aotc::rt::Method* methods;       ///< module->n_methods of them
  uint32_t max_steps;              ///< of a variant
  uint32_t total_steps;            ///< of all variants of all methods
  aotc_dim** state_dims;           ///< per state
  uint64_t weights_bytes;          ///< on the device, or streamed to it
  aotc::rt::Streaming streaming;
  aotc::rt::WeightSets sets;
  aotc_allocator allocator;  ///< alloc null: the runtime's own
  uint32_t flags;            ///< of aotc_model_options
  int32_t device;
  aotc::rt::Cuda* cuda;        ///< null for a CPU artifact
  uint32_t references;         ///< the caller's and one a context
  char* path;                  ///< of the file that this code was loaded from; null: it has none
  const aotc::rt::Nvtx* nvtx;  ///< null: no tool is attached
  aotc::rt::Capture* capture;  ///< null: no run is written (capture.h)
};

namespace aotc::rt {

aotc_status probe(const aotc_module_desc& artifact, int32_t device);
aotc_status model_create(const aotc_module_desc& artifact, const aotc_model_options* options, aotc_model** out);
void model_retain(aotc_model* model);
void model_release(aotc_model* model);
/// A large block on the model's device, for `what`. On a GPU within a CudaScope.
aotc_status model_alloc(const aotc_model& model, size_t bytes, const char* what, Block* out);
void model_free_block(const aotc_model& model, Block* block);
const char* model_target(const aotc_model& model);
/// The method of that number; null, with a message that begins with `what`, where there is none.
const Method* find_method(const aotc_model& model, const char* what, int32_t number);
inline bool is_gpu(const aotc_module_desc& module) { return module.n_cuda_images > 0; }

/// Copies a caller's options of any version into *out: unknown trailing fields must be zero.
aotc_status read_options(const char* what, const void* from, size_t known, void* out);

}  // namespace aotc::rt
