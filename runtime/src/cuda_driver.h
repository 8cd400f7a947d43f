#pragma once
// The CUDA driver as the runtime sees it: our own declarations of its stable binary interface, found at run time. For cuda*.cpp alone.
#include <stddef.h>
#include <stdint.h>

#include "aotc/aotc.h"

namespace aotc::rt {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = uint64_t;
using CUcontext = void*;
using CUmodule = void*;
using CUfunction = void*;
using CUstream = void*;
using CUevent = void*;
using CUgraph = void*;
using CUgraphNode = void*;
using CUgraphExec = void*;

constexpr CUresult kSuccess = 0;

/// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id;
  int pad;
  union {
    int value;
    char bytes[64];
  };
};
struct LaunchConfig {
  unsigned grid[3], block[3], smem_bytes;
  CUstream stream;
  LaunchAttribute* attributes;
  unsigned n_attributes;
};

/// CUDA_KERNEL_NODE_PARAMS_v2, CUDA_MEMCPY3D_v2, CUDA_MEMSET_NODE_PARAMS, CUgraphEdgeData.
struct KernelNode {
  CUfunction function;
  unsigned grid[3], block[3], smem_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  CUcontext context;
};
struct CopyEnd {
  size_t x_bytes, y, z, lod;
  int memory_type;
  const void* host;
  CUdeviceptr device;
  void* array;
  void* reserved;
  size_t pitch, height;
};
struct CopyNode {
  CopyEnd from, to;
  size_t width_bytes, height, depth;
};
struct FillNode {
  CUdeviceptr to;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;
};
struct GraphEdge {
  unsigned char from_port, to_port, type, reserved[5];
};
static_assert(sizeof(CopyNode) == 200 && sizeof(KernelNode) == 72 && sizeof(FillNode) == 40 && sizeof(GraphEdge) == 8);

// X(member, exported name, arguments)
#define AOTC_CUDA_FUNCTIONS(X)                                                                                    \
  X(init, "cuInit", (unsigned))                                                                                   \
  X(error_text, "cuGetErrorString", (CUresult, const char**))                                                     \
  X(device_count, "cuDeviceGetCount", (int*))                                                                     \
  X(device_get, "cuDeviceGet", (CUdevice*, int))                                                                  \
  X(device_name, "cuDeviceGetName", (char*, int, CUdevice))                                                       \
  X(device_attribute, "cuDeviceGetAttribute", (int*, int, CUdevice))                                              \
  X(retain, "cuDevicePrimaryCtxRetain", (CUcontext*, CUdevice))                                                   \
  X(release, "cuDevicePrimaryCtxRelease_v2", (CUdevice))                                                          \
  X(push, "cuCtxPushCurrent_v2", (CUcontext))                                                                     \
  X(pop, "cuCtxPopCurrent_v2", (CUcontext*))                                                                      \
  X(module_load, "cuModuleLoadData", (CUmodule*, const void*))                                                    \
  X(module_unload, "cuModuleUnload", (CUmodule))                                                                  \
  X(module_function, "cuModuleGetFunction", (CUfunction*, CUmodule, const char*))                                 \
  X(function_attribute, "cuFuncSetAttribute", (CUfunction, int, int))                                             \
  X(launch, "cuLaunchKernel",                                                                                     \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**)) \
  X(mem_alloc, "cuMemAlloc_v2", (CUdeviceptr*, size_t))                                                           \
  X(mem_free, "cuMemFree_v2", (CUdeviceptr))                                                                      \
  X(mem_info, "cuMemGetInfo_v2", (size_t*, size_t*))                                                              \
  X(host_alloc, "cuMemHostAlloc", (void**, size_t, unsigned))                                                     \
  X(host_free, "cuMemFreeHost", (void*))                                                                          \
  X(pointer_attribute, "cuPointerGetAttribute", (void*, int, CUdeviceptr))                                        \
  X(copy_in, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void*, size_t, CUstream))                                \
  X(copy_out, "cuMemcpyDtoHAsync_v2", (void*, CUdeviceptr, size_t, CUstream))                                     \
  X(copy_on, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                \
  X(fill, "cuMemsetD8Async", (CUdeviceptr, unsigned char, size_t, CUstream))                                      \
  X(stream_create, "cuStreamCreate", (CUstream*, unsigned))                                                       \
  X(stream_destroy, "cuStreamDestroy_v2", (CUstream))                                                             \
  X(stream_wait, "cuStreamSynchronize", (CUstream))                                                               \
  X(stream_capturing, "cuStreamIsCapturing", (CUstream, int*))                                                    \
  X(stream_follow, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))                                            \
  X(event_create, "cuEventCreate", (CUevent*, unsigned))                                                          \
  X(event_destroy, "cuEventDestroy_v2", (CUevent))                                                                \
  X(event_record, "cuEventRecord", (CUevent, CUstream))                                                           \
  X(event_wait, "cuEventSynchronize", (CUevent))                                                                  \
  X(event_ms, "cuEventElapsedTime", (float*, CUevent, CUevent))

// Functions of newer drivers, null where there are none; as AOTC_CUDA_FUNCTIONS.
#define AOTC_CUDA_NEWER_FUNCTIONS(X)                                                                                                       \
  X(driver_version, "cuDriverGetVersion", (int*))                                                                                          \
  X(launch_ex, "cuLaunchKernelEx", (const LaunchConfig*, CUfunction, void**, void**))                                                      \
  X(encode_map, "cuTensorMapEncodeTiled",                                                                                                  \
    (void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int, int, int, int))                 \
  X(encode_windows, "cuTensorMapEncodeIm2col",                                                                                             \
    (void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const int*, const int*, uint32_t, uint32_t, const uint32_t*, int, int, \
     int, int))                                                                                                                            \
  X(graph_create, "cuGraphCreate", (CUgraph*, unsigned))                                                                                   \
  X(graph_destroy, "cuGraphDestroy", (CUgraph))                                                                                            \
  X(graph_add_kernel, "cuGraphAddKernelNode_v2", (CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const KernelNode*))                   \
  X(graph_add_copy, "cuGraphAddMemcpyNode", (CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CopyNode*, CUcontext))               \
  X(graph_add_fill, "cuGraphAddMemsetNode", (CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const FillNode*, CUcontext))               \
  X(graph_add_mark, "cuGraphAddEventRecordNode", (CUgraphNode*, CUgraph, const CUgraphNode*, size_t, CUevent))                             \
  X(graph_add_edges, "cuGraphAddDependencies_v2", (CUgraph, const CUgraphNode*, const CUgraphNode*, const GraphEdge*, size_t))             \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (CUgraphExec*, CUgraph, unsigned long long))                                         \
  X(graph_set_kernel, "cuGraphExecKernelNodeSetParams_v2", (CUgraphExec, CUgraphNode, const KernelNode*))                                  \
  X(graph_set_copy, "cuGraphExecMemcpyNodeSetParams", (CUgraphExec, CUgraphNode, const CopyNode*, CUcontext))                              \
  X(graph_set_fill, "cuGraphExecMemsetNodeSetParams", (CUgraphExec, CUgraphNode, const FillNode*, CUcontext))                              \
  X(graph_launch, "cuGraphLaunch", (CUgraphExec, CUstream))                                                                                \
  X(graph_exec_destroy, "cuGraphExecDestroy", (CUgraphExec))

struct Driver {
#define AOTC_X(member, name, arguments) CUresult(*member) arguments;
  AOTC_CUDA_FUNCTIONS(AOTC_X)
  AOTC_CUDA_NEWER_FUNCTIONS(AOTC_X)
#undef AOTC_X
};

/// INCOMPATIBLE, or DEVICE where it does not start, with the reason.
aotc_status load_driver(Driver* out);
const char* error_text(const Driver& driver, CUresult code);

/// A model on its device.
struct Cuda {
  Driver driver;
  int32_t ordinal;
  CUdevice device;
  CUcontext context;
  CUmodule* modules;  ///< one a kernel, of which n_modules are loaded
  uint32_t n_modules;
  CUfunction* functions;
  bool overlaps;  ///< the code is of an architecture whose kernels wait for the step before themselves
  CUresult lost;  ///< the error after which nothing works; atomic
  char target[16];
};

/// OK, or DEVICE or DEVICE_LOST with what was being done and for which step (`at`; may be null), and the driver's text. An error after
/// which nothing works is remembered.
aotc_status cuda_check(Cuda* cuda, CUresult code, const char* doing, const char* at = nullptr);

inline CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

}  // namespace aotc::rt
