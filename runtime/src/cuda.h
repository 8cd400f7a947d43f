#pragma once
// GPU artifacts: the CUDA driver, loaded at run time, and one model's module and weights on one device.
#include <stdint.h>

#include "aotc/aotc.h"
#include "aotc/detail/plan_format.h"

namespace aotc::rt {

struct Cuda;  ///< a model on its device

/// Whether GPU `device` of this machine can run one of the images. INCOMPATIBLE with a reason; DEVICE when the driver fails.
aotc_status cuda_probe(const aotc_module_desc& module, int32_t device);

/// Retains the primary context, loads the image, uploads the weights. The current context stays as it was.
aotc_status cuda_open(const aotc_module_desc& module, int32_t device, const uint8_t* weights, Cuda** out);
void cuda_close(Cuda* cuda);

const char* cuda_target(const Cuda& cuda);  ///< "sm_90a"
const uint8_t* cuda_weights(const Cuda& cuda);

/// AOTC_DEVICE once the device was lost; else OK.
aotc_status cuda_alive(const Cuda& cuda);

// Memory on the device. Null: none to be had.
void* cuda_alloc(Cuda* cuda, size_t bytes);
void cuda_free(Cuda* cuda, void* p);
// Host memory that kernels can write to.
int32_t* cuda_alloc_flag(Cuda* cuda);
void cuda_free_flag(Cuda* cuda, int32_t* flag);

// In stream order.
enum class CopyKind { to_device, to_host, on_device };
aotc_status cuda_copy(Cuda* cuda, void* stream, CopyKind kind, void* to, const void* from, uint64_t bytes);
aotc_status cuda_fill(Cuda* cuda, void* stream, void* to, uint8_t value, uint64_t bytes);
aotc_status cuda_wait(Cuda* cuda, void* stream);

struct CudaLaunch {
  int32_t kernel;
  uint32_t grid[3], block[3], smem_bytes;
  bool overlaps;  ///< may start before what the stream holds has ended, for which the kernel waits itself
  void* args;     ///< the kernel's one parameter
};

/// Writes the AOTC_MAP_BYTES of a tensor map to `out`, which is aligned to AOTC_MAP_ALIGN.
aotc_status cuda_encode_map(Cuda* cuda, const aotc_map_desc& map, const int64_t* slots, void* data, void* out);
aotc_status cuda_launch(Cuda* cuda, void* stream, const CudaLaunch& launch);

/// Makes the model's context current for a scope.
class CudaScope {
 public:
  explicit CudaScope(Cuda* cuda);
  ~CudaScope();
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;

 private:
  Cuda* cuda_;  ///< null: nothing to pop
};

}  // namespace aotc::rt
