#include "device.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace aotc::triton {

// Functions of the CUDA driver API (cuda.h), by the names under which libcuda.so.1 has them.
struct Cuda::Driver {
  void* library = nullptr;
  int (*init)(unsigned flags) = nullptr;
  int (*device_get)(int* handle, int ordinal) = nullptr;
  int (*retain)(void** context, int handle) = nullptr;
  int (*release)(int handle) = nullptr;
  int (*push)(void* context) = nullptr;
  int (*pop)(void** context) = nullptr;
  int (*stream_create)(void** stream, unsigned flags) = nullptr;
  int (*stream_destroy)(void* stream) = nullptr;
  int (*stream_wait)(void* stream) = nullptr;
  int (*copy)(uint64_t to, uint64_t from, size_t bytes, void* stream) = nullptr;
  ~Driver() {
    if (library) dlclose(library);
  }
  bool open(std::string* missing) {
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return *missing = "libcuda.so.1", false;
    const struct {
      void* to;
      const char* name;
    } names[] = {{&init, "cuInit"},
                 {&device_get, "cuDeviceGet"},
                 {&retain, "cuDevicePrimaryCtxRetain"},
                 {&release, "cuDevicePrimaryCtxRelease_v2"},
                 {&push, "cuCtxPushCurrent_v2"},
                 {&pop, "cuCtxPopCurrent_v2"},
                 {&stream_create, "cuStreamCreate"},
                 {&stream_destroy, "cuStreamDestroy_v2"},
                 {&stream_wait, "cuStreamSynchronize"},
                 {&copy, "cuMemcpyAsync"}};
    for (const auto& n : names) {
      void* symbol = dlsym(library, n.name);
      if (!symbol) return *missing = n.name, false;
      std::memcpy(n.to, &symbol, sizeof symbol);
    }
    return true;
  }
};

Cuda::Cuda() = default;

Status Cuda::call(int result, const char* what) const {
  if (result == 0) return {};
  return unavailable("GPU " + std::to_string(device_) + ": " + what + " failed with error " + std::to_string(result) +
                     " of the CUDA driver");
}

Status Cuda::open(int32_t device, std::unique_ptr<Cuda>* out) {
  std::unique_ptr<Cuda> cuda(new Cuda);
  cuda->device_ = device;
  cuda->driver_ = std::make_unique<Driver>();
  std::string missing;
  if (!cuda->driver_->open(&missing))
    return unavailable("GPU " + std::to_string(device) + ": there is no " + missing + " of the CUDA driver");
  Driver& d = *cuda->driver_;
  if (Status s = cuda->call(d.init(0), "cuInit"); !s) return s;
  if (Status s = cuda->call(d.device_get(&cuda->handle_, device), "cuDeviceGet"); !s) return s;
  if (Status s = cuda->call(d.retain(&cuda->context_, cuda->handle_), "cuDevicePrimaryCtxRetain"); !s) return s;
  if (Status s = cuda->call(d.push(cuda->context_), "cuCtxPushCurrent"); !s) return s;
  const int made = d.stream_create(&cuda->stream_, 1);  // CU_STREAM_NON_BLOCKING
  void* popped = nullptr;
  d.pop(&popped);
  if (Status s = cuda->call(made, "cuStreamCreate"); !s) return s;
  *out = std::move(cuda);
  return {};
}

Cuda::~Cuda() {
  if (!context_) return;
  void* popped = nullptr;
  if (stream_ && driver_->push(context_) == 0) {
    driver_->stream_destroy(stream_);
    driver_->pop(&popped);
  }
  driver_->release(handle_);
}

Status Cuda::copy(void* to, const void* from, uint64_t bytes) {
  if (bytes == 0) return {};
  if (Status s = call(driver_->push(context_), "cuCtxPushCurrent"); !s) return s;
  const int result = driver_->copy(reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from), bytes, stream_);
  void* popped = nullptr;
  driver_->pop(&popped);
  return call(result, "cuMemcpyAsync");
}

Status Cuda::wait() {
  if (Status s = call(driver_->push(context_), "cuCtxPushCurrent"); !s) return s;
  const int result = driver_->stream_wait(stream_);
  void* popped = nullptr;
  driver_->pop(&popped);
  return call(result, "cuStreamSynchronize");
}

Status Buffer::need(uint64_t bytes, TRITONSERVER_MemoryType type, int64_t id) {
  const bool kind = place_.data && (type == TRITONSERVER_MEMORY_GPU ? place_.on_gpu() && place_.id == id : !place_.on_gpu());
  if (kind && place_.bytes >= bytes) return {};
  const uint64_t room = std::max<uint64_t>((bytes + bytes / 4 + 63) / 64 * 64, 64);
  release();
  if (type != TRITONSERVER_MEMORY_CPU && manager_) {
    if (Status s = of_triton(TRITONBACKEND_MemoryManagerAllocate(manager_, &place_.data, type, id, room)); s) {
      place_.bytes = room, place_.type = type, place_.id = id;
      from_pool_ = true;
      return {};
    }
    place_.data = nullptr;
  }
  if (type != TRITONSERVER_MEMORY_GPU) place_.data = std::aligned_alloc(64, room);
  if (!place_.data) return unavailable(std::to_string(room) + " bytes could not be had");
  place_.bytes = room;
  return {};
}

void Buffer::release() {
  if (place_.data && from_pool_)
    log_failure(TRITONBACKEND_MemoryManagerFree(manager_, place_.data, place_.type, place_.id), "memory cannot be given back");
  else
    std::free(place_.data);
  place_ = {};
  from_pool_ = false;
}

Status copy(Cuda* cuda, const Place& to, uint64_t to_offset, const Place& from, uint64_t from_offset, uint64_t bytes) {
  auto* target = static_cast<char*>(to.data) + to_offset;
  const auto* source = static_cast<const char*>(from.data) + from_offset;
  if (bytes == 0) return {};
  if (!to.on_gpu() && !from.on_gpu()) return std::memcpy(target, source, bytes), Status{};
  if (!cuda) return unavailable("a tensor lies on GPU " + std::to_string(to.on_gpu() ? to.id : from.id) + ", and this instance has none");
  return cuda->copy(target, source, bytes);
}

}  // namespace aotc::triton
