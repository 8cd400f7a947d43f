#pragma once
// A context: workspace, threads, states, and what was worked out for the latest shapes.
#include <stdint.h>

#include "memory.h"
#include "model.h"
#include "pool.h"
#include "stop.h"

namespace aotc::rt {

struct CudaGraph;

/// A step ready to be called.
struct ReadyStep {
  aotc_kernel_fn fn;
  const void* config;
  void* const* ptr;
  const int64_t* size;
  int64_t work;
  int32_t tasks;  ///< threads that take part; 0: no work
  int64_t bytes;  ///< copy and zero steps: their size[0]
};

/// Everything that depends on a method and its shapes alone, kept for the latest few shapes of each method. The arrays lie in one block,
/// sized for any variant of the method.
struct ShapeEntry {
  const Method* method;
  void* storage;           ///< null: never used
  uint64_t stamp;          ///< of the latest use; 0: holds nothing
  uint32_t bound_to;       ///< workspace_generation that `ptrs` were made for; 0: none
  uint64_t bound_weights;  ///< WeightSet::number that they were made for
  uint32_t variant;        ///< of the method
  int64_t* symbols;
  int64_t* io_dims;
  uint64_t* io_bytes;
  int64_t* slots;
  int64_t* sizes;
  void** ptrs;
  uint64_t* maps;         ///< GPU: tensor maps as the driver encoded them, AOTC_MAP_BYTES each
  const void** map_data;  ///< GPU: the data that each was encoded for; null: not yet
  ReadyStep* steps;
  CudaGraph* graph;         ///< GPU: the steps as one launch; null: none
  void** graph_ptrs;        ///< GPU: `ptrs` as the graph has them
  uint32_t graph_bound_to;  ///< GPU: as bound_to
  bool graph_refused;       ///< GPU: the steps of this shape are no graph
  uint32_t runs;            ///< GPU: 0 before the first of this shape
  uint64_t arena_bytes;
  uint64_t scratch_stride;  ///< per thread; GPU: of all launches
  int32_t max_tasks;
};

enum { kShapeEntries = 8 };  ///< of a method

struct State {
  uint8_t* now;
  uint8_t* next;   ///< null when no variant needs it
  bool undefined;  ///< a run that failed may have written a part of it
};

struct StateFile;

/// Where a context's states lie.
enum class StateMap : uint8_t {
  own,      ///< a block of the model's
  shared,   ///< a file of which this is the only mapping that writes to it
  private_  ///< of a file, whose pages are copied when they are written, or partly of none
};

}  // namespace aotc::rt

struct aotc_context {
  aotc_model* model;
  aotc::rt::WeightSet* weights;         ///< that the call under way reads (WeightsInUse)
  aotc::rt::WeightSet* queued_weights;  ///< GPU: that what is queued on the stream may still read, or null; atomic
  uint64_t weights_version;             ///< of the latest run
  aotc_context* next_of_model;          ///< of WeightSets::contexts
  uint32_t* busy;      ///< ContextLock: 1 while a call is under way in this process; in a page of the process, where there are such pages.
                       ///< There busy[1] is 1 in the process that made the context, and 0 in a child of fork
  uint32_t busy_word;  ///< where there are none
  bool in_call;        ///< as busy, and in a forked child still so where the fork met a call of another thread
  uint32_t flags;
  void* stream;
  aotc::rt::Threads threads;
  aotc::rt::Block workspace;  ///< own
  uint8_t* base;              ///< of the workspace in use, aligned
  uint64_t base_bytes;
  bool callers_workspace;
  int32_t* gpu_faults;  ///< GPU: where kernels report a fault, a word a step (VariantInfo::first_step); read when the stream was waited for
  uint32_t queued;      ///< GPU: runs since the stream was last waited for
  bool wants_graphs;    ///< GPU: runs of a shape that was run before are one launch
  void** events;        ///< GPU, AOTC_CONTEXT_PROFILE: before the first step and after each
  const void** io_checked;        ///< GPU: data of the inputs, then the outputs, that were found to be on the device
  aotc::rt::Ring ring;            ///< GPU: where streamed weights come to lie
  aotc::rt::Block staging;        ///< GPU: device copies of the inputs and outputs in host memory
  aotc::rt::Block dense;          ///< of the host: dense copies of the inputs that are not (dense.h)
  aotc_tensor* dense_in;          ///< room for the inputs with those in their place
  uint32_t workspace_generation;  ///< from 1; another one means another base
  uint64_t clock;
  aotc::rt::ShapeEntry* entries;  ///< kShapeEntries of each method, in order
  uint32_t n_entries;
  const aotc::rt::ShapeEntry* latest;  ///< of the latest run
  aotc::rt::Block state_block;
  aotc::rt::State* states;
  aotc::rt::StateMap state_map;
  aotc::rt::StateFile* state_file;   ///< what state_block maps, or null
  aotc::rt::StateFile* state_image;  ///< of the same content as the states now, or null. Nobody writes to it: states_touch first
  int64_t* symbols;                  ///< of the call under way
  void** io;                         ///< data of the inputs, then the outputs, of the call under way, then the hidden outputs
  uint8_t* hidden;                   ///< hidden outputs, AOTC_HIDDEN_BYTES each; GPU: memory of the host that kernels write
  int64_t* found_at;                 ///< values of the symbols in the latest run, then room for the hidden outputs; null: no size is found
  bool sizes_known;                  ///< the latest run has not failed
  uint64_t* step_ns;                 ///< AOTC_CONTEXT_PROFILE
  const char* traceparent;           ///< of the run under way, as the caller gave it
};

namespace aotc::rt {

/// The context for the length of a call, when no other call has it.
class ContextLock {
 public:
  explicit ContextLock(aotc_context* context);
  ~ContextLock();
  ContextLock(const ContextLock&) = delete;
  ContextLock& operator=(const ContextLock&) = delete;
  aotc_status status() const { return context_ ? AOTC_STATUS_OK : AOTC_STATUS_WRONG_STATE; }  ///< with its message

 private:
  aotc_context* context_;  ///< null: another has it
};

aotc_status context_create(aotc_model* model, const aotc_context_options* options, aotc_context** out);
void context_destroy(aotc_context* context);
/// stop: what may end the run, or null. traceparent: the caller's text, or null.
aotc_status context_run(aotc_context* context, const Method& method, const aotc_tensor* in, int32_t n_in, const aotc_tensor* out,
                        int32_t n_out, Stop* stop, const char* traceparent);
aotc_status context_output_bounds(aotc_context* context, const Method& method, const aotc_tensor* in, int32_t n_in, int64_t* const* shapes,
                                  int32_t n_out);
aotc_status workspace_size(const Method& method, const aotc_context_options* options, const aotc_tensor* in, int32_t n, size_t* bytes);

/// The entry for these inputs of the method, worked out when it is not among the latest. All of the inputs but their data is checked.
aotc_status find_entry(aotc_context* context, const Method& method, const aotc_tensor* in, int32_t n_in, ShapeEntry** out);
/// Workspace and pointers for the entry.
aotc_status bind_workspace(aotc_context* context, ShapeEntry* entry);
/// Runs the steps; in and out were checked. stop: what may end the run, or null.
aotc_status run_steps(aotc_context* context, ShapeEntry* entry, const aotc_tensor* in, const aotc_tensor* out, Stop* stop);
aotc_status run_steps_gpu(aotc_context* context, ShapeEntry* entry, const aotc_tensor* in, const aotc_tensor* out, Stop* stop);
aotc_status context_synchronize(aotc_context* context);
/// GPU: until the runs of the context are done; their error. Within a ContextLock and a CudaScope.
aotc_status wait_for_queued(aotc_context* context);
aotc_status context_output_sizes(aotc_context* context, int32_t output, int64_t* sizes);
/// The same within a ContextLock, after runs on a GPU were waited for.
aotc_status output_sizes_within(aotc_context* context, int32_t output, int64_t* sizes);
/// What a run failed with in a step of a method's variant.
aotc_status step_fault(const aotc_context& context, const aotc_method_desc& method, const aotc_variant& variant, uint32_t step,
                       int32_t fault);
/// The hidden output that tells of the condition that a step checks; null: the step is none.
const aotc_hidden_desc* condition_of(const aotc_method_desc& method, const aotc_variant& variant, uint32_t step);
/// Times of the steps of the latest run of a context with events.
aotc_status gpu_step_times(const aotc_context& context, uint64_t* ns, uint32_t n);
/// GPU: the entry is without a graph then. Within a CudaScope.
void drop_graph(ShapeEntry* entry);
/// The entry's plan and what was told of it.
inline const aotc_variant& variant_of(const ShapeEntry& e) { return e.method->desc->variants[e.variant]; }
inline const VariantInfo& info_of(const ShapeEntry& e) { return e.method->variants[e.variant]; }
/// Data of the tensors, and of the hidden outputs, into context.io.
void take_io(aotc_context* context, const Method& method, const aotc_tensor* in, const aotc_tensor* out);
/// Pointers of context.io and the states into entry->ptrs.
void bind_interface(const aotc_context& context, ShapeEntry* entry);
void swap_states(aotc_context* context, const ShapeEntry& entry);
/// OK, or INDEX_OUT_OF_RANGE or ASSERTION_FAILED once after a kernel of a finished run reported it.
aotc_status take_gpu_fault(aotc_context* context);
/// Fills entry->steps from the slots and sizes.
void ready_steps(const aotc_context& context, ShapeEntry* entry);

}  // namespace aotc::rt
