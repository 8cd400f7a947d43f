#pragma once
// Where a measuring worker's tensors lie and how a run is timed.
#include <cstdint>
#include <functional>
#include <memory>

namespace aotc::search {

/// Where a CPU's tensors lie: at a line, as a plan's buffers do; as malloc gives them, whose large ones begin within a line; at a line in
/// huge pages, as allocators of tensors ask for them. Programs have either of the latter.
enum class Memory : uint8_t { buffer, heap, huge };
constexpr uint64_t kHugeFrom = uint64_t{4} << 20;  ///< bytes of tensors that get huge pages

class Device {
 public:
  virtual ~Device() = default;
  virtual int32_t ordinal() const = 0;                        ///< AOTC_DEVICE_HOST or the GPU's number
  virtual void* stream() const = 0;                           ///< of all runs; null on a CPU
  virtual void* allocate(uint64_t bytes, Memory memory) = 0;  ///< freed with the device; GPUs have their own
  /// Small numbers that are no denormals; integers are zero, bools true: a mask then hides nothing.
  virtual void fill(void* data, uint64_t bytes, uint32_t dtype) = 0;
  virtual void write(void* to, const void* from, uint64_t bytes) = 0;  ///< from host memory
  virtual void read(void* to, const void* from, uint64_t bytes) = 0;   ///< to host memory, after what the stream holds
  virtual void chill(uint64_t bytes) = 0;                              ///< reads other memory
  virtual void warm(void* data, uint64_t bytes) = 0;                   ///< brings an operand into the caches
  virtual double time(const std::function<void()>& run) = 0;           ///< nanoseconds
};

/// 90 for an H100 or H200; 0 where there is no such GPU or no driver.
int gpu_architecture(int gpu);

/// gpu < 0: this machine's CPU. Throws std::runtime_error where there is no such GPU.
std::unique_ptr<Device> make_device(int gpu);

}  // namespace aotc::search
