#pragma once
// Drives the hand-written artifact toy_gpu over the stand-in driver of fake_cuda.c.
#include "toy.h"

/// The stand-in driver, once loaded.
struct Fake {
  void* handle = dlopen(AOTC_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  template <class F>
  F get(const char* name) {
    return reinterpret_cast<F>(dlsym(handle, name));
  }
  int ask(const char* name) { return get<int (*)()>(name)(); }
};
inline Fake& fake() {
  static Fake f;
  return f;
}

/// The caller's own current context, of a device.
class Current {
 public:
  explicit Current(int device = 0) : depth_(fake().ask("fake_depth")) {
    fake().get<int (*)(void*)>("cuCtxPushCurrent_v2")(fake().get<void* (*)(int)>("fake_context")(device));
  }
  ~Current() {
    void* popped;
    fake().get<int (*)(void**)>("cuCtxPopCurrent_v2")(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  bool kept() const { return fake().ask("fake_depth") == depth_ + 1; }

 private:
  int depth_;
};

/// One call on host tensors: y = x * table[idx], zeros = 0.
struct Call {
  explicit Call(int64_t n)
      : x_shape{n, 8},
        row_shape{n},
        x(static_cast<size_t>(n) * 8),
        y(x.size(), -77),
        zeros(static_cast<size_t>(n), -77),
        idx(static_cast<size_t>(n)) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13);
    for (size_t i = 0; i < idx.size(); ++i) idx[i] = static_cast<int64_t>(i % 4);
    in = {aotc_host_tensor(x.data(), x_shape, 2, AOTC_DTYPE_F32, x.size() * 4),
          aotc_host_tensor(idx.data(), row_shape, 1, AOTC_DTYPE_I64, idx.size() * 8)};
    out = {aotc_host_tensor(y.data(), x_shape, 2, AOTC_DTYPE_F32, y.size() * 4),
           aotc_host_tensor(zeros.data(), row_shape, 1, AOTC_DTYPE_F32, zeros.size() * 4)};
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  bool right() const {
    for (size_t i = 0; i < x.size(); ++i)
      if (y[i] != x[i] * static_cast<float>(idx[i / 8] + 1)) return false;
    for (float z : zeros)
      if (z != 0) return false;
    return true;
  }
  aotc_status run(const Session& s) { return s.api->run(s.context, in.data(), 2, out.data(), 2); }
  aotc_tensor& tensor(size_t i) { return i < 2 ? in[i] : out[i - 2]; }
  int64_t x_shape[2], row_shape[1];
  std::vector<float> x, y, zeros;
  std::vector<int64_t> idx;
  std::vector<aotc_tensor> in, out;
};

/// Its tensors on a device, as the caller allocated them. Needs a Current.
struct DeviceCall : Call {
  explicit DeviceCall(int64_t n, int device = 0) : Call(n) {
    for (size_t i = 0; i < 4; ++i) {
      aotc_tensor& t = tensor(i);
      home[i] = t.data;
      t.data = allocate(t.byte_size);
      std::memcpy(t.data, home[i], t.byte_size);
      t.device = device;
    }
  }
  ~DeviceCall() {
    for (size_t i = 0; i < 4; ++i) release(tensor(i).data);
  }
  static void* allocate(size_t bytes) {
    uint64_t p = 0;
    REQUIRE(fake().get<int (*)(uint64_t*, size_t)>("cuMemAlloc_v2")(&p, bytes) == 0);
    return reinterpret_cast<void*>(p);
  }
  static void release(void* p) { fake().get<int (*)(uint64_t)>("cuMemFree_v2")(reinterpret_cast<uint64_t>(p)); }
  /// Somewhere else, the data with it.
  void move(size_t i) {
    aotc_tensor& t = tensor(i);
    void* to = allocate(t.byte_size);
    std::memcpy(to, t.data, t.byte_size);
    release(t.data);
    t.data = to;
  }
  /// Whether the outputs on the device are right; they are not any more afterwards.
  bool right() {
    for (size_t i = 2; i < 4; ++i) {
      std::memcpy(home[i], tensor(i).data, tensor(i).byte_size);
      std::memset(tensor(i).data, 0x7f, tensor(i).byte_size);
    }
    return Call::right();
  }
  void* home[4];
};

inline aotc_context_options with_flags(uint32_t flags, void* stream = nullptr) {
  aotc_context_options o = AOTC_CONTEXT_OPTIONS_INIT;
  o.flags = flags;
  o.stream = stream;
  return o;
}
inline int graphs_of(const Session& s) {
  aotc_context_info info = AOTC_CONTEXT_INFO_INIT;
  REQUIRE(s.api->context_get_info(s.context, &info) == AOTC_STATUS_OK);
  return info.graphs;
}
