#pragma once
// GPU artifacts: one model's module and weights on one device, and what is done there in the order of a stream. Every function but probe,
// open and close needs a CudaScope.
#include <stddef.h>
#include <stdint.h>

#include "aotc/aotc.h"
#include "aotc/detail/plan_format.h"
#include "memory.h"

namespace aotc::rt {

struct Cuda;  ///< a model on its device

/// The part of an artifact that GPU `device` of this machine runs best. INCOMPATIBLE with a reason; DEVICE when the driver fails.
aotc_status cuda_probe(const aotc_module_desc& artifact, int32_t device, const aotc_module_desc** part);

/// Retains the primary context and loads the part's image. The current context stays as it was.
aotc_status cuda_open(const aotc_module_desc& module, int32_t device, Cuda** out);
void cuda_close(Cuda* cuda);

/// Copies the part's weights to a block on the device, empty where there are none, and writes where they are (n_weights). On a stream of
/// its own: what other streams hold goes on.
aotc_status cuda_upload(Cuda* cuda, const aotc_module_desc& part, const uint8_t* weights, const uint8_t** weight_at, Block* out);

/// What the part's weights take on the device.
uint64_t cuda_weights_bytes(const aotc_module_desc& part);

/// Whether its kernels wait for the step before themselves.
bool cuda_overlaps(const Cuda& cuda);
const char* cuda_target(const Cuda& cuda);  ///< "sm_90a"

/// The device's name, and the version of its driver, 12040 for CUDA 12.4; "" and 0 where it does not say.
void cuda_describe(const Cuda& cuda, char* name, int room, int* driver);

/// DEVICE_LOST once the device was lost; else OK.
aotc_status cuda_alive(const Cuda& cuda);

// Memory. `what` is for the message: OUT_OF_MEMORY, DEVICE.
aotc_status cuda_alloc(Cuda* cuda, size_t bytes, const char* what, void** out);
void cuda_free(Cuda* cuda, void* p);
/// Zeroed host memory that kernels can write to at the same address.
aotc_status cuda_alloc_shared(Cuda* cuda, size_t bytes, const char* what, void** out);
/// Host memory that the device copies from by itself.
aotc_status cuda_alloc_pinned(Cuda* cuda, size_t bytes, const char* what, void** out);
void cuda_free_shared(Cuda* cuda, void* p);  ///< of both kinds
/// Memory of the device that nobody has.
aotc_status cuda_free_bytes(Cuda* cuda, uint64_t* out);
/// INVALID_ARGUMENT when kernels of this device cannot take the caller's pointer.
aotc_status cuda_check_pointer(Cuda* cuda, const char* what, const char* name, const void* p);

// In stream order. `at` names the step in a message; may be null.
enum class CopyKind { to_device, to_host, on_device };
aotc_status cuda_copy(Cuda* cuda, void* stream, CopyKind kind, void* to, const void* from, uint64_t bytes, const char* at = nullptr);
aotc_status cuda_fill(Cuda* cuda, void* stream, void* to, uint8_t value, uint64_t bytes, const char* at = nullptr);
aotc_status cuda_wait(Cuda* cuda, void* stream, const char* at = nullptr);
/// Whether the stream records what is queued on it for a graph of the caller's instead of running it.
aotc_status cuda_is_capturing(Cuda* cuda, void* stream, bool* out);

struct CudaLaunch {
  int32_t kernel;
  uint32_t grid[3], block[3], smem_bytes;
  bool overlaps;  ///< may start before what the stream holds has ended, for which the kernel waits itself
  void* args;     ///< the kernel's one parameter
};

/// What one step does: queued on a stream, or a node of a graph (cuda_graph.h).
struct CudaWork {
  enum Kind : uint8_t { nothing, kernel, copy, zero } kind = nothing;
  const char* label = nullptr;  ///< of the step
  CudaLaunch launch{};          ///< kernel
  void* to = nullptr;           ///< copy, zero
  const void* from = nullptr;
  uint64_t bytes = 0;
};
aotc_status cuda_do(Cuda* cuda, void* stream, const CudaWork& work);

/// Writes the AOTC_MAP_BYTES of a tensor map to `out`, which is aligned to AOTC_MAP_ALIGN.
aotc_status cuda_encode_map(Cuda* cuda, const aotc_map_desc& map, const int64_t* slots, void* data, void* out);

/// A stream that waits for no other by itself.
aotc_status cuda_make_stream(Cuda* cuda, void** out);
void cuda_free_stream(Cuda* cuda, void* stream);

// Points in the order of a stream, and the time between them.
enum class EventKind { timed, order };
aotc_status cuda_make_event(Cuda* cuda, EventKind kind, void** out);
void cuda_free_event(Cuda* cuda, void* event);
aotc_status cuda_mark(Cuda* cuda, void* stream, void* event);
/// What is queued on the stream from now on begins after what the event marked last.
aotc_status cuda_follow(Cuda* cuda, void* stream, void* event);
/// Waits for the latter.
aotc_status cuda_time_between(Cuda* cuda, void* from, void* to, uint64_t* ns);

/// Makes the model's context current for a scope; cuda null: nothing is done.
class CudaScope {
 public:
  explicit CudaScope(Cuda* cuda);
  ~CudaScope();
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;
  aotc_status status() const;  ///< OK: the context is current

 private:
  Cuda* cuda_;
  int code_;  ///< of the driver; 0: there is something to pop
};

}  // namespace aotc::rt
