// The GPU road without a GPU: the hand-written artifact toy_gpu over the stand-in driver of fake_cuda.c. A process of its own, because
// the runtime finds the stand-in by the driver's name.
#include "gpu_toy.h"

TEST_CASE("1: without a driver, probe says so") {
  if (void* driver = dlopen("libcuda.so.1", RTLD_NOW)) {
    dlclose(driver);
    return;  // this machine has one
  }
  Loaded toy(toy_path("toy_gpu"));
  CHECK(toy.api->probe(0) == AOTC_STATUS_INCOMPATIBLE);
  CHECK(std::string(toy.api->last_error()).find("no CUDA driver") != std::string::npos);
  aotc_model* model = nullptr;
  CHECK(toy.api->model_create(nullptr, &model) == AOTC_STATUS_INCOMPATIBLE);
  CHECK(toy.api->probe(AOTC_DEVICE_HOST) == AOTC_STATUS_INVALID_ARGUMENT);
}

TEST_CASE("weights of a model on a GPU are not trimmed") {
  REQUIRE(fake().handle != nullptr);
  Loaded toy(toy_path("toy_gpu"));
  Session s(toy.api);
  uint64_t bytes = 4711;
  CHECK(toy.api->model_trim(s.model, &bytes) == AOTC_STATUS_INCOMPATIBLE);
  CHECK(bytes == 0);
}

TEST_CASE("2: probe and the choice of an image") {
  REQUIRE(fake().handle != nullptr);
  Loaded toy(toy_path("toy_gpu"));
  CHECK(toy.api->probe(0) == AOTC_STATUS_OK);
  CHECK(toy.api->probe(1) == AOTC_STATUS_OK);
  CHECK(toy.api->probe(2) == AOTC_STATUS_INCOMPATIBLE);
  const auto arch = fake().get<void (*)(int, int)>("fake_arch");
  arch(7, 5);
  CHECK(toy.api->probe(0) == AOTC_STATUS_INCOMPATIBLE);
  CHECK(std::string(toy.api->last_error()).find("Fake GPU, sm_75) cannot run the artifact, which has code for sm_80, sm_90a") !=
        std::string::npos);
  aotc_model_info info = AOTC_MODEL_INFO_INIT;
  for (const auto& [minor, target] : {std::pair{6, "sm_80"}, std::pair{9, "sm_80"}}) {
    arch(8, minor);
    Session s(toy.api);
    REQUIRE(toy.api->model_get_info(s.model, &info) == AOTC_STATUS_OK);
    CHECK(std::string(info.target) == target);
  }
  arch(9, 0);
  Session s(toy.api);
  REQUIRE(toy.api->model_get_info(s.model, &info) == AOTC_STATUS_OK);
  CHECK(std::string(info.target) == "sm_90a");
  CHECK(info.device == 0);
}

TEST_CASE("states are forked, copied, saved and loaded on a device") {
  Loaded toy(toy_path("toy_gpu"));
  Session a(toy.api);
  aotc_context* second = nullptr;
  REQUIRE(toy.api->context_create(a.model, nullptr, &second) == AOTC_STATUS_OK);
  const auto runs_of = [&](aotc_context* c) {
    int64_t runs = 0;
    const aotc_tensor t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, 8);
    REQUIRE(toy.api->state_read_range(c, "runs", nullptr, 0, &t) == AOTC_STATUS_OK);
    return runs;
  };
  Call call(3);
  REQUIRE(call.run(a) == AOTC_STATUS_OK);
  REQUIRE(toy.api->states_fork(second, a.context, nullptr, 0) == AOTC_STATUS_OK);
  REQUIRE(call.run(a) == AOTC_STATUS_OK);
  CHECK((runs_of(a.context) == 42 && runs_of(second) == 41));
  REQUIRE(toy.api->states_copy(second, nullptr, a.context, nullptr, 0) == AOTC_STATUS_OK);
  CHECK(runs_of(second) == 42);
  char path[] = "/tmp/states_XXXXXX";
  const int fd = mkstemp(path);
  REQUIRE(fd >= 0);
  unlink(path);
  REQUIRE(toy.api->states_save(a.context, fd, nullptr, 0) == AOTC_STATUS_OK);
  REQUIRE(toy.api->state_reset(second, nullptr) == AOTC_STATUS_OK);
  CHECK(runs_of(second) == 40);
  lseek(fd, 0, SEEK_SET);
  REQUIRE(toy.api->states_load(second, fd, nullptr, 0) == AOTC_STATUS_OK);
  CHECK(runs_of(second) == 42);
  close(fd);
  const aotc_state_range none = {0, 0, 0, 1};
  CHECK(toy.api->states_fork(second, a.context, &none, 1) == AOTC_STATUS_SHAPE_MISMATCH);
  toy.api->context_destroy(second);
}

TEST_CASE("3: runs with host tensors and with device tensors, states, and gives everything back") {
  const int blocks = fake().ask("fake_blocks");
  {
    Loaded toy(toy_path("toy_gpu"));
    Session s(toy.api);
    for (int64_t n : {3, 64, 5, 64}) {
      Call call(n);
      INFO(toy.api->last_error());
      REQUIRE(call.run(s) == AOTC_STATUS_OK);
      CHECK(call.right());
    }
    int64_t runs = 0;
    const aotc_tensor t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, 8);
    REQUIRE(toy.api->state_read(s.context, "runs", &t) == AOTC_STATUS_OK);
    CHECK(runs == 44);
    REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
    REQUIRE(toy.api->state_read(s.context, "runs", &t) == AOTC_STATUS_OK);
    CHECK(runs == 40);

    // On the device, as the caller allocated it: no copies.
    const Current current;
    DeviceCall call(7);
    REQUIRE(call.run(s) == AOTC_STATUS_OK);
    REQUIRE(toy.api->synchronize(s.context) == AOTC_STATUS_OK);
    CHECK(current.kept());
    CHECK(call.right());

    // A tensor map is made once for a place and sizes. Data that no map takes is copied to where one does, in the order of the stream.
    const int encoded = fake().ask("fake_encoded"), overlapping = fake().ask("fake_overlapping");
    REQUIRE(call.run(s) == AOTC_STATUS_OK);
    CHECK(fake().ask("fake_encoded") == encoded);
    CHECK(fake().ask("fake_overlapping") == overlapping + 1);
    void* const x = call.in[0].data;
    char* const odd = static_cast<char*>(DeviceCall::allocate(call.x.size() * 4 + 4));
    std::memcpy(odd + 4, call.x.data(), call.x.size() * 4);
    call.in[0].data = odd + 4;
    for (int i = 0; i < 2; ++i) REQUIRE(call.run(s) == AOTC_STATUS_OK);
    CHECK(fake().ask("fake_encoded") == encoded + 1);
    CHECK(call.right());
    call.in[0].data = x;
    DeviceCall::release(odd);

    // A fault of a queued run comes with synchronize, and names its step.
    static_cast<int64_t*>(call.in[1].data)[2] = 77;
    CHECK(call.run(s) == AOTC_STATUS_OK);
    CHECK(toy.api->synchronize(s.context) == AOTC_STATUS_INDEX_OUT_OF_RANGE);
    CHECK(std::string(toy.api->last_error()).find("(at scale") != std::string::npos);
    CHECK(call.run(s) == AOTC_STATUS_WRONG_STATE);
    CHECK(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);

    Call bad(5);
    bad.idx[1] = -3;
    CHECK(bad.run(s) == AOTC_STATUS_INDEX_OUT_OF_RANGE);
  }
  CHECK(fake().ask("fake_blocks") == blocks);
  CHECK(fake().ask("fake_retained") == 0);
  CHECK(fake().ask("fake_depth") == 0);
}

TEST_CASE("4: a run is ended between launches, and what was queued is done") {
  Loaded toy(toy_path("toy_gpu"));
  for (const uint32_t flags : {0, +AOTC_CONTEXT_GRAPHS}) {
    Session s(toy.api, with_flags(flags));
    const Current current;
    Call host(9);
    DeviceCall device(9);
    for (int i = 0; i < 3; ++i) REQUIRE((host.run(s) == AOTC_STATUS_OK && device.run(s) == AOTC_STATUS_OK));
    int32_t cancel = 1;
    aotc_run_options options = AOTC_RUN_OPTIONS_INIT;
    options.cancel = &cancel;
    const auto run = [&](Call& c) { return toy.api->run_with(s.context, 0, c.in.data(), 2, c.out.data(), 2, &options); };
    const auto says = [&](const char* text) { return std::string(toy.api->last_error()).find(text) != std::string::npos; };
    for (Call* call : {&host, static_cast<Call*>(&device)}) {
      const int launches = fake().ask("fake_launches");
      cancel = 1;
      CHECK(run(*call) == AOTC_STATUS_CANCELLED);
      CHECK(says("as before the run"));
      CHECK(fake().ask("fake_launches") == launches);
      cancel = 0;
      options.deadline_ns = 1;
      CHECK(run(*call) == AOTC_STATUS_DEADLINE_EXCEEDED);
      options.deadline_ns = 0;
      REQUIRE(run(*call) == AOTC_STATUS_OK);
      CHECK(current.kept());
    }
    // The first launch counts in a state: what follows is left out.
    fake().get<void (*)(int, int32_t*)>("fake_set_at_launch")(0, &cancel);
    const aotc_status status = run(device);
    if (flags & AOTC_CONTEXT_GRAPHS) {  // one launch: it goes on to its end
      CHECK(status == AOTC_STATUS_OK);
    } else {
      CHECK(status == AOTC_STATUS_CANCELLED);
      CHECK(says("(at scale)"));
      CHECK(says("state_reset"));
      CHECK(device.run(s) == AOTC_STATUS_WRONG_STATE);
      CHECK(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
    }
    fake().get<void (*)(int, int32_t*)>("fake_set_at_launch")(-1, nullptr);
    CHECK(device.run(s) == AOTC_STATUS_OK);
    CHECK(toy.api->synchronize(s.context) == AOTC_STATUS_OK);
    CHECK(device.right());
  }
}
