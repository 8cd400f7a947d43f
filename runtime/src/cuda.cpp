#include "cuda.h"

#include <stdlib.h>
#include <string.h>

#include "atomic.h"
#include "cuda_driver.h"
#include "memory.h"
#include "status.h"

namespace aotc::rt {
namespace {

constexpr int kMajor = 75, kMinor = 76;                           // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
constexpr int kMaxDynamicShared = 8;                              // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr unsigned kPortable = 0x1, kPortableMapped = 0x1 | 0x2;  // CU_MEMHOSTALLOC_PORTABLE, and DEVICEMAP
constexpr int kDefaultSharedLimit = 48 * 1024;
constexpr int kMemoryType = 2, kDeviceOrdinal = 9;  // CU_POINTER_ATTRIBUTE_*
constexpr CUresult kInvalidValue = 1, kOutOfMemory = 2;
constexpr uint64_t kAlignRun = 4096;
constexpr char kCopyingWeights[] = "copying the weights";

struct Image {
  const aotc_module_desc* part;
  const aotc_cuda_image* image;
};

bool fits(const aotc_cuda_image& image, int major, int minor) {
  if (image.is_ptx) return image.sm_major < major || (image.sm_major == major && image.sm_minor <= minor);
  // An architecture-specific image ("sm_90a") runs on exactly its architecture, another one on later minor versions too.
  return image.sm_major == major && (image.arch_suffix ? image.sm_minor == minor : image.sm_minor <= minor);
}

/// Machine code before text for the driver's compiler, then the later architecture, then code for it alone.
int rank(const aotc_cuda_image& i) { return (i.is_ptx ? 0 : 1 << 20) + (i.sm_major * 100 + i.sm_minor) * 2 + (i.arch_suffix ? 1 : 0); }

/// The best image of all parts for a device; image null: there is none.
Image find_image(const aotc_module_desc& artifact, int major, int minor) {
  Image best = {nullptr, nullptr};
  for (const aotc_module_desc* part = &artifact; part; part = part->next)
    for (uint32_t i = 0; i < part->n_cuda_images; ++i) {
      const aotc_cuda_image& image = part->cuda_images[i];
      if (fits(image, major, minor) && (!best.image || rank(image) > rank(*best.image))) best = {part, &image};
    }
  return best;
}

void write_target(const aotc_cuda_image& image, Text* text) {
  text->add("%s_%d%d", image.is_ptx ? "compute" : "sm", image.sm_major, image.sm_minor);
  if (image.arch_suffix) text->add("%c", image.arch_suffix);
}

aotc_status find_device(const aotc_module_desc& artifact, const Driver& driver, int32_t ordinal, CUdevice* device, Image* found) {
  int count = 0, major = 0, minor = 0;
  CUresult code = driver.device_count(&count);
  if (code == kSuccess && ordinal >= count)
    return fail(AOTC_STATUS_INCOMPATIBLE, "there is no GPU %d: this machine has %d", ordinal, count);
  if (code == kSuccess) code = driver.device_get(device, ordinal);
  if (code == kSuccess) code = driver.device_attribute(&major, kMajor, *device);
  if (code == kSuccess) code = driver.device_attribute(&minor, kMinor, *device);
  if (code != kSuccess) return fail(AOTC_STATUS_DEVICE, "GPU %d cannot be asked: %s", ordinal, error_text(driver, code));
  *found = find_image(artifact, major, minor);
  if (found->image) return AOTC_STATUS_OK;
  char name[64] = "GPU", targets[128] = "";
  driver.device_name(name, sizeof name, *device);
  Text text{targets, targets + sizeof targets};
  for (const aotc_module_desc* part = &artifact; part; part = part->next)
    for (uint32_t i = 0; i < part->n_cuda_images; ++i) {
      if (targets[0]) text.add(", ");
      write_target(part->cuda_images[i], &text);
    }
  return fail(AOTC_STATUS_INCOMPATIBLE, "GPU %d (%s, sm_%d%d) cannot run the artifact, which has code for %s", ordinal, name, major, minor,
              targets);
}

aotc_status load_functions(Cuda* cuda, const aotc_module_desc& module, const aotc_cuda_image& image) {
  cuda->modules = take<CUmodule>(module.n_cuda_kernels);
  cuda->functions = take<CUfunction>(module.n_cuda_kernels);
  if (!cuda->modules || !cuda->functions) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the model");
  for (uint32_t i = 0; i < module.n_cuda_kernels; ++i) {
    const aotc_cuda_kernel& kernel = module.cuda_kernels[i];
    RT_TRY(cuda_check(cuda, cuda->driver.module_load(&cuda->modules[i], image.cubins[i]), "loading the code of", kernel.name));
    cuda->n_modules = i + 1;
    RT_TRY(cuda_check(cuda, cuda->driver.module_function(&cuda->functions[i], cuda->modules[i], kernel.name), kernel.name));
    if (kernel.max_smem_bytes > kDefaultSharedLimit)
      RT_TRY(cuda_check(cuda, cuda->driver.function_attribute(cuda->functions[i], kMaxDynamicShared, kernel.max_smem_bytes), kernel.name));
  }
  return AOTC_STATUS_OK;
}

/// Weights of the blob that lie beside each other and go to the device as one block.
struct WeightRun {
  uint32_t first, end;  ///< numbers
  uint64_t begin_byte, end_byte;
};

/// The run that begins with weight `first`.
WeightRun weight_run(const aotc_module_desc& part, uint32_t first) {
  constexpr uint64_t kMostGap = 4096;  // what alignment leaves
  const aotc_weight_desc* w = part.weights;
  WeightRun run = {first, first + 1, w[first].offset, w[first].offset + w[first].bytes};
  for (; run.end < part.n_weights; ++run.end) {
    const aotc_weight_desc& next = w[run.end];
    if (next.offset < run.end_byte || next.offset - run.end_byte > kMostGap) break;
    run.end_byte = next.offset + next.bytes;
  }
  return run;
}

/// The weights of this part alone, which shares the blob with others.
aotc_status copy_weights(Cuda* cuda, CUstream stream, const aotc_module_desc& part, const uint8_t* blob, uint8_t* at,
                         const uint8_t** weight_at) {
  uint64_t to = 0;
  for (uint32_t i = 0; i < part.n_weights;) {
    const WeightRun run = weight_run(part, i);
    to = align_up(to, kAlignRun);
    const uint64_t bytes = run.end_byte - run.begin_byte;
    if (bytes) RT_TRY(cuda_check(cuda, cuda->driver.copy_in(address(at + to), blob + run.begin_byte, bytes, stream), kCopyingWeights));
    for (; i < run.end; ++i) weight_at[i] = at + to + (part.weights[i].offset - run.begin_byte);
    to += bytes;
  }
  return cuda_check(cuda, cuda->driver.stream_wait(stream), kCopyingWeights);
}

aotc_status fill(Cuda* cuda, const aotc_module_desc& part, int32_t ordinal) {
  Image found;
  cuda->ordinal = ordinal;
  RT_TRY(load_driver(&cuda->driver));
  RT_TRY(find_device(part, cuda->driver, ordinal, &cuda->device, &found));
  Text target{cuda->target, cuda->target + sizeof cuda->target};
  write_target(*found.image, &target);
  constexpr int kOverlapsSince = 9;  // the architecture's major number
  cuda->overlaps = found.image->sm_major >= kOverlapsSince;
  RT_TRY(cuda_check(cuda, cuda->driver.retain(&cuda->context, cuda->device), "taking the device"));
  const CudaScope scope(cuda);
  RT_TRY(scope.status());
  return load_functions(cuda, part, *found.image);
}

}  // namespace

CudaScope::CudaScope(Cuda* cuda) : cuda_(cuda), code_(cuda ? cuda->driver.push(cuda->context) : kSuccess) {}
CudaScope::~CudaScope() {
  CUcontext popped;
  if (cuda_ && code_ == kSuccess) cuda_->driver.pop(&popped);
}
aotc_status CudaScope::status() const { return cuda_ ? cuda_check(cuda_, code_, "entering the device's context") : AOTC_STATUS_OK; }

aotc_status cuda_probe(const aotc_module_desc& artifact, int32_t ordinal, const aotc_module_desc** part) {
  Driver driver;
  CUdevice device;
  Image found;
  RT_TRY(load_driver(&driver));
  RT_TRY(find_device(artifact, driver, ordinal, &device, &found));
  *part = found.part;
  return AOTC_STATUS_OK;
}

aotc_status cuda_open(const aotc_module_desc& part, int32_t device, Cuda** out) {
  Cuda* cuda = take<Cuda>(1);
  if (!cuda) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the model");
  const aotc_status status = fill(cuda, part, device);
  if (status != AOTC_STATUS_OK) {
    cuda_close(cuda);
    return status;
  }
  *out = cuda;
  return AOTC_STATUS_OK;
}

void cuda_close(Cuda* cuda) {
  if (!cuda) return;
  if (cuda->context) {
    {
      const CudaScope scope(cuda);
      for (uint32_t i = 0; i < cuda->n_modules; ++i) cuda->driver.module_unload(cuda->modules[i]);
    }
    cuda->driver.release(cuda->device);
  }
  free(cuda->functions);
  free(cuda->modules);
  free(cuda);
}

uint64_t cuda_weights_bytes(const aotc_module_desc& part) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < part.n_weights;) {
    const WeightRun run = weight_run(part, i);
    total = align_up(total, kAlignRun) + (run.end_byte - run.begin_byte);
    i = run.end;
  }
  return total;
}

aotc_status cuda_upload(Cuda* cuda, const aotc_module_desc& part, const uint8_t* weights, const uint8_t** weight_at, Block* out) {
  *out = Block{};
  const uint64_t bytes = cuda_weights_bytes(part);
  if (bytes == 0) return AOTC_STATUS_OK;
  void *stream, *at = nullptr;
  RT_TRY(cuda_make_stream(cuda, &stream));
  aotc_status status = cuda_alloc(cuda, bytes, "the weights", &at);
  if (status == AOTC_STATUS_OK) status = copy_weights(cuda, stream, part, weights, static_cast<uint8_t*>(at), weight_at);
  cuda_free_stream(cuda, stream);
  if (status == AOTC_STATUS_OK)
    *out = {at, bytes};
  else if (at)
    cuda_free(cuda, at);
  return status;
}

void cuda_describe(const Cuda& cuda, char* name, int room, int* driver) {
  *driver = name[0] = 0;
  if (cuda.driver.device_name(name, room, cuda.device) != kSuccess) name[0] = 0;
  if (cuda.driver.driver_version && cuda.driver.driver_version(driver) != kSuccess) *driver = 0;
}

const char* cuda_target(const Cuda& cuda) { return cuda.target; }
bool cuda_overlaps(const Cuda& cuda) { return cuda.overlaps; }

aotc_status cuda_alive(const Cuda& cuda) {
  const CUresult lost = load_acquire(&cuda.lost);
  if (lost == kSuccess) return AOTC_STATUS_OK;
  return fail(AOTC_STATUS_DEVICE_LOST, "GPU %d is lost to this process since CUDA error %d: %s", cuda.ordinal, lost,
              error_text(cuda.driver, lost));
}

aotc_status cuda_alloc(Cuda* cuda, size_t bytes, const char* what, void** out) {
  CUdeviceptr p = 0;
  const CUresult code = cuda->driver.mem_alloc(&p, bytes);
  if (code == kOutOfMemory) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory on GPU %d for %s of %zu bytes", cuda->ordinal, what, bytes);
  RT_TRY(cuda_check(cuda, code, "allocating memory for", what));
  *out = reinterpret_cast<void*>(p);
  return AOTC_STATUS_OK;
}
void cuda_free(Cuda* cuda, void* p) { cuda->driver.mem_free(address(p)); }

static aotc_status alloc_host(Cuda* cuda, size_t bytes, unsigned flags, const char* what, void** out) {
  const CUresult code = cuda->driver.host_alloc(out, bytes, flags);
  if (code == kOutOfMemory)
    return fail(AOTC_STATUS_OUT_OF_MEMORY, "no host memory that GPU %d can %s for %s of %zu bytes", cuda->ordinal,
                flags == kPortable ? "read" : "write to", what, bytes);
  return cuda_check(cuda, code, "allocating host memory for", what);
}
aotc_status cuda_alloc_shared(Cuda* cuda, size_t bytes, const char* what, void** out) {
  RT_TRY(alloc_host(cuda, bytes, kPortableMapped, what, out));
  memset(*out, 0, bytes);
  return AOTC_STATUS_OK;
}
aotc_status cuda_alloc_pinned(Cuda* cuda, size_t bytes, const char* what, void** out) {
  return alloc_host(cuda, bytes, kPortable, what, out);
}
void cuda_free_shared(Cuda* cuda, void* p) { cuda->driver.host_free(p); }

aotc_status cuda_free_bytes(Cuda* cuda, uint64_t* out) {
  size_t free = 0, total = 0;
  RT_TRY(cuda_check(cuda, cuda->driver.mem_info(&free, &total), "asking for the memory that is free"));
  *out = free;
  return AOTC_STATUS_OK;
}

aotc_status cuda_check_pointer(Cuda* cuda, const char* what, const char* name, const void* p) {
  enum { kHost = 1 };
  int type = 0, ordinal = -1;
  const CUresult code = cuda->driver.pointer_attribute(&type, kMemoryType, address(p));
  if (code == kInvalidValue)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s '%s': its device is %d, but its data (%p) are not in memory that CUDA knows of", what,
                name, cuda->ordinal, p);
  RT_TRY(cuda_check(cuda, code, "asking where a tensor lies", name));
  if (type == kHost) return AOTC_STATUS_OK;  // pinned: the device reads and writes it where it is
  RT_TRY(cuda_check(cuda, cuda->driver.pointer_attribute(&ordinal, kDeviceOrdinal, address(p)), "asking where a tensor lies", name));
  if (ordinal == cuda->ordinal) return AOTC_STATUS_OK;
  return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s '%s': its data are on GPU %d, but the model is on GPU %d", what, name, ordinal,
              cuda->ordinal);
}

}  // namespace aotc::rt
