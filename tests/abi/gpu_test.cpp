// The GPU road without a GPU: the hand-written artifact toy_gpu over the stand-in driver of fake_cuda.c. A process of its own, because
// the runtime finds the stand-in by the driver's name.
#include "toy.h"

namespace {

/// The stand-in driver, once loaded.
struct Fake {
  void* handle = dlopen(AOTC_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  template <class F>
  F get(const char* name) {
    return reinterpret_cast<F>(dlsym(handle, name));
  }
  int ask(const char* name) { return get<int (*)()>(name)(); }
};
Fake& fake() {
  static Fake f;
  return f;
}

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
  bool right() const {
    for (size_t i = 0; i < x.size(); ++i)
      if (y[i] != x[i] * static_cast<float>(idx[i / 8] + 1)) return false;
    for (float z : zeros)
      if (z != 0) return false;
    return true;
  }
  aotc_status run(const Session& s) { return s.api->run(s.context, in.data(), 2, out.data(), 2); }
  int64_t x_shape[2], row_shape[1];
  std::vector<float> x, y, zeros;
  std::vector<int64_t> idx;
  std::vector<aotc_tensor> in, out;
};

}  // namespace

TEST_CASE("1: without a driver, probe says so") {
  if (void* driver = dlopen("libcuda.so.1", RTLD_NOW)) {
    dlclose(driver);
    return;  // this machine has one
  }
  Loaded toy(toy_path("toy_gpu"));
  CHECK(toy.api->probe(0) == AOTC_INCOMPATIBLE);
  CHECK(std::string(toy.api->last_error()).find("no CUDA driver") != std::string::npos);
  aotc_model* model = nullptr;
  CHECK(toy.api->model_create(nullptr, &model) == AOTC_INCOMPATIBLE);
  CHECK(toy.api->probe(AOTC_HOST) == AOTC_INVALID_ARGUMENT);
}

TEST_CASE("2: probe and the choice of an image") {
  REQUIRE(fake().handle != nullptr);
  Loaded toy(toy_path("toy_gpu"));
  CHECK(toy.api->probe(0) == AOTC_OK);
  CHECK(toy.api->probe(1) == AOTC_INCOMPATIBLE);
  const auto arch = fake().get<void (*)(int, int)>("fake_arch");
  arch(7, 5);
  CHECK(toy.api->probe(0) == AOTC_INCOMPATIBLE);
  CHECK(std::string(toy.api->last_error()).find("Fake GPU, sm_75) cannot run the artifact, which has code for sm_80, sm_90a") !=
        std::string::npos);
  aotc_model_info info = AOTC_MODEL_INFO_INIT;
  for (const auto& [minor, target] : {std::pair{6, "sm_80"}, std::pair{9, "sm_80"}}) {
    arch(8, minor);
    Session s(toy.api);
    REQUIRE(toy.api->model_get_info(s.model, &info) == AOTC_OK);
    CHECK(std::string(info.target) == target);
  }
  arch(9, 0);
  Session s(toy.api);
  REQUIRE(toy.api->model_get_info(s.model, &info) == AOTC_OK);
  CHECK(std::string(info.target) == "sm_90a");
  CHECK(info.device == 0);
}

TEST_CASE("3: runs with host tensors and with device tensors, states, and gives everything back") {
  const int blocks = fake().ask("fake_blocks");
  {
    Loaded toy(toy_path("toy_gpu"));
    Session s(toy.api);
    for (int64_t n : {3, 64, 5, 64}) {
      Call call(n);
      INFO(toy.api->last_error());
      REQUIRE(call.run(s) == AOTC_OK);
      CHECK(call.right());
    }
    int64_t runs = 0;
    const aotc_tensor t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, 8);
    REQUIRE(toy.api->state_read(s.context, "runs", &t) == AOTC_OK);
    CHECK(runs == 44);
    REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_OK);
    REQUIRE(toy.api->state_read(s.context, "runs", &t) == AOTC_OK);
    CHECK(runs == 40);

    // On the device, as the caller allocated it: no copies.
    Call call(7);
    const auto alloc = fake().get<int (*)(uint64_t*, size_t)>("cuMemAlloc_v2");
    const auto release = fake().get<int (*)(uint64_t)>("cuMemFree_v2");
    fake().get<int (*)(void*)>("cuCtxPushCurrent_v2")(nullptr);  // the caller's own current context
    uint64_t p[4];
    for (int i = 0; i < 4; ++i) {
      aotc_tensor& tensor = i < 2 ? call.in[static_cast<size_t>(i)] : call.out[static_cast<size_t>(i) - 2];
      REQUIRE(alloc(&p[i], tensor.byte_size) == 0);
      std::memcpy(reinterpret_cast<void*>(p[i]), tensor.data, tensor.byte_size);
      tensor.data = reinterpret_cast<void*>(p[i]);
      tensor.device = 0;
    }
    REQUIRE(call.run(s) == AOTC_OK);
    REQUIRE(toy.api->synchronize(s.context) == AOTC_OK);
    CHECK(fake().ask("fake_depth") == 1);
    std::memcpy(call.y.data(), reinterpret_cast<void*>(p[2]), call.y.size() * 4);
    std::memcpy(call.zeros.data(), reinterpret_cast<void*>(p[3]), call.zeros.size() * 4);
    CHECK(call.right());

    // A tensor map is made once for a place and sizes. Data that no map takes is copied to where one does, in the order of the stream.
    const int encoded = fake().ask("fake_encoded"), overlapping = fake().ask("fake_overlapping");
    REQUIRE(call.run(s) == AOTC_OK);
    CHECK(fake().ask("fake_encoded") == encoded);
    CHECK(fake().ask("fake_overlapping") == overlapping + 1);
    uint64_t odd;
    REQUIRE(alloc(&odd, call.x.size() * 4 + 4) == 0);
    std::memcpy(reinterpret_cast<void*>(odd + 4), call.x.data(), call.x.size() * 4);
    std::memset(reinterpret_cast<void*>(p[2]), 0, call.y.size() * 4);
    call.in[0].data = reinterpret_cast<void*>(odd + 4);
    for (int i = 0; i < 2; ++i) REQUIRE(call.run(s) == AOTC_OK);
    CHECK(fake().ask("fake_encoded") == encoded + 1);
    std::memcpy(call.y.data(), reinterpret_cast<void*>(p[2]), call.y.size() * 4);
    CHECK(call.right());
    call.in[0].data = reinterpret_cast<void*>(p[0]);
    release(odd);

    // A fault of a queued run comes with synchronize.
    reinterpret_cast<int64_t*>(p[1])[2] = 77;
    CHECK(call.run(s) == AOTC_OK);
    CHECK(toy.api->synchronize(s.context) == AOTC_INDEX_OUT_OF_RANGE);
    CHECK(call.run(s) == AOTC_WRONG_STATE);
    CHECK(toy.api->state_reset(s.context, nullptr) == AOTC_OK);
    call.in[0].device = 1;
    CHECK(call.run(s) == AOTC_INVALID_ARGUMENT);
    for (uint64_t q : p) release(q);
    void* popped;
    fake().get<int (*)(void**)>("cuCtxPopCurrent_v2")(&popped);

    Call bad(5);
    bad.idx[1] = -3;
    CHECK(bad.run(s) == AOTC_INDEX_OUT_OF_RANGE);
  }
  CHECK(fake().ask("fake_blocks") == blocks);
  CHECK(fake().ask("fake_retained") == 0);
  CHECK(fake().ask("fake_depth") == 0);
}

TEST_CASE("4: a lost device stays lost, with a message, and nothing hangs") {
  Loaded toy(toy_path("toy_gpu"));
  Session s(toy.api);
  Call call(5);
  fake().get<void (*)(int)>("fake_fail_next_launch")(700);
  CHECK(call.run(s) == AOTC_DEVICE);
  CHECK(std::string(toy.api->last_error()).find("illegal memory access") != std::string::npos);
  fake().get<void (*)()>("fake_revive")();  // even if the driver forgot
  for (int i = 0; i < 3; ++i) {
    const aotc_status status = call.run(s);
    CHECK((status == AOTC_DEVICE || status == AOTC_WRONG_STATE));
    CHECK(toy.api->synchronize(s.context) == AOTC_DEVICE);
    CHECK(std::string(toy.api->last_error()).find("lost") != std::string::npos);
  }
}
