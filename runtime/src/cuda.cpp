#include "cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "aotc/dtype.h"
#include "atomic.h"
#include "memory.h"
#include "status.h"

namespace aotc::rt {
namespace {

// Our own declarations of the driver's stable binary interface.
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = uint64_t;
using CUcontext = void*;
using CUmodule = void*;
using CUfunction = void*;
using CUstream = void*;

constexpr CUresult kSuccess = 0, kNotInitialized = 3, kNoDevice = 100;
constexpr int kMajor = 75, kMinor = 76;          // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
constexpr int kMaxDynamicShared = 8;             // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr unsigned kPortableMapped = 0x1 | 0x2;  // CU_MEMHOSTALLOC_PORTABLE | DEVICEMAP
constexpr int kDefaultSharedLimit = 48 * 1024;

/// After these the context is beyond use: every later call of the driver fails.
constexpr CUresult kLost[] = {214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719};

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
  X(host_alloc, "cuMemHostAlloc", (void**, size_t, unsigned))                                                     \
  X(host_free, "cuMemFreeHost", (void*))                                                                          \
  X(copy_in, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void*, size_t, CUstream))                                \
  X(copy_out, "cuMemcpyDtoHAsync_v2", (void*, CUdeviceptr, size_t, CUstream))                                     \
  X(copy_on, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                \
  X(fill, "cuMemsetD8Async", (CUdeviceptr, unsigned char, size_t, CUstream))                                      \
  X(stream_wait, "cuStreamSynchronize", (CUstream))

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
constexpr int kProgrammaticStreamSerialization = 6;  // CU_LAUNCH_ATTRIBUTE_*

// Functions of newer drivers, null where there are none; as AOTC_CUDA_FUNCTIONS.
#define AOTC_CUDA_NEWER_FUNCTIONS(X)                                                  \
  X(launch_ex, "cuLaunchKernelEx", (const LaunchConfig*, CUfunction, void**, void**)) \
  X(encode_map, "cuTensorMapEncodeTiled",                                             \
    (void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int, int, int, int))

CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

}  // namespace

struct Driver {
#define AOTC_X(member, name, arguments) CUresult(*member) arguments;
  AOTC_CUDA_FUNCTIONS(AOTC_X)
  AOTC_CUDA_NEWER_FUNCTIONS(AOTC_X)
#undef AOTC_X
};

struct Cuda {
  Driver driver;
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction* functions;
  CUdeviceptr weights;
  CUresult lost;  ///< the error after which nothing works; atomic
  char target[16];
};

namespace {

const char* text_of(const Driver& driver, CUresult code) {
  const char* text = nullptr;
  return driver.error_text(code, &text) == kSuccess && text ? text : "unknown error";
}

/// OK, or AOTC_DEVICE with the driver's text; remembers errors after which nothing works.
aotc_status check(Cuda* cuda, CUresult code, const char* doing) {
  if (code == kSuccess) return AOTC_OK;
  for (CUresult lost : kLost)
    if (code == lost) store_release(&cuda->lost, code);
  return fail(AOTC_DEVICE, "CUDA error %d while %s: %s", code, doing, text_of(cuda->driver, code));
}

aotc_status load_driver(Driver* out) {
  const int saved = errno;
  // Never unloaded: the driver has threads of its own.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  errno = saved;
  if (!library) {
    const char* why = dlerror();
    return fail(AOTC_INCOMPATIBLE, "this artifact needs a GPU, but the machine has no CUDA driver (%s)", why ? why : "libcuda.so.1");
  }
#define AOTC_X(member, name, arguments)                           \
  *reinterpret_cast<void**>(&out->member) = dlsym(library, name); \
  if (!out->member) return fail(AOTC_INCOMPATIBLE, "the CUDA driver of this machine is too old: it lacks %s", name);
  AOTC_CUDA_FUNCTIONS(AOTC_X)
#undef AOTC_X
#define AOTC_X(member, name, arguments) *reinterpret_cast<void**>(&out->member) = dlsym(library, name);
  AOTC_CUDA_NEWER_FUNCTIONS(AOTC_X)
#undef AOTC_X
  const CUresult code = out->init(0);
  if (code == kSuccess) return AOTC_OK;
  if (code == kNotInitialized)
    return fail(AOTC_DEVICE, "CUDA cannot be used here: in a process forked after CUDA was started it never can");
  return fail(code == kNoDevice ? AOTC_INCOMPATIBLE : AOTC_DEVICE, "this artifact needs a GPU, but CUDA does not start: %s",
              text_of(*out, code));
}

/// The best image for a device, or null.
const aotc_cuda_image* find_image(const aotc_module_desc& module, int major, int minor) {
  const aotc_cuda_image* best = nullptr;
  for (uint32_t i = 0; i < module.n_cuda_images; ++i) {
    const aotc_cuda_image& image = module.cuda_images[i];
    // An architecture-specific image ("sm_90a") runs on exactly its architecture, another one on later minor versions too.
    const bool fits = image.sm_major == major && (image.arch_suffix ? image.sm_minor == minor : image.sm_minor <= minor);
    if (fits && (!best || image.sm_minor > best->sm_minor || (image.sm_minor == best->sm_minor && image.arch_suffix))) best = &image;
  }
  return best;
}

void write_target(const aotc_cuda_image& image, char* out, size_t bytes) {
  Text text{out, out + bytes};
  text.add("sm_%d%d", image.sm_major, image.sm_minor);
  if (image.arch_suffix) text.add("%c", image.arch_suffix);
}

aotc_status find_device(const aotc_module_desc& module, const Driver& driver, int32_t ordinal, CUdevice* device,
                        const aotc_cuda_image** image) {
  int count = 0, major = 0, minor = 0;
  CUresult code = driver.device_count(&count);
  if (code == kSuccess && ordinal >= count) return fail(AOTC_INCOMPATIBLE, "there is no GPU %d: this machine has %d", ordinal, count);
  if (code == kSuccess) code = driver.device_get(device, ordinal);
  if (code == kSuccess) code = driver.device_attribute(&major, kMajor, *device);
  if (code == kSuccess) code = driver.device_attribute(&minor, kMinor, *device);
  if (code != kSuccess) return fail(AOTC_DEVICE, "GPU %d cannot be asked: %s", ordinal, text_of(driver, code));
  *image = find_image(module, major, minor);
  if (*image) return AOTC_OK;
  char name[64] = "GPU", targets[128] = "";
  driver.device_name(name, sizeof name, *device);
  Text text{targets, targets + sizeof targets};
  for (uint32_t i = 0; i < module.n_cuda_images; ++i) {
    char target[16] = "";
    write_target(module.cuda_images[i], target, sizeof target);
    text.add("%s%s", i ? ", " : "", target);
  }
  return fail(AOTC_INCOMPATIBLE, "GPU %d (%s, sm_%d%d) cannot run the artifact, which has code for %s", ordinal, name, major, minor,
              targets);
}

aotc_status load_functions(Cuda* cuda, const aotc_module_desc& module) {
  cuda->functions = take<CUfunction>(module.n_cuda_kernels);
  if (!cuda->functions) return fail(AOTC_OUT_OF_MEMORY, "no memory for the model");
  for (uint32_t i = 0; i < module.n_cuda_kernels; ++i) {
    const aotc_cuda_kernel& kernel = module.cuda_kernels[i];
    RT_TRY(check(cuda, cuda->driver.module_function(&cuda->functions[i], cuda->module, kernel.name), kernel.name));
    if (kernel.max_smem_bytes > kDefaultSharedLimit)
      RT_TRY(check(cuda, cuda->driver.function_attribute(cuda->functions[i], kMaxDynamicShared, kernel.max_smem_bytes), kernel.name));
  }
  return AOTC_OK;
}

aotc_status upload(Cuda* cuda, const aotc_module_desc& module, const uint8_t* weights) {
  if (module.weights_bytes == 0) return AOTC_OK;
  if (cuda->driver.mem_alloc(&cuda->weights, module.weights_bytes) != kSuccess)
    return fail(AOTC_OUT_OF_MEMORY, "no memory on the GPU for %llu bytes of weights",
                static_cast<unsigned long long>(module.weights_bytes));
  RT_TRY(check(cuda, cuda->driver.copy_in(cuda->weights, weights, module.weights_bytes, nullptr), "copying the weights"));
  return check(cuda, cuda->driver.stream_wait(nullptr), "copying the weights");
}

aotc_status fill(Cuda* cuda, const aotc_module_desc& module, int32_t ordinal, const uint8_t* weights) {
  const aotc_cuda_image* image;
  RT_TRY(load_driver(&cuda->driver));
  RT_TRY(find_device(module, cuda->driver, ordinal, &cuda->device, &image));
  write_target(*image, cuda->target, sizeof cuda->target);
  RT_TRY(check(cuda, cuda->driver.retain(&cuda->context, cuda->device), "taking the device"));
  const CudaScope scope(cuda);
  RT_TRY(check(cuda, cuda->driver.module_load(&cuda->module, image->cubin), "loading the code"));
  RT_TRY(load_functions(cuda, module));
  return upload(cuda, module, weights);
}

}  // namespace

CudaScope::CudaScope(Cuda* cuda) : cuda_(cuda && cuda->driver.push(cuda->context) == kSuccess ? cuda : nullptr) {}
CudaScope::~CudaScope() {
  CUcontext popped;
  if (cuda_) cuda_->driver.pop(&popped);
}

aotc_status cuda_probe(const aotc_module_desc& module, int32_t ordinal) {
  Driver driver;
  CUdevice device;
  const aotc_cuda_image* image;
  RT_TRY(load_driver(&driver));
  return find_device(module, driver, ordinal, &device, &image);
}

aotc_status cuda_open(const aotc_module_desc& module, int32_t device, const uint8_t* weights, Cuda** out) {
  Cuda* cuda = take<Cuda>(1);
  if (!cuda) return fail(AOTC_OUT_OF_MEMORY, "no memory for the model");
  const aotc_status status = fill(cuda, module, device, weights);
  if (status != AOTC_OK) {
    cuda_close(cuda);
    return status;
  }
  *out = cuda;
  return AOTC_OK;
}

void cuda_close(Cuda* cuda) {
  if (!cuda) return;
  if (cuda->context) {
    {
      const CudaScope scope(cuda);
      if (cuda->weights) cuda->driver.mem_free(cuda->weights);
      if (cuda->module) cuda->driver.module_unload(cuda->module);
    }
    cuda->driver.release(cuda->device);
  }
  free(cuda->functions);
  free(cuda);
}

const char* cuda_target(const Cuda& cuda) { return cuda.target; }
const uint8_t* cuda_weights(const Cuda& cuda) { return reinterpret_cast<const uint8_t*>(cuda.weights); }

aotc_status cuda_alive(const Cuda& cuda) {
  const CUresult lost = load_acquire(&cuda.lost);
  if (lost == kSuccess) return AOTC_OK;
  return fail(AOTC_DEVICE, "the GPU is lost to this process since CUDA error %d: %s", lost, text_of(cuda.driver, lost));
}

void* cuda_alloc(Cuda* cuda, size_t bytes) {
  CUdeviceptr p = 0;
  return cuda->driver.mem_alloc(&p, bytes) == kSuccess ? reinterpret_cast<void*>(p) : nullptr;
}
void cuda_free(Cuda* cuda, void* p) { cuda->driver.mem_free(address(p)); }

int32_t* cuda_alloc_flag(Cuda* cuda) {
  void* p = nullptr;
  if (cuda->driver.host_alloc(&p, sizeof(int32_t), kPortableMapped) != kSuccess) return nullptr;
  *static_cast<int32_t*>(p) = 0;
  return static_cast<int32_t*>(p);
}
void cuda_free_flag(Cuda* cuda, int32_t* flag) { cuda->driver.host_free(flag); }

aotc_status cuda_copy(Cuda* cuda, void* stream, CopyKind kind, void* to, const void* from, uint64_t bytes) {
  if (bytes == 0) return AOTC_OK;
  const CUresult code = kind == CopyKind::to_device ? cuda->driver.copy_in(address(to), from, bytes, stream)
                        : kind == CopyKind::to_host ? cuda->driver.copy_out(to, address(from), bytes, stream)
                                                    : cuda->driver.copy_on(address(to), address(from), bytes, stream);
  return check(cuda, code, "copying");
}

aotc_status cuda_fill(Cuda* cuda, void* stream, void* to, uint8_t value, uint64_t bytes) {
  return bytes ? check(cuda, cuda->driver.fill(address(to), value, bytes, stream), "filling") : AOTC_OK;
}

aotc_status cuda_wait(Cuda* cuda, void* stream) { return check(cuda, cuda->driver.stream_wait(stream), "waiting for the stream"); }

aotc_status cuda_encode_map(Cuda* cuda, const aotc_map_desc& map, const int64_t* slots, void* data, void* out) {
  struct Row {
    uint32_t dtype;
    int number;
  };
  constexpr Row kTypes[] = {{AOTC_DTYPE_F16, 6}, {AOTC_DTYPE_F32, 7}, {AOTC_DTYPE_BF16, 9}};  // CU_TENSOR_MAP_DATA_TYPE_*
  constexpr int kSwizzles[] = {0, 32, 64, 128};                                               // CU_TENSOR_MAP_SWIZZLE_*
  constexpr int kNoInterleave = 0, kPromoteTo128 = 2, kZeros = 0;
  if (!cuda->driver.encode_map)
    return fail(AOTC_INCOMPATIBLE, "the CUDA driver of this machine is too old: it lacks cuTensorMapEncodeTiled");
  int type = -1, swizzle = -1;
  for (const Row& r : kTypes)
    if (r.dtype == map.dtype) type = r.number;
  for (int i = 0; i < 4; ++i)
    if (kSwizzles[i] == map.swizzle_bytes) swizzle = i;
  if (type < 0 || swizzle < 0 || map.rank < 2 || map.rank > AOTC_MAP_MAX_RANK) return fail(AOTC_INTERNAL, "a tensor map of no kind");
  uint64_t dims[AOTC_MAP_MAX_RANK] = {}, strides[AOTC_MAP_MAX_RANK] = {};
  uint32_t box[AOTC_MAP_MAX_RANK] = {}, steps[AOTC_MAP_MAX_RANK] = {};
  for (int d = 0; d < map.rank; ++d) {
    dims[d] = static_cast<uint64_t>(slots[map.dim_slot[d]]);
    if (d > 0) strides[d - 1] = static_cast<uint64_t>(slots[map.stride_slot[d - 1]]);
    box[d] = static_cast<uint32_t>(map.box[d]);
    steps[d] = 1;
  }
  return check(cuda,
               cuda->driver.encode_map(out, type, static_cast<uint32_t>(map.rank), data, dims, strides, box, steps, kNoInterleave, swizzle,
                                       kPromoteTo128, kZeros),
               "describing a tensor");
}

aotc_status cuda_launch(Cuda* cuda, void* stream, const CudaLaunch& l) {
  void* parameters[] = {l.args};
  if (l.overlaps && cuda->driver.launch_ex) {
    LaunchAttribute attribute{};
    attribute.id = kProgrammaticStreamSerialization;
    attribute.value = 1;
    const LaunchConfig config = {
        {l.grid[0], l.grid[1], l.grid[2]}, {l.block[0], l.block[1], l.block[2]}, l.smem_bytes, stream, &attribute, 1};
    return check(cuda, cuda->driver.launch_ex(&config, cuda->functions[l.kernel], parameters, nullptr), "launching a kernel");
  }
  return check(cuda,
               cuda->driver.launch(cuda->functions[l.kernel], l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1], l.block[2],
                                   l.smem_bytes, stream, parameters, nullptr),
               "launching a kernel");
}

}  // namespace aotc::rt
