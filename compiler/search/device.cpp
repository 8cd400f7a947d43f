#include "search/device.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "aotc/aotc.h"

namespace aotc::search {
namespace {

/// Numbers of magnitude 0.5 to 1 of either sign, all bits of their mantissas in use (a GPU's clocks depend on how many of them change),
/// the same in every run. Bools are true: a mask that hides everything leaves attention nothing to do.
void fill_host(void* data, uint64_t bytes, uint32_t dtype) {
  std::memset(data, dtype == AOTC_DTYPE_BOOL, bytes);
  auto each = [&](auto half, int mantissa_bits) {
    auto* p = static_cast<decltype(half)*>(data);
    using T = decltype(half);
    for (uint64_t i = 0; i < bytes / sizeof(T); ++i) {
      uint64_t bits = (i + 1) * 0x9e3779b97f4a7c15;  // the step and the last mix of splitmix64
      bits ^= bits >> 31;
      bits *= 0x94d049bb133111eb;
      bits ^= bits >> 31;
      p[i] = static_cast<T>(half | (bits >> (64 - mantissa_bits)) | (bits & 1) << (sizeof(T) * 8 - 1));
    }
  };
  if (dtype == AOTC_DTYPE_F32) each(uint32_t{0x3f000000}, 23);
  if (dtype == AOTC_DTYPE_F64) each(uint64_t{0x3fe0000000000000}, 52);
  if (dtype == AOTC_DTYPE_F16) each(uint16_t{0x3800}, 10);
  if (dtype == AOTC_DTYPE_BF16) each(uint16_t{0x3f00}, 7);
}

class Host final : public Device {
 public:
  ~Host() override {
    for (void* p : blocks_) std::free(p);
  }
  int32_t ordinal() const override { return AOTC_DEVICE_HOST; }
  void* stream() const override { return nullptr; }
  void* allocate(uint64_t bytes, Memory memory) override {
    const bool huge = memory == Memory::huge && bytes >= kHugeFrom;
    const uint64_t align = huge ? uint64_t{2} << 20 : 64, whole = (std::max<uint64_t>(bytes, 1) + align - 1) / align * align;
    void* p = memory == Memory::heap ? std::malloc(std::max<uint64_t>(bytes, 1)) : std::aligned_alloc(align, whole);
    if (!p) throw std::bad_alloc();
    if (huge) madvise(p, whole, MADV_HUGEPAGE);  // where the kernel gives none, both kinds are the same
    blocks_.push_back(p);
    return p;
  }
  void fill(void* data, uint64_t bytes, uint32_t dtype) override { fill_host(data, bytes, dtype); }
  void write(void* to, const void* from, uint64_t bytes) override {
    if (bytes) std::memcpy(to, from, bytes);
  }
  void read(void* to, const void* from, uint64_t bytes) override { write(to, from, bytes); }
  void chill(uint64_t bytes) override {
    if (bytes > other_.size()) other_.resize(bytes, 1);
    touch(other_.data(), bytes);
  }
  void warm(void* data, uint64_t bytes) override { touch(data, bytes); }
  double time(const std::function<void()>& run) override {
    const auto begin = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  void touch(const void* data, uint64_t bytes) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < bytes; i += 64) sum += static_cast<const volatile unsigned char*>(data)[i];
    sum_ = sum_ + sum;
  }
  std::vector<void*> blocks_;
  std::vector<unsigned char> other_;
  volatile uint64_t sum_ = 0;
};

/// The driver's functions that are used here; types as in cuda.h.
struct Driver {
  using Ptr = unsigned long long;
  int (*init)(unsigned);
  int (*device_get)(int*, int);
  int (*retain)(void**, int);
  int (*release)(int);
  int (*set_current)(void*);
  int (*alloc)(Ptr*, size_t);
  int (*free)(Ptr);
  int (*set8)(Ptr, unsigned char, size_t, void*);
  int (*to_device)(Ptr, const void*, size_t);
  int (*to_host)(void*, Ptr, size_t);
  int (*stream_create)(void**, unsigned);
  int (*stream_destroy)(void*);
  int (*stream_sync)(void*);
  int (*event_create)(void**, unsigned);
  int (*event_record)(void*, void*);
  int (*event_sync)(void*);
  int (*event_elapsed)(float*, void*, void*);
  int (*capture_begin)(void*, int);
  int (*capture_end)(void*, void**);
  int (*instantiate)(void**, void*, unsigned long long);
  int (*graph_launch)(void*, void*);
  int (*graph_destroy)(void*);
  int (*exec_destroy)(void*);
};

Driver load_driver() {
  void* lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!lib) throw std::runtime_error(std::string("there is no GPU driver: ") + dlerror());
  Driver d{};
  auto get = [&](auto& f, const char* name) {
    f = reinterpret_cast<std::decay_t<decltype(f)>>(dlsym(lib, name));
    if (!f) throw std::runtime_error(std::string("the GPU driver has no ") + name);
  };
  get(d.init, "cuInit"), get(d.device_get, "cuDeviceGet"), get(d.retain, "cuDevicePrimaryCtxRetain");
  get(d.release, "cuDevicePrimaryCtxRelease_v2"), get(d.set_current, "cuCtxSetCurrent");
  get(d.alloc, "cuMemAlloc_v2"), get(d.free, "cuMemFree_v2"), get(d.set8, "cuMemsetD8Async"), get(d.to_device, "cuMemcpyHtoD_v2"),
      get(d.to_host, "cuMemcpyDtoH_v2");
  get(d.stream_create, "cuStreamCreate"), get(d.stream_destroy, "cuStreamDestroy_v2"), get(d.stream_sync, "cuStreamSynchronize");
  get(d.event_create, "cuEventCreate"), get(d.event_record, "cuEventRecord"), get(d.event_sync, "cuEventSynchronize");
  get(d.event_elapsed, "cuEventElapsedTime"), get(d.capture_begin, "cuStreamBeginCapture_v2"), get(d.capture_end, "cuStreamEndCapture");
  get(d.instantiate, "cuGraphInstantiateWithFlags"), get(d.graph_launch, "cuGraphLaunch"), get(d.graph_destroy, "cuGraphDestroy");
  get(d.exec_destroy, "cuGraphExecDestroy");
  return d;
}

class Gpu final : public Device {
 public:
  explicit Gpu(int number) : number_(number), d_(load_driver()) {
    ok(d_.init(0), "cuInit"), ok(d_.device_get(&device_, number), "cuDeviceGet"), ok(d_.retain(&context_, device_), "the GPU's context");
    ok(d_.set_current(context_), "cuCtxSetCurrent"), ok(d_.stream_create(&stream_, 1), "cuStreamCreate");
    for (void*& e : events_) ok(d_.event_create(&e, 0), "cuEventCreate");
  }
  ~Gpu() override {
    d_.stream_sync(stream_);
    for (Driver::Ptr p : blocks_) d_.free(p);
    if (other_) d_.free(other_);
    d_.stream_destroy(stream_);
    d_.release(device_);
  }
  int32_t ordinal() const override { return number_; }
  void* stream() const override { return stream_; }
  void* allocate(uint64_t bytes, Memory) override {
    Driver::Ptr p = 0;
    ok(d_.alloc(&p, std::max<uint64_t>(bytes, 1)), "cuMemAlloc");
    blocks_.push_back(p);
    return reinterpret_cast<void*>(p);
  }
  void fill(void* data, uint64_t bytes, uint32_t dtype) override {
    std::vector<unsigned char> host(bytes);
    fill_host(host.data(), bytes, dtype);
    put(data, host.data(), bytes);
  }
  void write(void* to, const void* from, uint64_t bytes) override {
    ok(d_.stream_sync(stream_), "cuStreamSynchronize");
    put(to, from, bytes);
  }
  void read(void* to, const void* from, uint64_t bytes) override {
    ok(d_.stream_sync(stream_), "cuStreamSynchronize");
    if (bytes) ok(d_.to_host(to, reinterpret_cast<Driver::Ptr>(from), bytes), "cuMemcpyDtoH");
  }
  void chill(uint64_t bytes) override {
    if (bytes == 0) return;
    if (bytes > other_bytes_) {
      if (other_) d_.free(other_);
      ok(d_.alloc(&other_, bytes), "cuMemAlloc");
      other_bytes_ = bytes;
    }
    ok(d_.set8(other_, 1, bytes, stream_), "cuMemsetD8");
  }
  void warm(void*, uint64_t) override {}
  /// As a captured graph of several runs where that can be had: the submitting processor is not measured.
  double time(const std::function<void()>& run) override {
    constexpr int kRuns = 8, kRelaxed = 2;
    void *graph = nullptr, *exec = nullptr;
    bool captured = capture_ && d_.capture_begin(stream_, kRelaxed) == 0;
    if (captured) {
      try {
        for (int i = 0; i < kRuns; ++i) run();
      } catch (...) { captured = false; }
      captured = d_.capture_end(stream_, &graph) == 0 && graph && captured && d_.instantiate(&exec, graph, 0) == 0;
      capture_ = captured;
    }
    auto once = [&] {
      if (captured)
        ok(d_.graph_launch(exec, stream_), "cuGraphLaunch");
      else
        for (int i = 0; i < kRuns; ++i) run();
    };
    once();  // the first launch uploads
    d_.event_record(events_[0], stream_);
    once();
    d_.event_record(events_[1], stream_);
    ok(d_.event_sync(events_[1]), "cuEventSynchronize");
    float ms = 0;
    ok(d_.event_elapsed(&ms, events_[0], events_[1]), "cuEventElapsedTime");
    if (exec) d_.exec_destroy(exec);
    if (graph) d_.graph_destroy(graph);
    return static_cast<double>(ms) * 1e6 / kRuns;
  }

 private:
  static void ok(int error, const char* what) {
    if (error) throw std::runtime_error(std::string(what) + ": error " + std::to_string(error) + " of the driver");
  }
  /// The driver's call returns when it has read the host's bytes; that they are there, `stream_`, which does not wait for it, must be told.
  void put(void* to, const void* from, uint64_t bytes) {
    if (!bytes) return;
    ok(d_.to_device(reinterpret_cast<Driver::Ptr>(to), from, bytes), "cuMemcpyHtoD");
    ok(d_.stream_sync(nullptr), "cuStreamSynchronize");
  }
  int number_, device_ = 0;
  Driver d_;
  void *context_ = nullptr, *stream_ = nullptr, *events_[2] = {};
  std::vector<Driver::Ptr> blocks_;
  Driver::Ptr other_ = 0;
  uint64_t other_bytes_ = 0;
  bool capture_ = true;
};

}  // namespace

int gpu_architecture(int gpu) {
  void* lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!lib) return 0;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(lib, "cuInit"));
  const auto get = reinterpret_cast<int (*)(int*, int)>(dlsym(lib, "cuDeviceGet"));
  const auto attribute = reinterpret_cast<int (*)(int*, int, int)>(dlsym(lib, "cuDeviceGetAttribute"));
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
  int device = 0, major = 0, minor = 0;
  if (!init || !get || !attribute || init(0) || get(&device, gpu)) return 0;
  return attribute(&major, kMajor, device) || attribute(&minor, kMinor, device) ? 0 : major * 10 + minor;
}

std::unique_ptr<Device> make_device(int gpu) {
  if (gpu < 0) return std::make_unique<Host>();
  return std::make_unique<Gpu>(gpu);
}

}  // namespace aotc::search
