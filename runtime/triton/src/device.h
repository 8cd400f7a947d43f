#pragma once
// Memory of several kinds, and the CUDA driver, which is opened when a GPU is first met and is no dependency.
#include <memory>
#include <vector>

#include "status.h"

namespace aotc::triton {

/// Where bytes lie.
struct Place {
  void* data = nullptr;
  uint64_t bytes = 0;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  bool on_gpu() const { return type == TRITONSERVER_MEMORY_GPU; }
};

/// The CUDA driver with the primary context of one GPU and a stream of its own. One thread at a time.
class Cuda {
 public:
  static Status open(int32_t device, std::unique_ptr<Cuda>* out);
  ~Cuda();
  void* stream() const { return stream_; }
  int32_t device() const { return device_; }
  /// In the stream's order, between memory of any kind; wait() before what is on the host is read or written.
  Status copy(void* to, const void* from, uint64_t bytes);
  Status wait();

 private:
  struct Driver;
  Cuda();
  Status call(int result, const char* what) const;
  std::unique_ptr<Driver> driver_;
  int32_t device_ = 0;
  int handle_ = 0;
  void* context_ = nullptr;
  void* stream_ = nullptr;
};

/// Memory that grows. From the server's pools where they have some: pinned, or a GPU's; else on the host.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(TRITONBACKEND_MemoryManager* manager) : manager_(manager) {}
  Buffer(Buffer&& o) noexcept { swap(o); }
  Buffer& operator=(Buffer&& o) noexcept { return swap(o), *this; }
  ~Buffer() { release(); }
  void swap(Buffer& o) noexcept { std::swap(manager_, o.manager_), std::swap(place_, o.place_), std::swap(from_pool_, o.from_pool_); }
  /// At least `bytes`; the content is lost where it has to grow. A GPU's memory comes of that GPU or not at all.
  Status need(uint64_t bytes, TRITONSERVER_MemoryType type, int64_t id);
  const Place& place() const { return place_; }

 private:
  void release();
  TRITONBACKEND_MemoryManager* manager_ = nullptr;
  Place place_;
  bool from_pool_ = false;
};

/// Copies; with a GPU's memory on either side by `cuda`, which must then be there.
Status copy(Cuda* cuda, const Place& to, uint64_t to_offset, const Place& from, uint64_t from_offset, uint64_t bytes);

}  // namespace aotc::triton
